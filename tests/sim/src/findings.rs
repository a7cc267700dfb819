// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Rules that the scheduler breaks today in random cases.
//!
//! # Approach
//!
//! A finding is a rule and its cause. A campaign passes over faults of these rules, and over no
//! others.

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
];

/// Return true if a fault is that of a finding.
#[must_use]
pub fn is_known(fault: &Fault) -> bool {
    FINDINGS.iter().any(|finding| finding.rule == fault.rule)
}
