// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Adapter to the kernel side: loads and attaches the BPF object, writes costs, knobs and counters
//! to it, and reads tasks, statistics and events from it.
//!
//! # Invariants
//!
//! Only this module accesses the memory, maps and programs of the kernel side
//! ([`crate::bpf::skel`]).

mod attach;
mod calls;
mod cgroup_events;
mod counting;
mod exit;
mod load_log;
mod prepare;
mod skel;
mod stats;
mod task_report;

use std::path::Path;

pub(crate) use attach::Attached;
pub use attach::{Band, CpuCounters};
pub(crate) use cgroup_events::{CgroupEvents, CgroupMap};
pub use exit::ExitReport;
pub use stats::Stats;
pub use task_report::{Bias, Reason, Stack, TaskReport};

/// Directory in which the kernel reports the state of sched_ext.
pub(crate) const SCHED_EXT: &str = "/sys/kernel/sched_ext";

/// Return the name of the active sched_ext scheduler, None if none is active.
pub fn active() -> Option<String> {
    let directory = Path::new(SCHED_EXT);
    let state = std::fs::read_to_string(directory.join("state")).ok()?;
    let name = || std::fs::read_to_string(directory.join("root/ops")).unwrap_or_default();
    (state.trim() != "disabled").then(|| name().trim().to_owned())
}
