// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Order of the tasks on the screen.

use std::cmp::Ordering;

use super::super::shares::TopRow;
use super::matching::TaskFilter;
use bias_agent::bpf::Bias;

/// A column that can give the order.
pub(super) struct SortColumn {
    /// Title of the table's column.
    pub(super) title: &'static str,
    compare: fn(&TopRow, &TopRow) -> Ordering,
}

/// The columns in the order in which the key steps through them.
pub(super) const SORTS: [SortColumn; 9] = [
    // Share in whole percent, then gain: the order of an answer.
    SortColumn { title: "SHARE", compare: |_, _| Ordering::Equal },
    SortColumn { title: "BIAS", compare: |a, b| bias_rank(a).cmp(&bias_rank(b)) },
    SortColumn { title: "GAIN", compare: |a, b| b.task.speedup_permille.cmp(&a.task.speedup_permille) },
    SortColumn { title: "EXE INT EXT", compare: |a, b| external(b).cmp(&external(a)) },
    SortColumn { title: "FAST", compare: |a, b| b.on_fast_permille.cmp(&a.on_fast_permille) },
    // Tasks with the same reason are together, those that never migrated are last.
    SortColumn { title: "MOVED", compare: |a, b| (b.task.reason as u8).cmp(&(a.task.reason as u8)) },
    SortColumn { title: "CPU", compare: |a, b| a.task.cpu.cmp(&b.task.cpu) },
    SortColumn { title: "PID", compare: |a, b| a.task.pid.cmp(&b.task.pid) },
    SortColumn { title: "NAME", compare: |a, b| a.task.name.cmp(&b.task.name) },
];

fn external(row: &TopRow) -> Option<u32> {
    row.task.stack_permille.map(|stack| stack.external)
}

/// Return the rank of a bias: fast-biased, unbiased, slow-biased, unknown.
fn bias_rank(row: &TopRow) -> u8 {
    match (row.task.speedup_permille, row.task.bias) {
        (None, _) => 3,
        (_, Bias::FastBiased) => 0,
        (_, Bias::Unbiased) => 1,
        (_, Bias::SlowBiased) => 2,
    }
}

/// Return the indices of the rows that match, in the order of a column of [`SORTS`]. Equal rows
/// keep the order of the answer.
pub(super) fn arrange(rows: &[TopRow], column: usize, reversed: bool, filter: &TaskFilter) -> Vec<usize> {
    let mut shown: Vec<usize> =
        rows.iter().enumerate().filter(|(_, row)| filter.matches(&row.task)).map(|(at, _)| at).collect();
    let compare = SORTS[column].compare;
    match (column, reversed) {
        // A reversed order of equal rows is not the reverse of the answer.
        (0, true) => shown.reverse(),
        (_, true) => shown.sort_by(|a, b| compare(&rows[*b], &rows[*a])),
        (_, false) => shown.sort_by(|a, b| compare(&rows[*a], &rows[*b])),
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use bias_agent::bpf::{Reason, Stack, TaskReport};
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
            for (column, SortColumn { title, compare }) in SORTS.iter().enumerate() {
                for reversed in [false, true] {
                    let shown = arrange(&rows, column, reversed, &TaskFilter::default());
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
            for column in 0..SORTS.len() {
                let all = arrange(&rows, column, false, &TaskFilter::default());
                let some = arrange(&rows, column, false, &filter);
                let kept: Vec<usize> = all.into_iter().filter(|at| filter.matches(&rows[*at].task)).collect();
                prop_assert_eq!(some, kept);
            }
        }
    }
}
