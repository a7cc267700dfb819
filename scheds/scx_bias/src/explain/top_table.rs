// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The table of `scx_bias top`: a function from the activity of an interval to lines of text.
//!
//! [`render`] makes the whole table as text. [`TableColumns`] makes one line at a time, for a
//! screen that shows a part of the table.
//!
//! # Invariants
//! No line is wider than `width`, for any width: the least informative columns are left out first,
//! and the name gets the rest. There are at most `height` lines. The last one counts the lines left
//! out.

use bias_policy::table::Class;

use super::confined;
use super::shares::{BiasCounts, Snapshot, TopRow};
use super::words::{bias, cut, fit, reason, wrap};
use bias_agent::figures::{count, percent, ratio};

/// Most columns of a name: the kernel's limit.
const NAME_MAX: usize = 15;
/// Fewest columns of a name. Other columns are left out first.
const NAME_MIN: usize = 12;

struct Column {
    title: &'static str,
    width: usize,
    /// True for numbers, which are aligned to the right. Words are aligned to the left.
    right: bool,
    /// Columns of a higher rank are left out earlier. The name has rank 0 and always stays.
    rank: u8,
    cell: fn(&TopRow) -> String,
}

/// The columns in the order of the table.
const COLUMNS: [Column; 9] = [
    Column { title: "PID", width: 7, right: true, rank: 3, cell: |row| row.task.pid.to_string() },
    Column { title: "NAME", width: NAME_MAX, right: false, rank: 0, cell: |row| row.task.name.clone() },
    Column { title: "SHARE", width: 5, right: true, rank: 1, cell: |row| percent(row.share_permille) },
    Column { title: "BIAS", width: 4, right: false, rank: 2, cell: |row| bias(&row.task).to_owned() },
    Column { title: "GAIN", width: 6, right: true, rank: 4, cell: gain },
    Column { title: "EXE INT EXT", width: 11, right: true, rank: 7, cell: stack },
    Column { title: "FAST", width: 4, right: true, rank: 5, cell: |row| percent(row.on_fast_permille) },
    Column {
        title: "MOVED",
        width: 13,
        right: false,
        rank: 8,
        cell: |row| reason(row.task.reason).to_owned(),
    },
    Column { title: "CPU", width: 4, right: true, rank: 6, cell: |row| row.task.cpu.to_string() },
];

/// Return the speedup as text, `?` if it is unknown.
pub(super) fn gain(row: &TopRow) -> String {
    row.task.speedup_permille.map_or_else(|| "?".to_owned(), |speedup| ratio(speedup) + "x")
}

fn stack(row: &TopRow) -> String {
    let share = |permille: u32| (permille + 5) / 10;
    row.task.stack_permille.map_or_else(
        || "  ?   ?   ?".to_owned(),
        |s| format!("{:>3} {:>3} {:>3}", share(s.execute), share(s.internal), share(s.external)),
    )
}

/// The columns that fit a width.
pub(super) struct TableColumns {
    /// Each column, with its width.
    columns: Vec<(&'static Column, usize)>,
}

impl TableColumns {
    /// Return the columns for a table of this width.
    pub(super) fn within(width: usize) -> Self {
        let mut by_rank: Vec<&Column> = COLUMNS.iter().collect();
        by_rank.sort_by_key(|column| column.rank);
        let mut used = NAME_MIN;
        let mut least_rank = 0;
        for column in by_rank.iter().skip(1) {
            if used + 1 + column.width > width {
                break;
            }
            used += 1 + column.width;
            least_rank = column.rank;
        }
        let name = (NAME_MIN + width.saturating_sub(used)).min(NAME_MAX);
        let chosen = COLUMNS.iter().filter(|column| column.rank <= least_rank);
        let columns = chosen.map(|column| (column, if column.rank == 0 { name } else { column.width }));
        Self { columns: columns.collect() }
    }

    /// Return the titles, each as wide as its column.
    pub(super) fn titles(&self) -> Vec<(&'static str, String)> {
        self.each(&|column| column.title.to_owned())
    }

    /// Return the cells of a task. Each has the title of its column, and is as wide as that.
    pub(super) fn cells(&self, row: &TopRow) -> Vec<(&'static str, String)> {
        self.each(&|column| (column.cell)(row))
    }

    fn each(&self, cell: &dyn Fn(&Column) -> String) -> Vec<(&'static str, String)> {
        let fitted = |(column, width): &(&'static Column, usize)| {
            (column.title, fit(&cell(column), *width, column.right))
        };
        self.columns.iter().map(fitted).collect()
    }
}

/// Render the table in `width` columns.
pub(super) fn render(snapshot: &Snapshot, width: usize) -> Vec<String> {
    let mut lines = wrap(&summary(snapshot), width, 0);
    lines.extend(note(snapshot).into_iter().flat_map(|note| wrap(&note, width, 0)));
    let columns = TableColumns::within(width);
    let line = |cells: Vec<(&str, String)>| {
        let cells: Vec<String> = cells.into_iter().map(|(_, cell)| cell).collect();
        cut(cells.join(" ").trim_end(), width)
    };
    lines.push(line(columns.titles()));
    lines.extend(snapshot.tasks.iter().map(|row| line(columns.cells(row))));
    lines
}

/// Describe the machine and the tasks in a sentence.
pub(super) fn summary(snapshot: &Snapshot) -> String {
    let (fast, slow) = (snapshot.machine.count(Class::Fast), snapshot.machine.count(Class::Slow));
    let machine = match slow {
        0 => format!("{} of one class", count(fast, "CPU")),
        _ => format!("{fast} fast, {}", count(slow, "slow CPU")),
    };
    let average = snapshot
        .average_permille
        .map_or_else(String::new, |average| format!("; average speedup {}x", ratio(average)));
    format!("{machine}{average}; {}", biases(&snapshot.biases))
}

/// Describe tasks by bias. Unknown ones are mentioned when there are any.
pub(super) fn biases(biases: &BiasCounts) -> String {
    let unknown = if biases.unknown == 0 { String::new() } else { format!(", {} unknown", biases.unknown) };
    format!(
        "{}: {} fast-biased, {} slow-biased, {} unbiased{unknown}",
        count(biases.total(), "task"),
        biases.fast_biased,
        biases.slow_biased,
        biases.unbiased
    )
}

/// Return a note when tasks cannot be distinguished, or when one should not be where it is.
pub(super) fn note(snapshot: &Snapshot) -> Option<String> {
    if snapshot.tasks.is_empty() {
        return Some(format!("No task ran in {} ms.", snapshot.interval_ms));
    }
    if snapshot.machine.count(Class::Slow) == 0 {
        return Some("All CPUs count as equally fast, so no task gains; see `scx_bias table`.".to_owned());
    }
    if snapshot.biases.unknown == snapshot.biases.total() {
        return Some(
            "No task's speedup is known; `scx_bias status` shows whether tasks are counted.".to_owned(),
        );
    }
    confined::sentence(&snapshot.confined, &snapshot.machine)
}
