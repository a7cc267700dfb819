// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The text of `scx_bias status`: what runs, the state of the machine and its tasks, and
//! statistics.
//!
//! CPUs whose counters are equally complete for the same reason share a line. The CPU number in
//! that reason does not matter.

use std::collections::BTreeMap;

use bias_policy::table::{Class, Component};
use serde::Serialize;

use super::cgroups;
use super::confined;
use super::recal;
use super::shares::TaskSummary;
use super::swaps;
use super::top_table::biases;
use super::words::wrap;
use bias_agent::boot_time;
use bias_agent::bpf::{CpuCounters, Stats};
use bias_agent::control::{Machine, Scope, StatusReport, Thresholds};
use bias_agent::cpulist;
use bias_agent::ejections::{self, Ejection};
use bias_agent::failure::Failure;
use bias_agent::figures::{self, duration, percent, ratio};
use bias_agent::options::setting::Setting;
use bias_agent::pmu::CounterState;

/// Width of the output [columns].
const WIDTH: usize = 80;
/// Indentation of the items below a title [columns].
const INDENT: usize = 2;

/// Return the status as text. `tasks` is an error when the tasks could not be listed. `ejections`
/// are ends of earlier instances by the kernel.
#[must_use]
pub fn text(report: &StatusReport, tasks: &Result<TaskSummary, Failure>, ejections: &[Ejection]) -> String {
    let mut out = Page::default();
    let scope = match report.scope {
        Scope::WholeSystem => "the whole system",
        Scope::Cgroups(ref cgroups) if cgroups.cgroups.is_empty() => "tasks that ask for SCHED_EXT",
        Scope::Cgroups(_) => "opted-in cgroups",
        Scope::BiasInCgroups(_) => "the whole system, with bias in opted-in cgroups only",
    };
    out.title(&format!(
        "scx_bias {} has been running for {}, for {scope}.",
        report.version,
        duration(report.uptime_s)
    ));
    if !ejections.is_empty() {
        out.title("Ended by the kernel before");
        ejections::lines(ejections, boot_time::wall_ms()).iter().for_each(|line| out.item(line));
    }
    if let Scope::Cgroups(report) | Scope::BiasInCgroups(report) = &report.scope {
        out.title("Opted-in cgroups");
        cgroups::lines(report).iter().for_each(|line| out.item(line));
    }
    out.title("CPUs (time for the same work; 1.00 is the best CPU for that kind of work)");
    machine(&mut out, &report.machine);
    out.title("Recalibration");
    let now_ms = boot_time::wall_ms();
    recal::lines(&report.recalibration, now_ms).iter().for_each(|line| out.item(line));
    out.title("Counters");
    counters(&mut out, &report.counters);
    out.title("Predicted speedup, slow to fast CPU");
    thresholds(&mut out, &report.thresholds, report.machine.count(Class::Slow) != 0);
    let turned = knobs(&report.knobs);
    if !turned.is_empty() {
        out.title("Options that are not at their defaults");
        turned.iter().for_each(|line| out.item(line));
    }
    out.title("Tasks that have run");
    out.item(&match tasks {
        Ok(tasks) => biases(&tasks.biases),
        Err(error) => format!("cannot be listed: {}", error.message),
    });
    let confined = tasks.as_ref().ok().and_then(|tasks| confined::sentence(&tasks.confined, &report.machine));
    confined.iter().for_each(|sentence| out.item(sentence));
    out.title("Since the start");
    statistics(&mut out, &report.statistics);
    out.item(&swaps::verdicts(&report.swaps));
    out.0
}

/// Return the status as JSON.
///
/// # Errors
/// Runtime failure when it cannot be written as JSON.
pub fn json(
    report: &StatusReport,
    tasks: &Result<TaskSummary, Failure>,
    ejections: &[Ejection],
) -> Result<String, Failure> {
    #[derive(Serialize)]
    struct StatusDocument<'a> {
        #[serde(flatten)]
        report: &'a StatusReport,
        tasks: Option<&'a TaskSummary>,
        ejections: &'a [Ejection],
    }
    let document = StatusDocument { report, tasks: tasks.as_ref().ok(), ejections };
    figures::json(&document, "status")
}

/// Text below titles, wrapped.
#[derive(Default)]
struct Page(String);

impl Page {
    fn title(&mut self, text: &str) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        self.lines(text, 0, 0);
    }

    fn item(&mut self, text: &str) {
        self.lines(text, INDENT, 2 * INDENT);
    }

    fn lines(&mut self, text: &str, indent: usize, further: usize) {
        for line in wrap(text, WIDTH - indent, further - indent) {
            self.0.push_str(&" ".repeat(indent));
            self.0.push_str(&line);
            self.0.push('\n');
        }
    }
}

