// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The interface of the workloads, and the parts of it that they share.

use crate::ab::sample::Measured;
use crate::solo::Solo;
use crate::spec::{Mix, WorkKind};
use crate::{Error, Result};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Machine and conditions of a run of a cell.
#[derive(Debug, Clone, Copy)]
pub struct Env<'a> {
    /// Solo rates of all kinds that [`Workload::kinds`] names.
    pub solo: &'a Solo,
    /// Time for which the workload runs unmeasured.
    pub warmup: Duration,
    /// Time for which the workload is measured. Fixed work is repeated until this is over.
    pub window: Duration,
    /// Factor by which this machine is slower than hardware. The workloads' own periods are
    /// multiplied by it. 1 on hardware.
    pub stretch: f64,
    /// Static placement of the tasks of a mix: a CPU for each, or None for a free task. None
    /// without a placement.
    pub pins: Option<&'a [Option<usize>]>,
}

impl Env<'_> {
    /// Convert a period of hardware to this machine's time.
    pub(super) fn stretched(&self, period: Duration) -> Duration {
        let factor = if self.stretch.is_finite() { self.stretch.clamp(0.001, 10_000.0) } else { 1.0 };
        period.mul_f64(factor)
    }
}

/// A program that can run under an arm.
pub trait Workload: fmt::Debug {
    /// Return the text form, which [`parse`] reads.
    fn name(&self) -> String;

    /// Return the kinds of task whose solo rates the workload needs.
    fn kinds(&self) -> Vec<WorkKind> {
        Vec::new()
    }

    /// Return the tasks that a static arm may pin. None if the workload places its own tasks.
    fn batch(&self) -> Option<&Mix> {
        None
    }

    /// Return the part that this machine lacks to run the workload, with the remedy. None if
    /// nothing is missing.
    fn missing(&self) -> Option<String> {
        None
    }

    /// Run the workload once.
    fn run(&self, env: &Env) -> Result<Measured>;
}

/// Description of a workload for `bias-bench list`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Description {
    /// Beginning of the text form.
    pub name: &'static str,
    /// Syntax of the text form.
    pub syntax: &'static str,
    /// Work of the workload, and the property that it measures.
    pub measures: &'static str,
    /// Metrics that every run yields. `<kind>` stands for each kind of task in the workload.
    pub metrics: &'static [&'static str],
    /// Additional metrics where the amp PMU exists.
    pub with_pmu: &'static [&'static str],
}

/// Parse `:N` with N in `range`, or an empty text. None for other texts.
pub(super) fn optional_count(rest: &str, range: std::ops::RangeInclusive<usize>) -> Option<Option<usize>> {
    if rest.is_empty() {
        return Some(None);
    }
    count(rest.strip_prefix(':')?, range).map(Some)
}

/// Parse a number in `range`, written as it would be printed: digits only, without leading zeros.
pub(super) fn count(text: &str, range: std::ops::RangeInclusive<usize>) -> Option<usize> {
    let n = text.parse().ok().filter(|n| range.contains(n))?;
    (n.to_string() == text).then_some(n)
}

/// Check that all metrics are finite, because only finite ones can be compared.
pub(super) fn measured(metrics: BTreeMap<String, f64>, detail: Value) -> Result<Measured> {
    match metrics.iter().find(|(_, value)| !value.is_finite()) {
        Some((name, value)) => {
            Err(Error::failed(name, format!("{value} is not a result; lengthen the window")))
        }
        None => Ok(Measured { metrics, detail }),
    }
}
