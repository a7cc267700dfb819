// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Figures of a run, for people and for programs.

use std::fmt::Write as _;

use serde::Serialize;

use super::grid::Grid;

/// Name and version of the document.
pub const SCHEMA: &str = "bias-bench.sim/1";

/// Maximum number of CPUs in the text.
const MAX_ROWS: usize = 64;

/// Letters of tasks, or of kinds if there are more tasks than letters.
const LETTERS: &[u8; 52] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// A simulated CPU.
#[derive(Debug, Clone, Serialize)]
pub struct CpuReport {
    /// Its number; that of the kernel for a table of a real machine.
    pub cpu: u32,
    /// Its class, `fast` or `slow`.
    pub class: &'static str,
    /// Cost of execute, internal and external work [permille].
    pub cost_permille: [u32; 3],
}

/// Times for which runnable tasks waited for a CPU [us].
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Waits {
    /// Number of waits.
    pub count: usize,
    /// Median.
    pub p50_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// The longest one, including that of a task that still waits.
    pub longest_us: f64,
}

impl Waits {
    /// Summarise waits [ns].
    #[must_use]
    pub fn new(mut waits_ns: Vec<u64>) -> Self {
        waits_ns.sort_unstable();
        let rank = |percent: usize| (waits_ns.len() * percent).div_ceil(100).saturating_sub(1);
        let us = |at: usize| waits_ns.get(at).map_or(0.0, |ns| *ns as f64 / 1000.0);
        let count = waits_ns.len();
        Self { count, p50_us: us(rank(50)), p99_us: us(rank(99)), longest_us: us(rank(100)) }
    }
}

/// Tasks of a kind.
#[derive(Debug, Clone, Serialize)]
pub struct Kind {
    /// Kind with its parameter.
    pub kind: String,
    /// Its first task.
    pub first: usize,
    /// Number of its tasks.
    pub tasks: usize,
    /// Mean progress of a task, where 1 is a task alone on the reference CPU.
    pub progress: f64,
    /// Part of their run time on fast CPUs [percent].
    pub fast_percent: f64,
    /// Migrations of all its tasks in a second.
    pub migrations_per_s: f64,
    /// Waits of its tasks.
    pub waits: Waits,
}

/// A task.
#[derive(Debug, Clone, Serialize)]
pub struct TaskReport {
    /// Kind with its parameter.
    pub kind: String,
    /// Progress.
    pub progress: f64,
    /// Part of its run time on fast CPUs [percent].
    pub fast_percent: f64,
    /// Its longest wait [us].
    pub longest_wait_us: f64,
}

/// Which task had each CPU for most of each column's time.
#[derive(Debug, Clone, Serialize)]
pub struct Placement {
    /// Time of a column [ms].
    pub column_ms: f64,
    /// For each CPU the task of each column, null if it idled.
    pub rows: Grid,
}

/// The document.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Name and version of the format.
    pub schema: &'static str,
    /// The machine as requested.
    pub machine: String,
    /// The mix as requested.
    pub mix: String,
    /// Virtual time.
    pub seconds: f64,
    /// Seed of all random choices.
    pub seed: u64,
    /// CPUs.
    pub cpus: Vec<CpuReport>,
    /// Throughput: sum of the tasks' progress.
    pub stp: f64,
    /// Largest throughput of any schedule, which may starve tasks; null if unknown.
    pub best_stp: Option<f64>,
    /// Largest throughput at equal progress; null if unknown or without meaning for this mix.
    pub best_equal_stp: Option<f64>,
    /// Switches to another task in a second.
    pub switches_per_s: f64,
    /// Waits of all tasks.
    pub waits: Waits,
    /// Kinds of tasks, in the order of the mix.
    pub kinds: Vec<Kind>,
    /// Tasks.
    pub tasks: Vec<TaskReport>,
    /// Placement over time.
    pub placement: Placement,
}

impl Report {
    /// Return the run in a line.
    #[must_use]
    pub fn title(&self) -> String {
        let slow = self.cpus.iter().filter(|cpu| cpu.class == "slow").count();
        format!(
            "{} on {}: {} fast and {slow} slow CPUs, {} s, seed {}",
            self.mix,
            self.machine,
            self.cpus.len() - slow,
            self.seconds,
            self.seed
        )
    }

