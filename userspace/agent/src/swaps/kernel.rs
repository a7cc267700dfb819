//! What the loop asks of the kernel side, and what it is told: a trait, so that tests can make a kernel up.

use anyhow::Result;
use bias_policy::audit::Rate;
use bias_policy::ffi;
use bias_policy::table::{COMPONENTS, Class};
use serde::{Deserialize, Serialize};

/// What sits on a CPU, at a glance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Seat {
    /// The CPU.
    pub cpu: u32,
    /// Who sits there; 0 for nobody.
    pub pid: u32,
    /// Its predicted speedup [permille]; 0 if unknown.
    pub speedup_permille: u32,
    /// Since when tasks have been waiting that might run there [ns, monotonic]; 0 if none is.
    pub waiting_since_ns: u64,
}

/// What a task did of late on CPUs of each class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Work {
    /// On fast ones.
    pub fast: Rate,
    /// On slow ones.
    pub slow: Rate,
}

impl Work {
    /// On CPUs of `class`.
    #[must_use]
    pub fn on(&self, class: Class) -> Rate {
        match class {
            Class::Fast => self.fast,
            Class::Slow => self.slow,
        }
    }
}

impl From<&ffi::bias_work> for Work {
    fn from(raw: &ffi::bias_work) -> Self {
        let of = |class: ffi::bias_class| Rate {
            instructions: raw.instructions[class as usize],
            ran_ns: raw.ran_ns[class as usize],
        };
        Self { fast: of(ffi::BIAS_FAST), slow: of(ffi::BIAS_SLOW) }
    }
}

/// A task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its number.
    pub pid: u32,
    /// When it was started, since boot [ns]: with its number, who it is.
    pub start_ns: u64,
    /// Its name. May hold control characters.
    pub name: String,
    /// Where it runs, or ran last.
    pub cpu: u32,
    /// Does it run, or wait for its CPU?
    pub runnable: bool,
    /// May it change CPUs?
    pub movable: bool,
    /// The first 64 CPUs it may use; None for all CPUs of the machine.
    pub allowed: Option<u64>,
    /// When it last changed its CPU while it ran [ns, monotonic].
    pub moved_ns: Option<u64>,
    /// Was that a swap asked for here, and not a move of the kernel side's own?
    pub swapped: bool,
    /// Time that all such changes took from it [ns].
    pub lost_ns: u64,
    /// What it did of late.
    pub work: Work,
    /// What its time on the best CPU consists of [permille]; None while nothing is known.
    pub stack_permille: Option<[u32; COMPONENTS]>,
    /// Has that settled?
    pub stable: bool,
}

impl From<&ffi::bias_look> for Task {
    fn from(raw: &ffi::bias_look) -> Self {
        let name: Vec<u8> = raw.comm.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
        let has = |flag: u32| raw.flags & flag != 0;
        Self {
            pid: raw.pid,
            start_ns: raw.start_ns,
            name: String::from_utf8_lossy(&name).into_owned(),
            cpu: raw.cpu,
            runnable: has(ffi::BIAS_LOOK_RUNNABLE),
            movable: has(ffi::BIAS_LOOK_MOVABLE),
            allowed: (!has(ffi::BIAS_LOOK_ANYWHERE)).then_some(raw.allowed),
            moved_ns: Some(raw.moved_ns).filter(|at| *at != 0),
            swapped: has(ffi::BIAS_LOOK_SWAPPED),
            lost_ns: raw.lost_ns,
            work: Work::from(&raw.work),
            stack_permille: (raw.profile.speedup_permille != 0).then_some(raw.profile.stack.permille),
            // SAFETY: the function only reads what the reference points to.
            stable: unsafe { ffi::bias_profile_stable(&raw const raw.profile) },
        }
    }
}

/// One end of a swap: who, and where it sits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// The task.
    pub pid: u32,
    /// When it was started, since boot [ns].
    pub start_ns: u64,
    /// Its CPU.
    pub cpu: u32,
}

/// Two tasks that shall change places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The one on the slow CPU.
    pub up: End,
    /// The one on the fast CPU.
    pub down: End,
}

