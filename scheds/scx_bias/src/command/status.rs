// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `scx_bias status`: what runs, the state of the machine and its tasks, recalibration, and
//! statistics.
//!
//! CPUs whose counters are equally complete for the same reason share a line.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread::sleep;

use anyhow::Result;
use bias_agent::boot_time;
use bias_agent::bpf::{CpuCounters, Stats};
use bias_agent::control::{Client, Machine, Scope, StatusReport, Thresholds};
use bias_agent::cpulist;
use bias_agent::ejections::{self, Ejection};
use bias_agent::failure::{Exit, Failure, REPORT_TO};
use bias_agent::figures::{self, duration, percent, ratio};
use bias_agent::optin::journal;
use bias_agent::options::RunOptions;
use bias_agent::pmu::{CounterState, CpuSummary};
use bias_agent::recal::{Follows, RecalReport, line};
use bias_policy::recal::Cause;
use bias_policy::table::{Class, Component};
use clap::Args;
use serde::Serialize;

use super::tasks::{TaskSummary, confined_sentence, settling};
use super::{cgroups, swaps};
use crate::cli::SocketArg;
use crate::help;
use crate::output::{WIDTH, print, wrap};

/// Indentation of the items below a title [columns].
const INDENT: usize = 2;
/// Most changes by recalibration that are shown.
const CHANGES_SHOWN: usize = 8;

const HELP: &str = "\
What it shows, and what to conclude:
  CPUs      Time of a CPU of each class for one unit of work. If all are alike,
            scx_bias schedules for fairness only. If the classes are wrong,
            measure again on an idle machine: scx_bias calibrate --force.
  Counters  full: tasks that run there are distinguished by internal and
            external stalls. degraded: by a part of them, or by misses.
            unknown: a task that runs there keeps the bias that it got on other
            CPUs, or has none. The reason and the remedy follow.
  Speedup   A task's predicted time on a slow CPU over that on a fast one. The
            band around the average decides the bias of a task.
  Tasks     fast-biased: gain more than the average, so they belong on fast
            CPUs. slow-biased: gain less. unbiased: within the band. unknown:
            not counted yet, or only on CPUs without counters. Many of these:
            see Counters.
  Migration requests
            For running tasks. Far fewer carried out: tasks are shorter than a
            tick, or restricted to some CPUs. Very many rotations: raise
            --rotate-gap-us.";

/// Show the state of the running scx_bias: CPUs and their counters, thresholds, biases of tasks,
/// migrations
#[derive(Debug, Args)]
#[command(after_help = help::exit_codes(), after_long_help = help::long(HELP))]
pub struct StatusArgs {
    /// Print JSON for machines
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    socket: SocketArg,
}

impl StatusArgs {
    pub fn run(self) -> Result<Exit> {
        let ejections = ejections::last(Path::new(journal::DIRECTORY));
        let mut client = self.socket.connect().map_err(|failure| with_last(failure, &ejections))?;
        let report = client.status()?;
        let tasks = summary(&mut client, &report.machine);
        let shown = if self.json { json } else { text };
        print(&shown(&report, &tasks, &ejections)?)
    }
}

/// Add the reason why the kernel ended the last instance to the failure to reach one.
pub(super) fn with_last(failure: Failure, ejections: &[Ejection]) -> Failure {
    let last = ejections.last().map(std::slice::from_ref).unwrap_or_default();
    match ejections::lines(last, boot_time::wall_ms()).first() {
        Some(line) => Failure::new(failure.exit, format!("{}; the kernel ended it {line}", failure.message)),
        None => failure,
    }
}

/// Summarise the tasks. Ask again if the start of this program may have disturbed them.
fn summary(client: &mut Client, machine: &Machine) -> Result<TaskSummary, Failure> {
    let mut tasks = client.tasks(None)?.tasks;
    if let Some(time) = settling(&tasks, machine) {
        sleep(time);
        tasks = client.tasks(None)?.tasks;
    }
    Ok(TaskSummary::of(&tasks, machine))
}

