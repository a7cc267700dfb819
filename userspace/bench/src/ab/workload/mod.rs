//! Workloads: what a cell of a comparison runs under each arm.
//!
//! Problem: schedulers differ in many ways (placement, latency, cost of a switch, fairness), and no single program shows them
//! all; but plan, runner and statistics should know nothing of what a workload is.
//!
//! Approach: one trait, [`Workload`], for everything that can be run: it has a text form, says which solo rates it needs and
//! what is missing on this machine, and turns one run into metrics by registry name. [`parse`] makes one of its text form,
//! [`list`] describes them all. The workloads are written here, so that what they do is known; `tool` runs programs of others.
//!
//! Invariants: `parse(w.name())` is the same workload. A run yields every metric that its [`Description`] lists, always, those
//! `with_pmu` where the amp PMU exists, and no others. Nothing that a run started outlives it, whether it succeeds or fails.
//!
//! Limits: one run at a time; the caller has one thread (workloads that need threads fork first, see `child`).

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

/// What a cell needs to know of the machine and the run.
#[derive(Debug, Clone, Copy)]
pub struct Env<'a> {
    /// Solo rates; must hold all that [`Workload::kinds`] names.
    pub solo: &'a Solo,
    /// Time in which the workload runs unmeasured.
    pub warmup: Duration,
    /// Time in which it is measured. Fixed work is repeated until this is over.
    pub window: Duration,
    /// How much slower than hardware this machine is: the workloads' own periods are multiplied by it. 1 on hardware.
    pub stretch: f64,
    /// Static placement of the tasks of a mix: the CPU of each, or none.
    pub pins: Option<&'a [Option<usize>]>,
}

impl Env<'_> {
    /// A period of hardware in the time of this machine.
    fn stretched(&self, period: Duration) -> Duration {
        let factor = if self.stretch.is_finite() { self.stretch.clamp(0.001, 10_000.0) } else { 1.0 };
        period.mul_f64(factor)
    }
}

/// Result of one run of a cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Metrics by registry name; finite.
    pub metrics: BTreeMap<String, f64>,
    /// Raw figures, for whoever wants to know why.
    pub detail: Value,
}

/// Something that can be run under an arm.
pub trait Workload: fmt::Debug {
    /// Its text form, which [`parse`] reads.
    fn name(&self) -> String;

    /// Kinds of task whose solo rates it needs.
    fn kinds(&self) -> Vec<Kind> {
        Vec::new()
    }

    /// What this machine lacks to run it, with the remedy; None if nothing.
    fn missing(&self) -> Option<String> {
        None
    }

    /// Runs it once.
    fn run(&self, env: &Env) -> Result<Outcome>;
}

/// A workload for people who choose one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Description {
    /// What its text form begins with.
    pub name: &'static str,
    /// How to write it.
    pub syntax: &'static str,
    /// What it does and what that measures.
    pub measures: &'static str,
    /// Metrics that every run yields; `<kind>` stands for each kind of task in it.
    pub metrics: &'static [&'static str],
    /// Metrics that it yields besides where the amp PMU exists.
    pub with_pmu: &'static [&'static str],
}

/// All workloads.
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

/// Makes a workload of its text form.
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

/// A text that is no workload and no mix either. `why`: what is wrong with it as a mix, which lists the kinds.
fn unknown(text: &str, why: &str) -> String {
    let known: Vec<&str> = list().iter().skip(1).map(|known| known.name).collect();
    format!("'{text}' is neither a workload ({}) nor a mix of tasks: {why}", known.join(", "))
}

/// Parses `:N` with N in `range`, or nothing; None if it is neither.
fn optional_count(rest: &str, range: std::ops::RangeInclusive<usize>) -> Option<Option<usize>> {
    if rest.is_empty() {
        return Some(None);
    }
    count(rest.strip_prefix(':')?, range).map(Some)
}

/// Parses a number in `range`, in digits only, as it would be printed.
fn count(text: &str, range: std::ops::RangeInclusive<usize>) -> Option<usize> {
    let n = text.parse().ok().filter(|n| range.contains(n))?;
    (n.to_string() == text).then_some(n)
}

/// Checks that all metrics are finite: only those can be compared.
fn outcome(metrics: BTreeMap<String, f64>, detail: Value) -> Result<Outcome> {
    match metrics.iter().find(|(_, value)| !value.is_finite()) {
        Some((name, value)) => Err(Error::failed(name, format!("{value} is no result; lengthen the window"))),
        None => Ok(Outcome { metrics, detail }),
    }
}

#[cfg(test)]
mod tests;
