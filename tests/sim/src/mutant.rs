// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Mutations of the BPF code: defects that the simulator must find.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use crate::compile::{self, Source, Variant};

/// One defect.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mutant {
    /// Name.
    pub name: String,
    /// What is wrong.
    pub what: String,
    /// File of `bpf/` that it changes.
    pub file: String,
    /// Text that occurs once in it.
    pub old: String,
    /// Its replacement.
    pub new: String,
    /// The family of cases that finds it, if scenarios and random cases do not.
    pub family: Option<String>,
}

#[derive(Deserialize)]
struct List {
    mutant: Vec<Mutant>,
}

/// Return all mutations, from `mutants.toml`.
///
/// # Errors
/// Fail if the file is malformed.
pub fn all() -> Result<Vec<Mutant>> {
    let list: List = toml::from_str(include_str!("../mutants.toml")).context("mutants.toml")?;
    Ok(list.mutant)
}

impl Mutant {
    /// Compile the mutated code into `directory` and return the path of the object.
    ///
    /// # Errors
    /// Fail if `old` does not occur once, or the code does not compile.
    pub fn compile(&self, directory: &Path) -> Result<PathBuf> {
        self.compile_as(directory, Variant::Plain)
    }

    /// The same, compiled as `variant`.
    ///
    /// # Errors
    /// As above.
    pub fn compile_as(&self, directory: &Path, variant: Variant) -> Result<PathBuf> {
        compile_as(&self.file, |text| self.apply(text), directory, variant)
    }

    fn apply(&self, text: &str) -> Result<String> {
        let times = text.matches(&self.old).count();
        ensure!(
            times == 1,
            "{}: its text occurs {times} times in {}; adapt mutants.toml",
            self.name,
            self.file
        );
        Ok(text.replace(&self.old, &self.new))
    }
}

/// Compile `bpf/` with `change` of one file into `directory`, and return the path of the object.
///
/// # Errors
/// Fail if the change does, or the code does not compile.
pub fn compile_changed(
    file: &str,
    change: impl Fn(&str) -> Result<String>,
    directory: &Path,
) -> Result<PathBuf> {
    compile_as(file, change, directory, Variant::Plain)
}

fn compile_as(
    file: &str,
    change: impl Fn(&str) -> Result<String>,
    directory: &Path,
    variant: Variant,
) -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().nth(2).context("tests/sim has no workspace above it")?;
    let bpf = directory.join("bpf");
    std::fs::create_dir_all(&bpf).with_context(|| format!("cannot make {}", bpf.display()))?;
    for entry in std::fs::read_dir(root.join("bpf")).context("cannot read bpf/")? {
        let entry = entry.context("cannot read bpf/")?;
        let text = std::fs::read_to_string(entry.path())
            .with_context(|| format!("cannot read {}", entry.path().display()))?;
        let text = if entry.file_name().to_string_lossy() == file { change(&text)? } else { text };
        std::fs::write(bpf.join(entry.file_name()), text).context("cannot copy bpf/")?;
    }
    let source = Source { bpf: &bpf, include: &root.join("lib/include"), unit: &here.join("c") };
    let object = directory.join("mutant.so");
    compile::compile(compile::CLANG, source, variant, directory, &object)?;
    Ok(object)
}
