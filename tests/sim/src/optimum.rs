//! The best throughput that any schedule can reach, to compare with.
//!
//! # Problem
//!
//! Tasks that always run, at most one per CPU: which assignment does the most work? Fairness is not
//! considered, so a fair schedule may be below it.
//!
//! # Approach
//!
//! The speed of a task on a CPU is the inverse of its time for a unit of work there. The assignment
//! with the largest sum is found by the Hungarian method (Kuhn 1955) with potentials: one task
//! after the other along the cheapest alternating path, in O(tasks^2 * CPUs).
//!
//! # Limits
//!
//! Each CPU counts as alone on its core: with busy siblings the result is an upper bound.

use bias_policy::ffi as policy;

use crate::machine::Machine;

/// Return the largest sum of speeds of tasks with these CPI stacks [reference CPUs].
#[must_use]
pub fn best_stp(machine: &Machine, stacks: &[[u32; 3]]) -> f64 {
    // Of more tasks than CPUs some wait. As the method assigns every row, rows are then the CPUs.
    let speeds: Vec<Vec<f64>> = stacks
        .iter()
        .map(|stack| machine.cpus.iter().map(|cpu| speed(*stack, cpu.cost(false))).collect())
        .collect();
    if stacks.len() <= machine.cpus.len() {
        return largest_sum(&speeds);
    }
    let turned: Vec<Vec<f64>> =
        (0..machine.cpus.len()).map(|cpu| speeds.iter().map(|row| row[cpu]).collect()).collect();
    largest_sum(&turned)
}

/// Return the speed of a CPI stack at a cost [reference CPUs].
fn speed(stack: [u32; 3], cost: [u32; 3]) -> f64 {
    let (stack, cost) = (policy::bias_stack { permille: stack }, policy::bias_cost { permille: cost });
    // SAFETY: a pure function of two valid structures.
    let time = unsafe { policy::bias_time_permille(&raw const stack, &raw const cost) };
    1000.0 / f64::from(time.max(1))
}

/// Return the largest sum of one entry from each row, in different columns. There are at least as
/// many columns as rows.
fn largest_sum(values: &[Vec<f64>]) -> f64 {
    let rows = values.len();
    let columns = values.first().map_or(0, Vec::len);
    // Row and column 0 are sentinels. owner[j] is the row of column j, 0 for none.
    let (mut u, mut v) = (vec![0.0; rows + 1], vec![0.0; columns + 1]);
    let mut owner = vec![0; columns + 1];
    for row in 1..=rows {
        owner[0] = row;
        let (mut least, mut before) = (vec![f64::INFINITY; columns + 1], vec![0; columns + 1]);
        let mut done = vec![false; columns + 1];
        let mut at = 0;
        while owner[at] != 0 {
            done[at] = true;
            let (of, mut delta, mut next) = (owner[at], f64::INFINITY, 0);
            for column in 1..=columns {
                if done[column] {
                    continue;
                }
                let reduced = -values[of - 1][column - 1] - u[of] - v[column];
                if reduced < least[column] {
                    (least[column], before[column]) = (reduced, at);
                }
                if least[column] < delta {
                    (delta, next) = (least[column], column);
                }
            }
            for column in 0..=columns {
                if done[column] {
                    u[owner[column]] += delta;
                    v[column] -= delta;
                } else {
                    least[column] -= delta;
                }
            }
            at = next;
        }
        while at != 0 {
            owner[at] = owner[before[at]];
            at = before[at];
        }
    }
    (1..=columns)
        .filter(|column| owner[*column] != 0)
        .map(|column| values[owner[column] - 1][column - 1])
        .sum()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn by_trying(values: &[Vec<f64>], row: usize, taken: u32) -> f64 {
        let Some(entries) = values.get(row) else { return 0.0 };
        let free = entries.iter().enumerate().filter(|(column, _)| taken >> column & 1 == 0);
        free.map(|(column, value)| value + by_trying(values, row + 1, taken | 1 << column))
            .fold(f64::NEG_INFINITY, f64::max)
    }

    proptest! {
        /// No other assignment is better.
        #[test]
        fn is_the_best(rows in 1usize..5, more in 0usize..3, seed: u64) {
            let rng = crate::rng::Rng::new(seed);
            let values: Vec<Vec<f64>> =
                (0..rows).map(|_| (0..rows + more).map(|_| rng.below(1000) as f64 / 100.0).collect()).collect();
            prop_assert!((largest_sum(&values) - by_trying(&values, 0, 0)).abs() < 1e-9);
        }
    }

    #[test]
    fn tasks_that_execute_get_the_fast_cpus() {
        let machine = Machine::parse("1P+1E").unwrap();
        let stp = best_stp(&machine, &[[1000, 0, 0], [0, 0, 1000]]);
        assert!((stp - (1.0 + 1000.0 / 1150.0)).abs() < 1e-3, "{stp}");
        assert!((best_stp(&machine, &[[1000, 0, 0]; 5]) - (1.0 + 1000.0 / 1700.0)).abs() < 1e-3);
    }
}
