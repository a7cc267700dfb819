// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! One workload of the comparisons, run by hand under the active scheduler.
//!
//! The comparison (`ab`) answers which scheduler is better. This module shows the figures of one
//! workload under the present scheduler, in a scenario or while a change is under test.

use crate::ab::energy::EnergyMeter;
use crate::ab::metric;
use crate::ab::report::format::sig;
use crate::ab::sample::Measured;
use crate::ab::workload::{self, Env, Workload};
use crate::options::{Printable, factor, rounds, seconds};
use crate::sched::SchedExt;
use crate::{Error, Result, metrics, solo};
use clap::Args;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Workload, times and repetitions of a run.
#[derive(Debug, Clone, Args)]
pub struct OnceOptions {
    /// The workload, e.g. interactive+4compute, groups:2, barrier:4:static
    pub cell: String,
    /// Seconds measured per round. Rare events, and thus high percentiles, need long windows
    #[arg(long = "seconds", value_name = "SECONDS", value_parser = seconds, default_value = "2")]
    pub window: Duration,
    /// Seconds before the measurement. Raise it for schedulers that have to learn how tasks behave
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "0.5")]
    pub warmup: Duration,
    /// Repetitions, each with new processes; medians are reported
    #[arg(long, default_value = "1", value_parser = rounds)]
    pub rounds: u16,
    /// Factor on the workload's own periods. 5 suits the asymmetric VM with slices of 50 ms, 1
    /// suits hardware
    #[arg(long, value_parser = factor, default_value = "1")]
    pub stretch: f64,
    /// File of solo rates, as for `mix`
    #[arg(long)]
    pub solo: Option<PathBuf>,
    /// Report energy and energy-delay of a unit of work: energy_j where RAPL counters exist and are
    /// readable, else energy_model_j, a model (see docs/guides/ab.md)
    #[arg(long)]
    pub energy: bool,
}

/// All rounds.
#[derive(Debug, Clone, Serialize)]
pub struct OnceReport {
    /// Format of this report.
    pub schema: &'static str,
    /// The workload.
    pub cell: String,
    /// The sched_ext scheduler that was active, or "default".
    pub scheduler: String,
    /// Factor on the workload's periods.
    pub stretch: f64,
    /// Medians over the rounds.
    pub metrics: BTreeMap<String, f64>,
    /// Every round.
    pub rounds: Vec<Measured>,
}

/// Measure solo rates where the workload needs them, then run the rounds.
///
/// # Errors
/// The text is not a workload, a program is missing, or the workload itself fails.
pub fn run(options: &OnceOptions) -> Result<OnceReport> {
    let workload = workload::parse(&options.cell).map_err(Error::Usage)?;
    if let Some(missing) = workload.missing() {
        return Err(Error::Usage(missing));
    }
    let solo = solo::load_or_measure(options.solo.as_deref(), &workload.kinds(), None)?;
    let env = Env {
        solo: &solo,
        warmup: options.warmup,
        window: options.window,
        stretch: options.stretch,
        pins: None,
    };
    let meter = options.energy.then(|| EnergyMeter::find(Path::new("/"), &solo));
    if let Some(note) = meter.as_ref().and_then(|meter| meter.note.as_ref()) {
        eprintln!("bias-bench: {note}");
    }
    let mut rounds = Vec::new();
    for _ in 0..options.rounds {
        rounds.push(round(workload.as_ref(), &env, meter.as_ref())?);
    }
    Ok(OnceReport {
        schema: "bias-bench.run/1",
        cell: workload.name(),
        scheduler: SchedExt::system().active().unwrap_or_else(|| "default".into()),
        stretch: options.stretch,
        metrics: medians(&rounds),
        rounds,
    })
}

/// Run the workload once, with its energy if there is a meter.
fn round(workload: &dyn Workload, env: &Env<'_>, meter: Option<&EnergyMeter>) -> Result<Measured> {
    let Some(meter) = meter else { return workload.run(env) };
    let before = meter.read()?;
    let mut measured = workload.run(env)?;
    let energy = meter.metrics(&before, &meter.read()?, &measured.metrics);
    measured.metrics.extend(energy);
    Ok(measured)
}

/// Return the median of every metric that every round has.
fn medians(rounds: &[Measured]) -> BTreeMap<String, f64> {
    let Some(first) = rounds.first() else { return BTreeMap::new() };
    let of = |name: &String| {
        let values: Option<Vec<f64>> = rounds.iter().map(|round| round.metrics.get(name).copied()).collect();
        Some((name.clone(), metrics::median(&values?)?))
    };
    first.metrics.keys().filter_map(of).collect()
}

impl Printable for OnceReport {
    /// Return one line per metric, with its median and the rounds' values.
    fn text(&self) -> String {
        let mut out =
            format!("{} under {}, median of {} round(s)\n", self.cell, self.scheduler, self.rounds.len());
        let mut names: Vec<&String> = self.metrics.keys().collect();
        names.sort_by_key(|name| metric::order(name));
        for name in names {
            let each: Vec<String> = self.rounds.iter().map(|round| sig(round.metrics[name])).collect();
            let unit = metric::of(name).unit;
            let median = sig(self.metrics[name]);
            let _ = writeln!(out, "  {name:26} {median:>10} {unit:4} {}", each.join(" "));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(cell: &str) -> OnceOptions {
        let ms = Duration::from_millis;
        OnceOptions {
            cell: cell.into(),
            window: ms(100),
            warmup: ms(10),
            rounds: 3,
            stretch: 1.0,
            solo: None,
            energy: false,
        }
    }

    #[test]
    fn energy_is_reported_on_request() {
        let energy = |energy| {
            let report = run(&OnceOptions { energy, rounds: 1, ..options("wakeup") }).unwrap();
            report.metrics.keys().any(|name| name.starts_with("energy"))
        };
        assert!(energy(true) && !energy(false));
    }

    #[test]
    fn a_workload_runs_in_rounds_and_medians_are_reported() {
        let report = run(&options("wakeup")).unwrap();
        assert_eq!((report.rounds.len(), report.cell.as_str()), (3, "wakeup"));
        let mut p50: Vec<f64> = report.rounds.iter().map(|round| round.metrics["latency_p50_us"]).collect();
        p50.sort_by(f64::total_cmp);
        assert_eq!(report.metrics["latency_p50_us"], p50[1]);
        assert!(report.text().contains("latency_p99_us"), "{}", report.text());
    }

    #[test]
    fn an_unknown_workload_is_refused_with_the_known_ones() {
        let error = run(&options("nonsense")).err().unwrap();
        assert!(error.exit_code() == 2 && error.to_string().contains("wakeup"), "{error}");
    }
}
