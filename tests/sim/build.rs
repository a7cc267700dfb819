// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Compile `bpf/` for the host and bind its types.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

// The build script uses a part of it.
#[allow(dead_code)]
#[path = "src/compile.rs"]
mod compile;

fn main() -> Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").context("cargo sets CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(env::var_os("OUT_DIR").context("cargo sets OUT_DIR")?);
    let root = here.ancestors().nth(2).context("tests/sim has no workspace above it")?;
    let (bpf, include, unit) = (root.join("bpf"), root.join("lib/include"), here.join("c"));
    for watched in [&bpf, &include, &unit, &here.join("src/compile.rs")] {
        println!("cargo::rerun-if-changed={}", watched.display());
    }
    println!("cargo::rerun-if-env-changed=BPF_CLANG");
    let clang = env::var("BPF_CLANG").unwrap_or_else(|_| "clang".into());
    println!("cargo::rustc-env=BIAS_SIM_CLANG={clang}");
    let source = compile::Source { bpf: &bpf, include: &include, unit: &unit };
    compile::compile(&clang, source, compile::Variant::Plain, &out, &out.join("plain.so"))?;
    compile::compile(&clang, source, compile::Variant::Traced, &out, &out.join("traced.so"))?;
    bind(&unit, &include, &bpf, &out)
}

/// Generate bindings to the kernel's types, the host table, the unit, and the state of `bpf/`.
fn bind(unit: &Path, include: &Path, bpf: &Path, out: &Path) -> Result<()> {
    let bindings = bindgen::Builder::default()
        .header_contents("bindings.h", "#include \"unit.h\"\n#include <scx/common.bpf.h>\n#define const\n#include \"state.bpf.h\"\n")
        .clang_args([unit, include, bpf].map(|directory| format!("-I{}", directory.display())))
        .clang_arg("-std=gnu11")
        .allowlist_type("sim_.*|bpf_timer.*|task_struct|task_group|cgroup|css_set|kernfs_node|cpumask|bpf_cpumask|cpu_ctx|group_ctx|llc_ctx|slow_list|scx_.*|cpuhp_state|sched_ext_ops|run_flags|bias_stat|bpf_map_type|bias_.*")
        .allowlist_var("BPF_LOCAL_.*|SCX_.*|PF_.*|SIM_.*|BIAS_.*|BPF_MAP_TYPE_.*|bpf_map_type.*|CPUHP_.*|RUN_.*")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .generate_comments(false)
        .layout_tests(false)
        .generate()?;
    bindings.write_to_file(out.join("bindings.rs"))?;
    Ok(())
}
