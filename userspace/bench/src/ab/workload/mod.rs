//! Workloads: the programs that a cell of a comparison runs under each arm.
//!
//! # Problem
//! Schedulers differ in many ways (placement, latency, cost of a switch, fairness), and no single
//! program shows them all. But plan, runner and statistics should not depend on the workload.
//!
//! # Approach
//! One trait, [`Workload`], covers everything that can be run. A workload has a text form. It names
//! the solo rates that it needs and the parts that this machine lacks. It turns one run into
//! metrics by registry name. [`parse`] makes a workload from its text form, and [`list`] describes
//! all of them. The workloads are written here, so that their work is known. `tool` runs
//! third-party programs.
//!
//! # Invariants
//! * `parse(w.name())` is the same workload.
//! * A run always yields every metric that its [`Description`] lists, those of `with_pmu` where the
//!   amp PMU exists, and no others.
//! * Nothing that a run has started outlives it, whether it succeeds or fails.
//!
//! # Limits
//! Only one run at a time. The caller has one thread. Workloads that need threads fork first, see
//! `child`.

mod barrier;
mod child;
mod forks;
mod groups;
mod interactive;
mod mix;
mod pingpong;
mod series;
mod shuffled;
mod team;
mod tool;
mod triad;
mod wakeup;

pub use mix::Mix;

use crate::solo::Solo;
use crate::spec::Kind;
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
    fn stretched(&self, period: Duration) -> Duration {
        let factor = if self.stretch.is_finite() { self.stretch.clamp(0.001, 10_000.0) } else { 1.0 };
        period.mul_f64(factor)
    }
}

/// Result of one run of a cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Metrics by registry name. All are finite.
    pub metrics: BTreeMap<String, f64>,
    /// Raw figures that help to explain the metrics.
    pub detail: Value,
}

/// A program that can run under an arm.
pub trait Workload: fmt::Debug {
    /// Return the text form, which [`parse`] reads.
    fn name(&self) -> String;

    /// Return the kinds of task whose solo rates the workload needs.
    fn kinds(&self) -> Vec<Kind> {
        Vec::new()
    }

    /// Return the part that this machine lacks to run the workload, with the remedy. None if
    /// nothing is missing.
    fn missing(&self) -> Option<String> {
        None
    }

    /// Run the workload once.
    fn run(&self, env: &Env) -> Result<Outcome>;
}

/// Description of a workload, for users who choose one.
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

/// Return the descriptions of all workloads.
pub fn list() -> Vec<Description> {
    let own = [
        mix::DESCRIPTION,
        shuffled::DESCRIPTION,
        interactive::DESCRIPTION,
        wakeup::DESCRIPTION,
        pingpong::DESCRIPTION,
        groups::DESCRIPTION,
        forks::DESCRIPTION,
        barrier::DESCRIPTION,
        triad::DESCRIPTION,
    ];
    own.into_iter().chain(tool::descriptions()).collect()
}

/// Make a workload from its text form.
pub fn parse(text: &str) -> std::result::Result<Box<dyn Workload>, String> {
    let end = text.find([':', '@', '+']).unwrap_or(text.len());
    let (head, rest) = text.split_at(end);
    let parsed: Option<Box<dyn Workload>> = match head {
        "shuffled" => return Ok(Box::new(shuffled::Shuffled::parse(rest)?)),
        "interactive" => return Ok(Box::new(interactive::Interactive::parse(rest)?)),
        "wakeup" => wakeup::Wakeup::parse(rest).map(boxed),
        "pingpong" => pingpong::Pingpong::parse(rest).map(boxed),
        "groups" => groups::Groups::parse(rest).map(boxed),
        "forks" => forks::Forks::parse(rest).map(boxed),
        "barrier" => barrier::Barrier::parse(rest).map(boxed),
        "triad" => triad::Triad::parse(rest).map(boxed),
        "tool" => tool::Tool::parse(rest).map(boxed),
        _ => return mix::Mix::parse(text).map(boxed).map_err(|why| unknown(text, &why)),
    };
    let syntax = || {
        let known = list().into_iter().filter(|known| known.name.split(':').next() == Some(head));
        known.map(|known| known.syntax).collect::<Vec<_>>().join(", ")
    };
    parsed.ok_or_else(|| format!("'{text}' is not a workload; write {}", syntax()))
}

fn boxed(workload: impl Workload + 'static) -> Box<dyn Workload> {
    Box::new(workload)
}

/// Return the error for a text that is neither a workload nor a mix. `why` is the error as a mix,
/// which lists the kinds.
fn unknown(text: &str, why: &str) -> String {
    let known: Vec<&str> = list().iter().skip(1).map(|known| known.name).collect();
    format!("'{text}' is neither a workload ({}) nor a mix of tasks: {why}", known.join(", "))
}

/// Parse `:N` with N in `range`, or an empty text. None for other texts.
fn optional_count(rest: &str, range: std::ops::RangeInclusive<usize>) -> Option<Option<usize>> {
    if rest.is_empty() {
        return Some(None);
    }
    count(rest.strip_prefix(':')?, range).map(Some)
}

/// Parse a number in `range`, written as it would be printed: digits only, without leading zeros.
fn count(text: &str, range: std::ops::RangeInclusive<usize>) -> Option<usize> {
    let n = text.parse().ok().filter(|n| range.contains(n))?;
    (n.to_string() == text).then_some(n)
}

/// Check that all metrics are finite, because only finite ones can be compared.
fn outcome(metrics: BTreeMap<String, f64>, detail: Value) -> Result<Outcome> {
    match metrics.iter().find(|(_, value)| !value.is_finite()) {
        Some((name, value)) => Err(Error::failed(name, format!("{value} is no result; lengthen the window"))),
        None => Ok(Outcome { metrics, detail }),
    }
}

#[cfg(test)]
mod tests;
