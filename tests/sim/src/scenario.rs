//! Fixed cases with figures that they must reach: fairness, placement and latency.
//!
//! The oracles hold for every case. What a scheduler is good for shows only in a load that was made
//! for it, so each scenario here checks figures of one purpose. Bounds leave room for the seed.

use crate::case::{Case, Disturb, Disturbance, GroupSpec, TaskSpec};
use crate::kernel::Kernel;
use crate::load::{Op, Program, stacks};

/// Check of a finished run; the error names the figure that is off.
pub type Check = fn(&Kernel) -> Result<(), String>;

/// A case and what it must reach.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Name.
    pub name: &'static str,
    /// The case.
    pub case: Case,
    /// Its check.
    pub check: Check,
}

/// Figures of a task after a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// Work done [ns on the reference CPU].
    pub work_ns: u64,
    /// Time that it ran.
    pub ran_ns: u64,
    /// Part of it on slow CPUs.
    pub slow_ns: u64,
    /// Longest wait for a CPU.
    pub longest_wait_ns: u64,
    /// Sum of all waits.
    pub waited_ns: u64,
    /// Times that it was switched in.
    pub switches: u64,
    /// Times that it changed its CPU.
    pub migrations: u64,
    /// Rounds of its program.
    pub rounds: u64,
}

impl Kernel {
    /// Return the figures of a task.
    #[must_use]
    pub fn figures(&self, task: usize) -> Figures {
        let Some(task) = self.tasks.get(task) else { return Figures::default() };
        let stats = &task.stats;
        Figures {
            work_ns: stats.work_ps.get() / 1000,
            ran_ns: stats.ran_ns.get(),
            slow_ns: stats.slow_ns.get(),
            longest_wait_ns: stats.longest_wait_ns.get(),
            waited_ns: stats.waited_ns.get(),
            switches: stats.switches.get(),
            migrations: stats.migrations.get(),
            rounds: task.rounds.get(),
        }
    }

    /// Return the figures of all tasks.
    #[must_use]
    pub fn all_figures(&self) -> Vec<Figures> {
        (0..self.tasks.len()).map(|task| self.figures(task)).collect()
    }

    /// Return the system throughput: work of all tasks over time, in reference CPUs [Eyerman08].
    #[must_use]
    pub fn stp(&self) -> f64 {
        let work: u64 = self.all_figures().iter().map(|figures| figures.work_ns).sum();
        work as f64 / self.now().max(1) as f64
    }
}

fn busy(machine: &str, stacks: &[[u32; 3]], seconds_tenths: u64) -> Case {
    let mut case = Case::new(machine, 1);
    case.duration_ns = seconds_tenths * 100_000_000;
    case.tasks = stacks.iter().map(|stack| TaskSpec::new(Program::busy(*stack))).collect();
    case
}

/// Fail unless `value` is within `least` and `most`.
fn expect(what: &str, value: f64, least: f64, most: f64) -> Result<(), String> {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(format!("{what} is {value:.3}, not {least} to {most}"))
    }
}

fn ratio(a: u64, b: u64) -> f64 {
    a as f64 / b.max(1) as f64
}

/// Least work of a task over the most work of one.
fn evenness(figures: &[Figures]) -> f64 {
    let work = figures.iter().map(|figures| figures.work_ns);
    ratio(work.clone().min().unwrap_or(0), work.max().unwrap_or(0))
}

/// Return every scenario.
#[must_use]
pub fn all() -> Vec<Scenario> {
    vec![
        nice(),
        cgroups(),
        group_weight(),
        three_on_four(),
        eight_on_four(),
        mix(),
        mix_that_changes(),
        siblings(),
        caches(),
        unequal_caches(),
        sleeper(),
        broadcast(),
        real_time(),
        kthread(),
        yielder(),
        swap(),
        fast_falls_idle(),
        restricted(),
        cache_falls_idle(),
        pinned(),
        waker_runs_on(),
        producer(),
    ]
}

