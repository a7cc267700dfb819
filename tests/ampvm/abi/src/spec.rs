// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Parser of the text that describes a machine.
//!
//! # Problem
//! Scenarios, the demo, the command line and the plugin must use the same names for the same
//! machines. A typing error must not lead to a strange measurement.
//!
//! # Approach
//! [`Machine::parse`] is the only constructor. `Display` writes the text with the preset spelt out,
//! and the plugin gets this form.
//!
//! # Invariants
//! These are tested, most of them as properties.
//!
//! * Parsing the written form gives the same machine.
//! * Slots are divided evenly among cores, caches and nodes. Caches of fewer cores than others are
//!   filled up with empty slots.
//! * The threads of a core are equal.
//! * Each number is within the range that its message states.

use std::str::FromStr;

use crate::layout::{MAX_MIPS_MILLI, MAX_VCPUS};
use crate::machine::{Geometry, LINE_BYTES, Machine, NR_STALLS, Penalty, VcpuSpec};
use crate::presets::PRESETS;
use crate::speed::{SpecError, milli};

/// Lowest speed of a CPU, in thousandths of a MIPS. On a slower CPU the guest's own timer tick
/// would take all of the time.
const MIN_SPEC_MIPS_MILLI: u32 = 1_000;
/// Longest penalty in ns. With a longer one a CPU would miss its own watchdogs.
const MAX_PENALTY_NS: u32 = 1_000_000;
/// Longest penalty in cycles.
const MAX_PENALTY_CYCLES: u32 = 1_000_000;
/// Largest factor of `boost`, in thousandths.
const MAX_BOOST_PERMILLE: u32 = 4000;
/// Maximum number of ways of a cache. The search for a victim is linear.
const MAX_WAYS: usize = 32;
const MAX_CACHE_BYTES: usize = 64 << 20;

/// A default penalty.
enum Usual {
    /// Thousandths of a cycle of every CPU.
    Same(u32),
    /// Thousandths of a cycle of the fastest CPU. A slower core is usually also simpler, and a
    /// flush or an L2 hit costs it less than its speed suggests. The penalty therefore shrinks in
    /// cycles with the square root of the ratio of the speeds.
    Milli(f64),
    /// Nanoseconds at 60 MIPS, and their minimum. The penalty shrinks with the cycle of the fastest
    /// CPU, down to a minimum that real machines need.
    Ns(f64, f64),
}

/// Names and default penalties of the sources of stalls, in the order of [`crate::Stall`].
const STALLS: [(&str, Usual); NR_STALLS] = [
    ("pause", Usual::Same(140_000)),
    ("branch", Usual::Milli(15_000.0)),
    ("l2", Usual::Milli(3_000.0)),
    ("llc", Usual::Ns(150.0, 15.0)),
    ("mem", Usual::Ns(600.0, 80.0)),
    ("remote", Usual::Ns(0.0, 0.0)),
    ("transfer", Usual::Ns(0.0, 0.0)),
];
/// Speed to which the default penalties apply [MIPS].
const BASE_MIPS: f64 = 60.0;
/// Default length of a quantum in instructions of the fastest CPU.
const QUANTUM_INSNS: u32 = 12_000;

type Result<T> = std::result::Result<T, SpecError>;

fn fail<T>(text: String) -> Result<T> {
    Err(SpecError(text))
}

/// Keys in addition to `NAME_cycles` and `NAME_ns` of each source of stalls.
const KEYS: [&str; 10] =
    ["l1", "l2", "llc", "threads", "smt_share", "boost", "llcs", "nodes", "bandwidth_mb_s", "quantum_us"];

/// Return all keys.
fn keys() -> Vec<String> {
    let penalties = STALLS.iter().flat_map(|(name, _)| [format!("{name}_cycles"), format!("{name}_ns")]);
    penalties.chain(KEYS.map(String::from)).collect()
}

