// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Rules that the scheduler breaks today in random cases.
//!
//! # Approach
//!
//! A finding is a rule, its cause, and how many of 100 000 cases break it. A campaign ignores
//! faults of these rules, and no others. The campaign of each test run also demands that their
//! numbers are about as expected: a repair must remove its finding from the list, and a new defect
//! cannot hide behind a rare finding.

use crate::case::Fault;

/// A rule that is broken for a known cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: &'static str,
    /// Cases of 100 000 that break it.
    pub per_100_000: u64,
    /// Why it is broken.
    pub cause: &'static str,
}

/// All known findings.
pub const FINDINGS: &[Finding] = &[
    Finding {
        rule: "parked-changed",
        per_100_000: 1,
        cause: "the timer for parked tasks waits for the end of a throttling under the limit of that time, \
                up to 100 ms, though a higher limit ends it earlier",
    },
    Finding {
        rule: "parked-overdue",
        per_100_000: 37,
        cause: "the kernel serves the global DSQ before it calls ops.dispatch, so parked tasks wait until \
                all overdue tasks have had a turn",
    },
    Finding {
        rule: "idle-released",
        per_100_000: 11,
        cause: "before 6.19 the kernel reports a CPU that is taken only where a SCHED_EXT task ran",
    },
    Finding {
        rule: "steps",
        per_100_000: 5,
        cause: "one call of ops.dispatch may look for overdue tasks in each DSQ of its cache and twice \
                through all parked tasks, hundreds each",
    },
    Finding {
        rule: "share-weights",
        per_100_000: 2,
        cause: "tasks of some ten thousand times the least weight take nearly all CPUs. Those that wait \
                share one CPU across caches, or one turn is too long for what a light task is due",
    },
    Finding {
        rule: "share-groups",
        per_100_000: 3,
        cause: "so many tasks wait that each is overdue, and the global DSQ is a FIFO",
    },
    Finding {
        rule: "share-affinity",
        per_100_000: 1,
        cause: "tasks of the CPUs in least demand lead by more than the limit, where all are equal: one that \
                may run on a single such CPU takes half of it beside four others on two",
    },
    Finding {
        rule: "share-sleep",
        per_100_000: 15,
        cause: "a sleep forgives a quarter of the run before it, also if the task has used its share",
    },
    Finding {
        rule: "share-fork",
        per_100_000: 1,
        cause: "a task that ends within a tick takes its lead along: the next one of its chain starts half a \
                slice ahead of the clock, and those that the tick stops later wait off a whole one",
    },
];

/// Return the finding of a rule.
#[must_use]
pub fn of(rule: &str) -> Option<&'static Finding> {
    FINDINGS.iter().find(|finding| finding.rule == rule)
}

/// Return true if a fault is that of a finding.
#[must_use]
pub fn is_known(fault: &Fault) -> bool {
    of(&fault.rule).is_some()
}

/// Return what is unexpected if `found` of `cases` cases break the rule of `finding`.
#[must_use]
pub fn unexpected(finding: &Finding, found: usize, cases: u64) -> Option<String> {
    let expected = finding.per_100_000 as f64 * cases as f64 / 100_000.0;
    let rule = finding.rule;
    if found as f64 > 3.0 * expected + 1.0 {
        return Some(format!("{found} cases break {rule}, about {expected:.0} are expected"));
    }
    (found == 0 && expected >= 5.0).then(|| {
        format!("no case breaks {rule}, about {expected:.0} are expected: remove it from src/findings.rs")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frequency_that_changes_is_unexpected() {
        let finding = Finding { rule: "rule", per_100_000: 100, cause: "" };
        for (found, cases, is_expected) in [
            (0, 10_000, false),
            (0, 1000, true),
            (10, 10_000, true),
            (36, 10_000, false),
            (4, 1000, true),
            (5, 1000, false),
        ] {
            assert_eq!(unexpected(&finding, found, cases).is_none(), is_expected, "{found} of {cases}");
        }
    }
}
