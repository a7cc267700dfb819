// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Log-ratios of an arm to the baseline, one per block.
//!
//! # Problem
//! A machine drifts by more than schedulers differ, so only neighbours in time may be compared. A
//! task that got no CPU time has an infinite slowdown. Such a value breaks a mean, but must not be
//! dropped.
//!
//! # Approach
//! Within a block, average the logarithms of an arm's visits and subtract those of the baseline.
//! The forward and reverse order of a block cancels linear drift. An infinite figure becomes a
//! logarithm that is too large to be confused with a measured one ([`INFINITE`]). Ranks, medians
//! and means then treat it as larger than any other.
//!
//! # Invariants
//! * Swapping arm and baseline negates every pair.
//! * Scaling a metric changes no pair, except for rounding.
//! * Two infinite figures are equal: their log-ratio is 0.
//!
//! # Limits
//! A metric that one arm lacks in a block costs that pair, which counts as missing. Blocks of a
//! machine that does not run the cell are ignored.

use crate::ab::metric::{Direction, Metric};
use crate::ab::sample::Block;
use std::collections::BTreeMap;

/// Minimum number of pairs for a verdict. With four, no interval from blocks alone can cover 95 %.
pub const MIN_PAIRS: usize = 5;
/// Logarithm of an infinite ratio. The logarithm of a finite ratio is below 1500.
pub const INFINITE: f64 = 1e9;
/// Logarithms beyond this come from [`INFINITE`], possibly averaged with others.
const LARGEST: f64 = 1e4;
/// Logarithms below this are rounding errors of equal figures.
const ROUNDING: f64 = 1e-12;

/// Log-ratio of one block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// Boot of the block.
    pub boot: u32,
    /// Index of the block within the boot.
    pub block: u32,
    /// Natural logarithm of the ratio of arm to baseline. ±[`INFINITE`] if one of them is infinite
    /// or zero.
    pub log_ratio: f64,
}

/// All pairs of one comparison.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pairs {
    /// The pairs, ordered by block.
    pub pairs: Vec<Pair>,
    /// Blocks in which an arm lacks a value.
    pub missing: usize,
}

/// Subject of a comparison: two arms on one metric of one cell.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The cell.
    pub cell: &'a str,
    /// Full name of the metric.
    pub name: &'a str,
    /// Registry entry of the metric.
    pub metric: &'a Metric,
    /// The arm.
    pub arm: &'a str,
    /// The arm to compare with.
    pub baseline: &'a str,
}

/// Return true if a logarithm stands for an infinite or zero ratio.
pub fn is_infinite(log_ratio: f64) -> bool {
    log_ratio.abs() > LARGEST
}

/// Return the ratio of a log-ratio, including infinite and 0.
pub fn ratio(log_ratio: f64) -> f64 {
    if is_infinite(log_ratio) { if log_ratio > 0.0 { f64::INFINITY } else { 0.0 } } else { log_ratio.exp() }
}

/// Return exactly ±[`INFINITE`] for a logarithm that stands for it, 0 for a rounding error, and
/// other logarithms unchanged.
fn settled(log: f64) -> f64 {
    if is_infinite(log) {
        INFINITE.copysign(log)
    } else if log.abs() < ROUNDING {
        0.0
    } else {
        log
    }
}

/// Return the logarithm of a value. An infinite value is the worst one. Neutral metrics have no
/// worst value, hence None.
fn log(value: f64, direction: Direction) -> Option<f64> {
    match (value, direction) {
        (v, Direction::Neutral) if v.is_infinite() => None,
        (v, Direction::Higher) if v.is_infinite() => Some(-INFINITE),
        (v, _) if v.is_infinite() => Some(INFINITE),
        (v, _) if v > 0.0 => Some(v.ln()),
        (0.0, _) => Some(-INFINITE),
        _ => None,
    }
}

/// Return the mean logarithm of an arm's visits. None if a visit lacks the value, or if one is
/// infinite and another zero.
fn arm_log(block: &Block<'_>, question: &Question<'_>, arm: &str) -> Option<f64> {
    let visits = block.samples.iter().filter(|s| s.arm == arm && s.cell == question.cell);
    let log_of = |value: &f64| log(*value, question.metric.direction);
    let logs: Option<Vec<f64>> = visits.map(|s| s.metrics.get(question.name).and_then(log_of)).collect();
    let logs = logs.filter(|logs| !logs.is_empty())?;
    if logs.contains(&INFINITE) && logs.contains(&-INFINITE) {
        return None;
    }
    let total: f64 = logs.iter().sum();
    Some(settled_mean(total, logs.len()))
}

fn settled_mean(total: f64, n: usize) -> f64 {
    let mean = total / n as f64;
    if is_infinite(mean) { INFINITE.copysign(mean) } else { mean }
}

