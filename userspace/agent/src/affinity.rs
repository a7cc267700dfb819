// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The CPUs and the policy of a thread, on machines of any size.
//!
//! nix does not suffice for the CPUs: its `CpuSet` ends at 1024 CPUs. On a machine that may have
//! more, the kernel refuses to write the mask into a smaller one (EINVAL, sched_getaffinity(2)),
//! even if few are online.

use crate::cpulist;
use crate::failure::{Failure, REPORT_TO};
use nix::errno::Errno;
use nix::libc::{self, c_ulong};

/// Bits in a word of the kernel's mask.
const BITS: usize = c_ulong::BITS as usize;

/// Return the online CPUs that the affinity and the cpuset of the calling thread permit, in
/// ascending order.
///
/// # Errors
/// The kernel's, when it does not return the mask.
pub fn allowed() -> Result<Vec<u32>, Errno> {
    allowed_to_thread(0)
}

/// Return the CPUs of the thread `tid`, as [`allowed`] does.
///
/// # Errors
/// The kernel's, and ESRCH when the thread has ended.
pub fn allowed_to_thread(tid: i32) -> Result<Vec<u32>, Errno> {
    allowed_from(tid, 1024 / BITS)
}

/// Like [`allowed_to_thread`], starting with a mask of `words` words.
fn allowed_from(tid: i32, words: usize) -> Result<Vec<u32>, Errno> {
    let mut mask: Vec<c_ulong> = vec![0; words];
    loop {
        // SAFETY: the kernel writes at most the given number of bytes, which is the size of `mask`.
        // A cpu_set_t is an array of these words.
        let result =
            unsafe { libc::sched_getaffinity(tid, size_of_val(mask.as_slice()), mask.as_mut_ptr().cast()) };
        match Errno::result(result) {
            Ok(_) => return Ok(numbers(&mask)),
            Err(Errno::EINVAL) if mask.len() * BITS < cpulist::MAX_CPUS as usize => {
                mask.resize((mask.len() * 2).max(1), 0);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Restrict the calling thread to `cpus`, and the programs and threads that it starts from then on.
///
/// # Errors
/// The kernel's: EINVAL when none of the CPUs is online and in the cpuset.
pub fn restrict(cpus: &[u32]) -> Result<(), Errno> {
    restrict_thread(0, cpus)
}

/// Restrict the thread `tid` to `cpus`. 0 is the calling thread.
///
/// # Errors
/// Those of [`restrict`], and ESRCH when the thread has ended.
pub fn restrict_thread(tid: i32, cpus: &[u32]) -> Result<(), Errno> {
    let mask = mask(cpus);
    // SAFETY: the kernel reads the given number of bytes, which is the size of `mask`. A cpu_set_t
    // is an array of these words.
    let result = unsafe { libc::sched_setaffinity(tid, size_of_val(mask.as_slice()), mask.as_ptr().cast()) };
    Errno::result(result).map(drop)
}

/// Return the mask with the bits of `cpus` set, with as many words as needed.
fn mask(cpus: &[u32]) -> Vec<c_ulong> {
    let words = cpus.iter().max().map_or(1, |last| *last as usize / BITS + 1);
    let mut mask: Vec<c_ulong> = vec![0; words];
    for cpu in cpus {
        if let Some(word) = mask.get_mut(*cpu as usize / BITS) {
            *word |= 1 << (*cpu as usize % BITS);
        }
    }
    mask
}

fn numbers(mask: &[c_ulong]) -> Vec<u32> {
    let is_set = |cpu: &u32| mask[*cpu as usize / BITS] >> (*cpu as usize % BITS) & 1 == 1;
    (0..(mask.len() * BITS) as u32).filter(is_set).collect()
}

/// Pin the calling thread to `cpu`.
///
/// # Errors
/// Runtime failure when the CPU is offline or a cpuset forbids it, which may pass. Kernel failure
/// for a CPU number that does not exist.
pub fn pin(cpu: u32) -> Result<(), Failure> {
    let refused = |why: String| {
        format!(
            "cannot run on CPU {cpu} ({why}); widen this shell's cpuset and affinity, or bring the CPU online"
        )
    };
    if cpu >= cpulist::MAX_CPUS {
        return Err(Failure::kernel(refused(format!("CPU numbers end at {}", cpulist::MAX_CPUS - 1))));
    }
    restrict(&[cpu]).map_err(|error| Failure::runtime(refused(error.to_string())))
}

/// Give the calling thread SCHED_FIFO at the lowest priority, ahead of ordinary tasks. Return true
/// if that is permitted.
///
/// Children are not affected. A refusal is not an error: the median is robust, and samples are only
/// noisier.
pub fn realtime() -> bool {
    set_policy(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, 1)
}

/// Give the calling thread a scheduling policy. Return true if that is permitted.
pub fn set_policy(policy: libc::c_int, priority: libc::c_int) -> bool {
    let param = libc::sched_param { sched_priority: priority };
    // SAFETY: pid 0 is the calling thread and `param` outlives the call.
    unsafe { libc::sched_setscheduler(0, policy, &raw const param) == 0 }
}

/// Run `work` on a thread of its own, pinned to `cpu`.
///
/// # Errors
/// Those of [`pin`] and of `work`.
pub fn on_cpu<T: Send>(cpu: u32, work: impl FnOnce() -> Result<T, Failure> + Send) -> Result<T, Failure> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| pin(cpu).and_then(|()| work()));
        join(thread)
    })
}