    /// Return the letter of a task: its own, or that of its kind if there are many tasks.
    fn letter(&self, task: usize) -> char {
        let of_kind = || self.kinds.iter().position(|kind| task < kind.first + kind.tasks).unwrap_or(0);
        let at = if self.tasks.len() <= LETTERS.len() { task } else { of_kind() };
        char::from(LETTERS[at % LETTERS.len()])
    }

    /// Return the report as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{}\n\n", self.title());
        self.picture(&mut text);
        let _ = write!(text, "\nSTP {:.3}", self.stp);
        let part = |best: f64| self.stp / best.max(1e-9) * 100.0;
        if let Some(best) = self.best_stp {
            let _ = write!(text, ", {:.1} % of the most that any schedule reaches ({best:.3})", part(best));
        }
        if let Some(best) = self.best_equal_stp {
            let _ = write!(text, ",\n    {:.1} % of the most at equal progress ({best:.3})", part(best));
        }
        let waits = &self.waits;
        let _ = writeln!(
            text,
            "\nWaits of runnable tasks: p50 {}, p99 {}, longest {}; {:.0} switches a second\n",
            time(waits.p50_us),
            time(waits.p99_us),
            time(waits.longest_us),
            self.switches_per_s
        );
        self.table(&mut text);
        text
    }

    fn picture(&self, text: &mut String) {
        let columns = self.placement.rows.first().map_or(0, Vec::len);
        let _ = writeln!(text, "CPU        0 s{:>width$.2} s", self.seconds, width = columns.max(6) - 5);
        for (row, cpu) in self.placement.rows.iter().zip(&self.cpus).take(MAX_ROWS) {
            let cells: String = row.iter().map(|cell| cell.map_or('.', |task| self.letter(task))).collect();
            let _ = writeln!(text, "{:>4} {:<4}  {cells}", cpu.cpu, cpu.class);
        }
        if let Some(more @ 1..) = self.cpus.len().checked_sub(MAX_ROWS) {
            let _ = writeln!(text, "{more} more CPUs: --svg and --json show all");
        }
        let _ = writeln!(
            text,
            "A letter is the task that had the CPU for most of {:.0} ms, a dot an idle CPU.",
            self.placement.column_ms
        );
    }

    fn table(&self, text: &mut String) {
        let width = self.kinds.iter().map(|kind| kind.kind.len()).max().unwrap_or(0).max(4);
        let _ = writeln!(
            text,
            "TASKS  {:<width$}  COUNT  PROGRESS  ON FAST      P50      P99  LONGEST  MIGRATIONS/S",
            "KIND"
        );
        for kind in &self.kinds {
            let (first, last) = (self.letter(kind.first), self.letter(kind.first + kind.tasks - 1));
            let letters = if first == last { first.to_string() } else { format!("{first}-{last}") };
            let _ = writeln!(
                text,
                "{letters:<5}  {:<width$}  {:>5}  {:>8.3}  {:>5.0} %  {:>7}  {:>7}  {:>7}  {:>12.1}",
                kind.kind,
                kind.tasks,
                kind.progress,
                kind.fast_percent,
                time(kind.waits.p50_us),
                time(kind.waits.p99_us),
                time(kind.waits.longest_us),
                kind.migrations_per_s
            );
        }
    }
}

/// Return a time with a unit that suits it.
fn time(us: f64) -> String {
    if us < 1000.0 { format!("{us:.0} us") } else { format!("{:.1} ms", us / 1000.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_ranked() {
        assert_eq!(Waits::new(Vec::new()), Waits::default());
        let waits = Waits::new((1..=200).rev().map(|us| us * 1000).collect());
        assert_eq!((waits.count, waits.p50_us, waits.p99_us, waits.longest_us), (200, 100.0, 198.0, 200.0));
        let one = Waits::new(vec![7000]);
        assert_eq!((one.p50_us, one.p99_us, one.longest_us), (7.0, 7.0, 7.0));
    }
}
