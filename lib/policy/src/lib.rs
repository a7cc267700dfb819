// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Pure policy of scx_bias: bindings to the C headers, and the decisions that only the agent makes.
//!
//! No module here reads a clock, a file or the kernel. Plain data goes in and plain data comes out,
//! so that every rule can be property-tested. Formulas that the BPF programs share live in
//! `lib/include/bias/*.h`; [`ffi`] binds them.

pub mod audit;
pub mod classes;
pub mod costs;
pub mod cpuset;
pub mod domains;
pub mod ffi;
pub mod model;
pub mod pick;
pub mod ranktest;
pub mod recal;
pub mod samples;
pub mod sharing;
pub mod slow_groups;
pub mod swap;
pub mod table;
pub mod testkit;
pub mod tiers;

include!(concat!(env!("OUT_DIR"), "/kernel_stats.rs"));