/// Join a measuring thread.
///
/// # Errors
/// Those of the thread. Runtime failure when it panicked.
pub fn join<T>(thread: std::thread::ScopedJoinHandle<Result<T, Failure>>) -> Result<T, Failure> {
    thread.join().unwrap_or_else(|_| {
        Err(Failure::runtime(format!(
            "a measuring thread stopped unexpectedly; please report this{REPORT_TO}"
        )))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::failure::Exit;
    use proptest::prelude::*;

    #[test]
    fn a_restricted_thread_keeps_only_the_given_cpus() {
        let all = allowed().unwrap();
        assert!(!all.is_empty());
        // In a thread of its own, so that other tests keep their CPUs.
        let last = all[all.len() - 1];
        let left = std::thread::spawn(move || restrict(&[last]).and_then(|()| allowed())).join().unwrap();
        assert_eq!(left, Ok(vec![last]));
        assert_eq!(allowed(), Ok(all));
    }

    #[test]
    fn the_mask_grows_until_it_holds_the_machine() {
        assert_eq!(allowed_from(0, 0), allowed());
        assert_eq!(allowed_from(0, cpulist::MAX_CPUS as usize / BITS), allowed());
    }

    #[test]
    fn cpus_beyond_any_machine_are_refused_by_the_kernel() {
        let refused = |cpus: Vec<u32>| std::thread::spawn(move || restrict(&cpus)).join().unwrap();
        assert_eq!(refused(vec![]), Err(Errno::EINVAL));
        assert_eq!(refused(vec![cpulist::MAX_CPUS - 1]), Err(Errno::EINVAL));
    }

    #[test]
    fn a_missing_cpu_may_come_later_and_an_impossible_one_may_not() {
        for (cpu, exit) in [(1022, Exit::Runtime), (u32::MAX, Exit::Kernel)] {
            let failure = pin(cpu);
            assert!(failure.is_err_and(|f| f.exit == exit && f.message.contains("bring the CPU online")));
        }
    }

    proptest! {
        #[test]
        fn a_mask_holds_any_cpu_number(cpus in prop::collection::btree_set(0u32..cpulist::MAX_CPUS, 0..40)) {
            let cpus: Vec<u32> = cpus.into_iter().collect();
            prop_assert_eq!(numbers(&mask(&cpus)), cpus);
        }
    }
}
