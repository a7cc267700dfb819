// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Options of the command, and its help.

use std::path::PathBuf;

use clap::{ArgGroup, CommandFactory as _, FromArgMatches as _, Parser};

use super::failure::{Failure, Result};
use super::kinds::KNOWN;

/// Predict what scx_bias would do on a machine
///
/// The scheduler's BPF code runs unmodified in a simulated kernel (late 6.12) and in virtual time.
/// No root, no VM and no other machine are needed, and nothing is scheduled here. Equal options
/// give equal results.
#[derive(Debug, Clone, Parser)]
#[command(name = "bias-bench sim", bin_name = "bias-bench sim", max_term_width = 100)]
#[command(display_name = "bias-bench-sim", version)]
#[command(group = ArgGroup::new("hardware").required(true).args(["machine", "this_machine"]))]
#[command(after_help = AFTER)]
pub struct Options {
    /// Machine: counts of core types such as 8P2T+16E (P, M, E or L; 2T is two threads a core),
    /// then llcs=N and nodes=N, or llcs=2+10 for the cores of each cache; or a preset or speeds of
    /// the asymmetric VM, such as 2F2S or 60:24. Costs of the types are typical ones, not those of
    /// a product
    #[arg(long)]
    pub machine: Option<String>,
    /// Simulate this machine: its topology and the table that `scx_bias calibrate` stored. More
    /// accurate than core types, if the table is accurate
    #[arg(long)]
    pub this_machine: bool,
    /// Capacity table to use instead of the stored one, with this machine's topology
    #[arg(long, value_name = "FILE", conflicts_with = "machine")]
    pub capacity_file: Option<PathBuf>,
    /// Tasks.
    #[arg(long, help = mix_help())]
    pub mix: String,
    /// Virtual time. Swaps and rotations need some tenths of a second, fair shares some seconds.
    /// A second of 8 CPUs takes some 50 ms, one of 1024 CPUs up to 20 s
    #[arg(long, default_value = "2", value_parser = seconds)]
    pub seconds: f64,
    /// Seed of all random choices: delays of interrupts, starts and sleeps of tasks. Compare
    /// several seeds before you believe a small difference
    #[arg(long, default_value = "1")]
    pub seed: u64,
    /// Ticks of the kernel in a second (CONFIG_HZ). Slices end at ticks, so fewer ticks mean fewer
    /// switches and longer waits
    #[arg(long, default_value = "1000", value_parser = clap::value_parser!(u32).range(100..=1000))]
    pub hz: u32,
    /// Also draw the placement into this file as SVG: all CPUs, and eleven columns for each letter
    /// of the text
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Print one JSON document (bias-bench.sim/1) instead of text
    #[arg(long)]
    pub json: bool,
    /// Print the man page, bias-bench-sim(1)
    #[arg(long, exclusive = true)]
    man: bool,
}

const AFTER: &str = "\
STP is the sum of the tasks' progress; 1 is a task alone on a CPU that is best at everything. \
The optimum knows all costs and the future, and may starve tasks. That at equal progress may not. \
scx_bias first has to learn what tasks do, which is in the figures.

Not modelled: the cost of the scheduler itself, of cache misses after a migration and of remote \
memory; turbo clocks and heat; errors of counters and of the table; other scheduling classes. So a \
prediction is at its best for placement and shares, and optimistic for throughput. \
`bias-bench ab` measures.

Exit codes: 0 success, 1 a rule of the simulator was broken, 2 wrong input.";

fn mix_help() -> String {
    format!(
        "Tasks, such as 4compute+4chase: {KNOWN}. mixed computes for PERCENT of its time and otherwise waits \
         for memory (80), phases do both in turn in a period of MS (200), a server runs for US (200) \
         and sleeps for 1 to 3 ms"
    )
}

fn seconds(text: &str) -> std::result::Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|seconds| (0.01..=60.0).contains(seconds));
    value.ok_or_else(|| "give a number of seconds from 0.01 to 60".to_owned())
}

/// Read the command line. Return None after printing the help, the version or the man page.
///
/// # Errors
/// Usage failure that names the mistake.
pub fn read(words: impl Iterator<Item = std::ffi::OsString>) -> Result<Option<Options>> {
    let words: Vec<_> = words.collect();
    // The man page needs none of the options that clap requires.
    if words.len() == 2 && words.iter().any(|word| word == "--man") {
        // A closed pipe is not an error.
        let _ = clap_mangen::Man::new(Options::command()).render(&mut std::io::stdout());
        return Ok(None);
    }
    let matches = Options::command().try_get_matches_from(words);
    match matches.and_then(|matches| Options::from_arg_matches(&matches)) {
        Ok(options) => Ok(Some(options)),
        Err(error) if !error.use_stderr() => {
            // A closed pipe is not an error.
            let _ = error.print();
            Ok(None)
        }
        Err(error) => {
            let text = error.to_string();
            let cause = text.strip_prefix("error: ").unwrap_or(&text).split("\n\n").next();
            Err(Failure::usage(format!("{}; see bias-bench sim --help", cause.unwrap_or_default())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Options::command().debug_assert();
    }

    #[test]
    fn the_man_page_needs_no_machine() {
        let of = |words: &[&str]| read(words.iter().map(std::ffi::OsString::from));
        assert!(matches!(of(&["sim", "--man"]), Ok(None)));
        assert!(of(&["sim", "--man", "--mix", "compute"]).is_err());
    }
}
