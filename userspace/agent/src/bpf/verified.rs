// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Instructions that the kernel's verifier processed for each program. This figure can grow
//! unnoticed until a kernel refuses to load the program.

use libbpf_rs::query::ProgInfoIter;
use tracing::debug;

/// Prefix of this scheduler's program names. The kernel keeps 15 letters of a name.
const PREFIX: &str = "bias_";

/// Log the instructions that the verifier processed for each program, for `scx_bias -v` and for the
/// test of the budget.
pub(crate) fn log_verified() {
    for program in ProgInfoIter::default() {
        let name = program.name.to_string_lossy();
        if name.starts_with(PREFIX) {
            debug!("program {name}: {} instructions verified", program.verified_insns);
        }
    }
}
