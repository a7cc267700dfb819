// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Scenarios of waiting: latency, and CPUs that fall idle or are taken beside tasks that wait.

use super::parts::{Family, Scenario, busy, evenness, expect, on_fast, ratio};
use crate::case::{Case, Disturb, Disturbance, TaskSpec};
use crate::ffi;
use crate::kernel::Kernel;
use crate::load::{Op, Program, stacks};
use crate::rng::Rng;

/// A task that sleeps is served soon although every CPU is busy.
pub(super) fn sleeper() -> Scenario {
    let mut case = busy("4P", &[stacks::COMPUTE; 8], 20);
    case.tasks.push(TaskSpec::new(Program::periodic(stacks::COMPUTE, 100_000, 5_000_000)));
    Scenario {
        name: "sleeper",
        case,
        check: |kernel| {
            let figures = kernel.figures(8);
            let mean_us = ratio(figures.waited_ns, figures.switches) / 1000.0;
            expect("mean wait of a sleeper [us]", mean_us, 0.0, 1500.0)?;
            expect("rounds of a sleeper", figures.rounds as f64, 250.0, 400.0)
        },
    }
}

/// Tasks of the least weight beside heavy ones of both kinds, one of them pinned.
pub(super) fn light() -> Scenario {
    let stacks = [stacks::COMPUTE, stacks::CHASE];
    let mut case = busy("2F2S", &stacks.repeat(5), 60);
    case.tick_ns = 4_000_000;
    case.tasks.iter_mut().take(8).for_each(|task| task.weight = 10_000);
    case.tasks.iter_mut().skip(8).for_each(|task| task.weight = 1);
    case.tasks.push(TaskSpec { weight: 1, ..case.tasks[0].clone().within([1]).on(1) });
    Scenario {
        name: "light",
        case,
        check: |kernel| {
            let longest = (8..11).map(|task| kernel.figures(task).longest_wait_ns).max().unwrap_or(0);
            expect("longest wait of a light task [s]", longest as f64 / 1e9, 0.5, 2.6)
        },
    }
}

/// A kernel thread of each CPU runs for a millisecond now and then. The busy task that it preempts
/// stays: it would be back before it found another CPU.
pub(super) fn bursts_of_kthreads() -> Scenario {
    let mut case = busy("8P,llcs=2", &[stacks::COMPUTE; 8], 40);
    for cpu in 0..8 {
        let program = Program::periodic(stacks::COMPUTE, 1_000_000, 19_000_000 + 1_370_000 * cpu as u64);
        let kthread = TaskSpec::new(program).on(cpu).within([cpu]);
        case.tasks[cpu].start_cpu = cpu;
        case.tasks.push(TaskSpec { kthread: true, ..kthread });
    }
    Scenario {
        name: "bursts-of-kthreads",
        case,
        check: |kernel| {
            let migrations: u64 = (0..8).map(|task| kernel.figures(task).migrations).sum();
            expect("migrations of busy tasks by some 1300 bursts", migrations as f64, 0.0, 40.0)
        },
    }
}

/// One task wakes eight beside a hog on each CPU.
pub(super) fn broadcast() -> Scenario {
    let mut case = busy("4P", &[stacks::COMPUTE; 4], 20);
    let first = case.tasks.len();
    let workers: Vec<usize> = (first + 1..first + 9).collect();
    let ops = vec![
        Op::Run { stack: stacks::COMPUTE, work_ns: 50_000 },
        Op::WakeAll { tasks: workers.clone() },
        Op::Sleep { ns: 20_000_000 },
    ];
    case.tasks.push(TaskSpec::new(Program { ops, repeat: true }));
    for _ in workers {
        let ops = vec![Op::Wait, Op::Run { stack: stacks::COMPUTE, work_ns: 200_000 }];
        case.tasks.push(TaskSpec::new(Program { ops, repeat: true }));
    }
    Scenario {
        name: "broadcast",
        case,
        check: |kernel| {
            let longest = (5..13).map(|task| kernel.figures(task).longest_wait_ns).max().unwrap_or(0);
            expect("longest wait of a worker [ms]", longest as f64 / 1e6, 0.0, 20.0)
        },
    }
}