/// The options of one text.
struct Options<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Options<'a> {
    fn read(parts: impl Iterator<Item = &'a str>) -> Result<Self> {
        let mut list: Vec<(&str, &str)> = Vec::new();
        for part in parts {
            let Some((key, value)) = part.trim().split_once('=') else {
                return fail(format!(
                    "machine option \"{part}\" is not key=value; write for example mem_ns=300"
                ));
            };
            if !keys().iter().any(|known| known == key) {
                return fail(format!("machine option \"{key}\" is unknown; known: {}", keys().join(", ")));
            }
            // The user's value replaces that of a preset.
            list.retain(|(known, _)| *known != key);
            list.push((key, value));
        }
        Ok(Self(list))
    }

    fn get(&self, key: &str) -> Option<&'a str> {
        self.0.iter().find(|(known, _)| *known == key).map(|(_, value)| *value)
    }

    fn number(&self, key: &str, least: u32, most: u32) -> Result<Option<u32>> {
        self.get(key).map(|value| number(key, value, least, most)).transpose()
    }

    /// Return one penalty per slot from `NAME_cycles` or `NAME_ns`, which has one value or one per
    /// slot.
    fn penalties(&self, name: &str, slots: usize) -> Result<Option<Vec<Penalty>>> {
        let (cycles, ns) = (format!("{name}_cycles"), format!("{name}_ns"));
        let (key, value) = match (self.get(&cycles), self.get(&ns)) {
            (None, None) => return Ok(None),
            (Some(_), Some(_)) => {
                return fail(format!("machine options {cycles} and {ns} exclude each other; keep one"));
            }
            (Some(value), None) => (&cycles, value),
            (None, Some(value)) => (&ns, value),
        };
        let one = |text| match key == &ns {
            true => number(key, text, 0, MAX_PENALTY_NS).map(Penalty::Ns),
            false => match milli(text).filter(|milli| *milli <= MAX_PENALTY_CYCLES * 1000) {
                Some(milli) => Ok(Penalty::Cycles { milli }),
                None => fail(format!(
                    "machine option {key}={text} is not a number of cycles, 0 to {MAX_PENALTY_CYCLES}"
                )),
            },
        };
        let list = value.split(':').map(one).collect::<Result<Vec<_>>>()?;
        match list.as_slice() {
            [single] => Ok(Some(vec![*single; slots])),
            many if many.len() == slots => Ok(Some(list)),
            many => fail(format!("machine option {key} has {} values; give one, or {slots}", many.len())),
        }
    }

    fn geometry(&self, key: &str, bytes: usize, ways: usize) -> Result<Geometry> {
        self.get(key).map_or(Ok(Geometry { bytes, ways }), |value| geometry(key, value))
    }

    /// Return the last-level caches and, if these have different numbers of cores, the numbers.
    fn llcs(&self, usual: usize) -> Result<(Vec<Geometry>, Option<Vec<usize>>)> {
        let count = |value: &str| number("llcs", value, 1, MAX_VCPUS as u32).map(|n| n as usize);
        let (llcs, cores) = match self.get("llcs") {
            None => (usual, None),
            Some(value) if value.contains('+') => {
                let cores = value.split('+').map(count).collect::<Result<Vec<_>>>()?;
                (cores.len(), Some(cores))
            }
            Some(value) => (count(value)?, None),
        };
        let value = self.get("llc").unwrap_or("262144/16");
        let list = value.split(':').map(|one| geometry("llc", one)).collect::<Result<Vec<_>>>()?;
        match list.as_slice() {
            [single] => Ok((vec![*single; llcs], cores)),
            many if many.len() == llcs => Ok((list, cores)),
            many => fail(format!("machine option llc has {} values; give one, or {llcs}", many.len())),
        }
    }
}

/// Return the geometry of one cache.
fn geometry(key: &str, value: &str) -> Result<Geometry> {
    let parsed = value
        .split_once('/')
        .and_then(|(bytes, ways)| Some(Geometry { bytes: bytes.parse().ok()?, ways: ways.parse().ok()? }));
    let whole = |g: &Geometry| {
        (1..=MAX_WAYS).contains(&g.ways)
            && g.bytes <= MAX_CACHE_BYTES
            && g.sets().is_power_of_two()
            && g.sets() * g.ways * LINE_BYTES == g.bytes
    };
    match parsed.filter(whole) {
        Some(geometry) => Ok(geometry),
        None => fail(format!(
            "machine option {key}={value} is not BYTES/WAYS with a power of two of 64-byte sets, e.g. {key}=65536/8"
        )),
    }
}

