// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Benchmark of the swap planner by machine size: `cargo bench -p bias_policy`.
//!
//! It prints the median and the slowest of a number of plans, the pairs evaluated and the swaps
//! found. Each CPU has ten tasks: one runs and nine wait.
//! * `passing`: the waiting tasks have just begun to wait, so every CPU takes part. Half of the
//!   running tasks are on the wrong class, which makes the most work.
//! * `settled`: the same system after the plans were carried out, the usual case for an agent.
//! * `confined`: every task has one of a hundred random affinities.
//! * `queued`: the tasks have waited for long, so dispatch corrects all CPUs.
//!
//! Medians on two shared cores of a virtual machine, with 1024 CPUs and 10240 tasks: 0.09, 0.07,
//! 0.13 and 0.10 ms.

use bias_policy::cpuset::CpuSet;
use bias_policy::swap::{Allowed, Limits, Plan, Runner, Snapshot, State, plan};
use bias_policy::table::{Class, CpuCapacity};
use std::hint::black_box;
use std::time::{Duration, Instant};

const NOW_NS: u64 = 1_000_000_000_000;
const TASKS_PER_CPU: u32 = 10;
const REPEATS: usize = 200;

struct System {
    cpus: Vec<CpuCapacity>,
    runners: Vec<Runner>,
    sets: Vec<CpuSet>,
}

/// A small random generator that produces the same systems in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 32) % u64::from(bound)) as u32
    }
}

/// Return a system with half of the CPUs slow and eight nodes on large machines. CPUs of a class
/// are equal to about 2 %.
fn system(nr: u32, confined: bool, waited_ns: u64) -> System {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let cpus = (0..nr).map(|cpu| {
        let slow = cpu % 2 == 1;
        let base: [u32; 3] = if slow { [2500, 1580, 1100] } else { [1000; 3] };
        let cost_permille = base.map(|cost| cost + random.below(cost / 50));
        let class = if slow { Class::Slow } else { Class::Fast };
        CpuCapacity { node: cpu * 8 / nr.max(128), ..CpuCapacity::alone(cpu, class, cost_permille) }
    });
    let cpus = cpus.collect();
    let sets = (0..100).map(|_| (0..nr).filter(|_| random.below(4) == 0).collect()).collect();
    let runners = (0..nr * TASKS_PER_CPU).map(|pid| {
        let running = pid < nr;
        let (execute, internal) = (random.below(1001), random.below(500));
        let internal = internal.min(1000 - execute);
        Runner {
            pid,
            cpu: pid % nr,
            state: if running { State::Running } else { State::Waiting { since_ns: NOW_NS - waited_ns } },
            stack_permille: Some([execute, internal, 1000 - execute - internal]),
            stable: true,
            allowed: if confined { Allowed::Set(random.below(100)) } else { Allowed::Everywhere },
            moved_at_ns: None,
            backoff_until_ns: 0,
        }
    });
    System { cpus, runners: runners.collect(), sets }
}

fn snapshot(system: &System, round: u64) -> Snapshot<'_> {
    Snapshot {
        now_ns: NOW_NS,
        round,
        cpus: &system.cpus,
        runners: &system.runners,
        busy: CpuSet::default(),
        sets: &system.sets,
    }
}

fn settle(system: &mut System, limits: &Limits) {
    for round in 0..1000 {
        let plan = plan(&snapshot(system, round), limits);
        if plan.swaps.is_empty() {
            return;
        }
        for one in plan.swaps.iter().flat_map(|swap| [swap.up, swap.down]) {
            if let Some(runner) = system.runners.get_mut(one.pid as usize) {
                runner.cpu = one.to;
            }
        }
    }
}

fn measure(name: &str, system: &System, limits: &Limits) {
    let mut times: Vec<Duration> = Vec::with_capacity(REPEATS);
    let mut last = Plan::default();
    for round in 0..REPEATS as u64 {
        let start = Instant::now();
        last = black_box(plan(black_box(&snapshot(system, round)), black_box(limits)));
        times.push(start.elapsed());
    }
    times.sort_unstable();
    let (median, slowest) = (times[REPEATS / 2], times[REPEATS - 1]);
    println!(
        "{:>5} CPUs {:>6} tasks  {name:<9} median {:>9.1} us  slowest {:>9.1} us  {:>6} pairs valued  {:>4} swaps",
        system.cpus.len(),
        system.runners.len(),
        median.as_secs_f64() * 1e6,
        slowest.as_secs_f64() * 1e6,
        last.evaluated,
        last.swaps.len(),
    );
}

fn main() {
    // `cargo test --all-targets` runs this as well, but without the flag.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    let limits = Limits { max_swaps: usize::MAX, ..Limits::default() };
    for nr in [16, 128, 1024] {
        let mut passing = system(nr, false, 0);
        measure("passing", &passing, &limits);
        settle(&mut passing, &limits);
        measure("settled", &passing, &limits);
        measure("confined", &system(nr, true, 0), &limits);
        measure("queued", &system(nr, false, 1_000_000_000), &limits);
    }
}
