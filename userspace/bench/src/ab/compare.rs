// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Comparison of two versions of a scheduler, each measured against the same baseline in its own
//! run.
//!
//! # Problem
//! "Is the new version better than the last release?" The runs are from different days, so their
//! raw figures cannot be compared. But each run has measured the baseline as well.
//!
//! # Approach
//! The ratio of ratios: (new arm / its baseline) / (old arm / its baseline), see
//! [`super::stats::estimate`]. The p-values are adjusted over the metrics of a cell [Holm79].
//! Verdicts follow the rule of a report.
//!
//! # Invariants
//! * Swapping the runs mirrors the estimates. It also mirrors the intervals, except for the
//!   resampling.
//! * Runs that differ in machine, emulation, kernel, host CPU, stretch, baseline or cells are
//!   refused. If forced, only their common cells are compared, and the differences are listed.
//!
//! # Limits
//! The comparison is less precise than one run with both versions, because the noise of both
//! baselines enters. Infinite ratios have no difference: such metrics are inconclusive.

use super::metric::{self, Direction};
use super::report::format::{self, Change};
use super::sample::{Run, valid_blocks};
use super::stats::estimate::Difference;
use super::stats::pairs::{self, Question};
use super::stats::{Verdict, p_values, verdict};
use super::store::{self, Stored};
use crate::{Error, Result};
use comfy_table::{CellAlignment, Table, TableComponent, presets};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

/// Format of a comparison.
pub const COMPARE_SCHEMA: &str = "bias-bench.compare/1";

/// Comparison of two runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Format, see [`COMPARE_SCHEMA`].
    pub schema: String,
    /// Name of the baseline of both runs.
    pub baseline: String,
    /// Conditions in which the runs differ although they should not. Empty unless forced.
    pub differences: Vec<String>,
    /// One row per arm, cell and metric.
    pub rows: Vec<ComparedRow>,
}

/// Comparison of one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparedRow {
    /// The arm in the old run.
    pub old_arm: String,
    /// The arm in the new run.
    pub new_arm: String,
    /// The cell.
    pub cell: String,
    /// The metric.
    pub metric: String,
    /// Direction in which the metric is better.
    pub direction: Direction,
    /// Ratio of the old arm to its baseline.
    #[serde(with = "format::number")]
    pub old_ratio: Option<f64>,
    /// Ratio of the new arm to its baseline.
    #[serde(with = "format::number")]
    pub new_ratio: Option<f64>,
    /// Ratio of the new ratio to the old one.
    #[serde(flatten)]
    pub change: Change,
    /// p-value, adjusted [Holm79] over the metrics of the cell.
    #[serde(with = "format::number")]
    pub p_holm: Option<f64>,
    /// Verdict on the new version against the old one.
    pub verdict: Verdict,
    /// Number of blocks in the old and in the new run.
    pub blocks: [usize; 2],
}

/// Compare the run in `new` with the one in `old`. With `force`, also compare runs that differ in
/// more than the scheduler.
pub fn compare_dirs(old: &Path, new: &Path, force: bool) -> Result<Comparison> {
    compare(&store::load(old)?, &store::load(new)?, force)
}

/// Compare two loaded runs, as [`compare_dirs`] does.
pub fn compare(old: &Stored, new: &Stored, force: bool) -> Result<Comparison> {
    let differences = differences(&old.run, &new.run);
    if !force && !differences.is_empty() {
        return Err(Error::Usage(format!(
            "these runs cannot be compared: {}; measure again under the same conditions, or force it",
            differences.join("; ")
        )));
    }
    let arms = matching_arms(&old.run, &new.run)?;
    let (old_cells, new_cells) = (cell_names(&old.run), cell_names(&new.run));
    let cells: Vec<&str> = old_cells.intersection(&new_cells).copied().collect();
    if cells.is_empty() {
        return Err(Error::Usage(format!(
            "these runs have no cell in common: {} and {}; measure the same workloads",
            Vec::from_iter(old_cells).join(", "),
            Vec::from_iter(new_cells).join(", ")
        )));
    }
    let mut rows = Vec::new();
    for (old_arm, new_arm) in &arms {
        for cell in &cells {
            for neutral in [false, true] {
                rows.extend(family(old, new, [old_arm, new_arm], cell, neutral));
            }
        }
    }
    let baseline = new.run.baseline.clone();
    Ok(Comparison { schema: COMPARE_SCHEMA.into(), baseline, differences, rows })
}

fn cell_names(run: &Run) -> BTreeSet<&str> {
    run.cells.iter().map(|cell| cell.name.as_str()).collect()
}

