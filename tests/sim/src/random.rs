// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Random cases: machines, loads and disturbances from a seed.
//!
//! Everything that is generated can happen on a real system: tasks block and wake, are confined and
//! change weights; CPUs are taken by real-time tasks, go offline and come back.

use crate::case::Interleave;
use crate::case::{Case, CountersOf, Disturb, Disturbance, GroupSpec, TaskSpec};
use crate::load::{Op, Program, stacks};
use crate::loads::{TICKS_NS, crowd, shares};
use crate::machine::Machine;
use crate::release::Release;
use crate::rng::Rng;

const SMALL: &[&str] = &[
    "2F2S",
    "2F2S",
    "1F3S",
    "SYM",
    "P2E4",
    "PELP",
    "SPLIT",
    "2S",
    "NEAR",
    "1P",
    "1P+1E",
    "2P",
    "2P2T+2E",
    "2P+2E+2L",
    "8P,llcs=2",
    "2E+4P+4P,llcs=2+4+4",
    "2P+2E,nodes=2",
    "1P+5E",
];
const LARGE: &[&str] = &[
    "8P2T+16E",
    "8P,llcs=4",
    "4P2T",
    "8P+8E,llcs=4",
    "8P+8E,nodes=2",
    "8P2T,nodes=2,llcs=4",
    "2P4T+4E",
    "BIG",
];

/// Return the case of `seed`. One of 20 checks shares for 5 virtual seconds, one of 200 is a crowd
/// of up to 1000 tasks for up to 60 s, and the others are short.
#[must_use]
pub fn case(seed: u64) -> Case {
    let rng = Rng::new(seed);
    match rng.below(200) {
        0 => crowd(&rng, seed),
        1..=10 => shares(&rng, seed),
        _ => short(seed),
    }
}

/// Return a short case of `seed`: at most 150 virtual milliseconds at 1000 ticks a second, less on
/// larger machines, and more if ticks are longer.
#[must_use]
pub fn short(seed: u64) -> Case {
    let rng = Rng::new(seed);
    // Most defects show on a small machine, and many small cases fit into the time of a large one.
    let machine = if rng.chance(10) { *rng.pick(LARGE) } else { *rng.pick(SMALL) };
    let nr_cpus = Machine::parse(machine).map_or(1, |machine| machine.cpus.len());
    let mut case = Case::new(machine, seed);
    case.release = *rng.pick(&Release::ALL);
    case.tick_ns = *rng.pick(&TICKS_NS);
    let ticks = 1 + case.tick_ns / 5_000_000;
    case.duration_ns = ticks * rng.within(20, 150) * 1_000_000 / (1 + nr_cpus as u64 / 8);
    case.counters = *rng.pick(&[CountersOf::Good, CountersOf::Good, CountersOf::Failing, CountersOf::None]);
    case.memory_fails = rng.chance(5);
    case.interleave = rng.chance(50).then(|| Interleave {
        permille: *rng.pick(&[20, 100, 400]) as u32,
        longest_ns: *rng.pick(&[500, 3_000, 20_000]),
        memory: false,
    });
    if rng.chance(30) {
        case.ipi_ns = (200, 40_000);
    }
    groups(&rng, &mut case);
    tasks(&rng, &mut case, nr_cpus);
    disturbances(&rng, &mut case, nr_cpus);
    case
}

fn groups(rng: &Rng, case: &mut Case) {
    if rng.chance(50) {
        return;
    }
    for at in 0..rng.within(1, 6) {
        let parent = rng.below(at + 1) as usize;
        case.groups.push(GroupSpec { max_us: max_us(rng), ..GroupSpec::new(parent, weight(rng)) });
    }
}

/// Return a limit for one group of three. Periods are short, so that a case has several.
fn max_us(rng: &Rng) -> Option<(u64, u64)> {
    rng.chance(30).then(|| {
        let period_us = *rng.pick(&[2_000, 10_000, 25_000]);
        (period_us * rng.within(10, 250) / 100, period_us)
    })
}

