// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Simulator: the scheduler's BPF code, unmodified, on machines of any size.
//!
//! `tests/sim/README.md` describes the model, what is not modelled, and how to repeat a failure.
//!
//! * [`case::Case`] is everything that a run depends on, [`machine::Machine`] the hardware,
//!   [`load::Program`] what a task does.
//! * [`kernel::Kernel`] is the engine: the kernel's part of sched_ext as discrete events.
//! * [`oracle`] holds the rules that every run must keep.

pub mod agent;
pub mod campaign;
pub mod case;
pub mod command;
pub mod compile;
pub mod deletion;
pub mod engine;
pub mod entitlement;
pub mod fault_report;
pub mod ffi;
pub mod findings;
pub mod flags;
pub mod host;
pub mod kernel;
pub mod known;
pub mod load;
pub mod loads;
pub mod machine;
pub mod mask;
pub mod mutant;
pub mod optimum;
pub mod oracle;
mod quota;
pub mod random;
pub mod release;
pub mod rng;
pub mod scenario;
pub mod share_oracle;
pub mod shrink;
pub mod simplex;
mod starved;
pub mod unit;
pub mod writers;
