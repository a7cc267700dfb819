// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Scenarios of shares and placement.

use super::parts::{Scenario, busy, evenness, expect, on_fast, ratio};
use crate::case::{Case, Disturb, Disturbance, GroupSpec, TaskSpec, UNFAIR_WITHOUT_BOUND};
use crate::kernel::Kernel;
use crate::load::{Op, Program, stacks};

/// Weights on one CPU.
pub(super) fn nice() -> Scenario {
    let mut case = busy("1P", &[stacks::COMPUTE; 3], 30);
    for (task, weight) in case.tasks.iter_mut().zip([100, 200, 50]) {
        task.weight = weight;
    }
    Scenario {
        name: "nice",
        case,
        check: |kernel| {
            let figures = kernel.all_figures();
            expect("weight 200 over 100", ratio(figures[1].ran_ns, figures[0].ran_ns), 1.8, 2.2)?;
            expect("weight 100 over 50", ratio(figures[0].ran_ns, figures[2].ran_ns), 1.8, 2.2)
        },
    }
}

/// nice 0 and 19 on one CPU. A tick charges the latter a second.
pub(super) fn light_and_long_tick() -> Scenario {
    let mut case = busy("1P", &[stacks::COMPUTE; 2], 100);
    (case.tick_ns, case.tasks[1].weight) = (10_000_000, 1);
    Scenario {
        name: "light-and-long-tick",
        case,
        check: |kernel| {
            let figures = kernel.all_figures();
            expect("weight 100 over 1", ratio(figures[0].ran_ns, figures[1].ran_ns), 80.0, 125.0)
        },
    }
}

/// The same where the task of nice 19 was alone on that CPU of two, and charged half a minute.
pub(super) fn light_and_alone_before() -> Scenario {
    let mut case = busy("2P", &[stacks::COMPUTE; 2], 200);
    (case.tick_ns, case.tasks[1].weight) = (10_000_000, 1);
    case.tasks = case.tasks.into_iter().map(|task| task.within([1]).on(1)).collect();
    case.tasks[0].start_ns = Some(300_000_000);
    let kthread = TaskSpec::new(Program::periodic(stacks::COMPUTE, 100_000, 490_000_000)).within([1]).on(1);
    case.tasks.push(TaskSpec { kthread: true, ..kthread });
    Scenario {
        name: "light-and-alone-before",
        case,
        check: |kernel| {
            let figures = kernel.all_figures();
            let ran_ns = figures[1].ran_ns - 300_000_000;
            expect("weight 100 over 1", ratio(figures[0].ran_ns, ran_ns), 80.0, 125.0)
        },
    }
}

/// Daemons that gain little beside a full machine: they take CPUs of tasks that gain little, too,
/// unless such tasks have much less than equal progress.
pub(super) fn daemons() -> Scenario {
    let stacks = [stacks::COMPUTE; 4].into_iter().chain([stacks::CHASE; 4]);
    let mut case = busy("4P+4E", &stacks.collect::<Vec<_>>(), 40);
    case.max_unfairness_permille = UNFAIR_WITHOUT_BOUND;
    case.tasks.iter_mut().enumerate().for_each(|(cpu, task)| task.start_cpu = cpu);
    for at in 0..4 {
        let program = Program::periodic(stacks::MEMORY, 600_000, 7_000_000 + 830_000 * at as u64);
        case.tasks.push(TaskSpec::new(program).on(at % 2));
    }
    Scenario {
        name: "daemons",
        case,
        check: |kernel| {
            let on_slow = (8..12).map(|task| 1.0 - on_fast(&kernel.figures(task))).sum::<f64>() / 4.0;
            expect("time of daemons on slow CPUs", on_slow, 0.3, 1.0)
        },
    }
}

/// New tasks keep coming, run briefly and end. They leave a busy task its share.
pub(super) fn newcomers() -> Scenario {
    let mut case = busy("1P", &[stacks::COMPUTE], 30);
    for at in 1..1001 {
        let mut ops = vec![Op::Run { stack: stacks::COMPUTE, work_ns: 3_500_000 }];
        ops.extend((at < 1000).then_some(Op::Spawn { task: at + 1 }));
        ops.push(Op::End);
        let task = TaskSpec::new(Program { ops, repeat: false });
        case.tasks.push(TaskSpec { start_ns: (at == 1).then_some(0), ..task });
    }
    Scenario {
        name: "newcomers",
        case,
        check: |kernel| {
            let share = ratio(kernel.figures(0).ran_ns, kernel.now());
            expect("share of a busy task beside one new task at a time", share, 0.3, 0.7)
        },
    }
}