/// Why a swap was not asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// Not a slow CPU and a fast one of one node.
    NoPair,
    /// A task has ended.
    Gone,
    /// A task is not ours.
    Foreign,
    /// A task does not sit on its CPU any more.
    Elsewhere,
    /// A task may not go there, or not migrate now.
    Confined,
    /// A CPU has been asked for something else.
    Busy,
    /// The one on the slow CPU does not gain more any more.
    Bias,
    /// The one on the fast CPU makes up for having been kept from fast CPUs.
    Owed,
    /// The kernel side said something that this version does not know.
    Other,
}

impl Refusal {
    /// From what the kernel side returns; None when it asked.
    #[must_use]
    pub fn of(answer: u32) -> Option<Self> {
        match answer {
            ffi::BIAS_SWAP_ASKED => None,
            ffi::BIAS_SWAP_NO_PAIR => Some(Self::NoPair),
            ffi::BIAS_SWAP_GONE => Some(Self::Gone),
            ffi::BIAS_SWAP_FOREIGN => Some(Self::Foreign),
            ffi::BIAS_SWAP_ELSEWHERE => Some(Self::Elsewhere),
            ffi::BIAS_SWAP_CONFINED => Some(Self::Confined),
            ffi::BIAS_SWAP_BUSY => Some(Self::Busy),
            ffi::BIAS_SWAP_BIAS => Some(Self::Bias),
            ffi::BIAS_SWAP_OWED => Some(Self::Owed),
            _ => Some(Self::Other),
        }
    }
}

/// The kernel side, as far as swaps need it.
pub trait Kernel {
    /// What sits on every CPU, in place of what `seats` held. Costs next to nothing.
    fn glance(&self, seats: &mut Vec<Seat>);

    /// A task; None if it has ended or is not ours.
    ///
    /// # Errors
    /// The kernel refuses to tell.
    fn look(&self, pid: u32) -> Result<Option<Task>>;

    /// Asks for a swap, which is checked first.
    ///
    /// # Errors
    /// The kernel refuses to check.
    fn ask(&self, request: &Request) -> Result<Result<(), Refusal>>;

    /// These CPUs' costs are now these [permille], until the table changes.
    fn correct(&mut self, cpus: &[(u32, [u32; COMPONENTS])]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_of_the_kernel_side_is_known_and_no_other() {
        assert_eq!(Refusal::of(ffi::BIAS_SWAP_ASKED), None);
        let known: Vec<_> = (1..ffi::BIAS_NR_SWAP_ANSWERS).map(Refusal::of).collect();
        assert!(known.iter().all(|why| why.is_some_and(|why| why != Refusal::Other)), "{known:?}");
        assert!(known.windows(2).all(|pair| pair[0] < pair[1]), "each has a name of its own: {known:?}");
        assert_eq!(Refusal::of(ffi::BIAS_NR_SWAP_ANSWERS), Some(Refusal::Other));
    }

    #[test]
    fn what_is_not_known_of_a_task_is_not_claimed() {
        let mut raw = ffi::bias_look { pid: 7, allowed: 5, ..ffi::bias_look::default() };
        raw.profile.stack.permille = [1000, 0, 0];
        let task = Task::from(&raw);
        assert_eq!((task.stack_permille, task.moved_ns, task.allowed), (None, None, Some(5)));
        assert!(!task.runnable && !task.movable && !task.swapped && !task.stable);
        raw.profile.speedup_permille = 2500;
        (raw.moved_ns, raw.profile.stable) = (3, ffi::BIAS_STABLE_WINDOWS);
        raw.flags = ffi::BIAS_LOOK_ANYWHERE
            | ffi::BIAS_LOOK_MOVABLE
            | ffi::BIAS_LOOK_RUNNABLE
            | ffi::BIAS_LOOK_SWAPPED;
        let task = Task::from(&raw);
        assert_eq!((task.stack_permille, task.moved_ns, task.allowed), (Some([1000, 0, 0]), Some(3), None));
        assert!(task.runnable && task.movable && task.swapped && task.stable);
    }
}
