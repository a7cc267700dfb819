// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The table of tasks: its columns, their order by a column, and the filter that a user types.
//!
//! [`render`] makes the whole table as text. [`TableColumns`] makes one line at a time, for a
//! screen that shows a part of the table.
//!
//! # Invariants
//! No line is wider than `width`, for any width: the least informative columns are left out first,
//! and the name gets the rest. There are at most `height` lines. The last one counts the lines left
//! out.

use std::cmp::Ordering;

use bias_agent::bpf::{Bias, TaskReport};
use bias_agent::figures::{count, percent, ratio};
use bias_policy::table::Class;

use super::super::tasks::{Snapshot, TopRow, bias, bias_cell, bias_name, confined_sentence, gain, reason};
use crate::output::{cut, fit, wrap};

/// Most columns of a name: the kernel's limit.
const NAME_MAX: usize = 15;
/// Fewest columns of a name. Other columns are left out first.
const NAME_MIN: usize = 12;

/// A column of the table, by which it can be ordered.
pub struct Column {
    pub title: &'static str,
    width: usize,
    /// True for numbers, which are aligned to the right. Words are aligned to the left.
    right: bool,
    /// Columns of a higher rank are left out earlier. The name has rank 0 and always stays.
    rank: u8,
    cell: fn(&TopRow) -> String,
    compare: fn(&TopRow, &TopRow) -> Ordering,
}

impl Column {
    const fn words(title: &'static str, width: usize, rank: u8, cell: fn(&TopRow) -> String) -> Self {
        Self { title, width, right: false, rank, cell, compare: |_, _| Ordering::Equal }
    }

    const fn number(title: &'static str, width: usize, rank: u8, cell: fn(&TopRow) -> String) -> Self {
        Self { right: true, ..Self::words(title, width, rank, cell) }
    }

    const fn by(self, compare: fn(&TopRow, &TopRow) -> Ordering) -> Self {
        Self { compare, ..self }
    }
}

/// The columns in the order of the table.
const COLUMNS: [Column; 9] = [
    Column::number("PID", 7, 3, |row| row.task.pid.to_string()).by(|a, b| a.task.pid.cmp(&b.task.pid)),
    Column::words("NAME", NAME_MAX, 0, |row| row.task.name.clone()).by(|a, b| a.task.name.cmp(&b.task.name)),
    // Share in whole percent, then gain: the order of an answer.
    Column::number("SHARE", 5, 1, |row| percent(row.share_permille)),
    Column::words("BIAS", 4, 2, |row| bias_cell(&row.task).to_owned())
        .by(|a, b| bias_rank(a).cmp(&bias_rank(b))),
    Column::number("GAIN", 6, 4, |row| gain(&row.task))
        .by(|a, b| b.task.speedup_permille.cmp(&a.task.speedup_permille)),
    Column::number("EXE INT EXT", 11, 7, stack).by(|a, b| external(b).cmp(&external(a))),
    Column::number("FAST", 4, 5, |row| percent(row.on_fast_permille))
        .by(|a, b| b.on_fast_permille.cmp(&a.on_fast_permille)),
    // Tasks with the same reason are together, those that never migrated are last.
    Column::words("MOVED", 13, 8, |row| reason(row.task.reason).to_owned())
        .by(|a, b| (b.task.reason as u8).cmp(&(a.task.reason as u8))),
    Column::number("CPU", 4, 6, |row| row.task.cpu.to_string()).by(|a, b| a.task.cpu.cmp(&b.task.cpu)),
];
/// Index of the column SHARE, the usual order.
const SHARE: usize = 2;

/// Return the column that gives the order after so many steps from the usual one.
pub fn sort_column(steps: usize) -> &'static Column {
    &COLUMNS[(SHARE + steps) % COLUMNS.len()]
}

fn stack(row: &TopRow) -> String {
    let share = |permille: u32| (permille + 5) / 10;
    row.task.stack_permille.map_or_else(
        || "  ?   ?   ?".to_owned(),
        |s| format!("{:>3} {:>3} {:>3}", share(s.execute), share(s.internal), share(s.external)),
    )
}

