// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Scenarios of clocks: the requests of CPUs between no load and full load. The oracle checks both
//! ends in every case.

use super::parts::{Scenario, busy, expect};
use crate::case::{Case, TaskSpec};
use crate::kernel::Kernel;
use crate::load::{Op, Program, stacks};

/// Return the request of `cpu` [permille of its maximum], and the number of its changes.
fn request(kernel: &Kernel, cpu: usize) -> (f64, f64) {
    let clock = &kernel.cpus[cpu].clock;
    let share = f64::from(clock.target.get()) / f64::from(kernel.capacity(cpu));
    (share * 1000.0, clock.changes.get() as f64)
}

fn pinned(machine: &str, work_ns: u64, sleep_ns: u64, cpu: usize) -> Case {
    let mut case = busy(machine, &[], 20);
    case.tasks = vec![TaskSpec::new(Program::periodic(stacks::COMPUTE, work_ns, sleep_ns)).within([cpu])];
    case
}

/// Brief sleeps leave the clock of a CPU that is busy for 96 % of the time at its maximum.
pub(super) fn brief_sleeps() -> Scenario {
    let mut case = pinned("2P", 96_000_000, 4_000_000, 0);
    case.tick_ns = 4_000_000;
    Scenario {
        name: "brief-sleeps",
        case,
        check: |kernel| {
            let (share, changes) = request(kernel, 0);
            expect("request of the busy CPU [permille]", share, 1000.0, 1000.0)?;
            expect("changes of the request", changes, 0.0, 10.0)
        },
    }
}

/// A slow CPU with half a load requests neither its maximum nor another CPU's half.
pub(super) fn half_loaded() -> Scenario {
    Scenario {
        name: "half-loaded",
        // 0.4 ms of the reference CPU are 1 ms of a CPU of 0.4 of its speed.
        case: pinned("60:24", 400_000, 1_000_000, 1),
        check: |kernel| {
            let (share, changes) = request(kernel, 1);
            expect("request of the slow CPU [permille]", share, 490.0, 760.0)?;
            expect("changes of the request", changes, 0.0, 40.0)
        },
    }
}

/// A task ends. The clocks of all CPUs fall, and the timer that lowers them ends as well.
pub(super) fn load_ends() -> Scenario {
    let mut case = busy("2F2S", &[], 20);
    let ops = vec![Op::Run { stack: stacks::COMPUTE, work_ns: 200_000_000 }, Op::End];
    case.tasks = vec![TaskSpec::new(Program { ops, repeat: false }); 4];
    Scenario {
        name: "load-ends",
        case,
        check: |kernel| {
            let starts = kernel.bpf_timers.starts() as f64;
            expect("starts of timers", starts, 1.0, 20.0)
        },
    }
}

/// A load of 2 % is not worth a clock, and no timer fires for it.
pub(super) fn nearly_idle() -> Scenario {
    Scenario {
        name: "nearly-idle",
        case: pinned("2P", 200_000, 9_800_000, 0),
        check: |kernel| {
            let (share, _) = request(kernel, 0);
            expect("request of the CPU [permille]", share, 0.0, 0.0)?;
            expect("starts of timers", kernel.bpf_timers.starts() as f64, 1.0, 5.0)
        },
    }
}

/// A task that never stops leaves the other CPU no reason to dispatch. That CPU still lowers the
/// kernel's first request.
pub(super) fn lone_hog() -> Scenario {
    Scenario {
        name: "lone-hog",
        case: busy("2P", &[stacks::COMPUTE], 5),
        check: |kernel| {
            let clock = |cpu| request(kernel, cpu).0;
            expect("requests of both CPUs [permille]", clock(0) + clock(1), 1000.0, 1000.0)
        },
    }
}
