// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A judged run, its rows, and the facts that every form of the report shows.

use super::format::{self, Change};
use crate::ab::metric::Direction;
use crate::ab::sample::{Run, Tally};
use crate::ab::stats::Verdict;
use serde::{Deserialize, Serialize};

/// Format of `report.json`.
pub const REPORT_SCHEMA: &str = "bias-bench.report/2";
/// Stand-in for the name of a cell in a mean over all cells.
pub const ALL_CELLS: &str = "geometric mean";

/// A judged run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Format, see [`REPORT_SCHEMA`].
    pub schema: String,
    /// Description of the run.
    pub run: Run,
    /// Counts of complete and incomplete blocks.
    pub blocks: Tally,
    /// Reasons to doubt the result, one sentence each.
    pub warnings: Vec<String>,
    /// One row per comparison, sorted by arm, cell and metric.
    pub rows: Vec<Row>,
    /// Geometric means over the cells of a machine, by arm and metric.
    pub means: Vec<Row>,
    /// Raw figures by cell, metric and arm, used by the plots. They are stored with the samples,
    /// not in `report.json`.
    #[serde(skip)]
    pub series: Vec<Series>,
}

/// Comparison of an arm with the baseline, on one metric of one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The arm.
    pub arm: String,
    /// The cell, or [`ALL_CELLS`]. The machine's name precedes it if the run has several.
    pub cell: String,
    /// The metric.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Direction in which the metric is better.
    pub direction: Direction,
    /// Median of the baseline's samples. "inf" in JSON if infinite.
    #[serde(with = "format::number")]
    pub baseline_median: Option<f64>,
    /// Median of the arm's samples.
    #[serde(with = "format::number")]
    pub arm_median: Option<f64>,
    /// Ratio of the arm to the baseline: the Hodges-Lehmann estimate from the blocks.
    #[serde(flatten)]
    pub change: Change,
    /// Sign-flip p-value.
    #[serde(with = "format::number")]
    pub p: Option<f64>,
    /// The p-value, adjusted [Holm79] over the metrics of this arm and cell.
    #[serde(with = "format::number")]
    pub p_holm: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
    /// Blocks that were compared.
    pub blocks: usize,
    /// Valid blocks without a value of this metric.
    pub missing: usize,
    /// Reason why there is no verdict. None if no explanation is needed.
    pub note: Option<String>,
}

/// Samples behind a row: values of one metric in one cell under one arm, from valid blocks only.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The cell.
    pub cell: String,
    /// The metric.
    pub metric: String,
    /// The arm.
    pub arm: String,
    /// One value per visit. May be infinite.
    pub values: Vec<f64>,
}

impl Report {
    /// Return the number of rows with this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.rows.iter().filter(|row| row.verdict == verdict).count()
    }

    /// Return the arms except for the baseline, in the order of the run. Arms that only the samples
    /// name come last.
    pub fn arms(&self) -> Vec<&str> {
        let mut arms: Vec<&str> = self.run.arms.iter().map(String::as_str).collect();
        arms.extend(self.rows.iter().map(|row| row.arm.as_str()));
        let mut seen = std::collections::BTreeSet::from([self.run.baseline.as_str()]);
        arms.retain(|arm| seen.insert(arm));
        arms
    }

    /// Return an arm's name, marked if its time constants could not be stretched.
    pub fn arm_label(&self, arm: &str) -> String {
        let marked = self.run.unstretched_arms.iter().any(|a| a == arm);
        if marked { format!("{arm} (unstretched)") } else { arm.to_string() }
    }

    /// Return the conditions of the run as (name, value).
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let run = &self.run;
        let or_unknown = |s: &str| if s.is_empty() { "unknown".to_string() } else { s.to_string() };
        let machine = match run.emulated {
            true => format!(
                "{}, emulated: time is stretched about 50-fold against hardware",
                or_unknown(&run.machine)
            ),
            false => or_unknown(&run.machine),
        };
        let stretch = match (run.emulated, run.stretch == 1.0) {
            (false, true) => "none: real time".to_string(),
            (true, true) => "none, though emulated: time constants are those of hardware".to_string(),
            _ => format!("{}-fold: slices and periods, where an arm has a knob", format::sig(run.stretch)),
        };
        let blocks = format!(
            "{} used of {} ({} boots of {}); {} incomplete",
            self.blocks.used,
            u64::from(run.boots) * u64::from(run.blocks),
            run.boots,
            run.blocks,
            self.blocks.incomplete
        );
        let mut facts = vec![
            ("suite", or_unknown(&run.suite)),
            ("kernel", or_unknown(&run.kernel)),
            ("machine", machine),
            ("stretch", stretch),
            ("host", format!("{}, {} CPUs", or_unknown(&run.host.cpu), run.host.cores)),
            ("baseline", run.baseline.clone()),
            ("blocks", blocks),
            ("dead zone", format!("{} %", format::sig(run.dead_zone * 100.0))),
            ("seed", run.seed.to_string()),
        ];
        if !run.command.is_empty() {
            facts.push(("replay", run.command.clone()));
        }
        facts
    }
}
