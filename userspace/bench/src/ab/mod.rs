// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A/B comparison of schedulers: `bias-bench ab`.
//!
//! # Problem
//! A claim about a scheduler is only as good as its measurement. Drift, chance placement and the
//! order of the arms easily exceed differences of a few percent.
//!
//! # Approach
//! Every arm runs the same cells in counterbalanced blocks on the same boot. All raw samples are
//! kept. A verdict needs paired differences and an interval.
//!
//! Modules use only modules of the same line or of lines above it:
//!
//! * pure: [`arms`] (schedulers and placements to compare), [`order`] (order of visits), [`metric`]
//!   (names, units, directions), [`sample`] (stored samples, and which of them count), [`stats`]
//!   (estimates, intervals, verdicts), [`placement`] (best and worst static placement)
//! * work: [`workload`] (the work of a cell)
//! * files: [`store`], [`plan`], [`suites`] (the work of a run)
//! * sequence: [`runner`] (order of events, tested without a machine)
//! * machine: [`tuning`] (the changes of an arm), [`usage`], [`energy`], [`stage`] (one machine,
//!   one arm at a time)
//! * run: [`boot`] (inside the machine), [`vm`] and [`session`] (on the host)
//! * result: [`report`], [`compare`]

pub mod arms;
pub mod boot;
pub mod compare;
pub mod energy;
pub mod metric;
pub mod order;
pub mod placement;
pub mod plan;
pub mod report;
pub mod runner;
pub mod sample;
pub mod session;
pub mod stage;
pub mod stats;
pub mod store;
pub mod suites;
pub mod tuning;
pub mod usage;
pub mod vm;
pub mod workload;
