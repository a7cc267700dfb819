//! `scx_bias top`: a screen on a terminal ([`super::screen`]), elsewhere a table or a JSON line for
//! each interval.
//!
//! # Invariants
//! A closed reader of the output is no error.

use std::io::{self, IsTerminal, Write};
use std::thread::sleep;

use super::feed::{Feed, Stopped, TopOptions};
use super::screen;
use super::top_table::render;
use bias_agent::failure::Failure;
use ratatui::crossterm::terminal;

/// Columns where there is no terminal.
const WIDTH: usize = 80;

/// Show the activity of tasks until the user, the reader or the scheduler ends it.
///
/// # Errors
/// As [`Client::status`], and [`bias_agent::failure::Exit::Runtime`] when the output cannot be
/// written.
pub fn top(options: &TopOptions) -> Result<(), Failure> {
    let mut feed = Feed::open(options)?;
    let terminal = io::stdout().is_terminal() && io::stdin().is_terminal();
    let result = if terminal && options.count.is_none() && !options.json {
        screen::show(&mut feed, options)
    } else {
        in_sequence(&mut feed, options, &mut io::stdout())
    };
    result.map_err(Stopped::explain).or_else(|failure| failure.map_or(Ok(()), Err))
}

/// Print tables or JSON lines, one after the other.
fn in_sequence(feed: &mut Feed, options: &TopOptions, out: &mut impl Write) -> Result<(), Stopped> {
    let mut printed = 0;
    while options.count.is_none_or(|count| printed < count) {
        sleep(options.interval);
        let snapshot = feed.next()?;
        if options.json {
            let line = serde_json::to_string(&snapshot)
                .map_err(|error| Failure::runtime(format!("cannot write the table as JSON ({error})")))?;
            writeln!(out, "{line}")?;
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