/// Weights on one CPU.
fn nice() -> Scenario {
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

/// Three tasks of one cgroup beside one of another.
fn cgroups() -> Scenario {
    let mut case = busy("1P", &[stacks::COMPUTE; 4], 30);
    case.groups = vec![GroupSpec { parent: 0, weight: 100 }, GroupSpec { parent: 0, weight: 100 }];
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

/// The weight of a busy cgroup changes.
fn group_weight() -> Scenario {
    let mut case = cgroups().case;
    case.disturbances =
        vec![Disturb { at_ns: 1_000_000, what: Disturbance::GroupWeight { group: 2, weight: 300 } }];
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

/// Equal tasks on unequal CPUs, fewer than CPUs.
fn three_on_four() -> Scenario {
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
fn eight_on_four() -> Scenario {
    Scenario {
        name: "eight-on-four",
        case: busy("2F2S", &[stacks::MIXED; 8], 30),
        check: |kernel| expect("least over most work", evenness(&kernel.all_figures()), 0.85, 1.0),
    }
}

fn on_fast(figures: &Figures) -> f64 {
    1.0 - ratio(figures.slow_ns, figures.ran_ns)
}

/// Tasks that execute belong on fast CPUs, tasks that wait for memory on slow ones.
fn mix() -> Scenario {
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

/// Tasks change what they do each 300 ms, and placement follows.
fn mix_that_changes() -> Scenario {
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
fn siblings() -> Scenario {
    let mut case = busy("P2E4", &[stacks::COMPUTE; 6], 10);
    case.tasks.iter_mut().for_each(|task| task.start_cpu = 0);
    Scenario {
        name: "siblings",
        case,
        check: |kernel| expect("STP of six tasks on two fast and four slow cores", kernel.stp(), 3.5, 3.61),
    }
}

/// Tasks forked under one cache spread over two.
fn caches() -> Scenario {
    let mut case = busy("8P,llcs=2", &[stacks::COMPUTE; 12], 20);
    case.tasks.iter_mut().enumerate().for_each(|(at, task)| task.start_cpu = at % 4);
    Scenario {
        name: "caches",
        case,
        check: |kernel| expect("least over most work", evenness(&kernel.all_figures()), 0.75, 1.0),
    }
}

/// The same where each cache has a class of its own.
fn unequal_caches() -> Scenario {
    let mut case = busy("SPLIT", &[stacks::COMPUTE; 12], 20);
    case.tasks.iter_mut().enumerate().for_each(|(at, task)| task.start_cpu = at % 4);
    Scenario {
        name: "unequal-caches",
        case,
        check: |kernel| expect("least over most work", evenness(&kernel.all_figures()), 0.7, 1.0),
    }
}

/// A task that sleeps is served soon although every CPU is busy.
fn sleeper() -> Scenario {
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

/// One task wakes eight beside a hog on each CPU.
fn broadcast() -> Scenario {
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

/// A real-time task keeps a CPU for long. What ran there goes on elsewhere.
fn real_time() -> Scenario {
    let mut case = busy("4P", &[stacks::COMPUTE; 3], 10);
    let what = Disturbance::RealTime { cpu: 0, ns: 800_000_000 };
    case.disturbances =
        (0..4).map(|cpu| Disturb { at_ns: 100_000_000 + cpu, what: what.clone() }).take(1).collect();
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

/// A kernel thread that is bound to a busy CPU runs at once.
fn kthread() -> Scenario {
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
fn yielder() -> Scenario {
    let mut case = busy("1P", &[stacks::COMPUTE], 10);
    let ops = vec![Op::Run { stack: stacks::COMPUTE, work_ns: 100_000 }, Op::Yield];
    case.tasks.push(TaskSpec::new(Program { ops, repeat: true }));
    Scenario {
        name: "yielder",
        case,
        check: |kernel| expect("switches to the other task", kernel.figures(0).switches as f64, 300.0, 1e9),
    }
}

/// The agent swaps two tasks that run.
fn swap() -> Scenario {
    let mut case = mix().case;
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

/// Work that ends after `work_ns`.
fn ends(work_ns: u64) -> TaskSpec {
    TaskSpec::new(Program { ops: vec![Op::Run { stack: stacks::COMPUTE, work_ns }, Op::End], repeat: false })
}

/// Fast CPUs fall idle just after a task starts on a slow one. The oracles check what follows.
fn fast_falls_idle() -> Scenario {
    let mut case = busy("2F2S", &[], 2);
    case.tasks = (0..4).map(|at| TaskSpec { start_ns: Some(at * 10_000), ..ends(8_000_000) }).collect();
    for task in case.tasks.iter_mut().skip(2) {
        *task = TaskSpec { start_ns: Some(7_800_000), ..TaskSpec::new(Program::busy(stacks::COMPUTE)) };
    }
    Scenario { name: "fast-falls-idle", case, check: |kernel| expect("STP", kernel.stp(), 1.8, 2.1) }
}

/// The same for a task that may run on some CPUs only.
fn restricted() -> Scenario {
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
fn cache_falls_idle() -> Scenario {
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
fn pinned() -> Scenario {
    let mut case = busy("2P", &[stacks::COMPUTE; 5], 20);
    case.tasks[0] = case.tasks[0].clone().within([1]).on(1);
    Scenario {
        name: "pinned",
        case,
        check: |kernel| expect("least over most work", evenness(&kernel.all_figures()), 0.7, 1.0),
    }
}

/// A waker that usually sleeps at once runs on after a wakeup.
fn waker_runs_on() -> Scenario {
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
/// items and is not to wait for the producer.
fn producer() -> Scenario {
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
