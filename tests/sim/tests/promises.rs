// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Promises about shares and waits at the edges: light, sleeping, forking, confined and hopping
//! tasks, ticks of 4 ms, crowds, and real-time work.
//!
//! A promise that the scheduler breaks today is a known defect with its cause. Its repair replaces
//! `known_defect("cause", ...)` by `holds(...)`.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use bias_sim::campaign;
use bias_sim::case::{Case, Disturb, Disturbance, GroupSpec, TaskSpec};
use bias_sim::kernel::Kernel;
use bias_sim::known::{holds, known_defect};
use bias_sim::load::{Op, Program, stacks};
use bias_sim::release::Release;
use bias_sim::scenario::{self, Figures};
use bias_sim::unit::Image;

const MS: u64 = 1_000_000;

fn busy() -> TaskSpec {
    TaskSpec::new(Program::busy(stacks::COMPUTE))
}

fn weighing(weight: u32, task: TaskSpec) -> TaskSpec {
    TaskSpec { weight, ..task }
}

/// A case of `ms` virtual milliseconds with a tick every `tick_us`.
fn case(machine: &str, ms: u64, tick_us: u64, tasks: Vec<TaskSpec>) -> Case {
    let mut case = Case::new(machine, 1);
    (case.duration_ns, case.tick_ns, case.tasks) = (ms * MS, tick_us * 1000, tasks);
    case
}

/// Run a case. Return the figures of its tasks and its length [ns], or the broken rule.
fn run(case: Case) -> Result<(Vec<Figures>, f64), String> {
    let kernel = Kernel::new(case, Image::Plain).unwrap();
    kernel.run().map_err(|fault| fault.to_string())?;
    Ok((kernel.all_figures(), kernel.now() as f64))
}

/// Return how many CPUs these tasks used.
fn cpus(figures: &[Figures], now: f64) -> f64 {
    figures.iter().map(|figures| figures.ran_ns).sum::<u64>() as f64 / now
}

/// Return the error `broken` unless `kept`.
fn expect(kept: bool, broken: String) -> Result<(), String> {
    if kept { Ok(()) } else { Err(broken) }
}

/// 14 sleepers of weight 1 beside 2 busy tasks of weight 100 are due 14/214 of two CPUs.
#[test]
fn sleepers_of_a_small_weight_stay_light() {
    holds(|| {
        let mut tasks: Vec<_> = (0..2).map(|cpu| busy().on(cpu)).collect();
        let sleeper = TaskSpec::new(Program::periodic(stacks::COMPUTE, 900_000, 6 * MS));
        tasks.extend((0..14).map(|at| weighing(1, sleeper.clone().on(at % 2))));
        let (figures, now) = run(case("2P", 4000, 1000, tasks))?;
        let used = cpus(&figures[2..], now);
        expect(used < 0.25, format!("sleepers of weight 1 use {used:.2} CPUs, due 0.13"))
    });
}

/// 16 sleepers beside 20 busy tasks of equal weight leave them 20/36 of two CPUs.
#[test]
fn sleepers_leave_busy_tasks_their_share() {
    holds(|| {
        let mut tasks: Vec<_> = (0..20).map(|at| busy().on(at % 2)).collect();
        let sleeper = TaskSpec::new(Program::periodic(stacks::COMPUTE, 900_000, 5_500_000));
        tasks.extend(
            (0..16).map(|at| TaskSpec { start_ns: Some(at as u64 * 430_000), ..sleeper.clone().on(at % 2) }),
        );
        let (figures, now) = run(case("2P", 4000, 1000, tasks))?;
        let used = cpus(&figures[..20], now);
        expect(used > 0.93, format!("20 busy tasks use {used:.2} CPUs, due 1.11"))
    });
}

/// Seven tasks that run for less than a tick and sleep three times as long leave three busy tasks
/// their share: each of the ten is due a fifth of a CPU.
#[test]
fn tasks_that_sleep_before_each_tick_leave_busy_tasks_their_share() {
    holds(|| {
        let sleeper = TaskSpec::new(Program::periodic(stacks::COMPUTE, 1_440_000, 4_360_000));
        let mut tasks: Vec<_> = (0..3).map(|at| busy().on(at % 2)).collect();
        tasks.extend((0..7).map(|at| sleeper.clone().on(at % 2)));
        let (figures, now) = run(case("2P", 5000, 4000, tasks))?;
        let used = cpus(&figures[..3], now);
        expect(used > 0.45, format!("3 busy tasks use {used:.2} CPUs, due 0.60"))
    });
}