/// Return the conditions in which two runs differ although a comparison needs them equal.
fn differences(old: &Run, new: &Run) -> Vec<String> {
    let mut found = Vec::new();
    let mut check = |what: &str, old: &str, new: &str| {
        if old != new {
            found.push(format!("{what} is '{old}' in one and '{new}' in the other"));
        }
    };
    check("the machine", &old.machine, &new.machine);
    check("the kernel", &old.kernel, &new.kernel);
    check("the baseline", &old.baseline, &new.baseline);
    check("the host's CPU", &old.host.cpu, &new.host.cpu);
    check("emulation", &old.emulated.to_string(), &new.emulated.to_string());
    check("the stretch", &format::sig(old.stretch), &format::sig(new.stretch));
    for (name, workload) in old.cells.iter().map(|c| (&c.name, &c.workload)) {
        let other = new.cells.iter().find(|c| c.name == *name).map(|c| c.workload.as_str());
        check(&format!("cell {name}"), workload, other.unwrap_or("missing"));
    }
    for cell in cell_names(new).difference(&cell_names(old)) {
        check(&format!("cell {cell}"), "missing", "there");
    }
    found
}

/// Return the arms that have the same name in both runs. If each run has only one arm, pair these
/// regardless of their names.
fn matching_arms(old: &Run, new: &Run) -> Result<Vec<(String, String)>> {
    let arms =
        |run: &Run| -> Vec<String> { run.arms.iter().filter(|arm| **arm != run.baseline).cloned().collect() };
    let (old, new) = (arms(old), arms(new));
    if let ([old], [new]) = (old.as_slice(), new.as_slice()) {
        return Ok(vec![(old.clone(), new.clone())]);
    }
    let both: Vec<_> =
        old.iter().filter(|arm| new.contains(arm)).map(|arm| (arm.clone(), arm.clone())).collect();
    if both.is_empty() {
        return Err(Error::Usage(format!(
            "these runs have no arm in common besides the baseline: {} and {}; give the arms the same name",
            old.join(", "),
            new.join(", ")
        )));
    }
    Ok(both)
}

/// Return the rows of one cell whose metrics are judged together.
fn family(
    old: &Stored,
    new: &Stored,
    [old_arm, new_arm]: [&str; 2],
    cell: &str,
    neutral: bool,
) -> Vec<ComparedRow> {
    let pairs_of = |stored: &Stored, arm: &str, name: &str| {
        let baseline = stored.run.baseline.as_str();
        let question = Question { cell, name, metric: metric::of(name), arm, baseline };
        pairs::of(&valid_blocks(&stored.samples), &question).pairs
    };
    let names = |stored: &Stored| -> BTreeSet<String> {
        let samples = stored.samples.iter().filter(|s| s.cell == cell);
        samples.flat_map(|s| s.metrics.keys().cloned()).collect()
    };
    let is_member = |name: &String| (metric::of(name).direction == Direction::Neutral) == neutral;
    let mut shared: Vec<String> =
        names(old).intersection(&names(new)).filter(|name| is_member(name)).cloned().collect();
    shared.sort_by(|a, b| metric::order(a).cmp(&metric::order(b)));
    let mut rows = Vec::new();
    let mut p_values = Vec::new();
    for name in shared {
        let sides = [pairs_of(old, old_arm, &name), pairs_of(new, new_arm, &name)];
        let difference = Difference::of([&sides[0], &sides[1]], [old.run.seed, new.run.seed]);
        p_values.push(difference.p);
        rows.push((name, sides.map(|s| s.len()), difference));
    }
    let zone = old.run.dead_zone.max(new.run.dead_zone);
    let adjusted = p_values::adjusted(&p_values);
    let row = |((metric, blocks, d), p_holm): ((String, [usize; 2], Difference), Option<f64>)| {
        let direction = metric::of(&metric).direction;
        ComparedRow {
            old_arm: old_arm.into(),
            new_arm: new_arm.into(),
            cell: cell.into(),
            direction,
            old_ratio: d.sides[0].map(pairs::ratio),
            new_ratio: d.sides[1].map(pairs::ratio),
            change: Change::of(d.estimate, d.interval),
            p_holm,
            verdict: verdict(direction, d.estimate, d.interval, p_holm, zone),
            metric,
            blocks,
        }
    };
    rows.into_iter().zip(adjusted).map(row).collect()
}

