// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of the complete output for users.

use bias_policy::table::Class;

use super::tasks::{BiasCounts, Confined, Snapshot, TaskSummary, TopRow};
use super::top::task_table::render;
use bias_agent::boot_time;
use bias_agent::bpf::{Bias, CpuCounters, Reason, Stack, Stats, TaskReport};
use bias_agent::control::{CpuClass, Machine, Scope, StatusReport, Thresholds};
use bias_agent::ejections::Ejection;
use bias_agent::failure::{Exit, Failure};
use bias_agent::optin::{CgroupReport, CgroupsReport};
use bias_agent::pmu::{CounterState, CpuSummary};
use bias_agent::recal::{CpuRecal, Follows, RecalReport};
use bias_agent::swaps::{SwapSummary, Tally};

pub(super) fn machine() -> Machine {
    let class = |class, cpus, cost_permille| CpuClass { class, cpus, cost_permille };
    Machine {
        classes: vec![
            class(Class::Fast, vec![0, 1], [1000; 3]),
            class(Class::Slow, vec![2, 3], [2500, 1580, 1000]),
        ],
    }
}

pub(super) fn recalibrated(cpu: u32, class: Class, cost_permille: [u32; 3], follows: Follows) -> CpuRecal {
    CpuRecal {
        cpu,
        class,
        cost_permille,
        calibrated_permille: None,
        clock_permille: None,
        learned_permille: None,
        speed_permille: 1000,
        follows,
        seen_ms_ago: None,
    }
}

pub(super) fn row(
    pid: u32,
    name: &str,
    shares: (u32, u32),
    known: Option<(Bias, u32, [u32; 3])>,
    reason: Reason,
) -> TopRow {
    let stack = known.map(|(_, _, [execute, internal, external])| Stack { execute, internal, external });
    let task = TaskReport {
        pid,
        tgid: pid,
        name: name.to_owned(),
        cpu: pid % 4,
        reason,
        bias: known.map_or(Bias::Unbiased, |(bias, ..)| bias),
        speedup_permille: known.map(|(_, speedup, _)| speedup),
        stack_permille: stack,
        ..TaskReport::default()
    };
    TopRow { task, share_permille: shares.0, on_fast_permille: shares.1 }
}

pub(super) fn snapshot() -> Snapshot {
    let tasks = vec![
        row(4711, "render", (998, 1000), Some((Bias::FastBiased, 2412, [941, 47, 12])), Reason::Gain),
        row(4712, "sort", (612, 553), Some((Bias::Unbiased, 1790, [530, 300, 170])), Reason::Rotate),
        row(4713, "chase", (607, 0), Some((Bias::SlowBiased, 1071, [47, 20, 933])), Reason::Yield),
        row(4_194_303, "a\x1b[2Jname too long", (120, 1000), None, Reason::Pull),
        row(9, "ksoftirqd/0", (1, 500), None, Reason::None),
    ];
    let biases = BiasCounts::of(tasks.iter().map(|row| &row.task));
    Snapshot {
        interval_ms: 1000,
        machine: machine(),
        average_permille: Some(1790),
        biases,
        tasks,
        confined: Vec::new(),
    }
}

/// A task that is confined to fast CPUs and gains little.
fn chaser() -> Confined {
    Confined { pid: 4713, name: "chase".into(), speedup_permille: 1071 }
}

fn status_text(report: &StatusReport, tasks: &Result<TaskSummary, Failure>, ends: &[Ejection]) -> String {
    super::status::text(report, tasks, ends).unwrap_or_default()
}

fn text(snapshot: &Snapshot, width: usize) -> String {
    let lines = render(snapshot, width);
    assert!(lines.iter().all(|line| line.chars().count() <= width));
    format!("\n{}\n", lines.join("\n"))
}