/// The kernel ends the scheduler if a task waits for `timeout_ms`. The rule `starved` is broken
/// earlier.
#[test]
fn a_task_of_nice_19_beside_35_tasks_a_cpu_does_not_stall() {
    holds(|| {
        let mut tasks: Vec<_> = (0..70).map(|at| busy().on(at % 2)).collect();
        tasks.push(weighing(1, busy()));
        run(case("2P", 10_000, 4000, tasks)).map(|_| ())
    });
}

/// The same beside one task of cpu.weight 10000 on each CPU.
#[test]
fn a_light_task_beside_heavy_ones_does_not_stall() {
    holds(|| {
        let mut tasks: Vec<_> = (0..2).map(|cpu| weighing(10_000, busy().on(cpu))).collect();
        tasks.push(weighing(1, busy()));
        run(case("2P", 10_000, 1000, tasks)).map(|_| ())
    });
}

/// 60 tasks that may use two of four CPUs are at the head of the DSQ. The others use the other two.
#[test]
fn a_confined_crowd_hides_no_task() {
    holds(|| {
        let mut tasks: Vec<_> = (0..4).map(|cpu| busy().on(cpu)).collect();
        tasks.extend((0..60).map(|at| busy().within([0, 1]).on(at % 2)));
        let (figures, _) = run(case("4P", 4000, 1000, tasks))?;
        let ran_ms: Vec<u64> = figures[..4].iter().map(|figures| figures.ran_ns / MS).collect();
        let wait_ms = figures[..4].iter().map(|figures| figures.longest_wait_ns / MS).max().unwrap();
        expect(wait_ms < 100, format!("a free task waits for {wait_ms} ms; they ran {ran_ms:?} ms"))
    });
}

/// Light tasks of an affinity gain nothing for heavier tasks of the same affinity.
#[test]
fn light_tasks_gain_nothing_for_heavier_ones_of_their_affinity() {
    holds(|| {
        let mut tasks: Vec<_> = (0..4).map(|at| busy().within([0, 1, 2]).on(at % 3)).collect();
        tasks.extend((0..4).map(|cpu| busy().on(cpu)));
        tasks.extend((0..8).map(|at| weighing(1, busy().within([0, 1, 2]).on(at % 3))));
        let (figures, now) = run(case("4P", 5000, 4000, tasks))?;
        let ratio = cpus(&figures[..4], now) / cpus(&figures[4..8], now);
        expect(ratio < 1.1, format!("four tasks get {ratio:.2} times the CPU time of four equal ones"))
    });
}

/// A chain of tasks, each of which forks the next and ends, gets what one task of the weight gets.
#[test]
fn a_chain_of_forks_sheds_no_weight() {
    holds(|| {
        let mut tasks: Vec<_> = (0..4).map(|at| busy().on(at % 2)).collect();
        for at in 4..2004 {
            let mut ops = vec![Op::Run { stack: stacks::COMPUTE, work_ns: 900_000 }];
            if at < 2003 {
                ops.push(Op::Spawn { task: at + 1 });
            }
            ops.push(Op::End);
            let link = weighing(1, TaskSpec::new(Program { ops, repeat: false }));
            tasks.push(TaskSpec { start_ns: (at == 4).then_some(0), ..link });
        }
        let (figures, now) = run(case("2P", 3000, 1000, tasks))?;
        let used = cpus(&figures[4..], now);
        expect(used < 0.05, format!("a chain of weight 1 uses {used:.2} CPUs; one such task gets 0.005"))
    });
}

/// Two groups of equal weight get equal CPU time, though one has 2 tasks and the other 100.
#[test]
fn a_group_of_many_tasks_gets_no_more_than_its_weight() {
    holds(|| {
        let in_group = |group, at: usize| TaskSpec { group, ..busy().on(at % 2) };
        let few = (0..2).map(|at| in_group(1, at));
        let tasks = few.chain((0..100).map(|at| in_group(2, at))).collect();
        let mut case = case("2P", 6000, 4000, tasks);
        case.groups = vec![GroupSpec::new(0, 100), GroupSpec::new(0, 100)];
        let (figures, now) = run(case)?;
        let used = cpus(&figures[..2], now);
        expect((0.9..1.1).contains(&used), format!("the group of two uses {used:.2} CPUs, due 1"))
    });
}

/// Weight 100 gets about 100 times the CPU time of weight 1 at 250 ticks a second.
#[test]
fn nice_holds_at_250_ticks_a_second() {
    holds(|| {
        let tasks = (0..4).map(|at| weighing([100, 1][at / 2], busy().on(at % 2))).collect();
        let (figures, now) = run(case("2P", 6000, 4000, tasks))?;
        let ratio = cpus(&figures[..2], now) / cpus(&figures[2..], now);
        expect(ratio > 80.0, format!("weight 100 gets {ratio:.0} times the time of weight 1"))
    });
}

