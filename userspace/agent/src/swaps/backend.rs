// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Interface between the loop and the kernel side: a trait, so that tests can use a fake kernel.

use anyhow::Result;
use bias_policy::audit::Rate;
use bias_policy::cpuset::CpuSet;
use bias_policy::ffi;
use bias_policy::swap::Resident;
use bias_policy::table::{COMPONENTS, Class};

/// Result of the query of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its pid.
    pub pid: u32,
    /// Start time since boot [ns]. Together with the pid it identifies the task.
    pub start_ns: u64,
    /// Its name. It may hold control characters.
    pub name: String,
    /// The CPU that it runs on, or ran on last.
    pub cpu: u32,
    /// True if it runs or waits for its CPU.
    pub runnable: bool,
    /// True if it may migrate.
    pub movable: bool,
    /// The CPUs that it may use; None for all CPUs of the machine.
    pub allowed: Option<CpuSet>,
    /// Time of its last migration while it ran [ns, monotonic].
    pub moved_ns: Option<u64>,
    /// True if that was a planned swap, false if the kernel side migrated it.
    pub swapped: bool,
    /// Time that all such migrations took from it [ns].
    pub lost_ns: u64,
    /// Its recent work, by class.
    pub work: ffi::bias_work,
    /// Its CPI stack [permille]; None while nothing is known.
    pub stack_permille: Option<[u32; COMPONENTS]>,
    /// True if the stack is stable.
    pub stable: bool,
}

impl Task {
    /// Return its recent rate on CPUs of `class`.
    #[must_use]
    pub fn rate(&self, class: Class) -> Rate {
        let class = if class == Class::Fast { ffi::BIAS_FAST } else { ffi::BIAS_SLOW } as usize;
        Rate { instructions: self.work.instructions[class], ran_ns: self.work.ran_ns[class] }
    }

    /// Return the task of an answer. `affinity` returns the CPUs that a pid may use.
    pub(crate) fn new(raw: &ffi::bias_task_state, affinity: impl FnOnce(u32) -> CpuSet) -> Self {
        let name: Vec<u8> = raw.comm.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
        let has = |flag: u32| raw.flags & flag != 0;
        Self {
            pid: raw.pid,
            start_ns: raw.start_ns,
            name: String::from_utf8_lossy(&name).into_owned(),
            cpu: raw.cpu,
            runnable: has(ffi::BIAS_TASK_RUNNABLE),
            movable: has(ffi::BIAS_TASK_MOVABLE),
            allowed: (!has(ffi::BIAS_TASK_ANYWHERE)).then(|| affinity(raw.pid)),
            moved_ns: Some(raw.moved_ns).filter(|at| *at != 0),
            swapped: has(ffi::BIAS_TASK_SWAPPED),
            lost_ns: raw.lost_ns,
            work: raw.work,
            stack_permille: (raw.profile.speedup_permille != 0).then_some(raw.profile.stack.permille),
            // SAFETY: the function only reads the profile that the pointer refers to.
            stable: unsafe { ffi::bias_profile_stable(&raw const raw.profile) },
        }
    }
}

/// One side of a swap: the task and its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Side {
    /// Pid of the task.
    pub pid: u32,
    /// Start time of the task since boot [ns].
    pub start_ns: u64,
    /// Its CPU.
    pub cpu: u32,
}

/// Request that two tasks migrate to each other's CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwapRequest {
    /// The task on the slow CPU.
    pub up: Side,
    /// The task on the fast CPU.
    pub down: Side,
}

/// The reason why the kernel side refused a swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// The CPUs are not a slow and a fast one of one node.
    NoPair,
    /// A task has ended.
    Gone,
    /// A task is not a SCHED_EXT task.
    Untracked,
    /// A task is no longer resident on its CPU.
    Elsewhere,
    /// The affinity of a task forbids the other CPU, or it cannot migrate now.
    Confined,
    /// A CPU has another pending request.
    Busy,
    /// The task on the slow CPU no longer gains more.
    Bias,
    /// The lag of the task on the fast CPU is too large to take the CPU from it.
    Lag,
    /// An answer that this version does not know.
    Other,
}

