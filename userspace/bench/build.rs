// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Compiles the OpenMP benchmarks to a program that `bias-bench` carries.
//!
//! A program of its own gives each run a new process, as in the benchmarks that it follows, and
//! `bias-bench` starts without an OpenMP runtime. A compiler without OpenMP leaves the program
//! empty: all other workloads still work.

use std::env;
use std::error::Error;
use std::path::Path;

const SOURCE: &str = "src/ab/workload/openmp/constructs.c";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={SOURCE}");
    let out = env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: run through cargo")?;
    let program = Path::new(&out).join("constructs");
    let mut compiler = cc::Build::new().opt_level(2).debug(false).try_get_compiler()?.to_command();
    // With vector instructions the work would depend on the compiler.
    let flags = ["-Wall", "-fno-tree-vectorize", "-fopenmp", SOURCE, "-lm", "-o"];
    let status = compiler.args(flags).arg(&program).status();
    if !status.is_ok_and(|status| status.success()) {
        println!("cargo::warning=no OpenMP benchmarks: the C compiler has no -fopenmp; gcc has");
        std::fs::write(&program, [])?;
    }
    Ok(())
}
