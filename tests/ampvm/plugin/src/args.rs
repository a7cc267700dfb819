//! What `-plugin FILE,key=value,...` accepts.
//!
//! Lists have one value per vCPU, separated by colons; a single value holds for all. Everything is checked
//! here, once, so that nothing later depends on a value being sane.

use std::path::PathBuf;

use ampvm_abi::{MAX_MIPS_MILLI, MAX_VCPUS, MIN_MIPS_MILLI};

/// Penalties on the fastest vCPU when none are given, in ns.
const FAST_BRANCH_NS: f64 = 250.0;
const FAST_L2_NS: f64 = 50.0;
/// Longest accepted penalty. Longer ones would make a vCPU sleep through its own watchdogs.
const MAX_PENALTY_NS: u32 = 1_000_000;
const MAX_CACHE_BYTES: usize = 64 << 20;

/// Size and associativity of one cache of 64-byte lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Capacity in bytes.
    pub bytes: usize,
    /// Ways of each set.
    pub ways: usize,
}

impl Geometry {
    /// Number of sets; a power of two for every geometry that was parsed.
    pub fn sets(self) -> usize {
        self.bytes / crate::cache::LINE_BYTES / self.ways.max(1)
    }
}

/// One vCPU's speed and internal penalties.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VcpuSpec {
    /// Speed in MIPS/1000.
    pub mips_milli: u32,
    /// Penalty of a mispredicted branch in ns, at that speed.
    pub branch_ns: u32,
    /// Penalty of an L1 miss that hits L2 in ns, at that speed.
    pub l2_ns: u32,
}

/// How the vCPU threads compete with other work on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// Before all ordinary work; the host keeps 5 % for itself (RT throttling). Falls back to `High`.
    Realtime,
    /// A larger share than ordinary work, if allowed.
    High,
    /// As anything else.
    Normal,
}

/// The machine to model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// One entry per vCPU of the guest.
    pub vcpus: Vec<VcpuSpec>,
    /// Penalty of an L2 miss that hits the last-level cache, in ns, on every vCPU.
    pub llc_ns: u32,
    /// Penalty of a last-level miss in ns, on every vCPU.
    pub mem_ns: u32,
    /// First-level cache, one per vCPU.
    pub l1: Geometry,
    /// Second-level cache, one per vCPU.
    pub l2: Geometry,
    /// Last-level cache, shared by all vCPUs.
    pub llc: Geometry,
    /// Of the vCPU threads on the host.
    pub priority: Priority,
    /// The shared page.
    pub shm: PathBuf,
}

