// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The agent of scx_bias: it calibrates CPUs, loads and watches the kernel side, plans swaps and
//! reports on all of that.

// These macros panic when the reader of their output has gone, which must not end a scheduler.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

pub mod affinity;
pub mod boot_time;
pub mod bpf;
mod budget;
pub mod calibrate;
pub mod capacity;
pub mod check;
pub mod control;
pub mod costs;
pub mod counter_model;
pub mod cpulist;
pub mod daemon;
pub mod ejections;
pub mod failure;
pub mod figures;
pub mod housekeeping;
mod kernel;
pub mod loops;
mod marks;
pub mod optin;
pub mod options;
pub mod pmu;
pub mod recal;
pub mod safefile;
#[cfg(test)]
mod scale_tests;
pub mod store;
pub mod swaps;
pub mod topology;
