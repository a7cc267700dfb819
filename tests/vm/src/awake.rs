//! Keeps the host's CPUs from idling while a VM's speeds are paced.
//!
//! Problem: paced vCPUs sleep and wake a thousand times a second. A host that is itself a guest gives its CPU away whenever it idles, and
//! gets it back late: 9 to 36 % of its CPUs' time was stolen in paced runs, against 0 to 2 % while the same CPUs were busy without a
//! pause. The vCPUs lacked that time, and what was measured was void.
//!
//! Approach: on each CPU a process spins under `SCHED_IDLE` for as long as the VM runs. Whatever else wants the CPU preempts it at once; what
//! remains to be stolen was 0.2 to 1.2 %.
//!
//! Invariants: the spinners never outlive this process (parent-death signal); without them a VM runs as well as the host lets it, so
//! that nothing fails if they cannot be started.
//!
//! Limits: only where the host says that it is a guest: on bare metal idle CPUs are waited for by nobody, and spinning costs power. Where
//! two CPUs are threads of one core, the spinner of one slows the other; the host's speed is measured with them.

use std::fs;
use std::process::{Child, Command, Stdio};

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

/// One spinner a CPU; they end when it is dropped.
#[derive(Default)]
pub struct Awake {
    spinners: Vec<Child>,
}

impl Awake {
    /// Starts them where they help.
    #[must_use]
    pub fn keep() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        if is_guest(&cpuinfo) { Self::spin(&own_cpus()) } else { Self::default() }
    }

    fn spin(cpus: &[usize]) -> Self {
        let start = |cpu: &usize| {
            Command::new("setpriv")
                .args(["--pdeathsig", "KILL", "--", "chrt", "--idle", "0", "taskset", "-c", &cpu.to_string()])
                .args(["sh", "-c", "while :; do :; done"])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .ok()
        };
        Self { spinners: cpus.iter().filter_map(start).collect() }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        for spinner in &mut self.spinners {
            // Errors mean that it has ended already, which is what is wanted.
            let _ = spinner.kill();
            let _ = spinner.wait();
        }
    }
}

/// Does the processor say that a hypervisor is below?
fn is_guest(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|line| line.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// CPUs that this process may use.
fn own_cpus() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(Pid::from_raw(0)) else { return Vec::new() };
    (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_guest_is_told_by_its_flags() {
        assert!(is_guest("model name\t: AMD EPYC\nflags\t\t: fpu vme hypervisor lahf_lm\n"));
        assert!(!is_guest("model name\t: a hypervisor of its own\nflags\t\t: fpu vme lahf_lm\n"));
        assert!(!is_guest(""));
    }

    #[test]
    fn spinners_give_way_to_all_others_and_end_with_their_owner() {
        let cpu = own_cpus()[0];
        let awake = Awake::spin(&[cpu]);
        let pid = awake.spinners[0].id();
        // It becomes one program after the other; a host under load takes a while for that.
        let stat = || fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let policy = || {
            stat().rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(38)?.parse::<u32>().ok())
        };
        let start = Instant::now();
        while policy() != Some(5) && start.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(policy(), Some(5), "not SCHED_IDLE: {}", stat());
        drop(awake);
        assert_eq!(stat(), "");
    }
}
