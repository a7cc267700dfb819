//! Order of the tasks on the screen.

use std::cmp::{Ordering, Reverse};

use super::super::shares::TopRow;
use super::matching::TaskFilter;
use bias_agent::bpf::Bias;

/// The column that gives the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum SortColumn {
    /// Share in whole percent, then gain: the order of an answer.
    #[default]
    Share,
    /// Fast-biased, unbiased, slow-biased, unknown.
    Bias,
    /// Largest speedup first.
    Gain,
    /// Most external stalls first.
    Stack,
    /// Largest part on fast CPUs first.
    Fast,
    /// Tasks with the same reason together, those that never migrated last.
    Moved,
    /// Lowest CPU first.
    Cpu,
    /// Lowest pid first.
    Pid,
    /// By alphabet.
    Name,
}

impl SortColumn {
    /// The columns in the order in which the key steps through them.
    pub(super) const ALL: [Self; 9] = [
        Self::Share,
        Self::Bias,
        Self::Gain,
        Self::Stack,
        Self::Fast,
        Self::Moved,
        Self::Cpu,
        Self::Pid,
        Self::Name,
    ];

    /// Return the next column.
    pub(super) fn next(self) -> Self {
        let after = Self::ALL.iter().skip_while(|column| **column != self).nth(1);
        after.copied().unwrap_or_default()
    }

    /// Return the title of the table's column.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Share => "SHARE",
            Self::Bias => "BIAS",
            Self::Gain => "GAIN",
            Self::Stack => "EXE INT EXT",
            Self::Fast => "FAST",
            Self::Moved => "MOVED",
            Self::Cpu => "CPU",
            Self::Pid => "PID",
            Self::Name => "NAME",
        }
    }

    fn compare(self, a: &TopRow, b: &TopRow) -> Ordering {
        let external = |row: &TopRow| row.task.stack_permille.map(|stack| stack.external);
        match self {
            // An answer has this order.
            Self::Share => Ordering::Equal,
            Self::Bias => bias_rank(a).cmp(&bias_rank(b)),
            Self::Gain => b.task.speedup_permille.cmp(&a.task.speedup_permille),
            Self::Stack => external(b).cmp(&external(a)),
            Self::Fast => b.on_fast_permille.cmp(&a.on_fast_permille),
            Self::Moved => Reverse(a.task.reason as u8).cmp(&Reverse(b.task.reason as u8)),
            Self::Cpu => a.task.cpu.cmp(&b.task.cpu),
            Self::Pid => a.task.pid.cmp(&b.task.pid),
            Self::Name => a.task.name.cmp(&b.task.name),
        }
    }
}

fn bias_rank(row: &TopRow) -> u8 {
    match (row.task.speedup_permille, row.task.bias) {
        (None, _) => 3,
        (_, Bias::FastBiased) => 0,
        (_, Bias::Unbiased) => 1,
        (_, Bias::SlowBiased) => 2,
    }
}

/// Return the indices of the rows that match, in order. Equal rows keep the order of the answer.
pub(super) fn arrange(
    rows: &[TopRow],
    column: SortColumn,
    reversed: bool,
    filter: &TaskFilter,
) -> Vec<usize> {
    let mut shown: Vec<usize> =
        rows.iter().enumerate().filter(|(_, row)| filter.matches(&row.task)).map(|(at, _)| at).collect();
    if let SortColumn::Share = column {
        // A reversed order of equal rows is not the reverse of the answer.
        if reversed {
            shown.reverse();
        }
        return shown;
    }
    let compare = |a: &usize, b: &usize| match (rows.get(*a), rows.get(*b)) {
        (Some(a), Some(b)) if reversed => column.compare(b, a),
        (Some(a), Some(b)) => column.compare(a, b),
        _ => Ordering::Equal,
    };
    shown.sort_by(compare);
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
            for column in SortColumn::ALL {
                for reversed in [false, true] {
                    let shown = arrange(&rows, column, reversed, &TaskFilter::default());
                    let order = |a: &usize, b: &usize| {
                        let order = column.compare(&rows[*a], &rows[*b]);
                        if reversed { order.is_ge() } else { order.is_le() }
                    };
                    prop_assert!(shown.is_sorted_by(order), "{column:?}");
                    let mut all = shown;
                    all.sort_unstable();
                    prop_assert!(all.iter().copied().eq(0..rows.len()));
                }
            }
        }

        #[test]
        fn a_filter_leaves_the_order_alone(rows in rows()) {
            let filter = TaskFilter::new("a");
            for column in SortColumn::ALL {
                let all = arrange(&rows, column, false, &TaskFilter::default());
                let some = arrange(&rows, column, false, &filter);
                let kept: Vec<usize> = all.into_iter().filter(|at| filter.matches(&rows[*at].task)).collect();
                prop_assert_eq!(some, kept);
            }
        }
    }

    #[test]
    fn the_key_steps_through_all_columns() {
        let mut column = SortColumn::default();
        for expected in SortColumn::ALL {
            assert_eq!(column, expected);
            column = column.next();
        }
        assert_eq!(column, SortColumn::default());
    }
}
