// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The scenarios: tests that boot the VM. One program has all of them, so that an edit links once.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod ab;
mod agent;
mod bias;
mod canary;
mod clock_steps;
mod clocks;
mod common;
mod cost;
mod counters;
mod demo;
mod endings;
mod equal_tasks;
mod fairness;
mod hierarchy;
mod hostile;
mod housekeeping;
mod interruptions;
mod latency;
mod light_tasks;
mod limit;
mod machine_model;
mod marks;
mod nohz;
mod offline;
mod optin;
mod package;
mod papers;
mod placement;
mod recal;
mod refusals;
mod sharing;
mod simulator;
mod starts;
mod survival;
mod suspend;
mod swaps;
mod unit;
mod verifier;
mod wakeups;