impl Refusal {
    /// Convert the kernel side's answer; None when it made the request.
    #[must_use]
    pub fn of(answer: u32) -> Option<Self> {
        match answer {
            ffi::BIAS_SWAP_ASKED => None,
            ffi::BIAS_SWAP_NO_PAIR => Some(Self::NoPair),
            ffi::BIAS_SWAP_GONE => Some(Self::Gone),
            ffi::BIAS_SWAP_UNTRACKED => Some(Self::Untracked),
            ffi::BIAS_SWAP_ELSEWHERE => Some(Self::Elsewhere),
            ffi::BIAS_SWAP_CONFINED => Some(Self::Confined),
            ffi::BIAS_SWAP_BUSY => Some(Self::Busy),
            ffi::BIAS_SWAP_BIAS => Some(Self::Bias),
            ffi::BIAS_SWAP_LAG => Some(Self::Lag),
            _ => Some(Self::Other),
        }
    }
}

/// The part of the kernel side that swaps need.
pub trait SwapBackend {
    /// Fill `residents` with the state of every CPU, and drop its old content. Costs almost
    /// nothing.
    fn residents(&self, residents: &mut Vec<Resident>);

    /// Query a task; None if it has ended or is not a SCHED_EXT task.
    ///
    /// # Errors
    /// The query failed.
    fn query(&self, pid: u32) -> Result<Option<Task>>;

    /// Ask for a swap. The kernel side checks it first.
    ///
    /// # Errors
    /// The call failed.
    fn ask(&self, request: &SwapRequest) -> Result<Result<(), Refusal>>;
}

/// Return the task of `side`, unless it has ended.
pub(super) fn still(side: &Side, kernel: &impl SwapBackend) -> Result<Option<Task>> {
    Ok(kernel.query(side.pid)?.filter(|task| task.start_ns == side.start_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_answers_of_the_kernel_side_are_known() {
        assert_eq!(Refusal::of(ffi::BIAS_SWAP_ASKED), None);
        let known: Vec<_> = (1..ffi::BIAS_NR_SWAP_ANSWERS).map(Refusal::of).collect();
        assert!(known.iter().all(|why| why.is_some_and(|why| why != Refusal::Other)), "{known:?}");
        assert!(known.windows(2).all(|pair| pair[0] < pair[1]), "each has a name of its own: {known:?}");
        assert_eq!(Refusal::of(ffi::BIAS_NR_SWAP_ANSWERS), Some(Refusal::Other));
    }

    #[test]
    fn unknown_values_of_a_task_are_none() {
        let mut raw = ffi::bias_task_state { pid: 70, ..ffi::bias_task_state::default() };
        raw.profile.stack.permille = [1000, 0, 0];
        let task = Task::new(&raw, |pid| [pid].into_iter().collect());
        assert_eq!(
            (task.stack_permille, task.moved_ns, task.allowed),
            (None, None, Some(CpuSet::from_iter([70])))
        );
        assert!(!task.runnable && !task.movable && !task.swapped && !task.stable);
        raw.profile.speedup_permille = 2500;
        (raw.moved_ns, raw.profile.stable) = (3, ffi::BIAS_STABLE_WINDOWS);
        raw.flags = ffi::BIAS_TASK_ANYWHERE
            | ffi::BIAS_TASK_MOVABLE
            | ffi::BIAS_TASK_RUNNABLE
            | ffi::BIAS_TASK_SWAPPED;
        let task = Task::new(&raw, |pid| [pid].into_iter().collect());
        assert_eq!((task.stack_permille, task.moved_ns, task.allowed), (Some([1000, 0, 0]), Some(3), None));
        assert!(task.runnable && task.movable && task.swapped && task.stable);
    }
}
