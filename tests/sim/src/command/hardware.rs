// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The machine of a run: from a text, or from the capacity table of this machine.
//!
//! Only scx_bias can find and validate its table, so scx_bias prints it.

use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Output};

use bias_policy::table::CpuCapacity;
use serde::Deserialize;

use super::failure::{Failure, Result};
use crate::machine::Machine;

/// A machine that a case can have.
#[derive(Debug, Clone)]
pub struct Hardware {
    /// Its name as requested.
    pub name: String,
    /// The text that a case takes.
    pub text: String,
    /// The machine.
    pub machine: Machine,
    /// The kernel's number of each CPU.
    pub numbers: Vec<u32>,
}

/// The part of `scx_bias table --json` that is used.
#[derive(Deserialize)]
struct Document {
    cpus: Vec<CpuCapacity>,
}

impl Hardware {
    /// Return the machine of a text.
    ///
    /// # Errors
    /// Usage failure that names the mistake in the text.
    pub fn named(text: &str) -> Result<Self> {
        let machine = Machine::parse(text).map_err(|error| {
            Failure::usage(format!(
                "'{text}' is not a machine: {error:#}; write core counts as 8P2T+16E,llcs=2 or a preset as 2F2S"
            ))
        })?;
        let numbers = (0..machine.cpus.len() as u32).collect();
        Ok(Self { name: text.to_owned(), text: text.to_owned(), machine, numbers })
    }

    /// Return this machine, from the stored capacity table or from one in a file.
    ///
    /// # Errors
    /// Usage failure with the cause that scx_bias names.
    pub fn present(file: Option<&Path>) -> Result<Self> {
        let mut arguments = vec!["table".as_ref(), "--json".as_ref()];
        if let Some(file) = file {
            arguments.extend(["--capacity-file".as_ref(), file.as_os_str()]);
        }
        let output = scx_bias(&arguments)?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            return Err(Failure::usage(format!("--this-machine: {why}")));
        }
        Self::measured(&output.stdout)
    }

    /// Return the machine of a printed table.
    fn measured(document: &[u8]) -> Result<Self> {
        let wrong = |why: String| {
            Failure::usage(format!("--this-machine: {why}; is scx_bias of the same version as bias-bench?"))
        };
        let document: Document = serde_json::from_slice(document)
            .map_err(|error| wrong(format!("scx_bias prints an unknown table ({error})")))?;
        let mut cpus = document.cpus;
        cpus.sort_by_key(|entry| entry.cpu);
        let numbers: Vec<u32> = cpus.iter().map(|entry| entry.cpu).collect();
        let first = |same: &dyn Fn(&CpuCapacity) -> bool| cpus.iter().position(same).unwrap_or(0) as u32;
        let places: Vec<(u32, u32)> = cpus
            .iter()
            .map(|entry| (first(&|other| other.core == entry.core), first(&|other| other.llc == entry.llc)))
            .collect();
        // The simulator numbers CPUs without gaps, which offline CPUs leave.
        for (at, (entry, (core, llc))) in cpus.iter_mut().zip(places).enumerate() {
            (entry.cpu, entry.core, entry.llc) = (at as u32, core, llc);
        }
        let text = serde_json::to_string(&cpus).map_err(|error| wrong(error.to_string()))?;
        let machine = Machine::parse(&text).map_err(|error| wrong(format!("{error:#}")))?;
        Ok(Self { name: "this machine".into(), text, machine, numbers })
    }
}

/// Run scx_bias: the one in PATH, else the one beside this program.
fn scx_bias(arguments: &[&std::ffi::OsStr]) -> Result<Output> {
    let beside = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.join("scx_bias")));
    for program in [Some("scx_bias".into()), beside].into_iter().flatten() {
        match Command::new(&program).args(arguments).output() {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                return Err(Failure::usage(format!(
                    "--this-machine: cannot run {} ({error}); repair it or give --machine",
                    program.display()
                )));
            }
            Ok(output) => return Ok(output),
        }
    }
    Err(Failure::usage(
        "--this-machine: scx_bias, which reads the table, is not in PATH; install it or give --machine",
    ))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn entry(cpu: u32, core: u32, class: &str, cost: u32) -> String {
        format!(
            r#"{{"cpu":{cpu},"core":{core},"llc":2,"node":0,"class":"{class}","cost_permille":[{cost},1000,1000],
            "spread_permille":[1,1,1],"shared_permille":[1600,1300,1000]}}"#
        )
    }

    #[test]
    fn a_table_with_gaps_is_a_machine() {
        let cpus = [entry(2, 2, "fast", 1000), entry(3, 2, "fast", 1000), entry(7, 7, "slow", 1020)];
        let document = format!(r#"{{"version":1,"alike":[],"cpus":[{}]}}"#, cpus.join(","));
        let hardware = Hardware::measured(document.as_bytes()).unwrap();
        assert_eq!(hardware.numbers, [2, 3, 7]);
        let cpus = &hardware.machine.cpus;
        assert_eq!(cpus.iter().map(|cpu| (cpu.core, cpu.llc)).collect::<Vec<_>>(), [(0, 0), (0, 0), (2, 0)]);
        // Classes are those of the table, however small the difference.
        assert_eq!(cpus.iter().map(|cpu| cpu.slow).collect::<Vec<_>>(), [false, false, true]);
        assert_eq!(cpus[0].cost(true), [1600, 1300, 1000]);
        assert!(hardware.machine.table().unwrap().nr_classes() == 2);
    }

    #[test]
    fn invalid_tables_are_refused() {
        for text in ["", "{}", r#"{"cpus":[]}"#] {
            let failure = Hardware::measured(text.as_bytes()).unwrap_err();
            assert!(failure.code == 2 && failure.line.starts_with("--this-machine: "), "{failure:?}");
        }
    }
}
