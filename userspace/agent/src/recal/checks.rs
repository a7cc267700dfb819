// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The checks under way, and what the siblings of their CPUs do meanwhile.
//!
//! # Problem
//! A thread of a core is slower while its siblings run. A check beside a busy sibling takes 1.6
//! times as long as expected. Two of them agree, and the CPU would count as throttled. A sibling is
//! busy with a task, or with a check of its own.
//!
//! # Approach
//! One check at a time is under way on a core. When it ends, its result counts if it is not slower
//! than expected: siblings only lengthen a check. A slower one counts if no sibling ran for more
//! than [`QUIET_NS`] since the check was asked for. Such a check lasts 40 ms at least, so that
//! little lengthens it by 2 % at most.
//!
//! # Invariants
//! No result that counts contains more of a sibling's work than that.
//!
//! # Limits
//! Tasks of other scheduling classes are not seen on a sibling. A CPU whose siblings always run a
//! little keeps its speed until its cycles show another one. CPUs that come online later are measured
//! whatever their siblings do.

use super::recalibrator::{Check, Recalibrator};
use crate::calibrate::settle::AGREES;
use bias_policy::costs::Costs;

/// Run time of siblings that does not spoil a check [ns].
const QUIET_NS: u64 = 500_000;

/// Return the core of `cpu`. One that is not in the table is taken for a core of its own.
fn core_of(costs: &Costs, cpu: u32) -> u32 {
    costs.calibrated().get(cpu).map_or(cpu, |entry| entry.core)
}

impl Recalibrator {
    /// Begin a check of `cpu` unless one is under way on its core. Return true if it has begun.
    pub(super) fn begin_check(&mut self, cpu: u32, costs: &Costs) -> bool {
        let core = core_of(costs, cpu);
        if self.checks.values().any(|check| check.core == core) {
            return false;
        }
        let (siblings_ran_ns, _) = self.siblings(cpu, costs);
        let begun = self.spots.ask(cpu, self.expected_ns(cpu));
        if begun {
            self.checks.insert(cpu, Check { core, siblings_ran_ns });
        }
        begun
    }

    /// Return the results that count of the checks that ended: CPU and time of a step [ns].
    pub(super) fn end_checks(&mut self, costs: &Costs) -> Vec<(u32, f64)> {
        let mut results = Vec::new();
        for (cpu, step_ns) in self.spots.collect() {
            let check = self.checks.remove(&cpu);
            let Some(step_ns) = step_ns else { continue };
            let (ran_ns, busy) = self.siblings(cpu, costs);
            let quiet = |check: Check| !busy && ran_ns.saturating_sub(check.siblings_ran_ns) <= QUIET_NS;
            let expected_ns = self.expected_ns(cpu);
            let as_fast = expected_ns.is_some_and(|expected| step_ns <= expected * (1.0 + AGREES));
            if as_fast || check.is_none_or(quiet) {
                results.push((cpu, step_ns));
            }
        }
        results
    }

    /// Return the run time of the siblings of `cpu` [ns] by the last readings, and whether one of
    /// them ran a task then.
    fn siblings(&self, cpu: u32, costs: &Costs) -> (u64, bool) {
        let core = core_of(costs, cpu);
        let others =
            self.readings.iter().filter(|other| other.cpu != cpu && core_of(costs, other.cpu) == core);
        others.fold((0, false), |(ran_ns, busy), other| (ran_ns + other.ran_ns, busy || other.busy))
    }
}