/// Three tasks of one cgroup beside one of another.
pub(super) fn cgroups() -> Scenario {
    let mut case = busy("1P", &[stacks::COMPUTE; 4], 30);
    case.groups = vec![GroupSpec::new(0, 100); 2];
    for (task, group) in case.tasks.iter_mut().zip([1, 1, 1, 2]) {
        task.group = group;
    }
    Scenario {
        name: "cgroups",
        case,
        check: |kernel| {
            let figures = kernel.all_figures();
            let three: u64 = figures[..3].iter().map(|figures| figures.ran_ns).sum();
            expect("a group of three tasks over one of one", ratio(three, figures[3].ran_ns), 0.85, 1.15)
        },
    }
}

/// The weight of one of two busy cgroups in a third changes.
pub(super) fn group_weight() -> Scenario {
    let mut case = cgroups().case;
    case.groups = vec![GroupSpec::new(0, 100), GroupSpec::new(1, 100), GroupSpec::new(1, 100)];
    case.tasks.iter_mut().for_each(|task| task.group += 1);
    case.disturbances =
        vec![Disturb { at_ns: 1_000_000, what: Disturbance::GroupWeight { group: 3, weight: 300 } }];
    Scenario {
        name: "group-weight",
        case,
        check: |kernel| {
            let figures = kernel.all_figures();
            let three: u64 = figures[..3].iter().map(|figures| figures.ran_ns).sum();
            expect("weight 300 over 100", ratio(figures[3].ran_ns, three), 2.5, 3.5)
        },
    }
}

/// A task that begins on the slowest of nearly equal CPUs, alone.
pub(super) fn preferred() -> Scenario {
    let mut case = busy("NEAR", &[stacks::COMPUTE], 10);
    case.tasks[0].start_cpu = 3;
    Scenario { name: "preferred", case, check: |kernel| expect("STP", kernel.stp(), 0.98, 1.0) }
}

/// Equal tasks on unequal CPUs, fewer than CPUs.
pub(super) fn three_on_four() -> Scenario {
    Scenario {
        name: "three-on-four",
        case: busy("2F2S", &[stacks::COMPUTE; 3], 20),
        check: |kernel| {
            expect("least over most work", evenness(&kernel.all_figures()), 0.85, 1.0)?;
            expect("STP", kernel.stp(), 2.35, 2.41)
        },
    }
}

/// Equal tasks, twice as many as CPUs.
pub(super) fn eight_on_four() -> Scenario {
    Scenario {
        name: "eight-on-four",
        case: busy("2F2S", &[stacks::MIXED; 8], 30),
        check: |kernel| expect("least over most work", evenness(&kernel.all_figures()), 0.85, 1.0),
    }
}

/// Tasks that execute belong on fast CPUs, tasks that wait for memory on slow ones.
pub(super) fn mix() -> Scenario {
    let mut case = busy("2F2S", &[stacks::MEMORY, stacks::MEMORY, stacks::COMPUTE, stacks::COMPUTE], 20);
    for (cpu, task) in case.tasks.iter_mut().enumerate() {
        task.start_cpu = cpu;
        task.start_ns = Some(cpu as u64 * 100_000);
    }
    Scenario {
        name: "mix",
        case,
        check: |kernel| {
            for task in [2, 3] {
                expect(
                    "time of a task that executes on fast CPUs",
                    on_fast(&kernel.figures(task)),
                    0.75,
                    1.0,
                )?;
            }
            expect("time of a task that waits for memory on fast CPUs", on_fast(&kernel.figures(0)), 0.0, 0.4)
        },
    }
}

/// Tasks change their behaviour every 300 ms, and placement follows.
pub(super) fn mix_that_changes() -> Scenario {
    let mut case = busy("2F2S", &[stacks::COMPUTE; 4], 20);
    for (at, task) in case.tasks.iter_mut().enumerate() {
        let phases = [
            Op::Run { stack: stacks::COMPUTE, work_ns: 300_000_000 },
            Op::Run { stack: stacks::MEMORY, work_ns: 250_000_000 },
        ];
        task.program = Program { ops: phases.to_vec(), repeat: true };
        task.program.ops.rotate_left(at % 2);
    }
    Scenario { name: "mix-that-changes", case, check: |kernel| expect("STP", kernel.stp(), 3.4, 3.7) }
}

