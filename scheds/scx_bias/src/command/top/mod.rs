// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `scx_bias top`: the CPUs, the tasks, and one task's history on a terminal. Elsewhere a table or
//! a JSON line for each interval.
//!
//! # Problem
//! A user wants to see at a glance which CPUs are busy, find one of thousands of tasks, and learn
//! why it went from CPU to CPU. The screen must stay readable at 80 columns and with 256 CPUs, and
//! top itself must cost little: it runs on the machine that it shows.
//!
//! # Approach
//! [`feed`] asks the instance. [`task_table`] makes text of its answers, and chooses and orders the
//! tasks to show. [`screen`] holds the state of the screen and draws it, with [`cpus`] and
//! [`history`]. It takes answers and keys, and knows neither a terminal nor a clock. [`terminal`]
//! is a thin loop: it waits for keys and signals, asks the instance, and draws.
//!
//! # Invariants
//! * The terminal is restored, regardless of what ends the program: a key, a signal or an error.
//! * An answer is sorted once. Only rows that are visible become text.
//! * The history is bounded: [`history::TASKS_MAX`] tasks, each with [`history::SAMPLES_MAX`]
//!   samples and [`history::MOVES_MAX`] moves, at most 60 MB in all.
//! * The bias of a task is a word, so that it is visible without colour.
//!
//! # Limits
//! * The instance samples a task's CPU: moves between two answers count as one. The reason is that
//!   of the last migration while the task ran, and a task can also change its CPU when it wakes.
//! * While top is paused it asks nothing, so the history has a gap there.
//! * While the instance does not answer, keys wait, for at most 10 s.

mod cpus;
pub mod feed;
mod history;
mod screen;
mod style;
pub mod task_table;
mod terminal;
#[cfg(test)]
mod tests;

use std::io::{IsTerminal, stdin, stdout};
use std::thread::sleep;

use anyhow::Result;
use bias_agent::failure::Exit;
use bias_agent::figures;
use bias_agent::options::values::Seconds;
use clap::{Args, value_parser};
use ratatui::crossterm::terminal::size;

use crate::cli::SocketArg;
use crate::help;
use crate::output::{WIDTH, print_part};
use feed::Feed;

const HELP: &str = "\
Tasks that ran in the interval, by their share of a CPU, then by gain. On a
terminal they are below the load of each CPU, and keys work (see below). A
narrow terminal shows fewer columns.
  SHARE        Time it ran in the interval, of one CPU.
  BIAS         fast: fast-biased, it belongs on fast CPUs. slow: slow-biased,
               on slow ones, because it gains little. -: unbiased. ?: not
               counted yet, or outside the cgroups that bias is limited to
               (--limit-bias).
  GAIN         Predicted time on a slow CPU over that on a fast one. 1.00x: it
               does not matter where it runs.
  EXE INT EXT  Parts of its time on the best CPU [%]: execution, stalls inside
               the core (branches, TLB), stalls outside it (shared caches,
               memory). Much EXT makes a small GAIN; much EXE makes a gain as
               large as the CPUs differ.
  FAST         Part of SHARE on fast CPUs. A fast-biased task far below 100%
               shares fast CPUs: there are more such tasks than fast CPUs. A
               slow-biased task near 100% runs where no task gains more.
  MOVED        Why it last migrated while it ran. idle fast CPU: a fast CPU had
               nothing to do. rotation: each of several equal tasks gets fast
               CPUs for a while. gains more: it took the CPU of a task that
               gains less. gave way: it was the task that gains less. swapped:
               the agent swapped it with another task, see scx_bias swaps.
  CPU          Where it runs, or ran last.

On a terminal:
  CPUs         A bar for the load of each CPU, by class, with tasks of all
               policies. Many CPUs have a mark each, from \".\" for idle to a full
               block. Very many share marks, which show the mean.
  arrows, PgUp, PgDn, Home, End
               Select a task.
  Enter        Open the history of the selected task since top began: its gain,
               its CPI stack, its SHARE and FAST over time, and its migrations.
               Those between two answers count as one. The reason is that of
               MOVED. Esc closes it.
  s, S         Sort by the next column, whose title is underlined; reverse.
  /            Filter by words: a part of the name, the start of the pid or of
               the bias (fast-biased, slow-biased, unbiased, unknown). Enter
               keeps the filter, Esc clears it.
  p, space     Pause, or continue.
  ?            Show the keys.
  q, Esc, Ctrl-C
               Quit.
NO_COLOR with any value turns colours off. A locale without UTF-8 gets digits
for marks.";

/// Show the load of each CPU, the stalls of each task, its bias, and the reason of its last
/// migration
#[derive(Debug, Args)]
#[command(after_help = help::exit_codes(), after_long_help = help::long(HELP))]
pub struct TopArgs {
    /// Print one JSON object per interval, one per line, for machines
    #[arg(long)]
    json: bool,

    /// Time between tables [0.1 to 86400]. Longer steadies the shares; shorter shows migrations
    /// sooner [default: 2, or up to 10 where thousands of tasks run, to take 1 % of a CPU]
    #[arg(long, short, value_name = "SECONDS")]
    interval: Option<Seconds>,

    /// Exit after this many tables, and print them as plain text. Without a terminal, tables are
    /// always plain text [default: no limit]
    #[arg(long, short = 'n', value_name = "N", value_parser = value_parser!(u64).range(1..))]
    count: Option<u64>,

    #[command(flatten)]
    socket: SocketArg,
}

impl TopArgs {
    pub fn run(self) -> Result<Exit> {
        let interval = self.interval.map(Seconds::duration);
        let mut feed = Feed::open(self.socket.connect()?, interval)?;
        let has_terminal = stdout().is_terminal() && stdin().is_terminal();
        if has_terminal && self.count.is_none() && !self.json {
            terminal::show(&mut feed)?;
            return Ok(Exit::Clean);
        }
        let mut printed = 0;
        while self.count.is_none_or(|count| printed < count) {
            sleep(feed.interval());
            let snapshot = feed.next()?;
            let text = if self.json {
                figures::json_line(&snapshot, "top")?
            } else {
                let gap = if printed == 0 { "" } else { "\n" };
                gap.to_owned() + &task_table::render(&snapshot, width()).join("\n")
            };
            if !print_part(&(text + "\n"))? {
                break;
            }
            printed += 1;
        }
        Ok(Exit::Clean)
    }
}

/// Return the columns of the terminal, or the usual ones if the output goes elsewhere.
fn width() -> usize {
    let size = if stdout().is_terminal() { size().ok() } else { None };
    size.map_or(WIDTH, |(columns, _)| usize::from(columns))
}
