// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! State of the running instance in the OpenMetrics format, for Prometheus and its relatives.
//!
//! A scraper counts and averages by itself, so everything is a total since the start or a present
//! value, in base units. The number of lines grows with the number of CPUs, never with that of
//! tasks.

use std::sync::atomic::AtomicU64;

use anyhow::{Context, Result};
use bias_agent::bpf::Stats;
use bias_agent::control::StatusReport;
use bias_agent::ejections::Ejection;
use bias_agent::recal::CpuRecal;
use bias_policy::table::Class;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use super::shares::BiasCounts;

type Labels = Vec<(&'static str, String)>;
type Gauges = Family<Labels, Gauge<f64, AtomicU64>>;

/// Ending of the statistics that are times.
const NS: &str = "_ns";

/// Return the state as text. `tasks` is None if tasks could not be listed.
///
/// # Errors
/// A failure of the encoder, which no state causes.
pub fn text(report: &StatusReport, tasks: Option<&BiasCounts>, ejections: &[Ejection]) -> Result<String> {
    let mut registry = Registry::with_prefix("scx_bias");
    registry.register("build", "Running version", Info::new(vec![("version", report.version.clone())]));
    let uptime = ConstGauge::new(report.uptime_s as f64);
    registry.register_with_unit("uptime", "Time since the scheduler was started", Unit::Seconds, uptime);
    statistics(&mut registry, &report.statistics)?;
    cpus(&mut registry, &report.recalibration.cpus);
    let changed = ConstCounter::new(report.recalibration.changed);
    registry.register("table_changes", "Entries of the capacity table that changed", changed);
    if let Some(counts) = tasks {
        biases(&mut registry, counts);
    }
    let kept = ConstGauge::new(ejections.len() as u64);
    registry.register("ejections_kept", "Ends by the kernel that status lists", kept);
    if let Some(last) = ejections.last() {
        let at = ConstGauge::new(last.at_ms as f64 / 1000.0);
        let help = "Time of the last end by the kernel, since 1970";
        registry.register_with_unit("last_ejection_timestamp", help, Unit::Seconds, at);
    }
    let mut text = String::new();
    encode(&mut text, &registry).context("cannot write the metrics")?;
    Ok(text)
}

/// Register every statistic under its name. Times are in seconds.
fn statistics(registry: &mut Registry, statistics: &Stats) -> Result<()> {
    let values = serde_json::to_value(statistics).context("cannot read the statistics")?;
    for (name, help) in Stats::ALL {
        let value = values[*name].as_u64().unwrap_or_default();
        match name.strip_suffix(NS) {
            Some(name) => {
                let seconds: Counter<f64, AtomicU64> = Counter::default();
                seconds.inc_by(value as f64 / 1e9);
                let help = help.trim_end_matches(" [ns]");
                registry.register_with_unit(name, help, Unit::Seconds, seconds);
            }
            None => registry.register(*name, *help, ConstCounter::new(value)),
        }
    }
    Ok(())
}

fn cpus(registry: &mut Registry, cpus: &[CpuRecal]) {
    let (cost, fast, age) = (Gauges::default(), Gauges::default(), Gauges::default());
    let set = |family: &Gauges, labels: Labels, value: f64| {
        family.get_or_create(&labels).set(value);
    };
    for cpu in cpus {
        let label = || ("cpu", cpu.cpu.to_string());
        for (component, permille) in ["execute", "internal", "external"].into_iter().zip(cpu.cost_permille) {
            let labels = vec![label(), ("component", component.to_owned())];
            set(&cost, labels, f64::from(permille) / 1000.0);
        }
        set(&fast, vec![label()], f64::from(u8::from(cpu.class == Class::Fast)));
        if let Some(ms) = cpu.seen_ms_ago {
            set(&age, vec![label()], ms as f64 / 1000.0);
        }
    }
    registry.register("cpu_cost_ratio", "Time of a unit of work over that on the best CPU", cost);
    registry.register("cpu_is_fast", "1 for CPUs of the fast class, else 0", fast);
    let help = "Time since a reading confirmed or changed the costs of a CPU";
    registry.register_with_unit("cpu_cost_age", help, Unit::Seconds, age);
}

fn biases(registry: &mut Registry, counts: &BiasCounts) {
    let tasks = Gauges::default();
    for (bias, count) in [
        ("fast_biased", counts.fast_biased),
        ("slow_biased", counts.slow_biased),
        ("unbiased", counts.unbiased),
        ("unknown", counts.unknown),
    ] {
        tasks.get_or_create(&vec![("bias", bias.to_owned())]).set(count as f64);
    }
    registry.register("tasks", "Known tasks by bias", tasks);
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use bias_agent::recal::Follows;
    use std::collections::BTreeSet;

    fn cpu(cpu: u32, class: Class) -> CpuRecal {
        CpuRecal {
            cpu,
            class,
            cost_permille: [2500, 1580, 1000],
            calibrated_permille: None,
            clock_permille: None,
            learned_permille: None,
            speed_permille: 1000,
            follows: Follows::Cycles,
            seen_ms_ago: (cpu == 0).then_some(1500),
        }
    }

    fn sample(cpus: u32) -> StatusReport {
        let mut report = super::super::tests::status();
        report.recalibration.cpus = (0..cpus).map(|at| cpu(at, Class::Slow)).collect();
        report
    }

    fn of(cpus: u32) -> String {
        let ejections = [Ejection { at_ms: 1_800_000_000_500, reason: "runnable task \"stall\"".into() }];
        text(&sample(cpus), Some(&BiasCounts { unbiased: 3, ..BiasCounts::default() }), &ejections).unwrap()
    }

    #[test]
    fn everything_is_told_in_base_units() {
        let text = of(2);
        for line in [
            "scx_bias_build_info{version=\"0.1.0\"} 1",
            "scx_bias_uptime_seconds 3725.0",
            "scx_bias_pull_total 12",
            "scx_bias_run_fast_seconds_total 7200.0",
            "scx_bias_cpu_cost_ratio{cpu=\"1\",component=\"execute\"} 2.5",
            "scx_bias_cpu_is_fast{cpu=\"0\"} 0.0",
            "scx_bias_cpu_cost_age_seconds{cpu=\"0\"} 1.5",
            "scx_bias_tasks{bias=\"unbiased\"} 3.0",
            "scx_bias_ejections_kept 1",
            "scx_bias_last_ejection_timestamp_seconds 1800000000.5",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("cpu_cost_age_seconds{cpu=\"1\"}"), "it was never confirmed");
        assert!(!super::text(&sample(1), None, &[]).unwrap().contains("scx_bias_tasks{"));
    }

    #[test]
    fn the_dashboard_shows_metrics_that_exist() {
        let dashboard: serde_json::Value =
            serde_json::from_str(include_str!("../../../../docs/grafana.json")).unwrap();
        let samples = of(1);
        let targets = dashboard["panels"].as_array().unwrap().iter().flat_map(|panel| {
            let targets = panel["targets"].as_array().unwrap();
            targets.iter().map(|target| target["expr"].as_str().unwrap().to_owned())
        });
        let mut shown = 0;
        for expression in targets {
            let part = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
            for name in expression.split(part).filter(|word| word.starts_with("scx_bias_")) {
                let is_sample = |line: &str| line.split(['{', ' ']).next() == Some(name);
                assert!(samples.lines().any(is_sample), "{name} does not exist");
                shown += 1;
            }
        }
        assert!(shown >= 9, "{shown}");
    }

    /// Check the rules of OpenMetrics 1.0 that Prometheus enforces.
    #[test]
    fn the_format_is_that_of_openmetrics() {
        let text = of(3);
        let name = |text: &str| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        };
        let (mut families, mut samples) = (BTreeSet::new(), BTreeSet::new());
        let mut family = String::new();
        for line in text.strip_suffix("# EOF\n").unwrap().lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                family = rest.split_once(' ').unwrap().0.to_owned();
                assert!(name(&family) && families.insert(family.clone()), "{line}");
            } else if !line.starts_with('#') {
                let (sample, value) = line.rsplit_once(' ').unwrap();
                assert!(sample.starts_with(&family) && samples.insert(sample.to_owned()), "{line}");
                assert!(name(sample.split('{').next().unwrap()) && value.parse::<f64>().is_ok(), "{line}");
            }
        }
        assert_eq!(families.iter().filter(|family| family.ends_with("_total")).count(), 0);
        assert!(families.len() > Stats::ALL.len());
    }

    #[test]
    fn the_size_is_that_of_the_cpus() {
        let lines = |cpus| of(cpus).lines().count();
        assert_eq!(lines(1024) - lines(1), 1023 * 4);
        assert!(of(1024).len() < 400_000);
    }
}