fn weight(rng: &Rng) -> u32 {
    *rng.pick(&[100, 100, 100, 1, 20, 50, 200, 1000, 10_000])
}

fn stack(rng: &Rng) -> [u32; 3] {
    *rng.pick(&[stacks::COMPUTE, stacks::BRANCHES, stacks::MEMORY, stacks::MIXED])
}

fn tasks(rng: &Rng, case: &mut Case, nr_cpus: usize) {
    let most = (nr_cpus as u64 * 3).clamp(4, 60);
    let count = rng.within(1, most) as usize;
    let kind = rng.below(4);
    while case.tasks.len() < count {
        let at = case.tasks.len();
        let program = match (kind + rng.below(3)) % 6 {
            0 | 1 => Program::busy(stack(rng)),
            2 => Program::periodic(stack(rng), rng.within(5, 3000) * 1000, rng.within(5, 5000) * 1000),
            3 => {
                pipe(rng, case, nr_cpus);
                continue;
            }
            4 => mixed(rng, at),
            _ => {
                party(rng, case, nr_cpus);
                continue;
            }
        };
        let spec = spec(rng, case, program, nr_cpus);
        case.tasks.push(spec);
    }
    if rng.chance(50) {
        endings(rng, case);
    }
    if rng.chance(30) {
        kthreads(rng, case, nr_cpus);
    }
}

/// Some busy tasks end early, so that CPUs fall idle beside others that have work.
fn endings(rng: &Rng, case: &mut Case) {
    for task in &mut case.tasks {
        if rng.chance(40) && task.program.ops.len() == 1 {
            let ops = &mut task.program.ops;
            if let Some(Op::Run { work_ns, .. }) = ops.first_mut() {
                *work_ns = rng.within(1, 30) * 1_000_000;
            }
            ops.push(Op::End);
        }
    }
}

fn spec(rng: &Rng, case: &Case, program: Program, nr_cpus: usize) -> TaskSpec {
    let mut spec = TaskSpec::new(program).on(rng.below(nr_cpus as u64) as usize);
    spec.start_ns = Some(if rng.chance(60) { rng.below(2_000_000) } else { rng.below(case.duration_ns / 2) });
    spec.weight = weight(rng);
    spec.group = rng.below(case.groups.len() as u64 + 1) as usize;
    if rng.chance(20) {
        spec.cpus = Some(some_cpus(rng, nr_cpus));
    }
    spec
}