/// A real-time task keeps a CPU for long. The task that ran there continues elsewhere.
pub(super) fn real_time() -> Scenario {
    let mut case = busy("4P", &[stacks::COMPUTE; 3], 10);
    let what = Disturbance::RealTime { cpu: 0, ns: 800_000_000 };
    case.disturbances = vec![Disturb { at_ns: 100_000_000, what }];
    Scenario {
        name: "real-time",
        case,
        check: |kernel| {
            let longest =
                kernel.all_figures().iter().map(|figures| figures.longest_wait_ns).max().unwrap_or(0);
            expect("longest wait [ms]", longest as f64 / 1e6, 0.0, 2.0)
        },
    }
}

/// Light tasks wait until they are overdue, and real-time work often takes the CPU that one of them
/// is then given.
pub(super) fn overdue_beside_real_time() -> Scenario {
    let mut case = busy("2P", &[stacks::COMPUTE; 120], 200);
    case.tick_ns = 4_000_000;
    case.tasks[..20].iter_mut().for_each(|task| task.weight = 1);
    for at in 0..1600 {
        let at_ns = at * 12_000_000 + at * 7_919_000 % 10_000_000;
        let what = Disturbance::RealTime { cpu: at as usize % 2, ns: 3_000_000 };
        case.disturbances.push(Disturb { at_ns, what });
    }
    Scenario {
        name: "overdue-beside-real-time",
        case,
        check: |kernel| {
            let longest = kernel.all_figures().iter().map(|figures| figures.longest_wait_ns).max();
            expect("longest wait [ms]", longest.unwrap_or(0) as f64 / 1e6, 0.0, 3_000.0)
        },
    }
}

/// A real-time task leaves 50 ms of each second, as much as the kernel's deadline server does.
/// Tasks that are pinned to its CPU get this time, although other tasks wait for any CPU.
pub(super) fn server() -> Scenario {
    let mut case = busy("4P", &[stacks::COMPUTE; 6], 40);
    let pinned = TaskSpec::new(Program::busy(stacks::COMPUTE)).within([0]);
    let kthread = TaskSpec::new(Program::periodic(stacks::COMPUTE, 50_000, 200_000_000)).within([0]);
    case.tasks.extend([pinned, TaskSpec { kthread: true, ..kthread }]);
    let taken = |at_ns| Disturb { at_ns, what: Disturbance::RealTime { cpu: 0, ns: 950_000_000 } };
    case.disturbances = (0..4).map(|second| taken(second * 1_000_000_000)).collect();
    Scenario {
        name: "server",
        case,
        check: |kernel| {
            let wait_ms = |task| kernel.figures(task).longest_wait_ns as f64 / 1e6;
            expect("longest wait of a pinned kthread [ms]", wait_ms(7), 0.0, 951.0)?;
            expect("longest wait of a pinned task [ms]", wait_ms(6), 0.0, 960.0)?;
            expect("time of the pinned task [ms]", kernel.figures(6).ran_ns as f64 / 1e6, 180.0, 200.0)
        },
    }
}

/// A kernel thread that is bound to a busy CPU runs immediately.
pub(super) fn kthread() -> Scenario {
    let mut case = busy("2P", &[stacks::COMPUTE; 4], 10);
    let mut kthread = TaskSpec::new(Program::periodic(stacks::COMPUTE, 50_000, 3_000_000)).within([1]).on(1);
    kthread.kthread = true;
    case.tasks.push(kthread);
    Scenario {
        name: "kthread",
        case,
        check: |kernel| {
            expect(
                "longest wait of a kthread [us]",
                kernel.figures(4).longest_wait_ns as f64 / 1e3,
                0.0,
                400.0,
            )
        },
    }
}

/// A task that yields lets others run.
pub(super) fn yielder() -> Scenario {
    let mut case = busy("1P", &[stacks::COMPUTE], 10);
    let ops = vec![Op::Run { stack: stacks::COMPUTE, work_ns: 100_000 }, Op::Yield];
    case.tasks.push(TaskSpec::new(Program { ops, repeat: true }));
    Scenario {
        name: "yielder",
        case,
        check: |kernel| expect("switches to the other task", kernel.figures(0).switches as f64, 300.0, 1e9),
    }
}

