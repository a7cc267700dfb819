// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The asymmetric VM: a machine with unequal cores that runs on any x86-64 Linux host.
//!
//! This library prepares the host (packages, virtme-ng, kernels, the QEMU plugin, the guest module)
//! and runs commands in the VM. `cargo xtask` is its command line, `tests/` holds its scenarios.

pub mod apt;
pub mod boots;
pub mod build;
pub mod cache;
pub mod exit;
pub mod guest;
pub mod inputs;
pub mod interrupt;
pub mod kernels;
mod launch;
pub mod packages;
pub mod pool;
pub mod ports;
pub mod prepare;
pub mod prepared;
pub mod programs;
pub mod qemu;
pub mod recorded;
pub mod root;
pub mod runner;
pub mod session;
pub mod sources;
pub mod steps;
pub mod tools;
mod tsc;
pub mod verdict;

pub use ampvm_abi::Machine;
pub use verdict::Verdict;