fn some_cpus(rng: &Rng, nr_cpus: usize) -> Vec<usize> {
    let count = if rng.chance(40) { 1 } else { rng.within(1, nr_cpus as u64) };
    let mut cpus: Vec<usize> = (0..count).map(|_| rng.below(nr_cpus as u64) as usize).collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

/// Two tasks that wake each other.
fn pipe(rng: &Rng, case: &mut Case, nr_cpus: usize) {
    let first = case.tasks.len();
    let sync = rng.chance(70);
    for (me, other) in [(first, first + 1), (first + 1, first)] {
        let work = Op::Run { stack: stack(rng), work_ns: rng.within(2, 400) * 1000 };
        let mut ops = vec![work, Op::Wake { task: other, sync }, Op::Wait];
        if me != first {
            ops.rotate_right(1);
        }
        let spec = spec(rng, case, Program { ops, repeat: true }, nr_cpus);
        case.tasks.push(spec);
    }
}

/// Tasks that wait for each other at a barrier, or for one that wakes them all.
fn party(rng: &Rng, case: &mut Case, nr_cpus: usize) {
    let first = case.tasks.len();
    let members: Vec<usize> = (first..first + rng.within(2, 8) as usize).collect();
    let broadcast = rng.chance(50);
    let stack = stack(rng);
    for me in &members {
        let work = Op::Run { stack, work_ns: rng.within(10, 2000) * 1000 };
        let ops = match (broadcast, *me == first) {
            (false, _) => vec![work, Op::Barrier { members: members.clone() }],
            (true, true) => {
                vec![
                    work,
                    Op::WakeAll { tasks: members[1..].to_vec() },
                    Op::Sleep { ns: rng.within(50, 3000) * 1000 },
                ]
            }
            (true, false) => vec![Op::Wait, work],
        };
        let spec = spec(rng, case, Program { ops, repeat: true }, nr_cpus);
        case.tasks.push(spec);
    }
}

/// A task of random steps.
fn mixed(rng: &Rng, at: usize) -> Program {
    let mut ops = Vec::new();
    for _ in 0..rng.within(1, 6) {
        ops.push(Op::Run { stack: stack(rng), work_ns: rng.within(1, 2000) * 1000 });
        match rng.below(7) {
            0 | 1 => ops.push(Op::Sleep { ns: rng.within(1, 4000) * 1000 }),
            2 => ops.push(Op::Yield),
            3 => {
                ops.push(Op::MigrateDisable);
                ops.push(Op::Run { stack: stack(rng), work_ns: rng.within(1, 500) * 1000 });
                ops.push(Op::MigrateEnable);
            }
            4 if at > 0 => ops.push(Op::Wake { task: rng.below(at as u64) as usize, sync: rng.chance(50) }),
            _ => {}
        }
    }
    if rng.chance(20) {
        ops.push(Op::End);
    }
    Program { ops, repeat: true }
}

/// Kernel threads that are bound to a CPU each and run briefly.
fn kthreads(rng: &Rng, case: &mut Case, nr_cpus: usize) {
    for _ in 0..rng.within(1, 3) {
        let program =
            Program::periodic(stacks::MIXED, rng.within(5, 200) * 1000, rng.within(100, 5000) * 1000);
        let cpu = rng.below(nr_cpus as u64) as usize;
        let mut spec = TaskSpec::new(program).on(cpu).within([cpu]);
        spec.kthread = true;
        case.tasks.push(spec);
    }
}

fn disturbances(rng: &Rng, case: &mut Case, nr_cpus: usize) {
    if rng.chance(40) {
        return;
    }
    let tasks = case.tasks.len() as u64;
    let user: Vec<usize> = (0..case.tasks.len()).filter(|task| !case.tasks[*task].kthread).collect();
    let hotplug = rng.chance(20) && nr_cpus > 1;
    for _ in 0..rng.within(1, 30) {
        let at_ns = rng.below(case.duration_ns);
        let task = if user.is_empty() { 0 } else { *rng.pick(&user) };
        let cpu = rng.below(nr_cpus as u64) as usize;
        let what = match rng.below(11) {
            0 | 1 => Disturbance::Affinity { task, cpus: some_cpus(rng, nr_cpus) },
            2 => Disturbance::Nice { task, weight: weight(rng) },
            3 if !case.groups.is_empty() => {
                Disturbance::Group { task, group: rng.below(case.groups.len() as u64 + 1) as usize }
            }
            4 if !case.groups.is_empty() => Disturbance::GroupWeight {
                group: rng.within(1, case.groups.len() as u64) as usize,
                weight: weight(rng),
            },
            9 if !case.groups.is_empty() => Disturbance::GroupMax {
                group: rng.within(1, case.groups.len() as u64) as usize,
                max_us: max_us(rng),
            },
            // One of three lasts longer than any bound.
            5 | 6 => {
                let longest = *rng.pick(&[3_000, 3_000, 80_000]);
                Disturbance::RealTime { cpu, ns: rng.within(5, longest) * 1000 }
            }
            7 if hotplug => {
                let back_ns = at_ns + rng.within(1, 50) * 1_000_000;
                case.disturbances.push(Disturb { at_ns: back_ns, what: Disturbance::Online { cpu } });
                Disturbance::Offline { cpu }
            }
            8 => Disturbance::Speed { cpu, permille: rng.within(1000, 2500) as u32, told: rng.chance(70) },
            _ => Disturbance::Swap { up: rng.below(tasks) as usize, down: rng.below(tasks) as usize },
        };
        case.disturbances.push(Disturb { at_ns, what });
    }
}