/// A task that yields repeatedly, as spinning locks do, keeps its slice while no other task waits.
pub(super) fn lone_yielder() -> Scenario {
    let mut case = busy("2P", &[], 10);
    let ops = vec![Op::Run { stack: stacks::COMPUTE, work_ns: 5_000 }, Op::Yield];
    case.tasks.push(TaskSpec::new(Program { ops, repeat: true }));
    Scenario {
        name: "lone-yielder",
        case,
        check: |kernel| {
            expect("slices renewed in a second", kernel.stat(ffi::BIAS_STAT_KEEP) as f64, 10.0, 1100.0)
        },
    }
}

/// The agent swaps two tasks that run.
pub(super) fn swap() -> Scenario {
    let mut case = super::shares::mix().case;
    case.moving = false;
    case.duration_ns = 1_000_000_000;
    // Tasks 0 and 1 wait for memory and take the fast CPUs first.
    for (up, down) in [(2, 0), (3, 1)] {
        let swap = |at_ns| Disturb { at_ns, what: Disturbance::Swap { up, down } };
        case.disturbances.extend((1..10).map(|at| swap(at * 50_000_000)));
    }
    Scenario {
        name: "swap",
        case,
        check: |kernel| {
            for task in [2, 3] {
                expect(
                    "time of a task that executes on fast CPUs",
                    on_fast(&kernel.figures(task)),
                    0.6,
                    1.0,
                )?;
            }
            Ok(())
        },
    }
}

/// The agent swaps two tasks while a kernel thread has the CPU of one for a moment.
pub(super) fn swap_beside_kthread() -> Scenario {
    let mut case = busy("60:24", &[stacks::MEMORY, stacks::COMPUTE], 10);
    case.moving = false;
    (case.tasks[0].start_ns, case.tasks[1].start_ns) = (Some(20_000_000), Some(40_000_000));
    let run = Op::Run { stack: stacks::COMPUTE, work_ns: 2_000_000 };
    let ops = vec![Op::Sleep { ns: 300_000_000 }, run, Op::End];
    let kthread = TaskSpec::new(Program { ops, repeat: false }).within([0]).on(0);
    case.tasks.push(TaskSpec { kthread: true, start_ns: Some(0), ..kthread });
    let what = Disturbance::Swap { up: 1, down: 0 };
    case.disturbances = vec![Disturb { at_ns: 300_500_000, what }];
    Scenario {
        name: "swap-beside-kthread",
        case,
        check: |kernel| {
            let time = on_fast(&kernel.figures(1));
            expect("time of the task that executes on the fast CPU", time, 0.65, 0.75)
        },
    }
}

/// Work that ends after `work_ns`.
fn ends(work_ns: u64) -> TaskSpec {
    TaskSpec::new(Program { ops: vec![Op::Run { stack: stacks::COMPUTE, work_ns }, Op::End], repeat: false })
}

/// Fast CPUs fall idle just after a task starts on a slow one. The oracles check what follows.
pub(super) fn fast_falls_idle() -> Scenario {
    let mut case = busy("2F2S", &[], 2);
    case.tasks = (0..4).map(|at| TaskSpec { start_ns: Some(at * 10_000), ..ends(8_000_000) }).collect();
    for task in case.tasks.iter_mut().skip(2) {
        *task = TaskSpec { start_ns: Some(7_800_000), ..TaskSpec::new(Program::busy(stacks::COMPUTE)) };
    }
    Scenario { name: "fast-falls-idle", case, check: |kernel| expect("STP", kernel.stp(), 1.8, 2.1) }
}

/// The same for a task that may run on some CPUs only.
pub(super) fn restricted() -> Scenario {
    let mut case = busy("2F2S", &[stacks::COMPUTE], 5);
    case.tasks[0] = case.tasks[0].clone().within([1, 3]);
    case.tasks[0].start_ns = Some(1_000_000);
    case.tasks.push(ends(50_000_000).within([1]).on(1));
    Scenario {
        name: "restricted",
        case,
        check: |kernel| expect("time of the task on fast CPUs", on_fast(&kernel.figures(0)), 0.7, 1.0),
    }
}

