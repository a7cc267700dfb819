// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Options of a run: their definitions, their values, and what a reload changes.

pub mod reload;
mod run_options;
pub mod values;

pub use reload::{Config, ReloadReport};
pub use run_options::{Contradiction, EARLIER, LIVE, RunOptions};
