// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A swap under way: requested, carried out, measured. A pure function of the state of its two
//! tasks.

use bias_policy::audit::{Experiment, Observed, Rate};
use bias_policy::swap::Swap;
use bias_policy::table::{COMPONENTS, Class};

use super::backend::{Side, Task};

/// Time after which a swap that was not carried out is abandoned [ns]. It is less than the loop's
/// usual interval, so that the next step can ask again. CPUs take some microseconds to carry one
/// out. A task that preempts one of the two for longer voids the request.
pub(super) const GIVE_UP_NS: u64 = 40_000_000;
/// Time that both tasks run on their new CPUs before they are compared [ns], so that their caches
/// are warm.
pub(super) const MEASURE_NS: u64 = 500_000_000;
/// Time that must be counted on each new CPU [ns].
pub(super) const MIN_AFTER_NS: u64 = 50_000_000;
/// Time after which the trial ends without more counts [ns].
pub(super) const PATIENCE_NS: u64 = 1_500_000_000;

/// Largest change of a component of the CPI stack while a task does the same work [permille]. It
/// allows for errors of conversion between CPUs.
const ALIKE_PERMILLE: u32 = 150;

/// One of the two tasks, in its state at the time of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Half {
    pub side: Side,
    pub name: String,
    pub before: Rate,
    pub stack_permille: Option<[u32; COMPONENTS]>,
    pub lost_ns: u64,
    /// Class of the CPU that it migrates to.
    pub class: Class,
}

impl Half {
    /// Create a half: `task` migrates from `cpu` to a CPU of `class`.
    pub(super) fn new(task: &Task, cpu: u32, class: Class) -> Self {
        let from = if class == Class::Fast { Class::Slow } else { Class::Fast };
        Self {
            side: Side { pid: task.pid, start_ns: task.start_ns, cpu },
            name: task.name.clone(),
            before: task.rate(from),
            stack_permille: task.stack_permille,
            lost_ns: task.lost_ns,
            class,
        }
    }

    /// Return the time when the task was moved, if that was after `asked_ns`.
    fn moved_ns(&self, now: &Task, asked_ns: u64) -> Option<u64> {
        now.moved_ns.filter(|at| *at >= asked_ns)
    }

    /// Return true if the task still does the same work. Otherwise its rate before the swap does
    /// not compare.
    fn is_alike(&self, now: &Task) -> bool {
        self.stack_permille.zip(now.stack_permille).is_some_and(|(before, now)| {
            before.iter().zip(now).all(|(before, now)| before.abs_diff(now) <= ALIKE_PERMILLE)
        })
    }

    fn observed(&self, now: Option<&Task>) -> Observed {
        // The kernel side forgot its earlier rate on this class when it was moved.
        let after = now.filter(|now| self.is_alike(now));
        Observed {
            before: self.before,
            after: after.map_or_else(Rate::default, |now| now.rate(self.class)),
            lost_ns: now.map_or(0, |now| now.lost_ns.saturating_sub(self.lost_ns)),
        }
    }
}

/// A swap that was requested.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Trial {
    pub swap: Swap,
    pub asked_ns: u64,
    pub up: Half,
    pub down: Half,
    /// Costs of the fast CPU without learned factors [permille].
    pub fast_permille: [u32; COMPONENTS],
    /// Costs of the slow CPU without learned factors [permille].
    pub slow_permille: [u32; COMPONENTS],
}

/// State of a trial.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Stage {
    /// It needs more time.
    Open,
    /// The swap was not carried out.
    Undone,
    /// It can be judged, or never will be.
    Over(Box<Experiment>),
    /// The swap was carried out, and a task has left its new class since.
    Left(Box<Experiment>),
}

impl Trial {
    pub(super) fn concerns(&self, pid: u32) -> bool {
        self.up.side.pid == pid || self.down.side.pid == pid
    }

    /// Return the state at `now_ns`. A task is None if it has ended. `class_of` returns the class
    /// of a CPU.
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
        let counted = [experiment.up, experiment.down].iter().all(|one| one.after.ran_ns >= MIN_AFTER_NS);
        // A task that has left its new class counts no more time there.
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
