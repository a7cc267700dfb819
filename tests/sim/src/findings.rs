// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Rules that the scheduler breaks today in random cases.
//!
//! # Approach
//!
//! A finding is a rule and its cause. A campaign passes over faults of these rules, and over no
//! others. The campaign of each test run also demands that each of them occurs: a repair takes its
//! finding off the list.

use crate::case::Fault;

/// A rule that is broken for a known cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: &'static str,
    /// Why it is broken.
    pub cause: &'static str,
}

/// All of them.
pub const FINDINGS: &[Finding] = &[
    Finding {
        rule: "idle-leaving",
        cause: "until ops.cpu_offline a CPU that goes offline counts as idle, and the kernel diverts \
                its tasks to the global DSQ without waking a CPU",
    },
    Finding {
        rule: "parked-leaving",
        cause: "the timer for parked tasks kicks a CPU that is about to go offline and dispatches no more",
    },
    Finding {
        rule: "offline",
        cause: "no CPU serves the DSQ of a CPU that is offline, and not every kernel empties it",
    },
    Finding {
        rule: "idle-released",
        cause: "the kernel calls ops.cpu_release only where a SCHED_EXT task ran before",
    },
    Finding {
        rule: "starved",
        cause: "the limit of a lead bounds vtime, which crowds and heavy tasks stretch, and not time",
    },
    Finding { rule: "share-weights", cause: "a tick charges a light task more than the limit of its lead" },
    Finding {
        rule: "share-groups",
        cause: "a tick charges a task of a crowded group more than the limit of its lead",
    },
    Finding {
        rule: "share-affinity",
        cause: "the cut of a light task's lead sets back all tasks of its affinity",
    },
    Finding {
        rule: "share-hop",
        cause: "joining a DSQ whose clock is behind lowers vtime, and no other join raises it",
    },
];

/// Return true if a fault is that of a finding.
#[must_use]
pub fn is_known(fault: &Fault) -> bool {
    FINDINGS.iter().any(|finding| finding.rule == fault.rule)
}
