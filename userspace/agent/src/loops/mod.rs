// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Loops with a known stall, and the placement of the threads that run them. Calibration times
//! them, spot checks repeat them, and the probe of the counters runs them.

pub mod chase;
pub mod kernels;
pub(crate) mod settle;
pub(crate) mod thread;