/// Reads the plugin's arguments for a guest of `nr_vcpus` vCPUs.
///
/// # Errors
/// One line that names the argument and what it accepts.
pub fn parse<'a>(args: impl IntoIterator<Item = &'a str>, nr_vcpus: usize) -> Result<Config, String> {
    if !(1..=MAX_VCPUS).contains(&nr_vcpus) {
        return Err(format!("the guest has {nr_vcpus} vCPUs; 1 to {MAX_VCPUS} can be modelled"));
    }
    let (mut mips, mut branch, mut l2_penalty, mut shm) = (None, None, None, None);
    let (mut llc_ns, mut mem_ns, mut priority) = (150, 600, Priority::Realtime);
    let mut l1 = Geometry { bytes: 8 << 10, ways: 4 };
    let mut l2 = Geometry { bytes: 64 << 10, ways: 8 };
    let mut llc = Geometry { bytes: 256 << 10, ways: 16 };
    for arg in args {
        let (key, value) = arg.split_once('=').ok_or_else(|| format!("{arg:?} is not key=value"))?;
        match key {
            "mips" => mips = Some(list(key, value, nr_vcpus, speed)?),
            "branch_ns" => branch = Some(list(key, value, nr_vcpus, penalty)?),
            "l2_ns" => l2_penalty = Some(list(key, value, nr_vcpus, penalty)?),
            "llc_ns" => llc_ns = penalty(key, value)?,
            "mem_ns" => mem_ns = penalty(key, value)?,
            "l1" => l1 = geometry(key, value)?,
            "l2" => l2 = geometry(key, value)?,
            "llc" => llc = geometry(key, value)?,
            "priority" => priority = host_priority(value)?,
            "shm" if !value.is_empty() => shm = Some(PathBuf::from(value)),
            "shm" => return Err("shm= needs the path of the shared page".into()),
            _ => {
                return Err(format!(
                    "unknown argument {key:?}; known: mips branch_ns l2_ns llc_ns mem_ns l1 l2 llc priority shm"
                ));
            }
        }
    }
    let mips = mips.ok_or("mips= is missing; give one speed per vCPU, e.g. mips=60:60:24:24")?;
    let fastest = mips.iter().copied().max().unwrap_or(MIN_MIPS_MILLI);
    let branch = branch.unwrap_or_else(|| scaled(&mips, fastest, FAST_BRANCH_NS));
    let l2_penalty = l2_penalty.unwrap_or_else(|| scaled(&mips, fastest, FAST_L2_NS));
    let vcpus = mips
        .iter()
        .zip(branch.iter().zip(&l2_penalty))
        .map(|(&mips_milli, (&branch_ns, &l2_ns))| VcpuSpec { mips_milli, branch_ns, l2_ns })
        .collect();
    let shm = shm.ok_or("shm= is missing; give the file that backs the ivshmem device")?;
    Ok(Config { vcpus, llc_ns, mem_ns, l1, l2, llc, priority, shm })
}

/// A slower core is usually also simpler: it loses less than its whole slowness on a flush or an L2 hit,
/// so the penalty grows with the square root of the ratio, not with the ratio.
fn scaled(mips: &[u32], fastest: u32, fast_ns: f64) -> Vec<u32> {
    mips.iter()
        .map(|&m| (fast_ns * (f64::from(fastest) / f64::from(m.max(1))).sqrt()).round() as u32)
        .collect()
}

fn list(
    key: &str,
    value: &str,
    nr_vcpus: usize,
    one: impl Fn(&str, &str) -> Result<u32, String>,
) -> Result<Vec<u32>, String> {
    let values = value.split(':').map(|v| one(key, v)).collect::<Result<Vec<_>, _>>()?;
    match values.as_slice() {
        [single] => Ok(vec![*single; nr_vcpus]),
        many if many.len() == nr_vcpus => Ok(values),
        many => Err(format!(
            "{key}={value} has {} values, the guest has {nr_vcpus} vCPUs; give one value, or one per vCPU",
            many.len()
        )),
    }
}

fn speed(key: &str, value: &str) -> Result<u32, String> {
    let mips: f64 = value.parse().map_err(|_| format!("{key}: {value:?} is not a speed in MIPS"))?;
    // A float-to-integer cast saturates and turns NaN into 0: both are refused below.
    let mips_milli = (mips * 1e3).round() as u32;
    if (MIN_MIPS_MILLI..=MAX_MIPS_MILLI).contains(&mips_milli) {
        Ok(mips_milli)
    } else {
        Err(format!("{key}: {value} MIPS is outside 0.1 to {}", MAX_MIPS_MILLI / 1000))
    }
}

fn penalty(key: &str, value: &str) -> Result<u32, String> {
    value
        .parse()
        .ok()
        .filter(|ns| *ns <= MAX_PENALTY_NS)
        .ok_or_else(|| format!("{key}: {value:?} is not a penalty in ns, 0 to {MAX_PENALTY_NS}"))
}

fn host_priority(value: &str) -> Result<Priority, String> {
    match value {
        "realtime" => Ok(Priority::Realtime),
        "high" => Ok(Priority::High),
        "normal" => Ok(Priority::Normal),
        _ => Err(format!("priority: {value:?} is not realtime, high or normal")),
    }
}

