// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The program behind `bias-bench sim`.

fn main() -> std::process::ExitCode {
    bias_sim::command::main(std::env::args_os()).into()
}