/// Tasks fill whole cores before siblings.
pub(super) fn siblings() -> Scenario {
    let mut case = busy("P2E4", &[stacks::COMPUTE; 6], 10);
    case.tasks.iter_mut().for_each(|task| task.start_cpu = 0);
    Scenario {
        name: "siblings",
        case,
        check: |kernel| expect("STP of six tasks on two fast and four slow cores", kernel.stp(), 3.5, 3.61),
    }
}

/// Tasks forked under one cache spread over two.
pub(super) fn caches() -> Scenario {
    let mut case = busy("8P,llcs=2", &[stacks::COMPUTE; 12], 20);
    case.tasks.iter_mut().enumerate().for_each(|(at, task)| task.start_cpu = at % 4);
    Scenario {
        name: "caches",
        case,
        check: |kernel| expect("least over most work", evenness(&kernel.all_figures()), 0.75, 1.0),
    }
}

/// Two nodes start with unequal crowds. On every CPU of both, tasks wait at any time.
pub(super) fn nodes() -> Scenario {
    let mut case = busy("8P,nodes=2", &[stacks::COMPUTE; 24], 60);
    case.tasks.iter_mut().enumerate().for_each(|(at, task)| task.start_cpu = at % 4);
    Scenario {
        name: "nodes",
        case,
        check: |kernel| expect("least over most work", evenness(&kernel.all_figures()), 0.87, 1.0),
    }
}

/// The same where each cache has a class of its own.
pub(super) fn unequal_caches() -> Scenario {
    let mut case = busy("SPLIT", &[stacks::COMPUTE; 12], 20);
    case.tasks.iter_mut().enumerate().for_each(|(at, task)| task.start_cpu = at % 4);
    Scenario {
        name: "unequal-caches",
        case,
        check: |kernel| expect("least over most work", evenness(&kernel.all_figures()), 0.7, 1.0),
    }
}

/// Two halves of a machine in unequal demand, confined by affinity. Weights count in both.
pub(super) fn partitions() -> Scenario {
    let mut case = busy("4P", &[stacks::COMPUTE; 16], 40);
    for (at, task) in case.tasks.iter_mut().enumerate() {
        *task = task.clone().within(if at < 4 { [0, 1] } else { [2, 3] }).on(if at < 4 { 0 } else { 2 });
    }
    for task in [0, 1, 4, 5, 6] {
        case.tasks[task].weight = 300;
    }
    Scenario {
        name: "partitions",
        case,
        check: |kernel| {
            let ran: Vec<u64> = kernel.all_figures().iter().map(|figures| figures.ran_ns).collect();
            let mean = |tasks: &[u64]| tasks.iter().sum::<u64>() / tasks.len() as u64;
            let half = |of: &[u64], heavy| ratio(mean(&of[..heavy]), mean(&of[heavy..]));
            expect("weight 300 over 100 in the emptier half", half(&ran[..4], 2), 2.7, 3.3)?;
            expect("weight 300 over 100 in the other half", half(&ran[4..], 3), 2.7, 3.3)
        },
    }
}

/// Weights count on a CPU beside a heavy task that is alone on another one. Its vtime hardly moves.
pub(super) fn beside_heavy() -> Scenario {
    let mut case = busy("2P", &[stacks::COMPUTE; 3], 40);
    for (at, weight) in [300, 100, 10_000].into_iter().enumerate() {
        let cpu = at / 2;
        case.tasks[at] = case.tasks[at].clone().within([cpu]).on(cpu);
        case.tasks[at].weight = weight;
    }
    Scenario {
        name: "beside-heavy",
        case,
        check: |kernel| {
            let figures = kernel.all_figures();
            expect("weight 300 over 100", ratio(figures[0].ran_ns, figures[1].ran_ns), 2.7, 3.3)
        },
    }
}

/// Return a case of 4 s with a busy task of each of these weights.
fn weighing(machine: &str, weights: &[u32]) -> Case {
    let mut case = busy(machine, &vec![stacks::COMPUTE; weights.len()], 40);
    case.tasks.iter_mut().zip(weights).for_each(|(task, weight)| task.weight = *weight);
    case
}

/// Weights count among tasks of any affinity beside one that weighs more than a CPU's part.
pub(super) fn beside_heavier() -> Scenario {
    let case = weighing("4P", &[1000, 300, 300, 300, 100, 100, 100]);
    Scenario {
        name: "beside-heavier",
        case,
        check: |kernel| {
            let ran: Vec<u64> = kernel.all_figures().iter().map(|figures| figures.ran_ns).collect();
            let (heavy, light) = (ran[1..4].iter().sum(), ran[4..].iter().sum());
            expect("CPUs of the heaviest task", ratio(ran[0], kernel.now()), 0.98, 1.0)?;
            expect("weight 300 over 100", ratio(heavy, light), 2.7, 3.3)
        },
    }
}

