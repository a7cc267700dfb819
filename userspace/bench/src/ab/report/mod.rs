// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Reports of a run, as text, HTML and JSON.
//!
//! # Problem
//! The reader of a result was not there when it was measured. Losses and gains must be obvious. The
//! report must also show the machine, the uncertainty, the discarded data and the command that
//! repeats the run.
//!
//! # Approach
//! A [`Report`] is computed once from the samples. Text, [`html`] and JSON only show it. Rows are
//! sorted by arm, cell and metric, never by outcome. The summary names losses before gains.
//!
//! # Invariants
//! * The same directory gives the same bytes.
//! * Incomplete blocks are never judged, and all of them are counted.
//!
//! # Limits
//! All arms are compared with the one baseline, not with each other.

pub mod format;
pub mod gate;
#[cfg(test)]
mod golden;
pub mod html;
mod model;
mod rows;
pub mod svg;
mod text;

pub use self::model::{ALL_CELLS, REPORT_SCHEMA, Report, Row, Series};

use super::sample::{Run, Sample, Tally};
use super::store::{self, Stored};
use crate::{Error, Result};
use std::path::Path;

/// File name of the report in JSON.
pub const JSON_FILE: &str = "report.json";
/// File name of the report in HTML.
pub const HTML_FILE: &str = "report.html";
impl Report {
    /// Read a run and judge it.
    pub fn from_dir(dir: &Path) -> Result<Report> {
        let Stored { run, samples, torn } = store::load(dir)?;
        let mut report = Report::new(run, &samples);
        if torn {
            report.warnings.push("The last sample was cut short by a crash and is left out.".into());
        }
        Ok(report)
    }

    /// Judge a run.
    pub fn new(run: Run, samples: &[Sample]) -> Report {
        let built = rows::build(&run, samples);
        let blocks = Tally::of(samples);
        let warnings = warnings(&run, samples);
        let schema = REPORT_SCHEMA.into();
        Report { schema, run, blocks, warnings, rows: built.rows, means: built.means, series: built.series }
    }

    /// Return the report as JSON.
    pub fn json(&self) -> Result<String> {
        let text = serde_json::to_string_pretty(self).map_err(|e| Error::failed("writing the report", e))?;
        Ok(text + "\n")
    }

    /// Return the report as text for a terminal.
    pub fn text(&self) -> String {
        text::of(self)
    }

    /// Return the report as one HTML page that needs no other file, for a browser or for print.
    pub fn html(&self) -> String {
        html::of(self)
    }

    /// Write `report.json` and `report.html` into a directory.
    pub fn write(&self, dir: &Path) -> Result<()> {
        store::write_whole(&dir.join(JSON_FILE), self.json()?.as_bytes())?;
        store::write_whole(&dir.join(HTML_FILE), self.html().as_bytes())
    }
}

/// Return the reasons to doubt the result of a run.
fn warnings(run: &Run, samples: &[Sample]) -> Vec<String> {
    let mut warnings = Vec::new();
    if !run.complete {
        let why = run.incomplete_why.as_deref().unwrap_or("it was interrupted, or is still under way");
        warnings.push(format!("INCOMPLETE: {}.", why.lines().next().unwrap_or_default()));
    }
    if !run.unstretched_arms.is_empty() {
        let arms = run.unstretched_arms.join(", ");
        warnings.push(format!("Not stretched like the others, so at an advantage or disadvantage: {arms}."));
    }
    for arm in run.arms.iter().filter(|arm| !samples.iter().any(|s| s.arm == **arm)) {
        warnings.push(format!("Arm {arm} has no samples."));
    }
    if !samples.iter().any(|s| s.arm == run.baseline) {
        warnings.push(format!("The baseline {} has no samples, so nothing is judged.", run.baseline));
    }
    for (arm, why) in &run.failed_arms {
        let line = why.lines().next().unwrap_or_default();
        warnings.push(format!("Arm {arm} failed and was dropped: {line}."));
    }
    if run.dead_zone < 0.0 || !run.dead_zone.is_finite() {
        warnings.push("The dead zone is not a share; 0 is used.".into());
    }
    warnings
}