/// Return a line for each knob that is not at its default.
fn knobs(values: &BTreeMap<String, u64>) -> Vec<String> {
    let turned = Setting::KNOBS.iter().filter_map(|knob| {
        let value = values.get(knob.key).filter(|value| value.to_string() != knob.example)?;
        Some(format!("{}: {value} (default {})", knob.key, knob.example))
    });
    turned.collect()
}

fn machine(out: &mut Page, machine: &Machine) {
    for class in &machine.classes {
        let name = match class.class {
            Class::Fast if machine.classes.len() == 1 => "all alike:",
            Class::Fast => "fast:",
            Class::Slow => "slow:",
        };
        let cost = Component::ALL.map(|component| {
            format!("{} {}", component.name(), ratio(class.cost_permille[component.index()]))
        });
        out.item(&format!("{name} CPU {}: {}", cpulist::format(&class.cpus), cost.join(", ")));
    }
}

fn counters(out: &mut Page, counters: &[CpuCounters]) {
    let mut groups: Vec<(String, Vec<&CpuCounters>)> = Vec::new();
    for one in counters {
        let key = worth(one, "");
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, group)) => group.push(one),
            None => groups.push((key, vec![one])),
        }
    }
    for (_, group) in &groups {
        let cpus: Vec<u32> = group.iter().map(|one| one.summary.cpu).collect();
        let cpus = format!("CPU {}", cpulist::format(&cpus));
        // A group is created with its first member.
        if let Some(first) = group.first() {
            out.item(&format!("{cpus}: {}", worth(first, &cpus)));
        }
    }
    if groups.is_empty() {
        out.item("none; tasks are placed by how fast CPUs are alone");
    }
}

/// Describe how complete a CPU's counters are. `cpus` replaces the CPU in the reason.
fn worth(one: &CpuCounters, cpus: &str) -> String {
    let named = |reason: &str| rename(reason, one.summary.cpu, cpus);
    let pmu = one.summary.pmu.as_ref().map_or_else(String::new, |pmu| format!("{pmu}, "));
    let worth = match &one.summary.source {
        CounterState::Full => format!("full ({pmu}{})", one.summary.origin),
        CounterState::Degraded { reason } => {
            format!("degraded ({pmu}{}): {}", one.summary.origin, named(reason))
        }
        CounterState::Unknown { reason } => format!("unknown: {}", named(reason)),
    };
    let open = !matches!(one.summary.source, CounterState::Unknown { .. });
    if open && !one.counted {
        return worth + "; not used, for without external stalls tasks cannot be distinguished";
    }
    worth
}

/// Replace `CPU number` by `cpus` in `text`.
fn rename(text: &str, number: u32, cpus: &str) -> String {
    let name = format!("CPU {number}");
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(&name) {
        let (before, found) = rest.split_at(at);
        let after = found.get(name.len()..).unwrap_or_default();
        out.push_str(before);
        // CPU 1 must not match CPU 12.
        out.push_str(if after.starts_with(|c: char| c.is_ascii_digit()) { &name } else { cpus });
        rest = after;
    }
    out + rest
}

fn thresholds(out: &mut Page, thresholds: &Thresholds, two_classes: bool) {
    if !two_classes {
        return out.item("none: all CPUs count as equally fast");
    }
    match thresholds.average_permille {
        Some(average) => out.item(&format!("average of what runs: {}x", ratio(average))),
        None => out.item("average of what runs: unknown, no task has been counted yet"),
    }
    if let Some((low, high)) = thresholds.low_permille.zip(thresholds.high_permille) {
        let how = if thresholds.adaptive { "follows the average" } else { "fixed" };
        out.item(&format!("slow-biased up to {}x, fast-biased from {}x ({how})", ratio(low), ratio(high)));
    }
}

fn statistics(out: &mut Page, stats: &Stats) {
    let run_ns = stats.run_fast_ns.saturating_add(stats.run_slow_ns);
    let fast_permille = u128::from(stats.run_fast_ns) * 1000 / u128::from(run_ns.max(1));
    out.item(&format!(
        "ran tasks for {} of CPU time, {} of it on fast CPUs",
        duration(run_ns / 1_000_000_000),
        percent(fast_permille as u32)
    ));
    out.item(&format!(
        "asked running tasks to move: {} to an idle fast CPU, {} for rotation, {} because one gains more; moved {}",
        stats.pull, stats.rotate, stats.swap_gain, stats.moved
    ));
    out.item(&format!(
        "counted {} intervals ({} dropped, {} unreadable): {} windows, {} changes of bias",
        stats.counted, stats.count_invalid, stats.count_failed, stats.windows, stats.bias_changes
    ));
}

#[cfg(test)]
mod tests {
    use super::rename;

    #[test]
    fn a_cpu_is_renamed_and_no_other() {
        assert_eq!(rename("CPU 1 and CPU 12; CPU 1", 1, "CPU 0-3"), "CPU 0-3 and CPU 12; CPU 0-3");
        assert_eq!(rename("", 1, "x"), "");
    }
}