/// The weight of a task that weighs more than a CPU's part counts against another one that is
/// pinned to the same CPU, beside light tasks on the other CPUs.
pub(super) fn heavy_and_pinned() -> Scenario {
    let mut case = weighing("3P", &[1000, 250, 10, 10, 10, 10, 10]);
    for task in &mut case.tasks[..2] {
        *task = task.clone().within([0]);
    }
    Scenario {
        name: "heavy-and-pinned",
        case,
        check: |kernel| {
            let figures = kernel.all_figures();
            expect("weight 1000 over 250", ratio(figures[0].ran_ns, figures[1].ran_ns), 3.6, 4.4)
        },
    }
}

/// The same with three such tasks and a lighter one on two CPUs.
pub(super) fn heavy_and_confined() -> Scenario {
    let mut case = weighing("4P", &[1000, 1000, 1000, 250, 10, 10, 10, 10, 10]);
    for task in &mut case.tasks[..4] {
        *task = task.clone().within([0, 1]);
    }
    Scenario {
        name: "heavy-and-confined",
        case,
        check: |kernel| {
            let figures = kernel.all_figures();
            let heavy: u64 = figures[..3].iter().map(|figures| figures.ran_ns).sum();
            expect("weight 3000 over 250", ratio(heavy, figures[3].ran_ns), 10.0, 14.0)
        },
    }
}

/// Weights count among tasks that are confined to two CPUs with one that has a CPU to itself, and
/// among the others.
pub(super) fn confined_beside_heavier() -> Scenario {
    let mut case = weighing("4P", &[3000, 300, 300, 100, 100, 300, 300, 100, 100]);
    for task in &mut case.tasks[..5] {
        *task = task.clone().within([0, 1]);
    }
    Scenario {
        name: "confined-beside-heavier",
        case,
        check: |kernel| {
            let ran: Vec<u64> = kernel.all_figures().iter().map(|figures| figures.ran_ns).collect();
            expect("CPUs of the heaviest task", ratio(ran[0], kernel.now()), 0.98, 1.0)?;
            for first in [1, 5] {
                let (heavy, light) = (ran[first] + ran[first + 1], ran[first + 2] + ran[first + 3]);
                expect("weight 300 over 100", ratio(heavy, light), 2.7, 3.3)?;
            }
            Ok(())
        },
    }
}

/// Weights count among tasks that are pinned to one CPU, though others wait longer elsewhere.
pub(super) fn pinned_beside_crowd() -> Scenario {
    let mut case = busy("4P", &[stacks::COMPUTE; 24], 40);
    for (at, task) in case.tasks.iter_mut().enumerate() {
        *task = if at < 4 { task.clone().within([at / 2]) } else { task.clone().within([2, 3]) };
        task.start_cpu = if at < 4 { at / 2 } else { 2 + at % 2 };
        task.weight = if matches!(at, 0 | 2) { 300 } else { 100 };
    }
    Scenario {
        name: "pinned-beside-crowd",
        case,
        check: |kernel| {
            let ran: Vec<u64> = kernel.all_figures().iter().map(|figures| figures.ran_ns).collect();
            expect("weight 300 over 100 on CPU 0", ratio(ran[0], ran[1]), 2.7, 3.3)?;
            expect("weight 300 over 100 on CPU 1", ratio(ran[2], ran[3]), 2.7, 3.3)
        },
    }
}

/// Weights count among tasks that are pinned to one CPU, while others have a CPU each to
/// themselves, and `free` tasks share two CPUs that are in less demand.
fn pinned_and_free(free: usize) -> Case {
    let mut case = busy("16P", &[stacks::COMPUTE; 15], 40);
    for (at, task) in case.tasks.iter_mut().enumerate() {
        let cpu = at.saturating_sub(1);
        *task = task.clone().within([cpu]).on(cpu);
    }
    case.tasks[1].weight = 50;
    case.tasks.extend((0..free).map(|at| TaskSpec::new(Program::busy(stacks::COMPUTE)).on(14 + at % 2)));
    case
}

