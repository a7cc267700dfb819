// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Random loads that run for seconds: cases whose shares are checked, and crowds.

use crate::case::{Case, Disturb, Disturbance, GroupSpec, TaskSpec, Topic};
use crate::load::{Op, Program, stacks};
use crate::machine::Machine;
use crate::release::Release;
use crate::rng::Rng;

const MS: u64 = 1_000_000;

/// Ticks of kernels as they are configured: 100, 250, 300 and 1000 Hz [ns].
pub const TICKS_NS: [u64; 4] = [10_000_000, 4_000_000, 3_333_333, 1_000_000];

/// Machines whose CPUs are alike. The last one has two caches.
const ALIKE: [&str; 8] = ["1P", "2P", "2P", "3P", "4P", "4P", "6P", "8P,llcs=2"];

/// Machines of crowds.
const CROWDED: [&str; 8] = ["1P", "2P", "2P", "4P", "2F2S", "1P+1E", "P2E4", "8P,llcs=2"];

fn busy() -> TaskSpec {
    TaskSpec::new(Program::busy(stacks::COMPUTE))
}

/// Return a case of `seed` whose shares are checked: 5 s on CPUs that are alike.
#[must_use]
pub fn shares(rng: &Rng, seed: u64) -> Case {
    let topic = *rng.pick(&Topic::ALL);
    let machine = match topic {
        Topic::Hop => "8P,llcs=2",
        Topic::Affinity | Topic::Crowd => *rng.pick(&ALIKE[3..7]),
        _ => *rng.pick(&ALIKE),
    };
    let cpus = Machine::parse(machine).map_or(1, |machine| machine.cpus.len());
    let mut case = Case::new(machine, seed);
    case.release = *rng.pick(&Release::ALL);
    case.duration_ns = 5_000 * MS;
    case.tick_ns = *rng.pick(&TICKS_NS);
    case.shares = Some(topic);
    // More honest tasks than CPUs, so that each share counts.
    let count = cpus as u64 + rng.within(1, 3 * cpus as u64);
    case.tasks = (0..count as usize).map(|at| busy().on(at % cpus)).collect();
    add(rng, topic, &mut case, cpus);
    case
}

/// Add the load of a topic.
fn add(rng: &Rng, topic: Topic, case: &mut Case, cpus: usize) {
    match topic {
        Topic::Plain => {}
        Topic::Weights => {
            for task in &mut case.tasks {
                task.weight = *rng.pick(&[1, 15, 33, 100, 100, 300, 1000, 8863, 10_000]);
            }
        }
        Topic::Groups => groups(rng, case, cpus),
        Topic::Affinity => affinities(rng, case, cpus),
        Topic::Crowd => {
            let within = rng.within(1, cpus as u64 - 1) as usize;
            let crowd = rng.within(33, 150) as usize;
            case.tasks.extend((0..crowd).map(|at| busy().within(0..within).on(at % within)));
        }
        Topic::Sleep => {
            let (work_ns, sleep_ns) = (rng.within(200, 3000) * 1000, rng.within(1000, 12_000) * 1000);
            let sleeper = TaskSpec::new(Program::periodic(stacks::COMPUTE, work_ns, sleep_ns));
            behave(rng, case, cpus, rng.within(1, 8 * cpus as u64), sleeper);
        }
        Topic::Yield => {
            let run = Op::Run { stack: stacks::COMPUTE, work_ns: rng.within(50, 3000) * 1000 };
            let yielder = TaskSpec::new(Program { ops: vec![run, Op::Yield], repeat: true });
            behave(rng, case, cpus, rng.within(1, 2 * cpus as u64), yielder);
        }
        Topic::Fork => forks(rng, case, cpus),
        Topic::Hop => hops(rng, case, cpus),
        Topic::Kthread => kthreads(rng, case, cpus),
    }
}

/// Add `count` tasks of one behaviour, of a weight of their own or that of the honest ones.
fn behave(rng: &Rng, case: &mut Case, cpus: usize, count: u64, task: TaskSpec) {
    let weight = *rng.pick(&[1, 100, 100, 1000]);
    for at in 0..count {
        // Each starts at its own time, or all would wake at the same time.
        let start_ns = Some(at * rng.within(100, 700) * 1000);
        case.tasks.push(TaskSpec { weight, start_ns, ..task.clone().on(at as usize % cpus) });
    }
}

/// Put all tasks into groups of unequal sizes, some of them below another one.
fn groups(rng: &Rng, case: &mut Case, cpus: usize) {
    let count = rng.within(2, 4) as usize;
    for at in 0..count {
        let parent = if rng.chance(30) { rng.below(at as u64 + 1) as usize } else { 0 };
        case.groups.push(GroupSpec::new(parent, *rng.pick(&[50, 100, 100, 200, 400])));
    }
    case.tasks.clear();
    for group in 1..=count {
        let few = rng.within(1, 2 * cpus as u64);
        let size = if rng.chance(30) { rng.within(20, 100) } else { few };
        case.tasks.extend((0..size as usize).map(|at| TaskSpec { group, ..busy().on(at % cpus) }));
    }
}

/// Confine tasks to two or three sets of CPUs that may overlap. Some sets have light tasks besides.
fn affinities(rng: &Rng, case: &mut Case, cpus: usize) {
    for _ in 0..rng.within(1, 2) {
        let first = rng.below(cpus as u64) as usize;
        let set: Vec<usize> =
            (0..rng.within(1, cpus as u64) as usize).map(|at| (first + at) % cpus).collect();
        let confined = |at: usize| busy().within(set.clone()).on(set[at % set.len()]);
        let count = rng.within(1, 3 * set.len() as u64) as usize;
        case.tasks.extend((0..count).map(confined));
        if rng.chance(40) {
            let light = rng.within(1, 2 * set.len() as u64) as usize;
            case.tasks.extend((0..light).map(|at| TaskSpec { weight: 1, ..confined(at) }));
        }
    }
}