/// The columns that fit a width.
pub struct TableColumns {
    /// Each column, with its width.
    columns: Vec<(&'static Column, usize)>,
}

impl TableColumns {
    /// Return the columns for a table of this width.
    pub fn within(width: usize) -> Self {
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
    pub fn titles(&self) -> Vec<(&'static str, String)> {
        self.each(&|column| column.title.to_owned())
    }

    /// Return the cells of a task. Each has the title of its column, and is as wide as that.
    pub fn cells(&self, row: &TopRow) -> Vec<(&'static str, String)> {
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
pub fn render(snapshot: &Snapshot, width: usize) -> Vec<String> {
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
pub fn summary(snapshot: &Snapshot) -> String {
    let (fast, slow) = (snapshot.machine.count(Class::Fast), snapshot.machine.count(Class::Slow));
    let machine = match slow {
        0 => format!("{} of one class", count(fast, "CPU")),
        _ => format!("{fast} fast, {}", count(slow, "slow CPU")),
    };
    let average = snapshot
        .average_permille
        .map_or_else(String::new, |average| format!("; average speedup {}x", ratio(average)));
    format!("{machine}{average}; {}", snapshot.biases.text())
}

/// Return a note when tasks cannot be distinguished, or when one should not be where it is.
pub fn note(snapshot: &Snapshot) -> Option<String> {
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
    confined_sentence(&snapshot.confined, &snapshot.machine)
}

fn external(row: &TopRow) -> Option<u32> {
    row.task.stack_permille.map(|stack| stack.external)
}

/// Return the rank of a bias: fast-biased, unbiased, slow-biased, unknown.
fn bias_rank(row: &TopRow) -> u8 {
    match bias(&row.task) {
        Some(Bias::FastBiased) => 0,
        Some(Bias::Unbiased) => 1,
        Some(Bias::SlowBiased) => 2,
        None => 3,
    }
}

/// Return the indices of the rows that match, in the order after `steps`. Equal rows keep the order
/// of the answer.
pub fn arrange(rows: &[TopRow], steps: usize, reversed: bool, filter: &TaskFilter) -> Vec<usize> {
    let mut shown: Vec<usize> =
        rows.iter().enumerate().filter(|(_, row)| filter.matches(&row.task)).map(|(at, _)| at).collect();
    let compare = sort_column(steps).compare;
    match (steps % COLUMNS.len(), reversed) {
        // A reversed order of equal rows is not the reverse of the answer.
        (0, true) => shown.reverse(),
        (_, true) => shown.sort_by(|a, b| compare(&rows[*b], &rows[*a])),
        (_, false) => shown.sort_by(|a, b| compare(&rows[*a], &rows[*b])),
    }
    shown
}

/// Words that a task must all match: a part of its name, the start of its pid, or of its bias.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskFilter {
    words: Vec<String>,
}

impl TaskFilter {
    /// Return the filter for the text that a user typed. Case does not count.
    pub fn new(text: &str) -> Self {
        Self { words: text.split_whitespace().map(str::to_lowercase).collect() }
    }

    /// Return true if the task matches every word.
    pub fn matches(&self, task: &TaskReport) -> bool {
        if self.words.is_empty() {
            return true;
        }
        let (name, pid, bias) = (task.name.to_lowercase(), task.pid.to_string(), bias_name(task));
        self.words
            .iter()
            .all(|word| name.contains(word.as_str()) || pid.starts_with(word) || bias.starts_with(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bias_agent::bpf::{Reason, Stack};
    use proptest::prelude::*;

    fn rows() -> impl Strategy<Value = Vec<TopRow>> {
        let row = (0u32..9, prop::option::of(900u32..3000), 0u32..1001, 0u32..6, "[a-c]{1,3}");
        let row = row.prop_map(|(pid, speedup_permille, permille, reason, name)| {
            let stack = Stack { execute: 1000 - permille, internal: 0, external: permille };
            let task = TaskReport {
                pid,
                cpu: pid % 3,
                name,
                reason: Reason::from(reason),
                speedup_permille,
                stack_permille: speedup_permille.map(|_| stack),
                ..TaskReport::default()
            };
            TopRow { task, share_permille: permille, on_fast_permille: permille }
        });
        prop::collection::vec(row, 0..20)
    }

    proptest! {
        /// Every column gives a permutation in its order, and reversing reverses the order.
        #[test]
        fn rows_are_in_order(rows in rows()) {
            for (steps, Column { title, compare, .. }) in (0..COLUMNS.len()).map(|steps| (steps, sort_column(steps))) {
                for reversed in [false, true] {
                    let shown = arrange(&rows, steps, reversed, &TaskFilter::default());
                    let order = |a: &usize, b: &usize| {
                        let order = compare(&rows[*a], &rows[*b]);
                        if reversed { order.is_ge() } else { order.is_le() }
                    };
                    prop_assert!(shown.is_sorted_by(order), "{title}");
                    let mut all = shown;
                    all.sort_unstable();
                    prop_assert!(all.iter().copied().eq(0..rows.len()));
                }
            }
        }

        #[test]
        fn a_filter_leaves_the_order_alone(rows in rows()) {
            let filter = TaskFilter::new("a");
            for steps in 0..COLUMNS.len() {
                let all = arrange(&rows, steps, false, &TaskFilter::default());
                let some = arrange(&rows, steps, false, &filter);
                let kept: Vec<usize> = all.into_iter().filter(|at| filter.matches(&rows[*at].task)).collect();
                prop_assert_eq!(some, kept);
            }
        }
    }

    #[test]
    fn every_word_must_match() {
        let task = TaskReport {
            pid: 4711,
            name: "Render".into(),
            bias: Bias::FastBiased,
            speedup_permille: Some(2000),
            ..TaskReport::default()
        };
        for text in ["", " ", "render", "END", "47", "fast", "fast-biased end 471"] {
            assert!(TaskFilter::new(text).matches(&task), "{text}");
        }
        for text in ["711", "slow", "unbiased", "render slow", "biased"] {
            assert!(!TaskFilter::new(text).matches(&task), "{text}");
        }
        let unknown = TaskReport { speedup_permille: None, ..task };
        assert!(TaskFilter::new("unk").matches(&unknown) && !TaskFilter::new("fast").matches(&unknown));
    }
}
