// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! bias-bench: workloads with known behaviour, and the comparison of schedulers.

fn main() -> std::process::ExitCode {
    bias_bench::cli::main()
}
