// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! State of the oracles between two audits.

use std::cell::{Cell, RefCell};

/// State of the oracles.
#[derive(Debug, Default)]
pub struct Watch {
    pub(crate) vtime_now: Cell<u64>,
    /// When the capacity table was last replaced, which may change the classes.
    pub(crate) table_ns: Cell<u64>,
    /// For each CPU, the pending request and since when it is pending.
    pub(crate) requests: RefCell<Vec<(u32, u64)>>,
    /// Since when each CPU idles with a task in its local DSQ; 0 if it does not.
    pub(crate) stranded: RefCell<Vec<u64>>,
    /// Since when each task waits, and in how many consecutive audits it was in no queue.
    pub(crate) lost: RefCell<Vec<(u64, u32)>>,
    /// Since when each CPU idles without its mark; 0 if it does not.
    pub(crate) unmarked: RefCell<Vec<u64>>,
    /// Since when each CPU runs a throttled task; 0 if it does not.
    pub(crate) throttled: RefCell<Vec<u64>>,
    /// When each task was last seen parked.
    pub(crate) parked_ns: RefCell<Vec<u64>>,
    /// Since when each task is parked though none of its groups is throttled; 0 if it is not.
    pub(crate) due: RefCell<Vec<u64>>,
    /// When a task was last seen in the global DSQ [ns].
    pub(crate) overdue_ns: Cell<u64>,
}
