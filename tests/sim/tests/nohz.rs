// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! CPUs of nohz_full: a single task runs without a tick, and no other task waits for it.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use bias_sim::case::{Case, Disturbance, GroupSpec, Interleave, TaskSpec};
use bias_sim::kernel::Kernel;
use bias_sim::load::{Op, Program, stacks};
use bias_sim::machine::Machine;
use bias_sim::scenario::Figures;
use bias_sim::unit::Image;
use bias_sim::{campaign, fault_report, findings, random};

const SECOND_NS: u64 = 1_000_000_000;

fn busy() -> TaskSpec {
    TaskSpec::new(Program::busy(stacks::COMPUTE))
}

/// Run `tasks` for 10 s on `machine`, all CPUs but CPU 0 in nohz_full.
fn run(machine: &str, cpus: usize, tasks: Vec<TaskSpec>) -> Vec<Figures> {
    let mut case = Case::new(machine, 1);
    (case.duration_ns, case.tasks, case.nohz_full) = (10 * SECOND_NS, tasks, (1..cpus).collect());
    let kernel = Kernel::new(case, Image::Plain).unwrap();
    assert_eq!(kernel.run(), Ok(()));
    kernel.all_figures()
}

/// The first slice has a tick each millisecond, and the kernel's remote tick comes once a second.
const FEW_TICKS: u64 = 30;

#[test]
fn a_single_task_has_no_ticks() {
    let pinned = run("2F2S", 4, vec![busy().within([3]).on(3)]);
    assert!(pinned[0].ticks < FEW_TICKS, "{pinned:?}");
    let free = run("4P", 4, vec![busy().within([1, 2, 3]).on(1)]);
    assert!(free[0].ticks < FEW_TICKS, "{free:?}");
}

#[test]
fn a_task_that_may_move_for_speed_ticks() {
    let figures = run("2F2S", 4, vec![busy().within([1, 3]).on(3)]);
    assert!(figures[0].ticks > 9_000, "{figures:?}");
}

/// A second task comes to the CPU while the first one has no tick.
#[test]
fn a_task_that_comes_later_gets_its_share() {
    for machine in ["4P", "2F2S"] {
        let later = TaskSpec { start_ns: Some(4 * SECOND_NS), ..busy() };
        let figures = run(machine, 4, vec![busy().within([3]).on(3), later.within([3]).on(3)]);
        assert!(figures[1].longest_wait_ns < 25_000_000, "{machine}: {figures:?}");
        let share = figures[1].ran_ns as f64 / (3.0 * SECOND_NS as f64);
        assert!((share - 1.0).abs() < 0.02, "{machine}: {share} of half the time");
    }
}

/// A server that is pinned beside a task without a tick waits for a slice at most.
#[test]
fn a_server_is_not_delayed() {
    let server = Program::periodic(stacks::COMPUTE, 200_000, 20_000_000);
    let tasks = vec![busy().within([3]).on(3), TaskSpec::new(server).within([3]).on(3)];
    let figures = run("4P", 4, tasks);
    assert!(figures[1].longest_wait_ns < 15_000_000, "{figures:?}");
    assert!(figures[1].rounds > 450, "{figures:?}");
}

/// Three tasks share two CPUs. Neither ticks before the third one comes.
#[test]
fn tasks_on_several_cpus_make_equal_progress() {
    let later = TaskSpec { start_ns: Some(4 * SECOND_NS), ..busy() };
    let tasks = [busy().on(1), busy().on(2), later.on(1)].map(|task| task.within([1, 2]));
    let figures = run("4P", 4, tasks.to_vec());
    let share = figures[2].ran_ns as f64 / (4.0 * SECOND_NS as f64);
    assert!((share - 1.0).abs() < 0.02, "{share} of two thirds of the time: {figures:?}");
}

/// A task without a tick wakes one of its cgroup on another CPU again and again, while the remote
/// tick settles what its CPU owes to the group.
#[test]
fn no_weight_is_counted_twice_by_a_remote_tick() {
    let mut case = Case::new("4P", 1);
    (case.duration_ns, case.nohz_full, case.remote_tick_ns) = (5 * SECOND_NS, vec![1, 2, 3], 3_000_000);
    case.groups = vec![GroupSpec::new(0, 100)];
    case.interleave = Some(Interleave { permille: 100, longest_ns: 20_000, memory: true });
    let run = |work_ns| Op::Run { stack: stacks::COMPUTE, work_ns };
    let task = |ops, cpu| TaskSpec {
        group: 1,
        ..TaskSpec::new(Program { ops, repeat: true }).on(cpu).within([cpu])
    };
    case.tasks = vec![
        task(vec![run(60_000), Op::Wake { task: 1, sync: false }], 1),
        task(vec![run(20_000), Op::Wait], 0),
    ];
    assert_eq!(campaign::run(&case, Image::Traced).unwrap(), None);
}

/// Known findings do not count. The remote tick is more frequent in half of the cases. A limit that
/// comes while a task runs without a tick is enforced a second late.
#[test]
fn random_cases_break_no_rule() {
    for seed in 0..1000 {
        let mut case = random::short(seed);
        case.nohz_full = (1..Machine::parse(&case.machine).unwrap().cpus.len()).collect();
        if seed % 2 == 1 {
            case.remote_tick_ns = 3_000_000;
        }
        case.disturbances.retain(|one| !matches!(one.what, Disturbance::GroupMax { .. }));
        let fault = campaign::run(&case, Image::Plain).unwrap();
        if let Some(fault) = fault.filter(|fault| !findings::is_known(fault)) {
            panic!("{}", fault_report::describe(&case, &fault, Image::Plain).unwrap());
        }
    }
}