/// The CPUs of one cache fall idle while tasks wait under the other one. The oracles check it.
pub(super) fn cache_falls_idle() -> Scenario {
    let mut case = busy("8P,llcs=2", &[stacks::COMPUTE; 10], 3);
    for task in &mut case.tasks {
        (task.start_cpu, task.start_ns) = (1, Some(1_000_000));
    }
    for cpu in 4..8 {
        case.tasks.push(ends(40_000_000).within([cpu]).on(cpu));
    }
    Scenario { name: "cache-falls-idle", case, check: |kernel| expect("STP", kernel.stp(), 7.5, 8.0) }
}

/// A task that is pinned to a busy CPU gets its share.
pub(super) fn pinned() -> Scenario {
    let mut case = busy("2P", &[stacks::COMPUTE; 5], 20);
    case.tasks[0] = case.tasks[0].clone().within([1]).on(1);
    Scenario {
        name: "pinned",
        case,
        check: |kernel| expect("least over most work", evenness(&kernel.all_figures()), 0.7, 1.0),
    }
}

/// A waker that usually sleeps immediately keeps running after a wakeup.
pub(super) fn waker_runs_on() -> Scenario {
    let mut case = Case::new("2P", 1);
    let short = Op::Run { stack: stacks::COMPUTE, work_ns: 20_000 };
    let mut ops = Vec::new();
    for _ in 0..40 {
        ops.extend([short.clone(), Op::Wake { task: 1, sync: true }, Op::Sleep { ns: 200_000 }]);
    }
    ops.extend([Op::Wake { task: 1, sync: true }, Op::Run { stack: stacks::COMPUTE, work_ns: 30_000_000 }]);
    case.tasks = vec![TaskSpec::new(Program { ops, repeat: true })];
    case.tasks.push(TaskSpec::new(Program { ops: vec![Op::Wait, short], repeat: true }));
    Scenario {
        name: "waker-runs-on",
        case,
        check: |kernel| {
            expect("longest wait of the wakee [ms]", kernel.figures(1).longest_wait_ns as f64 / 1e6, 0.0, 4.0)
        },
    }
}

/// A producer that works on after each item, and sleeps now and then. Its consumer sleeps between
/// items and must not wait for the producer.
pub(super) fn producer() -> Scenario {
    let mut case = Case::new("4P", 1);
    let item = [Op::Run { stack: stacks::COMPUTE, work_ns: 100_000 }, Op::Wake { task: 1, sync: true }];
    let mut ops: Vec<Op> = std::iter::repeat_n(item, 9).flatten().collect();
    ops.push(Op::Sleep { ns: 50_000 });
    case.tasks = vec![TaskSpec::new(Program { ops, repeat: true })];
    let ops = vec![Op::Wait, Op::Run { stack: stacks::COMPUTE, work_ns: 80_000 }];
    case.tasks.push(TaskSpec::new(Program { ops, repeat: true }));
    Scenario {
        name: "producer",
        case,
        check: |kernel| {
            let figures = kernel.figures(1);
            expect(
                "mean wait of the consumer [us]",
                ratio(figures.waited_ns, figures.switches) / 1e3,
                0.0,
                20.0,
            )
        },
    }
}

/// A task that never sleeps wakes another one, on a CPU where tasks slept soon before. Other CPUs
/// idle. An interrupt on the CPU of such a task looks the same to the scheduler.
pub(super) fn hog_wakes() -> Scenario {
    let mut case = Case::new("4P", 1);
    let short = Op::Run { stack: stacks::COMPUTE, work_ns: 20_000 };
    let before = [short.clone(), Op::Wake { task: 1, sync: true }, Op::Sleep { ns: 100_000 }];
    let mut ops: Vec<Op> = std::iter::repeat_n(before, 60).flatten().collect();
    let work = Op::Run { stack: stacks::COMPUTE, work_ns: 5_000_000 };
    ops.extend(std::iter::repeat_n([work, Op::Wake { task: 1, sync: true }], 60).flatten());
    case.tasks = vec![TaskSpec::new(Program { ops, repeat: true })];
    case.tasks.push(TaskSpec::new(Program { ops: vec![Op::Wait, short], repeat: true }));
    Scenario {
        name: "hog-wakes",
        case,
        check: |kernel| {
            let longest_us = kernel.figures(1).longest_wait_ns as f64 / 1e3;
            expect("longest wait of a wakee beside idle CPUs [us]", longest_us, 0.0, 100.0)
        },
    }
}