fn geometry(key: &str, value: &str) -> Result<Geometry, String> {
    let bad = || {
        format!(
            "{key}: {value:?} is not BYTES/WAYS with a power-of-two number of 64-byte sets, e.g. {key}=65536/8"
        )
    };
    let (bytes, ways) = value.split_once('/').ok_or_else(bad)?;
    let g = Geometry { bytes: bytes.parse().map_err(|_| bad())?, ways: ways.parse().map_err(|_| bad())? };
    let whole = g.ways >= 1
        && g.ways <= crate::cache::MAX_WAYS
        && g.bytes <= MAX_CACHE_BYTES
        && g.sets().is_power_of_two()
        && g.sets() * g.ways * crate::cache::LINE_BYTES == g.bytes;
    if whole { Ok(g) } else { Err(bad()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn defaults_are_the_documented_ones() {
        let c = parse(["mips=60:60:24:24", "shm=/x"], 4).unwrap();
        assert_eq!(c.vcpus[0], VcpuSpec { mips_milli: 60_000, branch_ns: 250, l2_ns: 50 });
        assert_eq!(c.vcpus[3], VcpuSpec { mips_milli: 24_000, branch_ns: 395, l2_ns: 79 });
        assert_eq!((c.llc_ns, c.mem_ns), (150, 600));
        assert_eq!((c.l1.sets(), c.l2.sets(), c.llc.sets()), (32, 128, 256));
    }

    #[test]
    fn one_value_holds_for_all() {
        let c = parse(["shm=/x", "mips=33.5", "branch_ns=100"], 3).unwrap();
        assert_eq!(c.vcpus, vec![VcpuSpec { mips_milli: 33_500, branch_ns: 100, l2_ns: 50 }; 3]);
    }

    #[test]
    fn each_bad_argument_is_named() {
        for (bad, names) in [
            ("mips=60:60:24", "3 values"),
            ("mips=60:60:24:24:24", "5 values"),
            ("mips=0", "mips"),
            ("mips=nan", "mips"),
            ("mips=1e300", "mips"),
            ("mips=", "mips"),
            ("branch_ns=-1", "branch_ns"),
            ("mem_ns=9999999", "mem_ns"),
            ("l1=8192", "l1"),
            ("l1=8192/0", "l1"),
            ("l2=65537/8", "l2"),
            ("llc=196608/16", "llc"),
            ("llc=99999999999999999999/16", "llc"),
            ("priority=20", "priority"),
            ("shm=", "shm"),
            ("speed=1", "unknown"),
            ("mips", "key=value"),
        ] {
            let error = parse(["mips=60", "shm=/x", bad], 4).unwrap_err();
            assert!(error.contains(names) && !error.contains('\n'), "{bad}: {error}");
        }
        assert!(parse(["shm=/x"], 4).unwrap_err().contains("mips="));
        assert!(parse(["mips=60"], 4).unwrap_err().contains("shm="));
        assert!(parse(["mips=60", "shm=/x"], 65).unwrap_err().contains("65"));
    }

    proptest! {
        #[test]
        fn whatever_is_accepted_is_sane(args in proptest::collection::vec("(mips|branch_ns|l2_ns|llc|l1|mem_ns)=[0-9:./-]{0,12}", 0..4), n in 0_usize..70) {
            let all = args.iter().map(String::as_str).chain(["shm=/x"]);
            if let Ok(c) = parse(all, n) {
                prop_assert_eq!(c.vcpus.len(), n);
                for g in [c.l1, c.l2, c.llc] {
                    prop_assert!(g.sets().is_power_of_two() && g.sets() * g.ways * 64 == g.bytes);
                }
                for v in c.vcpus {
                    prop_assert!((MIN_MIPS_MILLI..=MAX_MIPS_MILLI).contains(&v.mips_milli));
                }
            }
        }
    }
}