impl Machine {
    /// Parse a machine's text: `MIPS[:MIPS...]` or a preset, then optional `,key=value`.
    ///
    /// [`SPEC_HELP`] explains speeds and keys.
    ///
    /// # Errors
    /// One line that names the wrong part.
    pub fn parse(text: &str) -> Result<Self> {
        let (first, rest) = text.split_once(',').unwrap_or((text, ""));
        let preset = PRESETS.iter().find(|(name, ..)| name.eq_ignore_ascii_case(first.trim()));
        let full = preset.map_or(first.trim(), |(_, text, _)| text);
        let (speeds, preset_options) = full.split_once(',').unwrap_or((full, ""));
        let parts = preset_options.split(',').chain(rest.split(',')).filter(|part| !part.trim().is_empty());
        let options = Options::read(parts)?;
        let written: Vec<_> = options.0.iter().map(|(key, value)| format!(",{key}={value}")).collect();
        let mips = parse_speeds(speeds)?;
        Self::build(format!("{speeds}{}", written.concat()), &mips, &options)
    }

    fn build(text: String, mips: &[Option<u32>], options: &Options<'_>) -> Result<Self> {
        let fastest = mips.iter().flatten().copied().max().unwrap_or(MIN_SPEC_MIPS_MILLI);
        let usual_us = (QUANTUM_INSNS * 1000 / fastest).clamp(20, 200);
        let quantum_us = options.number("quantum_us", 1, 10_000)?.unwrap_or(usual_us);
        let nodes = options.number("nodes", 1, MAX_VCPUS as u32)?.unwrap_or(1) as usize;
        let (llcs, cores) = options.llcs(nodes)?;
        let mut machine = Self {
            text,
            slots: slots(mips, fastest, options)?,
            l1: options.geometry("l1", 8 << 10, 4)?,
            l2: options.geometry("l2", 64 << 10, 8)?,
            llcs,
            nodes,
            threads: options.number("threads", 1, 8)?.unwrap_or(1) as usize,
            smt_share_permille: share(options.get("smt_share").unwrap_or("0.62"))?,
            boost_permille: options.get("boost").map(boost).transpose()?.unwrap_or_default(),
            bandwidth_mb_s: options.number("bandwidth_mb_s", 0, 1_000_000)?.unwrap_or(0),
            transfers: options.penalties("transfer", 1)?.is_some(),
            quantum_ns: 1000 * quantum_us,
        };
        machine.check_cores()?;
        if let Some(cores) = cores {
            machine.fill_up(&cores)?;
        }
        machine.check_groups()?;
        Ok(machine)
    }

    /// Add empty slots, so that caches with these numbers of cores have the same number of slots.
    fn fill_up(&mut self, cores: &[usize]) -> Result<()> {
        let all = self.slots.len() / self.threads;
        if cores.iter().sum::<usize>() != all {
            return fail(format!(
                "machine option llcs names {} cores; the machine has {all}",
                cores.iter().sum::<usize>()
            ));
        }
        let most = cores.iter().max().map_or(0, |most| most * self.threads);
        if most * cores.len() > MAX_VCPUS {
            return fail(format!(
                "{} last-level caches with room for {most} CPUs each are more than {MAX_VCPUS}; make them more equal",
                cores.len()
            ));
        }
        let mut rest = std::mem::take(&mut self.slots).into_iter();
        for cores in cores {
            let own = rest.by_ref().take(cores * self.threads);
            self.slots.extend(own.chain(std::iter::repeat(None)).take(most));
        }
        Ok(())
    }

    fn check_groups(&self) -> Result<()> {
        let (slots, llcs) = (self.slots.len(), self.llcs.len());
        for (what, groups) in [("node", self.nodes), ("last-level cache", llcs)] {
            if !slots.is_multiple_of(groups * self.threads) {
                return fail(format!(
                    "{slots} CPUs cannot be divided among {groups} {what}(s) of {}-thread cores; their product must divide {slots}",
                    self.threads
                ));
            }
        }
        if !llcs.is_multiple_of(self.nodes) {
            return fail(format!(
                "{llcs} last-level caches cannot be divided among {} nodes; the number must be a multiple",
                self.nodes
            ));
        }
        if self.cpus() < slots && self.nodes > 1 {
            return fail(
                "a machine with several nodes allows neither - nor caches with different numbers of cores; drop nodes".into(),
            );
        }
        Ok(())
    }

    fn check_cores(&self) -> Result<()> {
        let slots = self.slots.len();
        if !slots.is_multiple_of(self.threads) {
            return fail(format!("{slots} CPUs cannot be divided into cores of {} threads", self.threads));
        }
        for (number, core) in self.slots.chunks(self.threads).enumerate() {
            let Some(Some(first)) = core.first() else {
                return fail(format!(
                    "core {number} has no first thread; only later threads can be left out with -"
                ));
            };
            if core.iter().flatten().any(|thread| thread != first) {
                return fail(format!(
                    "the threads of core {number} differ; give siblings one speed and the same penalties"
                ));
            }
        }
        Ok(())
    }
}