impl Comparison {
    /// Return the comparison as text for a terminal.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for difference in &self.differences {
            let _ = writeln!(out, "! forced although {difference}");
        }
        let mut table = Table::new();
        table.load_preset(presets::NOTHING).set_style(TableComponent::HeaderLines, '─');
        table.set_header(["arm", "cell", "metric", "old", "new", "new/old", "p", "verdict", "blocks"]);
        for row in &self.rows {
            let arm = if row.old_arm == row.new_arm {
                row.new_arm.clone()
            } else {
                format!("{} -> {}", row.old_arm, row.new_arm)
            };
            table.add_row([
                arm,
                row.cell.clone(),
                row.metric.clone(),
                row.old_ratio.map_or("-".into(), format::change),
                row.new_ratio.map_or("-".into(), format::change),
                row.change.text(),
                format::p_value(row.p_holm),
                row.verdict.name().into(),
                format!("{}, {}", row.blocks[0], row.blocks[1]),
            ]);
        }
        for right in 3..=6 {
            if let Some(column) = table.column_mut(right) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table.lines().for_each(|line| out.extend([line.trim_end(), "\n"]));
        let _ = writeln!(
            out,
            "\nold, new: change of the arm against {} in its own run; new/old: their ratio, with its 95 % interval",
            self.baseline
        );
        out
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{RunCell, tests::sample};
    use super::*;

    /// Return a run whose arm has the ratio `gain` to the baseline.
    fn stored(arm: &str, gain: f64, drift: f64, seed: u64) -> Stored {
        let cells =
            vec![RunCell { name: "c".into(), workload: "mix".into(), machine: None, diversity: None }];
        let run = Run { arms: vec!["default".into(), arm.into()], cells, seed, ..Run::default() };
        let mut samples = Vec::new();
        for block in 0..10u32 {
            for (visit, name) in (0..).zip(["default", arm, arm, "default"]) {
                let noise = 1.0 + 0.002 * f64::from((block * 4 + visit + seed as u32) * 37 % 11) / 11.0;
                let value = drift * noise * if name == arm { gain } else { 1.0 };
                samples.push(sample(
                    [0, block, visit, 1],
                    name,
                    "c",
                    &[("stp", value), ("antt", 2.0 / value)],
                ));
            }
        }
        Stored { run, samples, torn: false }
    }

    #[test]
    fn drift_between_runs_does_not_hide_a_better_version() {
        let (old, new) = (stored("v1", 1.00, 1.0, 1), stored("v2", 1.05, 0.7, 2));
        let there = compare(&old, &new, false).unwrap();
        assert_eq!(there.rows.len(), 2);
        for row in &there.rows {
            assert_eq!(row.verdict, Verdict::Better, "{row:?}");
        }
        assert!((there.rows[0].change.ratio.unwrap() - 1.05).abs() < 0.002);
        let back = compare(&new, &old, false).unwrap();
        assert!(back.rows.iter().all(|row| row.verdict == Verdict::Worse));
        assert!(there.text().contains("v1 -> v2") && there.schema == COMPARE_SCHEMA);
    }

    #[test]
    fn equal_versions_compare_as_same() {
        let comparison = compare(&stored("a", 1.1, 1.0, 1), &stored("a", 1.1, 1.2, 1), false).unwrap();
        assert!(comparison.rows.iter().all(|row| row.verdict == Verdict::Same), "{}", comparison.text());
    }

    #[test]
    fn runs_under_other_conditions_are_refused_unless_forced() {
        let old = stored("a", 1.0, 1.0, 1);
        let mut new = stored("a", 1.0, 1.0, 2);
        new.run.kernel = "7.0".into();
        new.run.cells.push(RunCell { name: "d".into(), ..RunCell::default() });
        let error = compare(&old, &new, false).unwrap_err().to_string();
        assert!(error.contains("the kernel is '' in one and '7.0'") && error.contains("cell d"), "{error}");
        let forced = compare(&old, &new, true).unwrap();
        assert_eq!(forced.differences.len(), 2);
        assert_eq!(forced.rows.len(), 2);
    }

    #[test]
    fn arms_and_cells_need_a_partner() {
        let mut old = stored("a", 1.0, 1.0, 1);
        old.run.arms.push("b".into());
        let mut new = stored("c", 1.0, 1.0, 1);
        assert!(compare(&old, &new, false).unwrap_err().to_string().contains("no arm in common"));
        new.run.arms = old.run.arms.clone();
        new.run.cells.clear();
        assert!(compare(&old, &new, true).unwrap_err().to_string().contains("no cell in common"));
    }

    #[test]
    fn infinite_ratios_have_no_difference() {
        let old = stored("a", 1.0, 1.0, 1);
        let mut new = stored("a", 1.0, 1.0, 2);
        for s in new.samples.iter_mut().filter(|s| s.arm == "a") {
            s.metrics.insert("antt".into(), f64::INFINITY);
        }
        let rows = compare(&old, &new, false).unwrap().rows;
        let antt = rows.iter().find(|row| row.metric == "antt").unwrap();
        assert_eq!((antt.verdict, antt.new_ratio), (Verdict::Inconclusive, Some(f64::INFINITY)));
    }
}