/// Return the status as text. `tasks` is an error when the tasks could not be listed. `ejections`
/// are ends of earlier instances by the kernel.
pub(super) fn text(
    report: &StatusReport,
    tasks: &Result<TaskSummary, Failure>,
    ejections: &[Ejection],
) -> Result<String, Failure> {
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
        out.title("Earlier ends by the kernel");
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
    recalibration(&report.recalibration, now_ms).iter().for_each(|line| out.item(line));
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
        Ok(tasks) => tasks.biases.text(),
        Err(error) => format!("cannot be listed: {}", error.message),
    });
    let confined = tasks.as_ref().ok().and_then(|tasks| confined_sentence(&tasks.confined, &report.machine));
    confined.iter().for_each(|sentence| out.item(sentence));
    out.title("Since the start");
    statistics(&mut out, &report.statistics);
    out.item(&swaps::verdicts(&report.swaps));
    Ok(out.0)
}

/// Return the status as JSON.
pub(super) fn json(
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
    let usual = RunOptions::default().knobs();
    let turned = RunOptions::keys().filter_map(|key| {
        let (value, usual) = (values.get(&key)?, usual.get(&key)?);
        (value != usual).then(|| format!("{key}: {value} (default {usual})"))
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
    let mut groups: Vec<(String, Vec<u32>)> = Vec::new();
    for one in counters {
        let (worth, cpu) = (worth(one), one.summary.cpu);
        match groups.iter_mut().find(|(other, _)| *other == worth) {
            Some((_, cpus)) => cpus.push(cpu),
            None => groups.push((worth, vec![cpu])),
        }
    }
    for (worth, cpus) in &groups {
        out.item(&format!("CPU {}: {worth}", cpulist::format(cpus)));
    }
    if groups.is_empty() {
        out.item("none: tasks are placed by CPU speed only");
    }
}

/// Describe how complete a CPU's counters are.
fn worth(one: &CpuCounters) -> String {
    let CpuSummary { source, pmu, origin, .. } = &one.summary;
    let pmu = pmu.as_ref().map_or_else(String::new, |pmu| format!("{pmu}, "));
    let worth = match source {
        CounterState::Unknown { reason } => return format!("unknown: {reason}"),
        CounterState::Full => format!("full ({pmu}{origin})"),
        CounterState::Degraded { reason } => format!("degraded ({pmu}{origin}): {reason}"),
    };
    let unused = "; unused: without an external-stall event tasks cannot be classified";
    worth + if one.counted { "" } else { unused }
}

/// Describe recalibration at `now_ms` [ms since 1970].
fn recalibration(report: &RecalReport, now_ms: u64) -> Vec<String> {
    let unmeasured = |until: &str| {
        let cpus = cpulist::format(&report.unmeasured);
        (!cpus.is_empty())
            .then(|| format!("CPU {cpus}: came online later, not measured: counts as fast {until}"))
    };
    if !report.on {
        let off = "off: the table stays as it was at the start".to_owned();
        return [off].into_iter().chain(unmeasured("until scx_bias is restarted")).collect();
    }
    let mut lines = Vec::new();
    let mut group = |follows, text: &str| {
        let of_group = report.cpus.iter().filter(|cpu| cpu.follows == follows);
        let cpus: Vec<u32> = of_group.map(|cpu| cpu.cpu).collect();
        if !cpus.is_empty() {
            lines.push(format!("CPU {}: {text}", cpulist::format(&cpus)));
        }
    };
    group(Follows::Cycles, "followed by the cycles counted while tasks run");
    group(Follows::SpotChecks, "followed by spot checks while they idle");
    group(
        Follows::Nothing,
        "not followed: nothing is counted there, and they have not been idle while others were busy",
    );
    lines.extend(unmeasured("until a check succeeds"));
    if let Some(failure) = &report.failure {
        lines.push(format!("the last table could not be applied ({failure}); please report this{REPORT_TO}"));
    }
    if let Some(why) = &report.no_events {
        lines.push(format!("thermal throttling is detected only after a few seconds: {why}"));
    }
    lines.push(match report.changed {
        0 => "no entry has changed".to_owned(),
        1 => "one entry has changed:".to_owned(),
        changed => format!("{changed} entries have changed; the last:"),
    });
    // Leave out changes that only follow from another CPU's change.
    let own: Vec<_> = report.changes.iter().filter(|change| change.cause != Cause::Others).collect();
    for change in own.iter().skip(own.len().saturating_sub(CHANGES_SHOWN)) {
        lines.push(format!("{} ago: {}", duration(now_ms.saturating_sub(change.at_ms) / 1000), line(change)));
    }
    lines
}

fn thresholds(out: &mut Page, thresholds: &Thresholds, two_classes: bool) {
    if !two_classes {
        return out.item("none: all CPUs count as equally fast");
    }
    match thresholds.average_permille {
        Some(average) => out.item(&format!("average of running tasks: {}x", ratio(average))),
        None => out.item("average of running tasks: unknown, no task has been counted yet"),
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
        "migration requests: {} idle pulls, {} rotations, {} gain swaps; {} carried out",
        stats.pull, stats.rotate, stats.swap_gain, stats.moved
    ));
    out.item(&format!(
        "counted {} intervals ({} dropped, {} unreadable): {} windows, {} changes of bias",
        stats.counted, stats.count_invalid, stats.count_failed, stats.windows, stats.bias_changes
    ));
}

#[cfg(test)]
mod tests {
    use super::super::tests::recalibrated;
    use super::*;
    use bias_policy::recal::{Change, Entry, Trigger};

    #[test]
    fn recalibration_is_described_with_its_evidence_and_changes() {
        let entry = |class, cost_permille| Entry { class, cost_permille };
        let change = Change {
            at_ms: 1_000,
            cpu: 0,
            old: entry(Class::Fast, [1000; 3]),
            new: entry(Class::Slow, [3000, 3000, 1000]),
            cause: Cause::Cycles,
            trigger: Some(Trigger::Thermal),
        };
        let cpu = |(cpu, follows)| recalibrated(cpu, Class::Fast, [1000; 3], follows);
        let follows = [Follows::Cycles, Follows::Cycles, Follows::Nothing, Follows::SpotChecks];
        let report = RecalReport {
            on: true,
            cpus: (0..).zip(follows).map(cpu).collect(),
            changed: 1,
            changes: vec![change],
            ..RecalReport::default()
        };
        let expected = [
            "CPU 0-1: followed by the cycles counted while tasks run",
            "CPU 3: followed by spot checks while they idle",
            "CPU 2: not followed: nothing is counted there, and they have not been idle while others were busy",
            "one entry has changed:",
            "12 s ago: CPU 0: fast 1.00/1.00/1.00 became slow 3.00/3.00/1.00 (execute/internal/external), by counted cycles after thermal throttling",
        ];
        assert_eq!(recalibration(&report, 13_500), expected);
        let quiet = RecalReport {
            changed: 0,
            changes: Vec::new(),
            failure: Some("why".into()),
            no_events: Some("because".into()),
            ..report
        };
        assert!(
            recalibration(&quiet, 0)
                .iter()
                .any(|line| line == "thermal throttling is detected only after a few seconds: because")
        );
        assert!(recalibration(&quiet, 0).iter().any(|line| line.contains("(why)")));
        assert_eq!(recalibration(&quiet, 0).last().map(String::as_str), Some("no entry has changed"));
        let late = RecalReport { unmeasured: vec![4, 5], ..quiet };
        let wanted = "CPU 4-5: came online later, not measured: counts as fast until";
        assert!(recalibration(&late, 0).iter().any(|line| *line == format!("{wanted} a check succeeds")));
        let off = RecalReport { on: false, ..late };
        assert!(recalibration(&off, 0).contains(&format!("{wanted} scx_bias is restarted")));
        assert_eq!(
            recalibration(&RecalReport::default(), 0),
            ["off: the table stays as it was at the start"]
        );
    }
}
