//! Arguments of `-plugin FILE,key=value,...`: a machine ([`Machine::plugin_args`]), the shared
//! page, and speed changes.

use std::path::PathBuf;

pub use ampvm_abi::{Geometry, Machine, Penalty, VcpuSpec};
use ampvm_abi::{MAX_MIPS_MILLI, MIN_MIPS_MILLI};

/// The parsed arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The machine to model.
    pub machine: Machine,
    /// Path of the shared page.
    pub shm: PathBuf,
    /// Memory of each node in bytes; 0 for a machine with one node.
    pub node_bytes: u64,
    /// Changes of a vCPU's speed: (virtual time in ns, vCPU, MIPS/1000).
    pub throttles: Vec<(i64, usize, u32)>,
}

/// Parse the plugin's arguments for a guest with room for `slots` vCPUs.
///
/// # Errors
///
/// One line that names the argument and the values that it accepts.
pub fn parse<'a>(args: impl IntoIterator<Item = &'a str>, slots: usize) -> Result<Config, String> {
    let (mut mips, mut options, mut shm) = (None, String::new(), None);
    let (mut throttles, mut node_bytes) = (Vec::new(), 0);
    for arg in args {
        match arg.split_once('=') {
            Some(("mips", value)) => mips = Some(value),
            Some(("shm", value)) if !value.is_empty() => shm = Some(PathBuf::from(value)),
            Some(("shm", _)) => return Err("shm= needs the path of the shared page".into()),
            Some(("throttle", value)) => {
                throttles = value.split('+').map(throttle).collect::<Result<_, _>>()?
            }
            Some(("node_mib", value)) => {
                let mib: u32 =
                    value.parse().map_err(|_| format!("node_mib={value} is not a number of MiB"))?;
                node_bytes = u64::from(mib) << 20;
            }
            _ => options += &format!(",{arg}"),
        }
    }
    let mips = mips.ok_or("mips= is missing; give one speed per vCPU, e.g. mips=60:60:24:24")?;
    let machine = Machine::parse(&format!("{mips}{options}")).map_err(|e| e.to_string())?;
    if machine.slots.len() != slots {
        return Err(format!(
            "mips={mips} names {} vCPUs, the guest has room for {slots}",
            machine.slots.len()
        ));
    }
    if let Some((_, cpu, _)) = throttles.iter().find(|(_, cpu, _)| *cpu >= machine.cpus()) {
        return Err(format!(
            "throttle: there is no vCPU {cpu}; this machine has 0 to {}",
            machine.cpus() - 1
        ));
    }
    if machine.nodes > 1 && node_bytes == 0 {
        return Err("node_mib= is missing; give the memory of each node in MiB".into());
    }
    let shm = shm.ok_or("shm= is missing; give the file that backs the ivshmem device")?;
    Ok(Config { machine, shm, node_bytes, throttles })
}

/// Parse `CPU:MIPS@SECONDS`.
fn throttle(text: &str) -> Result<(i64, usize, u32), String> {
    let parse = || -> Option<(i64, usize, u32)> {
        let (cpu, rest) = text.split_once(':')?;
        let (mips, seconds) = rest.split_once('@')?;
        let (mips, seconds): (f64, f64) = (mips.parse().ok()?, seconds.parse().ok()?);
        // The casts saturate, and turn NaN into 0.
        let mips_milli = (mips * 1e3).round() as u32;
        let valid = (MIN_MIPS_MILLI..=MAX_MIPS_MILLI).contains(&mips_milli) && (0.0..1e6).contains(&seconds);
        valid.then(|| Some(((seconds * 1e9) as i64, cpu.parse().ok()?, mips_milli)))?
    };
    parse().ok_or_else(|| format!("throttle={text} is not CPU:MIPS@SECONDS, e.g. throttle=1:12@3.5"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn a_machine_and_what_goes_with_it_are_read() {
        let c = parse(["mips=60:24", "mem_ns=300", "shm=/x", "throttle=1:12@3.5+0:30@4"], 2).unwrap();
        assert_eq!(c.machine, Machine::parse("60:24,mem_ns=300").unwrap());
        assert_eq!(c.throttles, [(3_500_000_000, 1, 12_000), (4_000_000_000, 0, 30_000)]);
    }

    #[test]
    fn each_bad_argument_is_named() {
        for (bad, names) in [
            ("mips=60:60:24", "3 vCPUs"),
            ("mem_ns=9999999", "mem_ns"),
            ("shm=", "shm"),
            ("speed=1", "unknown"),
            ("mips", "key=value"),
            ("throttle=1", "CPU:MIPS@SECONDS"),
            ("throttle=1:nan@1", "CPU:MIPS@SECONDS"),
            ("throttle=1:10@-1", "CPU:MIPS@SECONDS"),
            ("throttle=4:10@1", "no vCPU 4"),
        ] {
            let error = parse(["mips=60:60:24:24", "shm=/x", bad], 4).unwrap_err();
            assert!(error.contains(names) && !error.contains('\n'), "{bad}: {error}");
        }
        assert!(parse(["shm=/x"], 4).unwrap_err().contains("mips="));
        assert!(parse(["mips=60"], 1).unwrap_err().contains("shm="));
    }
}
