// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Placement over time as a grid: which task had a CPU for most of each column's time.

use crate::kernel::cpu::Curr;
use crate::kernel::trace::Stay;

/// The task of each cell, None if the CPU idled for longest: a row for each CPU.
pub type Grid = Vec<Vec<Option<usize>>>;

/// Return the grid of `stays` over `duration_ns`, which has `columns` columns.
#[must_use]
pub fn grid(stays: &[Stay], cpus: usize, duration_ns: u64, columns: usize) -> Grid {
    let mut rows: Vec<Vec<&Stay>> = vec![Vec::new(); cpus];
    stays.iter().for_each(|stay| rows[stay.cpu].push(stay));
    let width_ns = duration_ns.div_ceil(columns.max(1) as u64).max(1);
    rows.iter().map(|stays| row(stays, duration_ns, width_ns, columns)).collect()
}

fn row(stays: &[&Stay], duration_ns: u64, width_ns: u64, columns: usize) -> Vec<Option<usize>> {
    let mut times: Vec<Vec<(usize, u64)>> = vec![Vec::new(); columns];
    for stay in stays {
        let Curr::Task(task) = stay.curr else { continue };
        let until_ns = stay.until_ns.min(duration_ns);
        let mut from_ns = stay.from_ns;
        while from_ns < until_ns {
            let column = (from_ns / width_ns) as usize;
            let end_ns = until_ns.min((column as u64 + 1) * width_ns);
            let Some(cell) = times.get_mut(column) else { break };
            match cell.iter_mut().find(|(other, _)| *other == task) {
                Some((_, time)) => *time += end_ns - from_ns,
                None => cell.push((task, end_ns - from_ns)),
            }
            from_ns = end_ns;
        }
    }
    times.iter().map(|cell| longest(cell, width_ns)).collect()
}

/// Return the task that ran longest, None if the rest of the column is longer.
fn longest(cell: &[(usize, u64)], width_ns: u64) -> Option<usize> {
    let busy_ns: u64 = cell.iter().map(|(_, time)| time).sum();
    let (task, time) = cell.iter().max_by_key(|(task, time)| (*time, std::cmp::Reverse(*task)))?;
    (*time >= width_ns.saturating_sub(busy_ns)).then_some(*task)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stay(cpu: usize, task: usize, from_ns: u64, until_ns: u64) -> Stay {
        Stay { cpu, curr: Curr::Task(task), from_ns, until_ns }
    }

    #[test]
    fn the_longest_stay_fills_a_cell() {
        let stays = [stay(0, 1, 0, 60), stay(0, 2, 60, 200), stay(1, 3, 120, 130), stay(1, 4, 390, 900)];
        let grid = grid(&stays, 2, 400, 4);
        assert_eq!(grid[0], [Some(1), Some(2), None, None]);
        assert_eq!(grid[1], [None; 4]);
        let idle = super::grid(&[], 1, 400, 4);
        assert_eq!(idle, [[None; 4]]);
    }
}
