// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Options that several commands share, and the output of reports.
//!
//! A measurement declares its options once, as a struct that clap parses. Its fields' comments are
//! the help texts.

use crate::{Error, Result};
use clap::{Args, Parser};
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

/// Parse a positive number of seconds, up to a day.
pub fn seconds(text: &str) -> std::result::Result<Duration, String> {
    let value = text.parse::<f64>().ok().filter(|s| *s > 0.0 && *s <= 86_400.0);
    value
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("'{text}' is not a number of seconds up to 86400"))
}

/// Parse a positive factor, up to 10 000.
pub fn factor(text: &str) -> std::result::Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|f| (0.001..=10_000.0).contains(f));
    value.ok_or_else(|| format!("'{text}' is not a factor from 0.001 to 10000"))
}

/// Parse a number of rounds, 1 to 1000.
pub fn rounds(text: &str) -> std::result::Result<u16, String> {
    let value = text.parse::<u16>().ok().filter(|n| (1..=1000).contains(n));
    value.ok_or_else(|| format!("'{text}' is not a number of rounds from 1 to 1000"))
}

/// The scheduler that a command loads.
#[derive(Debug, Clone, Args)]
pub struct SchedulerOptions {
    /// Command that loads a sched_ext scheduler and stays in the foreground, e.g. "scx_bias". No
    /// shell wraps it; to set a variable write "env NAME=value scx_bias"
    #[arg(long, value_name = "COMMAND")]
    pub scheduler_cmd: String,
    /// Seconds until the kernel must report it enabled. Big schedulers need a minute or two in the
    /// VM
    #[arg(long, value_parser = seconds, default_value = "60", value_name = "SECONDS")]
    pub load_timeout: Duration,
}

/// A result that a command prints: text for a reader, or its fields as JSON.
pub trait Printable: Serialize {
    /// Return the result as text that ends with a newline.
    fn text(&self) -> String;
}

/// Form of the output.
#[derive(Debug, Clone, Default, Args)]
pub struct Output {
    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
}

impl Output {
    /// Print a result to standard output.
    pub fn print<T: Printable>(&self, result: &T) -> Result<()> {
        self.print_as(result, || result.text())
    }

    /// Print a document, or a text in its place, to standard output. A closed pipe is not an error.
    pub fn print_as<T: Serialize>(&self, document: &T, text: impl FnOnce() -> String) -> Result<()> {
        let body = if self.json {
            serde_json::to_string_pretty(document).map_err(|e| Error::failed("writing JSON", e))? + "\n"
        } else {
            text()
        };
        printed(std::io::stdout().write_all(body.as_bytes()))
    }
}

/// Check a write to standard output. A closed pipe is not an error.
pub fn printed(written: std::io::Result<()>) -> Result<()> {
    match written {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(Error::failed("standard output", e)),
        _ => Ok(()),
    }
}

/// The options of a measurement, and the form of its output.
#[derive(Debug, Args)]
pub struct Measurement<T: Args> {
    #[command(flatten)]
    options: T,
    #[command(flatten)]
    output: Output,
}

impl<T: Args> Measurement<T> {
    /// Measure with these options, and print the result.
    pub fn print<R: Printable>(&self, run: impl FnOnce(&T) -> Result<R>) -> Result<R> {
        let result = run(&self.options)?;
        self.output.print(&result)?;
        Ok(result)
    }
}

/// Run a program: parse its command line, run its command, and print the error. Return the exit
/// code.
pub fn main<T: Parser>(program: &str, run: impl FnOnce(T) -> Result<u8>) -> ExitCode {
    let result = match T::try_parse() {
        Ok(line) => run(line),
        Err(error) if error.use_stderr() => error.exit(),
        // The text of --help and --version.
        Err(error) => printed(error.print()).map(|()| 0),
    };
    let failed = |error: Error| {
        eprintln!("{program}: {error}");
        error.exit_code()
    };
    ExitCode::from(result.unwrap_or_else(failed))
}

/// Parse the command line of a command that runs inside another command.
pub fn nested<T: Parser>(program: &str, words: Vec<String>) -> Result<T> {
    T::try_parse_from(std::iter::once(program.to_string()).chain(words))
        .map_err(|e| Error::Usage(e.to_string().trim_end().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_positive_and_finite() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["0", "-1", "nan", "inf", "1e9", "x", ""] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn rounds_are_from_1_to_1000() {
        assert_eq!((rounds("1"), rounds("1000")), (Ok(1), Ok(1000)));
        for bad in ["0", "1001", "-1", "1.5", ""] {
            assert!(rounds(bad).is_err(), "{bad}");
        }
    }
}