#[test]
fn a_table_of_80_columns() {
    let expected = "
2 fast, 2 slow CPUs; average speedup 1.79x; 5 tasks: 1 fast-biased, 1
slow-biased, 1 unbiased, 2 unknown
    PID NAME            SHARE BIAS   GAIN EXE INT EXT FAST MOVED          CPU
   4711 render           100% fast  2.41x  94   5   1 100% gains more       3
   4712 sort              61% -     1.79x  53  30  17  55% rotation         0
   4713 chase             61% slow  1.07x   5   2  93   0% gave way         1
4194303 a?[2Jname too l   12% ?         ?   ?   ?   ? 100% idle fast CPU    3
      9 ksoftirqd/0       <1% ?         ?   ?   ?   ?  50% -                1
";
    assert_eq!(text(&snapshot(), 80), expected);
}

#[test]
fn a_table_of_40_columns() {
    let expected = "
2 fast, 2 slow CPUs; average speedup
1.79x; 5 tasks: 1 fast-biased, 1
slow-biased, 1 unbiased, 2 unknown
    PID NAME           SHARE BIAS   GAIN
   4711 render          100% fast  2.41x
   4712 sort             61% -     1.79x
   4713 chase            61% slow  1.07x
4194303 a?[2Jname too    12% ?         ?
      9 ksoftirqd/0      <1% ?         ?
";
    assert_eq!(text(&snapshot(), 40), expected);
}

#[test]
fn no_line_exceeds_any_width() {
    for width in 0..120 {
        text(&snapshot(), width);
    }
}

#[test]
fn tasks_that_cannot_be_distinguished_come_with_the_reason() {
    let mut unknown = snapshot();
    unknown.tasks.retain(|row| row.task.speedup_permille.is_none());
    unknown.biases = BiasCounts::of(unknown.tasks.iter().map(|row| &row.task));
    unknown.average_permille = None;
    assert!(text(&unknown, 80).contains("`scx_bias status` shows"));
    unknown.machine.classes.truncate(1);
    assert!(text(&unknown, 80).starts_with("\n2 CPUs of one class; 2 tasks: 0 fast"));
    assert!(text(&unknown, 80).contains("`scx_bias table`"));
    unknown.tasks.clear();
    assert!(text(&unknown, 80).contains("No task ran in 1000 ms."));
}

pub(super) fn status() -> StatusReport {
    let counters = |cpu, source, counted| CpuCounters {
        summary: CpuSummary {
            cpu,
            source,
            pmu: Some("cpu".to_owned()),
            origin: "table: Some Core".to_owned(),
            events: Vec::new(),
        },
        counted,
    };
    let reason = "no PMU of a core serves this CPU; give --events for cycles and instructions too";
    let refused = || CounterState::Unknown { reason: reason.to_owned() };
    let degraded = CounterState::Degraded { reason: "external stalls are not counted: no event".to_owned() };
    StatusReport {
        version: "0.1.0".to_owned(),
        uptime_s: 3725,
        scope: Scope::WholeSystem,
        machine: machine(),
        recalibration: RecalReport::default(),
        thresholds: Thresholds {
            adaptive: true,
            low_permille: Some(1700),
            high_permille: Some(1881),
            average_permille: Some(1790),
        },
        knobs: std::collections::BTreeMap::new(),
        counters: vec![
            counters(0, CounterState::Full, true),
            counters(1, CounterState::Full, true),
            counters(2, refused(), false),
            counters(3, refused(), false),
            counters(4, degraded, false),
        ],
        swaps: SwapSummary {
            tally: Tally { asked: 9, refused: 2, undone: 1 },
            verdicts: bias_policy::audit::VerdictCounts { paid: 7, neutral: 1, ..Default::default() },
            ..SwapSummary::default()
        },
        statistics: Stats {
            run_fast_ns: 7_200_000_000_000,
            run_slow_ns: 2_400_000_000_000,
            pull: 12,
            rotate: 80,
            swap_gain: 31,
            moved: 215,
            counted: 90_000,
            count_invalid: 3,
            windows: 41_000,
            bias_changes: 77,
            ..Stats::default()
        },
    }
}

#[test]
fn a_status_of_80_columns() {
    let expected = "
scx_bias 0.1.0 has been running for 1 h 2 min, for the whole system.

CPUs (time for the same work; 1.00 is the best CPU for that kind of work)
  fast: CPU 0-1: execute 1.00, internal 1.00, external 1.00
  slow: CPU 2-3: execute 2.50, internal 1.58, external 1.00

Recalibration
  off: the table stays as it was at the start

Counters
  CPU 0-1: full (cpu, table: Some Core)
  CPU 2-3: unknown: no PMU of a core serves this CPU; give --events for cycles
    and instructions too
  CPU 4: degraded (cpu, table: Some Core): external stalls are not counted: no
    event; unused: without an external-stall event tasks cannot be classified

Predicted speedup, slow to fast CPU
  average of running tasks: 1.79x
  slow-biased up to 1.70x, fast-biased from 1.88x (follows the average)

Tasks that have run
  5 tasks: 1 fast-biased, 1 slow-biased, 1 unbiased, 2 unknown
  chase (4713) may use fast CPUs only and gains 1.07x there; `taskset -pc 0-3
    4713` lets it make way for others.

Since the start
  ran tasks for 2 h 40 min of CPU time, 75% of it on fast CPUs
  migration requests: 12 idle pulls, 80 rotations, 31 gain swaps; 215 carried
    out
  counted 90000 intervals (3 dropped, 0 unreadable): 41000 windows, 77 changes
    of bias
  swaps by the agent: 9 requested (2 more refused, 1 came to nothing); 7 paid, 1
    neutral, 0 regretted, 0 not judged
";
    let biases = BiasCounts { fast_biased: 1, slow_biased: 1, unbiased: 1, unknown: 2 };
    let tasks = Ok(TaskSummary { biases, confined: vec![chaser()] });
    assert_eq!(format!("\n{}", status_text(&status(), &tasks, &[])), expected);
}

#[test]
fn a_status_without_tasks_average_or_classes_is_shown() {
    let mut bare = status();
    bare.thresholds =
        Thresholds { adaptive: true, low_permille: None, high_permille: None, average_permille: None };
    bare.counters.clear();
    let text = status_text(&bare, &Err(Failure::runtime("no iterator")), &[]);
    assert!(text.contains("unknown, no task has been counted yet"), "{text}");
    assert!(text.contains("cannot be listed: no iterator"), "{text}");
    bare.machine.classes.truncate(1);
    let text = status_text(&bare, &Ok(TaskSummary::default()), &[]);
    assert!(text.contains("all alike: CPU 0-1") && text.contains("equally fast"), "{text}");
}

#[test]
fn opted_in_cgroups_are_listed() {
    let mut opted_in = status();
    let cgroup = |path: &str, threads, real_time| CgroupReport { path: path.to_owned(), threads, real_time };
    opted_in.scope = Scope::Cgroups(CgroupsReport {
        cgroups: vec![cgroup("/sys/fs/cgroup/work.slice", 12, 2), cgroup("/sys/fs/cgroup/b", 1, 0)],
        waiting: vec!["/sys/fs/cgroup/c".to_owned()],
        notes: vec!["it starves".to_owned()],
    });
    let text = status_text(&opted_in, &Ok(TaskSummary::default()), &[]);
    let expected = "\
scx_bias 0.1.0 has been running for 1 h 2 min, for opted-in cgroups.

Opted-in cgroups
  /sys/fs/cgroup/work.slice: 12 threads; 2 real-time threads keep their policy
  /sys/fs/cgroup/b: 1 thread
  /sys/fs/cgroup/c: does not exist; it is opted in when it appears
  it starves

CPUs (";
    assert!(text.starts_with(expected), "{text}");
}

fn stalled() -> Vec<Ejection> {
    vec![Ejection { at_ms: boot_time::wall_ms(), reason: "runnable task stall".to_owned() }]
}

#[test]
fn earlier_ends_by_the_kernel_are_shown_with_and_without_an_instance() {
    let text = status_text(&status(), &Ok(TaskSummary::default()), &stalled());
    assert!(text.contains("Earlier ends by the kernel\n  "), "{text}");
    assert!(text.contains(" s ago: runnable task stall\n\n"), "{text}");
    let none = Failure::kernel("not running");
    assert_eq!(super::status::with_last(none.clone(), &[]), none);
    let failure = super::status::with_last(none, &stalled());
    assert_eq!(failure.exit, Exit::Kernel);
    assert!(failure.message.starts_with("not running; the kernel ended it "), "{failure}");
}

#[test]
fn json_has_the_content_of_the_text() {
    let biases = BiasCounts { fast_biased: 1, ..BiasCounts::default() };
    let tasks = Ok(TaskSummary { biases, confined: vec![chaser()] });
    let json = super::status::json(&status(), &tasks, &stalled()).unwrap_or_default();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap_or_default();
    assert_eq!(value["counters"][2]["source"], "unknown");
    assert_eq!(value["tasks"]["fast_biased"], 1);
    assert_eq!(value["tasks"]["confined"][0]["pid"], 4713);
    assert_eq!(value["ejections"][0]["reason"], "runnable task stall");
    assert_eq!(value["machine"]["classes"][1]["cost_permille"][0], 2500);
    let line = serde_json::to_value(snapshot()).unwrap_or_default();
    assert_eq!(line["tasks"][2]["stack_permille"]["external"], 933);
    assert_eq!(line["tasks"][3]["speedup_permille"], serde_json::Value::Null);
    assert_eq!(line["tasks"][0]["share_permille"], 998);
}

#[test]
fn top_names_a_task_that_should_make_way() {
    let confined = Snapshot { confined: vec![chaser()], ..snapshot() };
    assert!(text(&confined, 80).contains("chase (4713) may use fast CPUs only"), "{}", text(&confined, 80));
    assert!(!text(&snapshot(), 80).contains("may use"));
}
