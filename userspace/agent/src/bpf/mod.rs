// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Adapter to the kernel side: loads and attaches the BPF object, writes costs, knobs and counters
//! to it, and reads tasks, statistics and events from it.
//!
//! # Invariants
//!
//! Only this module accesses the memory, maps and programs of the kernel side ([`crate::skel`]).

mod attach;
mod cgroup_events;
mod cost_table;
mod counting;
mod exit;
mod libbpf_log;
mod prepare;
mod publish;
mod stats;
mod swap_calls;
mod task_report;
mod verified;

use std::path::Path;

pub(crate) use attach::Attached;
pub use attach::{Band, CpuCounters};
pub(crate) use cgroup_events::CgroupEvents;
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