/// Tasks of equal weight progress alike where more of them compute than fast CPUs exist, or fewer.
#[test]
fn classes_in_unequal_demand_progress_alike() {
    holds(|| {
        for (compute, chase) in [(6, 2), (7, 1), (2, 6)] {
            let kind = |stack| TaskSpec::new(Program::busy(stack));
            let chasing = (0..chase).map(|_| kind(stacks::CHASE));
            let tasks = (0..compute).map(|_| kind(stacks::COMPUTE)).chain(chasing).collect();
            let (figures, _) = run(case("2F2S", 8000, 1000, tasks))?;
            let work_ms: Vec<u64> = figures.iter().map(|figures| figures.work_ns / MS).collect();
            let (most, least) = (*work_ms.iter().max().unwrap(), *work_ms.iter().min().unwrap());
            let ratio = most as f64 / least as f64;
            let broken = format!("{compute} + {chase}: most over least {ratio:.2}, {work_ms:?} ms");
            expect(ratio < 1.3, broken)?;
        }
        Ok(())
    });
}

/// A cgroup beyond the table of groups obeys the limit of its parent.
#[test]
fn a_child_beyond_the_table_is_limited_by_its_parent() {
    holds(|| {
        let mut case = case("2P", 2000, 1000, vec![TaskSpec { group: 16_391, ..busy() }]);
        case.groups = vec![GroupSpec::new(0, 100).limited(10_000, 100_000)];
        case.groups.extend((0..16_390).map(|_| GroupSpec::new(1, 100)));
        let (figures, now) = run(case)?;
        let used = cpus(&figures, now);
        expect(used < 0.12, format!("a task limited to 0.1 CPUs uses {used:.2}"))
    });
}

/// A wakee does not wait for a burst of real-time work beside idle CPUs.
#[test]
fn real_time_work_on_an_idle_cpu_strands_no_wakee() {
    let families = scenario::families();
    let family = families.iter().find(|one| one.name == "wakee-beside-real-time").unwrap();
    let cases = |release| {
        (0..100).try_for_each(|seed| {
            let case = Case { release, ..family.with(seed).case };
            run(case).map(drop).map_err(|what| format!("{release:?}, seed {seed}: {what}"))
        })
    };
    for release in Release::ALL {
        if release.reenqueues_for_all() {
            holds(|| cases(release));
        } else {
            let cause = "the kernel reports a CPU that is taken only where a SCHED_EXT task ran";
            known_defect(cause, || cases(release));
        }
    }
}

/// A kernel thread that runs for 0.9 ms and sleeps for 0.1 ms shares its CPU with a pinned task.
#[test]
fn a_kernel_thread_that_sleeps_briefly_leaves_a_pinned_task_its_share() {
    holds(|| {
        let kthread = TaskSpec::new(Program::periodic(stacks::COMPUTE, 900_000, 100_000)).within([0]);
        let tasks = vec![busy().within([0]), TaskSpec { kthread: true, ..kthread }];
        let (figures, now) = run(case("2P", 3000, 1000, tasks))?;
        let used = cpus(&figures[..1], now);
        expect(
            used > 0.48,
            format!("a pinned task uses {used:.2} of its CPU beside a kernel thread, due 0.5"),
        )
    });
}

/// Run 24 cases of a family.
fn keeps_rules(family: &str) {
    let families = scenario::families();
    let family = families.iter().find(|one| one.name == family).unwrap();
    for seed in 0..24 {
        assert_eq!(campaign::reach(&family.with(seed), Image::Plain).unwrap(), None, "seed {seed}");
    }
}

/// Pinned tasks, tasks with migration disabled and kernel threads of its own wait, on each release.
#[test]
fn a_cpu_with_waiting_tasks_of_its_own_goes_offline() {
    keeps_rules("offline");
}

#[test]
fn a_fast_cpu_that_goes_offline_pulls_no_task() {
    keeps_rules("fastest-leaves");
}

/// CPU 1 is about to go offline and still has its idle mark. A real-time task drives a task off
/// CPU 0, while CPUs 2 and 3 idle.
#[test]
fn a_cpu_about_to_go_offline_delays_no_task() {
    holds(|| {
        for seed in 0..20 {
            let mut case = case("4P", 100, 1000, vec![busy().on(0)]);
            case.seed = seed;
            case.disturbances = vec![
                Disturb { at_ns: 5 * MS, what: Disturbance::Offline { cpu: 1 } },
                Disturb { at_ns: 5 * MS + 150_000, what: Disturbance::RealTime { cpu: 0, ns: 50 * MS } },
            ];
            run(case)?;
        }
        Ok(())
    });
}