/// Add a chain of tasks, each of which forks the next one and ends.
fn forks(rng: &Rng, case: &mut Case, cpus: usize) {
    let work_ns = rng.within(1_000, 10_000) * 1000;
    let weight = *rng.pick(&[1, 100, 100]);
    let first = case.tasks.len();
    let links = (case.duration_ns / work_ns).min(1000) as usize;
    for at in first..first + links {
        let mut ops = vec![Op::Run { stack: stacks::COMPUTE, work_ns }];
        if at + 1 < first + links {
            ops.push(Op::Spawn { task: at + 1 });
        }
        ops.push(Op::End);
        let link = TaskSpec::new(Program { ops, repeat: false }).on(at % cpus);
        case.tasks.push(TaskSpec { weight, start_ns: (at == first).then_some(0), ..link });
    }
}

/// Confine all tasks to the caches that they start in. One task hops between two caches.
fn hops(rng: &Rng, case: &mut Case, cpus: usize) {
    let half = cpus / 2;
    let cache = |at: usize| if at < half { 0..half } else { half..cpus };
    for task in &mut case.tasks {
        task.cpus = Some(cache(task.start_cpu).collect());
    }
    let hopper = case.tasks.len();
    case.tasks.push(busy().within(cache(half)).on(half));
    let every = rng.within(3, 30) * MS;
    let stay_ns = rng.within(100, every / 2000) * 1000;
    for at in 1..case.duration_ns / every {
        let to = |at_ns, cpus: std::ops::Range<usize>| Disturb {
            at_ns,
            what: Disturbance::Affinity { task: hopper, cpus: cpus.collect() },
        };
        case.disturbances.push(to(at * every, cache(0)));
        case.disturbances.push(to(at * every + stay_ns, cache(half)));
    }
}

/// Pin a task to a CPU beside a kernel thread that is bound there and sleeps.
fn kthreads(rng: &Rng, case: &mut Case, cpus: usize) {
    let cpu = rng.below(cpus as u64) as usize;
    case.tasks.truncate(cpus);
    for (at, task) in case.tasks.iter_mut().enumerate() {
        task.cpus = Some(vec![at % cpus]);
    }
    let (work_ns, sleep_ns) = (rng.within(100, 3000) * 1000, rng.within(50, 3000) * 1000);
    let thread = TaskSpec::new(Program::periodic(stacks::COMPUTE, work_ns, sleep_ns));
    case.tasks.push(TaskSpec { kthread: true, ..thread.within([cpu]).on(cpu) });
}

/// Return a crowd of `seed`: 100 to 1000 tasks for 5 to 60 s.
#[must_use]
pub fn crowd(rng: &Rng, seed: u64) -> Case {
    let machine = *rng.pick(&CROWDED);
    let cpus = Machine::parse(machine).map_or(1, |machine| machine.cpus.len());
    let mut case = Case::new(machine, seed);
    case.release = *rng.pick(&Release::ALL);
    case.tick_ns = *rng.pick(&TICKS_NS);
    case.duration_ns = *rng.pick(&[5_000, 10_000, 60_000]) * MS;
    for at in 0..rng.within(0, 4) {
        let parent = if rng.chance(30) { rng.below(at + 1) as usize } else { 0 };
        let limit = rng.chance(10).then(|| (rng.within(20, 150) * 1000, 100_000));
        let weight = *rng.pick(&[1, 50, 100, 100, 1000, 10_000]);
        case.groups.push(GroupSpec { max_us: limit, ..GroupSpec::new(parent, weight) });
    }
    let confined = rng.chance(30).then(|| rng.within(1, cpus as u64) as usize);
    for at in 0..rng.within(100, 1000) as usize {
        let stack = *rng.pick(&[stacks::COMPUTE, stacks::BRANCHES, stacks::MEMORY]);
        let sleep_ns = rng.within(10, 500) * MS;
        let program = match rng.below(5) {
            0 => Program::periodic(stack, rng.within(20, 5000) * 1000, sleep_ns),
            _ => Program::busy(stack),
        };
        let mut task = TaskSpec::new(program).on(at % cpus);
        task.start_ns = Some(if rng.chance(80) { 0 } else { rng.below(case.duration_ns / 2) });
        task.weight = *rng.pick(&[1, 100, 100, 100, 15, 300, 10_000]);
        task.group = rng.below(case.groups.len() as u64 + 1) as usize;
        if let Some(confined) = confined.filter(|_| rng.chance(70)) {
            task = task.within(0..confined).on(at % confined);
        }
        case.tasks.push(task);
    }
    let count = case.tasks.len() as u64;
    for _ in 0..rng.within(0, 20) {
        let (task, cpu) = (rng.below(count) as usize, rng.below(cpus as u64) as usize);
        let what = match rng.below(3) {
            0 => Disturbance::Nice { task, weight: *rng.pick(&[1, 100, 10_000]) },
            1 => Disturbance::Affinity { task, cpus: vec![cpu] },
            _ => Disturbance::RealTime { cpu, ns: rng.within(1, 400) * MS },
        };
        case.disturbances.push(Disturb { at_ns: rng.below(case.duration_ns), what });
    }
    case
}
