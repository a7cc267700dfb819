//! Where and how a measuring thread runs: on one CPU, ahead of ordinary tasks if permitted.

use crate::failure::Failure;
use nix::libc;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// Moves the calling thread to `cpu`.
///
/// # Errors
/// Kernel failure when the CPU is offline or forbidden by a cpuset.
pub fn pin(cpu: u32) -> Result<(), Failure> {
    let refused = |why: String| {
        Failure::kernel(format!(
            "cannot run on CPU {cpu} ({why}); widen this shell's cpuset and affinity, or bring the CPU online"
        ))
    };
    let mut set = CpuSet::new();
    set.set(cpu as usize).map_err(|_| refused(format!("CPU numbers end at {}", CpuSet::count() - 1)))?;
    sched_setaffinity(Pid::from_raw(0), &set).map_err(|error| refused(error.to_string()))
}

/// Puts the calling thread ahead of ordinary tasks (SCHED_FIFO, lowest priority) if permitted; tells whether it is.
///
/// Children are not affected. Not being permitted is no error: samples are robust, only noisier.
pub fn realtime() -> bool {
    let param = libc::sched_param { sched_priority: 1 };
    // SAFETY: pid 0 is the calling thread and `param` outlives the call.
    unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const param) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Exit;

    #[test]
    fn a_cpu_that_cannot_be_is_a_kernel_failure_with_a_remedy() {
        for cpu in [1023, u32::MAX] {
            let failure = pin(cpu);
            assert!(
                failure.is_err_and(|f| f.exit == Exit::Kernel && f.message.contains("bring the CPU online"))
            );
        }
    }
}
