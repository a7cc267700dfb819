// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `scx_bias top`: a screen on a terminal ([`super::screen`]), elsewhere a table or a JSON line for
//! each interval.
//!
//! # Invariants
//! A closed reader of the output is no error.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::thread::sleep;

use anyhow::Result;

use super::feed::{Feed, TopOptions};
use super::screen;
use super::top_table::render;
use bias_agent::failure::Failure;
use bias_agent::figures;
use ratatui::crossterm::terminal;

/// Columns where there is no terminal.
const WIDTH: usize = 80;

/// Show the activity of tasks until the user, the reader or the scheduler ends it.
///
/// # Errors
/// As [`Client::status`], and [`bias_agent::failure::Exit::Runtime`] when the output cannot be
/// written.
pub fn top(options: &TopOptions) -> Result<()> {
    let mut feed = Feed::open(options)?;
    let terminal = io::stdout().is_terminal() && io::stdin().is_terminal();
    let result = if terminal && options.count.is_none() && !options.json {
        screen::show(&mut feed)
    } else {
        in_sequence(&mut feed, options, &mut io::stdout())
    };
    result.or_else(explain)
}

/// Explain an error of the output. That its reader has gone is no error.
fn explain(error: anyhow::Error) -> Result<()> {
    match error.downcast::<io::Error>()? {
        error if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        error => {
            let text = format!("cannot write the table ({error}); look at where standard output goes");
            Err(Failure::runtime(text).into())
        }
    }
}

/// Print tables or JSON lines, one after the other.
fn in_sequence(feed: &mut Feed, options: &TopOptions, out: &mut impl Write) -> Result<()> {
    let mut printed = 0;
    while options.count.is_none_or(|count| printed < count) {
        sleep(feed.interval());
        let snapshot = feed.next()?;
        if options.json {
            writeln!(out, "{}", figures::json_line(&snapshot, "top")?)?;
        } else {
            let gap = if printed == 0 { "" } else { "\n" };
            let width = if io::stdout().is_terminal() { width() } else { WIDTH };
            writeln!(out, "{gap}{}", render(&snapshot, width).join("\n"))?;
        }
        out.flush()?;
        printed += 1;
    }
    Ok(())
}

/// Return the columns of the terminal.
fn width() -> usize {
    terminal::size().map_or(WIDTH, |(width, _)| usize::from(width))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_that_have_gone_are_no_failure() {
        assert!(explain(io::Error::from(ErrorKind::BrokenPipe).into()).is_ok());
        assert!(explain(io::Error::from(ErrorKind::StorageFull).into()).is_err());
        assert!(explain(Failure::usage("why").into()).is_err_and(|error| error.is::<Failure>()));
    }
}