fn pinned_have_their_weights(kernel: &Kernel) -> Result<(), String> {
    let figures = kernel.all_figures();
    expect("twice the weight", ratio(figures[0].ran_ns, figures[1].ran_ns), 1.9, 2.1)
}

pub(super) fn pinned_beside_lone() -> Scenario {
    Scenario { name: "pinned-beside-lone", case: pinned_and_free(2), check: pinned_have_their_weights }
}

pub(super) fn pinned_beside_free() -> Scenario {
    Scenario { name: "pinned-beside-free", case: pinned_and_free(6), check: pinned_have_their_weights }
}

/// The same where one of the two weighs more than a CPU's part.
pub(super) fn heavy_beside_free() -> Scenario {
    let mut case = pinned_and_free(6);
    (case.tasks[0].weight, case.tasks[1].weight) = (600, 300);
    Scenario { name: "heavy-beside-free", case, check: pinned_have_their_weights }
}

/// A task that hops between two caches, at the same time as its peers end slices there, gains
/// nothing.
pub(super) fn hoppers() -> Scenario {
    let mut case = busy("8P,llcs=2", &[stacks::COMPUTE; 17], 40);
    for (at, task) in case.tasks.iter_mut().enumerate() {
        let first = if at < 8 { 0 } else { 4 };
        *task = task.clone().within(first..first + 4).on(first + at % 4);
    }
    for at in 1..390 {
        let to = |at_ns, cpus: std::ops::Range<usize>| {
            let what = Disturbance::Affinity { task: 16, cpus: cpus.collect() };
            Disturb { at_ns, what }
        };
        case.disturbances.extend([to(at * 10_000_000, 0..4), to(at * 10_000_000 + 300_000, 4..8)]);
    }
    Scenario {
        name: "hoppers",
        case,
        check: |kernel| {
            let used = ratio(kernel.figures(16).ran_ns, kernel.now());
            expect("CPUs of a task of 17 on eight that hops", used, 0.42, 0.49)
        },
    }
}

/// A cgroup of two tasks and one of eighty, all of them new, have the same weight. A task of the
/// larger one runs for a tick at least, which is eighty times as long for its group.
pub(super) fn new_group() -> Scenario {
    let mut case = busy("2P", &[stacks::COMPUTE; 82], 40);
    case.tick_ns = 4_000_000;
    case.duration_ns = 1_000_000_000;
    case.groups = vec![GroupSpec::new(0, 100); 2];
    for (at, task) in case.tasks.iter_mut().enumerate() {
        (task.group, task.start_cpu) = (if at < 2 { 1 } else { 2 }, at % 2);
    }
    Scenario {
        name: "new-group",
        case,
        check: |kernel| {
            let figures = kernel.all_figures();
            let longest_ms = figures[..2].iter().map(|one| one.longest_wait_ns / 1_000_000).max();
            expect("longest wait in the smaller group [ms]", longest_ms.unwrap_or(0) as f64, 0.0, 60.0)
        },
    }
}

/// There are more equal computing tasks than fast CPUs. The bound on unfairness limits their
/// differences in progress.
pub(super) fn unequal_demand() -> Scenario {
    let stacks = [stacks::COMPUTE; 6].into_iter().chain([stacks::CHASE; 2]);
    let mut case = busy("2F2S", &stacks.collect::<Vec<_>>(), 40);
    case.duration_ns = 8_000_000_000;
    Scenario {
        name: "unequal-demand",
        case,
        check: |kernel| expect("least over most work", evenness(&kernel.all_figures()), 0.77, 0.85),
    }
}

/// Two tasks have the fast CPUs to themselves, while a crowd is pinned to the slow ones and makes
/// less progress. Unpinned tasks that come later must not keep those two waiting until all are
/// level.
pub(super) fn after_a_crowd() -> Scenario {
    let mut case = busy("2F2S", &[stacks::COMPUTE; 18], 40);
    for (at, task) in case.tasks.iter_mut().enumerate() {
        match at {
            0..2 => {}
            2..10 => {
                let cpu = 2 + at % 2;
                let ops = vec![Op::Run { stack: stacks::COMPUTE, work_ns: 500_000_000 }, Op::End];
                *task = TaskSpec::new(Program { ops, repeat: false }).on(cpu).within([cpu]);
            }
            _ => task.start_ns = Some(6_000_000_000),
        }
    }
    case.duration_ns = 8_000_000_000;
    Scenario {
        name: "after-a-crowd",
        case,
        check: |kernel| {
            let longest_ms =
                kernel.all_figures()[..2].iter().map(|one| one.longest_wait_ns / 1_000_000).max();
            expect("longest wait of the two [ms]", longest_ms.unwrap_or(0) as f64, 0.0, 250.0)
        },
    }
}

