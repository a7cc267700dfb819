// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Reports of broken rules, for people.

use crate::case::{Case, Fault};
use crate::kernel::Kernel;
use crate::shrink::shrink;
use crate::unit::Image;

/// Describe a fault so that it can be repeated: shrink its case, and write the case and its traces
/// into the temporary directory.
///
/// # Errors
/// Fail if a file cannot be written.
pub fn describe(case: &Case, fault: &Fault, image: Image<'_>) -> anyhow::Result<String> {
    let mut small = shrink(case, &fault.rule, image);
    small.trace = true;
    let kernel = Kernel::new(small.clone(), image)?;
    let fault = kernel.run().err().unwrap_or(fault.clone());
    let directory = std::env::temp_dir();
    let file = |end: &str| directory.join(format!("bias_sim-{}.{end}", case.seed));
    std::fs::write(file("case.json"), small.text())?;
    std::fs::write(file("txt"), kernel.trace_text())?;
    std::fs::write(file("perfetto.json"), kernel.perfetto())?;
    Ok(format!(
        "seed {} breaks a rule on {} under {:?}: {fault}\n  repeat: cargo run -p bias_sim --bin bias-bench-sim repeat {}\n  trace:  {}\n  for Perfetto: {}",
        case.seed,
        small.machine,
        small.release,
        file("case.json").display(),
        file("txt").display(),
        file("perfetto.json").display(),
    ))
}
