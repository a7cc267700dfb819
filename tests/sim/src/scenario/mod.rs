//! Fixed cases with figures that they must reach: fairness, placement and latency.
//!
//! The oracles hold for every case. What a scheduler is good for shows only in a load that was made
//! for it, so each scenario here checks figures of one purpose. Bounds leave room for the seed.

use crate::case::{Case, Disturb, Disturbance, GroupSpec, TaskSpec};
use crate::kernel::Kernel;
use crate::load::{Op, Program, stacks};

mod waits;

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
        waits::sleeper(),
        waits::broadcast(),
        waits::real_time(),
        waits::kthread(),
        waits::yielder(),
        waits::swap(),
        waits::fast_falls_idle(),
        waits::restricted(),
        waits::cache_falls_idle(),
        waits::pinned(),
        waits::waker_runs_on(),
        waits::producer(),
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