/// Return the pairs of a question, one for each block of the cell in which both arms have a value.
pub fn of(blocks: &[Block<'_>], question: &Question<'_>) -> Pairs {
    let mut found = Pairs::default();
    for block in blocks.iter().filter(|block| block.samples.iter().any(|s| s.cell == question.cell)) {
        let logs = arm_log(block, question, question.arm).zip(arm_log(block, question, question.baseline));
        match logs {
            Some((arm, baseline)) => {
                let log_ratio = settled(arm - baseline);
                found.pairs.push(Pair { boot: block.boot, block: block.block, log_ratio });
            }
            None => found.missing += 1,
        }
    }
    found
}

/// Return the mean over several cells, block by block: the logarithm of the geometric mean of their
/// ratios. Blocks in which a cell has no pair are left out.
pub fn mean_over_cells(cells: &[&[Pair]]) -> Vec<Pair> {
    let mut sums: BTreeMap<(u32, u32), (f64, usize)> = BTreeMap::new();
    for pair in cells.iter().copied().flatten() {
        let sum = sums.entry((pair.boot, pair.block)).or_default();
        *sum = (sum.0 + pair.log_ratio, sum.1 + 1);
    }
    let complete = sums.into_iter().filter(|(_, (_, n))| *n == cells.len());
    let mean = |((boot, block), (sum, n)): (_, (f64, usize))| Pair {
        boot,
        block,
        log_ratio: settled(sum / n as f64),
    };
    complete.map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ab::metric;
    use crate::ab::sample::{Sample, tests::sample, valid_blocks};
    use proptest::prelude::*;

    /// Return one ABBA block, with values of `name` in the order of visits.
    fn block(name: &str, [a, b, b2, a2]: [f64; 4]) -> Vec<Sample> {
        let visits = [("a", a), ("b", b), ("b", b2), ("a", a2)];
        let sample =
            |(visit, (arm, value)): (u32, (&str, f64))| sample([0, 0, visit, 1], arm, "c", &[(name, value)]);
        (0..).zip(visits).map(sample).collect()
    }

    fn log_ratio(name: &str, values: [f64; 4], arm: &str, baseline: &str) -> Option<f64> {
        let samples = block(name, values);
        let question = Question { cell: "c", name, metric: metric::of(name), arm, baseline };
        of(&valid_blocks(&samples), &question).pairs.first().map(|p| p.log_ratio)
    }

    const INF: f64 = f64::INFINITY;

    #[test]
    fn a_block_gives_the_ratio_of_geometric_means() {
        let found = log_ratio("stp", [1.0, 3.0, 12.0, 4.0], "b", "a").unwrap();
        assert!((found.exp() - 3.0).abs() < 1e-12);
    }

    #[test]
    fn zero_and_infinite_are_beyond_everything_and_never_dropped() {
        // An infinite slowdown is the worst value of antt. For stp, the worst is a throughput of
        // zero.
        assert_eq!(log_ratio("antt", [1.0, INF, 2.0, 1.0], "b", "a"), Some(INFINITE));
        assert_eq!(log_ratio("stp", [1.0, INF, 2.0, 1.0], "b", "a"), Some(-INFINITE));
        assert_eq!(log_ratio("progress_min", [1.0, 0.0, 0.0, 1.0], "a", "b"), Some(INFINITE));
        assert_eq!(log_ratio("antt", [INF, INF, INF, INF], "b", "a"), Some(0.0));
        assert_eq!(log_ratio("antt", [0.0, INF, INF, 0.0], "b", "a"), Some(INFINITE));
        assert_eq!(log_ratio("antt", [1.0, INF, 0.0, 1.0], "b", "a"), None);
        assert_eq!(log_ratio("migrations_per_s", [0.0; 4], "b", "a"), Some(0.0));
        assert_eq!(log_ratio("migrations_per_s", [1.0, INF, 1.0, 1.0], "b", "a"), None);
        assert_eq!((ratio(INFINITE / 40.0), ratio(-INFINITE), ratio(0.0)), (INF, 0.0, 1.0));
    }

    #[test]
    fn missing_values_are_counted() {
        let samples = block("stp", [1.0; 4]);
        let question =
            Question { cell: "c", name: "antt", metric: metric::of("antt"), arm: "b", baseline: "a" };
        assert_eq!(of(&valid_blocks(&samples), &question), Pairs { pairs: vec![], missing: 1 });
        let elsewhere = Question { cell: "of another machine", name: "stp", ..question };
        assert_eq!(of(&valid_blocks(&samples), &elsewhere), Pairs::default());
    }

    #[test]
    fn means_over_cells_are_geometric_and_only_over_complete_blocks() {
        let pair = |block, ratio: f64| Pair { boot: 0, block, log_ratio: ratio.ln() };
        let mean = mean_over_cells(&[&[pair(0, 2.0), pair(1, 3.0)], &[pair(0, 8.0)]]);
        assert_eq!(mean.len(), 1);
        assert!((mean[0].log_ratio.exp() - 4.0).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn swapping_negates_pairs_and_scaling_preserves_them(
            values in proptest::array::uniform4(0.001f64..1000.0), scale in 0.001f64..1000.0
        ) {
            let forth = log_ratio("stp", values, "b", "a").unwrap();
            prop_assert_eq!(forth, -log_ratio("stp", values, "a", "b").unwrap());
            let scaled = log_ratio("stp", values.map(|v| v * scale), "b", "a").unwrap();
            prop_assert!((scaled - forth).abs() < 1e-9);
        }
    }
}