/// Two kernel threads that are bound to a CPU and always run leave a part of it to others.
pub(super) fn busy_kthreads() -> Scenario {
    let mut case = busy("2P", &[stacks::COMPUTE; 4], 20);
    for task in case.tasks.iter_mut().take(3) {
        *task = task.clone().within([1]).on(1);
    }
    case.tasks[0].kthread = true;
    case.tasks[1].kthread = true;
    Scenario {
        name: "busy-kthreads",
        case,
        check: |kernel| {
            let part = ratio(kernel.figures(2).ran_ns, kernel.now());
            expect("part of its CPU that a task has beside two busy kthreads", part, 0.25, 0.45)
        },
    }
}

/// A task that makes a frame in 5 of 16 ms uses its share and no more. It hardly waits in a frame.
pub(super) fn frames() -> Scenario {
    let mut case = busy("4P", &[stacks::COMPUTE; 12], 40);
    case.tasks.push(TaskSpec::new(Program::periodic(stacks::COMPUTE, 5_000_000, 11_000_000)));
    Scenario {
        name: "frames",
        case,
        check: |kernel| {
            let figures = kernel.figures(12);
            let mean_ms = ratio(figures.waited_ns, figures.rounds) / 1e6;
            expect("mean wait in a frame [ms]", mean_ms, 0.0, 0.1)
        },
    }
}

/// A kernel thread interrupts the task of the fast CPU so often that no slice ends there. The tasks
/// still rotate.
pub(super) fn rotation_beside_kthread() -> Scenario {
    let mut case = busy("60:24", &[stacks::COMPUTE; 2], 40);
    let kthread = TaskSpec::new(Program::periodic(stacks::COMPUTE, 20_000, 1_480_000)).within([0]);
    case.tasks.push(TaskSpec { kthread: true, ..kthread });
    Scenario {
        name: "rotation-beside-kthread",
        case,
        check: |kernel| expect("evenness of two tasks", evenness(&kernel.all_figures()[..2]), 0.95, 1.0),
    }
}

/// One cache is in more demand than the other one, so that its tasks are far behind. A sleeper
/// among them does not wait for that.
pub(super) fn cache_in_demand() -> Scenario {
    let mut case = busy("8P,llcs=2", &[stacks::COMPUTE; 40], 30);
    for (at, task) in case.tasks.iter_mut().enumerate() {
        let first = if at < 32 { 0 } else { 4 };
        *task = task.clone().within(first..first + 4).on(first + at % 4);
    }
    let sleeper = TaskSpec::new(Program::periodic(stacks::COMPUTE, 100_000, 7_000_000));
    case.tasks.push(sleeper.within(0..4).on(0));
    Scenario {
        name: "cache-in-demand",
        case,
        check: |kernel| {
            let figures = kernel.figures(40);
            let mean_us = ratio(figures.waited_ns, figures.switches) / 1000.0;
            expect("mean wait of a sleeper [us]", mean_us, 0.0, 300.0)
        },
    }
}

/// Busy tasks of nice -20 are confined to a CPU, and the others have little to do. A task of nice 0
/// that sleeps there, and uses a tenth of its share, waits for some turns.
pub(super) fn light_beside_heavy() -> Scenario {
    const MS: u64 = 1_000_000;
    let within = |task: TaskSpec| task.within([1]).on(1);
    let sleeper = |run_ns, sleep_ns| TaskSpec::new(Program::periodic(stacks::COMPUTE, run_ns, sleep_ns));
    let busy = TaskSpec::new(Program::busy(stacks::COMPUTE));
    let mut case = Case::new("4P", 1);
    (case.duration_ns, case.tick_ns) = (4_000 * MS, MS);
    case.tasks = vec![within(TaskSpec { weight: 8668, ..busy.clone() }); 2];
    case.tasks.extend([within(sleeper(50_000, 100 * MS)), within(TaskSpec { kthread: true, ..busy })]);
    case.tasks.extend((0..3).map(|_| sleeper(3 * MS, 4 * MS)));
    for (at_ms, cpus) in [(500, vec![0, 1, 2, 3]), (700, vec![1])] {
        let change = |task| Disturbance::Affinity { task, cpus: cpus.clone() };
        case.disturbances.extend([0, 1].map(|task| Disturb { at_ns: at_ms * MS, what: change(task) }));
    }
    Scenario {
        name: "light-beside-heavy",
        case,
        check: |kernel| {
            let longest_ns = kernel.figures(2).longest_wait_ns;
            expect("longest wait of a sleeper of nice 0 [ms]", longest_ns as f64 / 1e6, 0.0, 100.0)
        },
    }
}