/// A cgroup of two tasks and one of a hundred have the same weight. A tick charges each of the
/// hundred a second, so that many of them are far ahead.
pub(super) fn group_of_many() -> Scenario {
    let mut case = busy("2P", &[stacks::COMPUTE; 102], 100);
    (case.tick_ns, case.groups) = (10_000_000, vec![GroupSpec::new(0, 100); 2]);
    for (at, task) in case.tasks.iter_mut().enumerate() {
        (task.group, task.start_cpu) = (if at < 2 { 1 } else { 2 }, at % 2);
    }
    Scenario {
        name: "group-of-many",
        case,
        check: |kernel| {
            let ran: Vec<u64> = kernel.all_figures().iter().map(|figures| figures.ran_ns).collect();
            expect("two over a hundred", ratio(ran[..2].iter().sum(), ran[2..].iter().sum()), 0.9, 1.1)
        },
    }
}

/// Weights count at each level of a hierarchy.
pub(super) fn nested() -> Scenario {
    let mut case = busy("1P", &[stacks::COMPUTE; 4], 40);
    // Group 1 has weight 200 and the children 2 and 3, of weights 100 and 300. Group 4 has 100.
    case.groups = [(0, 200), (1, 100), (1, 300), (0, 100)]
        .map(|(parent, weight)| GroupSpec::new(parent, weight))
        .to_vec();
    for (task, group) in case.tasks.iter_mut().zip([2, 3, 4, 4]) {
        task.group = group;
    }
    Scenario {
        name: "nested",
        case,
        check: |kernel| {
            let ran: Vec<u64> = kernel.all_figures().iter().map(|figures| figures.ran_ns).collect();
            expect("weight 300 over 100 within a group", ratio(ran[1], ran[0]), 2.6, 3.4)?;
            expect("weight 200 over 100 at the top", ratio(ran[0] + ran[1], ran[2] + ran[3]), 1.8, 2.2)
        },
    }
}

/// Two cgroups with limits, one inside the other, and a task without. The limit of the outer one
/// is more than a CPU, and changes halfway.
pub(super) fn limits() -> Scenario {
    let mut case = busy("4P", &[stacks::COMPUTE; 6], 40);
    case.groups = vec![
        GroupSpec::new(0, 100).limited(150_000, 100_000),
        GroupSpec::new(1, 100).limited(20_000, 100_000),
    ];
    for (task, group) in case.tasks.iter_mut().zip([1, 1, 1, 2, 2, 0]) {
        task.group = group;
    }
    let half = Disturbance::GroupMax { group: 2, max_us: None };
    case.disturbances = vec![Disturb { at_ns: 2_000_000_000, what: half }];
    Scenario {
        name: "limits",
        case,
        check: |kernel| {
            let ran: Vec<u64> = kernel.all_figures().iter().map(|figures| figures.ran_ns).collect();
            let (outer, inner) = (ran[..5].iter().sum::<u64>(), ran[3] + ran[4]);
            expect("CPUs that the outer group used, of 1.5", ratio(outer, kernel.now()), 1.47, 1.53)?;
            // 0.2 CPUs before the change. A quarter of 1.5 is due by weight after it, but weights
            // count less in a throttled group (throttle.bpf.h).
            expect("CPUs that the inner group used, of 0.29", ratio(inner, kernel.now()), 0.22, 0.32)?;
            expect("CPUs that the task without a limit used", ratio(ran[5], kernel.now()), 0.98, 1.0)
        },
    }
}

/// A limited cgroup of tasks that sleep, on fewer CPUs than tasks.
pub(super) fn limited_sleepers() -> Scenario {
    let mut case = busy("2F2S", &[], 40);
    case.groups = vec![GroupSpec::new(0, 100).limited(50_000, 100_000)];
    for _ in 0..8 {
        case.tasks.push(TaskSpec::new(Program::periodic(stacks::MIXED, 700_000, 900_000)));
    }
    case.tasks.iter_mut().for_each(|task| task.group = 1);
    Scenario {
        name: "limited-sleepers",
        case,
        check: |kernel| {
            let ran: u64 = kernel.all_figures().iter().map(|figures| figures.ran_ns).sum();
            expect("CPUs that the group used, of 0.5", ratio(ran, kernel.now()), 0.49, 0.51)
        },
    }
}
