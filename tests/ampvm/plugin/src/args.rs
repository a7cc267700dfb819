// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Arguments of `-plugin FILE,key=value,...`: a machine (`mips=` before its text), the shared page,
//! and speed changes.

use std::path::PathBuf;

use ampvm_abi::{Machine, SpeedChange};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    pub machine: Machine,
    pub shm: PathBuf,
    /// Memory of each node in bytes; 0 for a machine with one node.
    pub node_bytes: u64,
    pub throttles: Vec<SpeedChange>,
}

/// Parse the plugin's arguments for a guest with room for `slots` vCPUs.
///
/// # Errors
/// One line that names the argument and the values that it accepts.
pub fn parse<'a>(args: impl IntoIterator<Item = &'a str>, slots: usize) -> Result<Config, String> {
    let (mut mips, mut options, mut shm) = (None, String::new(), None);
    let (mut throttles, mut node_bytes) = (Vec::<SpeedChange>::new(), 0);
    for arg in args {
        match arg.split_once('=') {
            Some(("mips", value)) => mips = Some(value),
            Some(("shm", value)) if !value.is_empty() => shm = Some(PathBuf::from(value)),
            Some(("shm", _)) => return Err("shm= needs the path of the shared page".into()),
            Some(("throttle", value)) => {
                let changes = value.split('+').map(str::parse).collect::<Result<_, _>>();
                throttles = changes.map_err(|e| format!("throttle: {e}"))?;
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
    if let Some(SpeedChange { cpu, .. }) = throttles.iter().find(|change| change.cpu >= machine.cpus()) {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn a_machine_its_page_and_speed_changes_are_parsed() {
        let c = parse(["mips=60:24", "mem_ns=300", "shm=/x", "throttle=1:12@3.5+0:30@4"], 2).unwrap();
        assert_eq!(c.machine, Machine::parse("60:24,mem_ns=300").unwrap());
        assert_eq!(c.throttles, ["1:12@3.5", "0:30@4"].map(|text| text.parse().unwrap()));
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
            ("throttle=4:10@1", "no vCPU 4"),
        ] {
            let error = parse(["mips=60:60:24:24", "shm=/x", bad], 4).unwrap_err();
            assert!(error.contains(names) && !error.contains('\n'), "{bad}: {error}");
        }
        assert!(parse(["shm=/x"], 4).unwrap_err().contains("mips="));
        assert!(parse(["mips=60"], 1).unwrap_err().contains("shm="));
    }
}
