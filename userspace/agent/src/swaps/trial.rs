//! A swap under way: asked for, carried out, measured. A function of what is seen of its two tasks.

use bias_policy::audit::{Experiment, Observed, Rate};
use bias_policy::swap::Swap;
use bias_policy::table::{COMPONENTS, Class};

use super::kernel::{End, Task};

/// A swap that was not seen to happen in this time did not [ns]: less than the loop's usual interval, so that the next turn can ask again. CPUs take some
/// microseconds to make one; whoever displaces one of the two for longer has made the request void.
pub(super) const GIVE_UP_NS: u64 = 40_000_000;
/// Both tasks run for this long at their new places before they are compared [ns]: by then their caches are warm.
pub(super) const MEASURE_NS: u64 = 500_000_000;
/// And count for this long [ns].
pub(super) const LEAST_AFTER_NS: u64 = 50_000_000;
/// After this nobody waits for more to count [ns].
pub(super) const PATIENCE_NS: u64 = 1_500_000_000;

/// A stack differs by so much at most in each component while a task does the same kind of work [permille]: conversions from other CPUs err, too.
const ALIKE_PERMILLE: u32 = 150;

/// One of the two tasks, as it was when the swap was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Half {
    pub end: End,
    pub name: String,
    pub before: Rate,
    pub stack_permille: Option<[u32; COMPONENTS]>,
    pub lost_ns: u64,
    /// Where it goes.
    pub class: Class,
}

impl Half {
    /// `task` is to go from `cpu` to one of `class`.
    pub(super) fn new(task: &Task, cpu: u32, class: Class) -> Self {
        let from = if class == Class::Fast { Class::Slow } else { Class::Fast };
        Self {
            end: End { pid: task.pid, start_ns: task.start_ns, cpu },
            name: task.name.clone(),
            before: task.work.on(from),
            stack_permille: task.stack_permille,
            lost_ns: task.lost_ns,
            class,
        }
    }

    /// When it was moved, if that was after `asked_ns`.
    fn moved_ns(&self, now: &Task, asked_ns: u64) -> Option<u64> {
        now.moved_ns.filter(|at| *at >= asked_ns)
    }

    /// Does it still do the same kind of work? Else what it did before is no measure.
    fn is_alike(&self, now: &Task) -> bool {
        self.stack_permille.zip(now.stack_permille).is_some_and(|(before, now)| {
            before.iter().zip(now).all(|(before, now)| before.abs_diff(now) <= ALIKE_PERMILLE)
        })
    }

    fn observed(&self, now: Option<&Task>) -> Observed {
        // What it did there before it was moved was forgotten then.
        let after = now.filter(|now| self.is_alike(now));
        Observed {
            before: self.before,
            after: after.map_or_else(Rate::default, |now| now.work.on(self.class)),
            lost_ns: now.map_or(0, |now| now.lost_ns.saturating_sub(self.lost_ns)),
        }
    }
}

/// A swap that was asked for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Trial {
    pub swap: Swap,
    pub asked_ns: u64,
    pub up: Half,
    pub down: Half,
    /// Calibrated [permille].
    pub fast_permille: [u32; COMPONENTS],
    /// Calibrated [permille].
    pub slow_permille: [u32; COMPONENTS],
}

/// How far it has got.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Stage {
    /// It is too soon to tell.
    Open,
    /// It was not carried out.
    Undone,
    /// It can be judged, or never will be.
    Over(Box<Experiment>),
    /// It was carried out, and a task has left its new place since.
    Left(Box<Experiment>),
}

impl Trial {
    pub(super) fn concerns(&self, pid: u32) -> bool {
        self.up.end.pid == pid || self.down.end.pid == pid
    }

    /// Where it stands at `now_ns`; the tasks are None if they have ended. `class_of` tells of CPUs.
    pub(super) fn stage(
        &self,
        now_ns: u64,
        up: Option<&Task>,
        down: Option<&Task>,
        class_of: impl Fn(u32) -> Option<Class>,
    ) -> Stage {
        let (Some(up_now), Some(down_now)) = (up, down) else {
            return Stage::Over(Box::new(self.experiment(up, down)));
        };
        let moved = |half: &Half, now: &Task| half.moved_ns(now, self.asked_ns);
        let Some((up_ns, down_ns)) = moved(&self.up, up_now).zip(moved(&self.down, down_now)) else {
            let late = now_ns.saturating_sub(self.asked_ns) >= GIVE_UP_NS;
            return if late { Stage::Undone } else { Stage::Open };
        };
        let since_ns = now_ns.saturating_sub(up_ns.max(down_ns));
        let experiment = self.experiment(up, down);
        let counted = [experiment.up, experiment.down].iter().all(|one| one.after.ran_ns >= LEAST_AFTER_NS);
        // Whoever has left its new place again does nothing there any more.
        if class_of(up_now.cpu) != Some(self.up.class) || class_of(down_now.cpu) != Some(self.down.class) {
            Stage::Left(Box::new(experiment))
        } else if (since_ns >= MEASURE_NS && counted) || since_ns >= PATIENCE_NS {
            Stage::Over(Box::new(experiment))
        } else {
            Stage::Open
        }
    }

    fn experiment(&self, up: Option<&Task>, down: Option<&Task>) -> Experiment {
        Experiment {
            swap: self.swap,
            up: self.up.observed(up),
            down: self.down.observed(down),
            fast_cost_permille: self.fast_permille,
            slow_cost_permille: self.slow_permille,
        }
    }
}