/// Servers beside busy tasks, where each cache has two or four CPUs of one class, as in a laptop.
pub(super) fn servers_over_caches() -> Scenario {
    servers("servers-over-caches", "2L+4P+4P,llcs=2+4+4", (9, 5))
}

/// The same where two caches have CPUs of both classes.
pub(super) fn servers_over_mixed_caches() -> Scenario {
    servers("servers-over-mixed-caches", "8P+8E,llcs=4", (12, 6))
}

/// Return a case of tasks that compute, tasks that wait for memory, and eight servers.
fn servers(name: &'static str, machine: &str, (computing, waiting): (usize, usize)) -> Scenario {
    let stacks = [vec![stacks::COMPUTE; computing], vec![stacks::CHASE; waiting]].concat();
    let mut case = busy(machine, &stacks, 40);
    case.tick_ns = 1_000_000;
    for at in 0..8 {
        let program = Program::periodic(stacks::COMPUTE, 200_000, 1_500_000 + 130_000 * at);
        case.tasks.push(TaskSpec::new(program));
    }
    Scenario {
        name,
        case,
        check: |kernel| {
            let figures = kernel.all_figures();
            let servers = &figures[figures.len() - 8..];
            let waited_ns = servers.iter().map(|server| server.waited_ns).sum();
            let mean_us = ratio(waited_ns, servers.iter().map(|server| server.switches).sum()) / 1000.0;
            expect("mean wait of a server [us]", mean_us, 0.0, 200.0)?;
            let longest_ns = servers.iter().map(|server| server.longest_wait_ns).max().unwrap_or(0);
            expect("longest wait of a server [ms]", longest_ns as f64 / 1e6, 0.0, 20.0)
        },
    }
}

/// Return all families of waits.
pub(super) fn families() -> Vec<Family> {
    vec![Family { name: "servers-of-two-classes", case: two_classes, check: waits_for_no_crowd }]
}

/// Servers that work for 0.2 ms and sleep for 1 to 3 ms, beside tasks that compute and tasks that
/// wait for memory, which are in unequal demand of the two classes. Seeds go through machines.
fn two_classes(seed: u64) -> Case {
    let machines = [
        ("4P+4E", 8, 4, 8),
        ("SPLIT", 6, 6, 4),
        ("SPLIT", 8, 4, 6),
        ("PELP", 12, 6, 8),
        ("8P2T+16E", 40, 20, 30),
        ("8P+8E,nodes=2", 30, 0, 12),
    ];
    let (machine, computing, waiting, servers) = machines[(seed % 6) as usize];
    let rng = Rng::new(1 + seed / 6);
    let mut case = Case::new(machine, 1 + seed / 6);
    case.duration_ns = 2_000_000_000;
    case.tasks = vec![TaskSpec::new(Program::busy(stacks::COMPUTE)); computing];
    case.tasks.extend(vec![TaskSpec::new(Program::busy(stacks::CHASE)); waiting]);
    for _ in 0..servers {
        let work = Op::Run { stack: stacks::MIXED, work_ns: 200_000 };
        let ops = (0..200).flat_map(|_| [work.clone(), Op::Sleep { ns: rng.within(1_000_000, 3_000_000) }]);
        case.tasks.push(TaskSpec::new(Program { ops: ops.collect(), repeat: true }));
    }
    case
}

/// Check how long a server waits: a task that does more than one thing.
fn waits_for_no_crowd(kernel: &Kernel) -> Result<(), String> {
    let tasks = kernel.case.tasks.iter().zip(kernel.all_figures());
    let servers = tasks.filter(|(task, _)| task.program.ops.len() > 1);
    let longest_ns = servers.map(|(_, figures)| figures.longest_wait_ns).max().unwrap_or(u64::MAX);
    expect("longest wait of a server [ms]", longest_ns as f64 / 1e6, 0.0, 20.0)
}
