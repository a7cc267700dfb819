// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Workloads with known behaviour, and measurements on them: speed ratios of CPUs, progress of
//! mixes of tasks, and the cost of a context switch.
//!
//! The library has three layers. Each one uses only itself and the layers above it:
//!
//! * pure: [`metrics`] (formulas), [`work`] (workloads), [`spec`] (names that the command line
//!   accepts), [`error`], [`plot`] (pages with plots);
//! * the machine: [`cpus`] (online CPUs, pinning), [`counters`] (stall counters), [`shared`] and
//!   [`task`] (processes that work at the same time and publish their progress), [`sched`] (loading
//!   a scheduler), [`emulation`] (the VM's clocks), [`files`], [`options`], [`progress`];
//! * measurements: [`measure`], [`solo`], [`mix`], [`once`], [`ratio`], [`pingpong`],
//!   [`cost`], [`demo`], and the comparison of schedulers, [`ab`]. Each takes options that the
//!   command line fills, and returns a serialisable report. [`evidence`] backs the documents'
//!   claims with recorded comparisons of a tree ([`tree`]). [`cli`] is the command line.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod ab;
pub mod cli;
pub mod cost;
pub mod counters;
pub mod cpus;
pub mod demo;
pub mod emulation;
pub mod error;
pub mod evidence;
pub mod files;
pub mod measure;
pub mod metrics;
pub mod mix;
pub mod once;
pub mod options;
pub mod pingpong;
pub mod plot;
pub mod progress;
pub mod ratio;
pub mod sched;
pub mod shared;
pub mod solo;

pub mod spec;
pub mod task;
pub mod tree;
pub mod work;

pub use error::{Error, Result};