impl FromStr for Machine {
    type Err = SpecError;
    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

/// Return the CPUs of all slots.
fn slots(mips: &[Option<u32>], fastest: u32, options: &Options<'_>) -> Result<Vec<Option<VcpuSpec>>> {
    let cpu = |mips_milli| VcpuSpec { mips_milli, penalties: [Penalty::Ns(0); NR_STALLS] };
    let mut slots: Vec<_> = mips.iter().map(|mips| mips.map(cpu)).collect();
    for (stall, (name, default)) in STALLS.iter().enumerate() {
        let given = options.penalties(name, slots.len())?.unwrap_or_default();
        for (slot, cpu) in slots.iter_mut().enumerate() {
            let Some(cpu) = cpu else { continue };
            let penalty = given.get(slot).copied();
            cpu.penalties[stall] = penalty.unwrap_or_else(|| default.at(cpu.mips_milli, fastest));
        }
    }
    Ok(slots)
}

impl Usual {
    /// Return the penalty of a CPU of this speed [MIPS/1000].
    fn at(&self, mips_milli: u32, fastest: u32) -> Penalty {
        let (speed, fastest) = (f64::from(mips_milli), f64::from(fastest));
        match *self {
            Self::Same(milli) => Penalty::Cycles { milli },
            Self::Milli(milli) => {
                Penalty::Cycles { milli: (milli * (speed / fastest).sqrt()).round() as u32 }
            }
            Self::Ns(base, least) => {
                Penalty::Ns((base * BASE_MIPS * 1000.0 / fastest).clamp(least, base).round() as u32)
            }
        }
    }
}

fn share(text: &str) -> Result<u32> {
    match milli(text).filter(|permille| (1..=1000).contains(permille)) {
        Some(permille) => Ok(permille),
        None => fail(format!("machine option smt_share={text} is not a share, 0.001 to 1")),
    }
}

/// Return the speeds of `boost`, which never grow with the number of busy CPUs.
fn boost(text: &str) -> Result<Vec<u32>> {
    let steps: Option<Vec<u32>> = text.split(':').map(milli).collect();
    let falls = |steps: &Vec<u32>| {
        steps.iter().all(|step| (1000..=MAX_BOOST_PERMILLE).contains(step))
            && steps.is_sorted_by(|a, b| a >= b)
    };
    match steps.filter(falls) {
        Some(steps) => Ok(steps),
        None => fail(format!(
            "machine option boost={text} is not a falling list of factors from {} to 1, such as boost=1.3:1.2:1.1",
            MAX_BOOST_PERMILLE / 1000
        )),
    }
}

fn number(key: &str, value: &str, least: u32, most: u32) -> Result<u32> {
    match value.trim().parse().ok().filter(|n| (least..=most).contains(n)) {
        Some(n) => Ok(n),
        None => fail(format!("machine option {key}={value} is not a number from {least} to {most}")),
    }
}

fn parse_speeds(text: &str) -> Result<Vec<Option<u32>>> {
    let mut speeds = Vec::new();
    for item in text.split(':') {
        let (speed, count) = item.split_once('x').unwrap_or((item, "1"));
        let count = number("repeat count", count, 1, MAX_VCPUS as u32)?;
        let mips = match speed.trim() {
            "-" => None,
            _ => Some(parse_speed(speed, item, text)?),
        };
        speeds.extend(std::iter::repeat_n(mips, count as usize));
    }
    if speeds.len() > MAX_VCPUS {
        return fail(format!("the machine has {} CPUs; at most {MAX_VCPUS} are possible", speeds.len()));
    }
    Ok(speeds)
}

fn parse_speed(speed: &str, item: &str, text: &str) -> Result<u32> {
    match milli(speed) {
        Some(mips) if (MIN_SPEC_MIPS_MILLI..=MAX_MIPS_MILLI).contains(&mips) => Ok(mips),
        Some(_) => fail(format!(
            "CPU speed \"{speed}\" is outside {} to {} MIPS",
            MIN_SPEC_MIPS_MILLI / 1000,
            MAX_MIPS_MILLI / 1000
        )),
        None => {
            let names: Vec<_> = PRESETS.iter().map(|(name, ..)| *name).collect();
            fail(format!(
                "\"{item}\" in machine \"{text}\" is neither a speed in MIPS (such as 60) nor a preset ({})",
                names.join(", ")
            ))
        }
    }
}
