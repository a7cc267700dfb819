// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Opted-in cgroups: only their threads run under scx_bias.
//!
//! # Problem
//!
//! With SCX_OPS_SWITCH_PARTIAL the kernel gives a sched_ext scheduler only the threads of policy
//! SCHED_EXT. A cgroup has no policy, only its threads have. The agent has to switch them one by
//! one, including later arrivals. It has to restore their policies when they leave, when the cgroup
//! is released, when the scheduler ends, and after the scheduler was killed.
//!
//! # Approach
//!
//! A scan collects the threads in the opted-in cgroups (`cgroup.threads`), other threads that are
//! recorded or were seen leaving, and their policies. [`reconcile::reconcile`] derives the changes,
//! which the agent records ([`journal`]) and carries out. Scans repeat until one finds nothing to
//! do, because threads that are not yet switched may fork others meanwhile. An event of the kernel
//! side (`bpf/optin.bpf.h`) triggers a scan. A scan also runs every second.
//!
//! A run that limits bias to cgroups uses the [`selection`] only. It switches no thread.
//!
//! One case is visible only in the events. A thread that is forked inside and moved out between two
//! scans has SCHED_EXT, although no scan saw it inside. For a while the agent treats such threads
//! like those of a released cgroup.
//!
//! # Invariants
//!
//! Those of [`reconcile`] hold for any actions of the threads between two system calls (tests in
//! `tests.rs`). Before the agent sets a policy, it checks again that the thread is the same one and
//! has the expected policy. It never switches its own threads or kernel threads.
//!
//! # Limits
//!
//! Between that check and the system call a few microseconds pass. In this time the thread could
//! end, its pid be reused, or its nice value change. Scans make up for lost events, except for the
//! threads that only events reveal. These keep SCHED_EXT and run under scx_bias like any thread
//! that asks for that policy.

pub mod cgroup;
pub mod journal;
mod opted;
pub mod reconcile;
pub mod selection;
#[cfg(test)]
mod sim;
pub mod system;
#[cfg(test)]
mod tests;

pub use opted::{CgroupEvent, OptIn, restore};
pub use selection::{CgroupReport, CgroupRequest, CgroupsReport};
