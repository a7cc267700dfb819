// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The command `bias-bench sim`: what scx_bias would do on a machine.
//!
//! bias-bench runs the program `bias-bench-sim`, which is this command. So bias-bench does not
//! depend on the simulator, and its build needs no second compilation of `bpf/`.

pub mod developer;
pub mod document;
pub mod failure;
pub mod figures;
pub mod grid;
pub mod hardware;
pub mod kinds;
pub mod options;
pub mod predict;
pub mod svg;

use std::ffi::OsString;
use std::io::{ErrorKind, Write as _};

use document::Report;
use failure::{Failure, Result};
use hardware::Hardware;
use options::Options;

/// Run the command with these words, which begin with the program's name. Return its exit code.
pub fn main(words: impl Iterator<Item = OsString>) -> u8 {
    let words: Vec<OsString> = words.collect();
    if developer::is_meant(&words) {
        return end(developer::run(&words));
    }
    end(options::read(words.into_iter()).and_then(|options| options.map_or(Ok(()), |options| act(&options))))
}

fn end(result: Result<()>) -> u8 {
    match result {
        Ok(()) => 0,
        Err(failure) => {
            eprintln!("bias-bench sim: {}", failure.line);
            failure.code
        }
    }
}

fn act(options: &Options) -> Result<()> {
    let groups = kinds::parse(&options.mix)?;
    let hardware = match &options.machine {
        Some(text) => Hardware::named(text)?,
        None => Hardware::present(options.capacity_file.as_deref())?,
    };
    // A file that cannot be written is reported before the run, which may take long.
    let svg = options.svg.as_deref().map(|path| {
        let failed =
            |error| Failure::usage(format!("cannot write {} ({error}); name a file", path.display()));
        std::fs::File::create(path).map_err(failed)
    });
    let svg = svg.transpose()?;
    let plan = predict::Plan {
        hardware: &hardware,
        mix: &options.mix,
        groups: &groups,
        seconds: options.seconds,
        seed: options.seed,
        tick_ns: 1_000_000_000 / u64::from(options.hz),
    };
    let outcome = plan.run()?;
    if let Some(mut file) = svg {
        let cpus = hardware.machine.cpus.len();
        let grid = grid::grid(&outcome.stays, cpus, outcome.duration_ns, svg::COLUMNS);
        file.write_all(svg::svg(&outcome.report, &grid).as_bytes()).map_err(|error| {
            Failure::runtime(format!("cannot write the picture ({error}); free some space"))
        })?;
    }
    print(&outcome.report, options.json)
}

fn print(report: &Report, json: bool) -> Result<()> {
    let text = if json {
        let written = serde_json::to_string_pretty(report);
        written.map_err(|error| Failure::runtime(format!("cannot write JSON ({error})")))? + "\n"
    } else {
        report.text()
    };
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::runtime(format!("cannot write to standard output ({error})")))
        }
        _ => Ok(()),
    }
}
