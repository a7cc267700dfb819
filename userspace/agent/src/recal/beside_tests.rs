// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Spot checks of a core's threads beside siblings that other tasks and other checks use.

#![allow(clippy::unwrap_used)]

use super::limits::ClockLimits;
use super::recalibrator::{CpuReading, Recalibrator};
use super::spot::Spots;
use crate::costs::Live;
use bias_policy::recal::Reference;
use bias_policy::table::{CapacityTable, Class, CpuCapacity};
use proptest::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Speed of a thread while its sibling is busy, of that alone.
const BESIDE: f64 = 0.62;
/// CPUs 0 to 3 are the threads of two fast cores, 4 to 7 slow cores.
const THREADS: u32 = 4;
const CPUS: u32 = 8;

fn step_ns(cpu: u32) -> f64 {
    if cpu < THREADS { 10.0 } else { 25.0 }
}

fn table() -> CapacityTable {
    let entry = |cpu| {
        let fast = cpu < THREADS;
        let cost = if fast { 1000 } else { 2500 };
        CpuCapacity {
            core: if fast { cpu / 2 * 2 } else { cpu },
            shared_permille: if fast { [1613, 1613, 1000] } else { [1000; 3] },
            ..CpuCapacity::alone(cpu, if fast { Class::Fast } else { Class::Slow }, [cost, cost, 1000])
        }
    };
    CapacityTable::new((0..CPUS).map(entry).collect()).unwrap()
}

/// Checks that take as long as the hardware would need: longer beside a check of the sibling, and
/// beside its tasks.
#[derive(Default)]
struct Hardware {
    under_way: Vec<u32>,
    /// Tasks ran on these CPUs since the last collection, for long enough to lengthen a check.
    ran: [bool; CPUS as usize],
    ended: u32,
}

impl Spots for Rc<RefCell<Hardware>> {
    fn ask(&mut self, cpu: u32, _: Option<f64>) -> bool {
        self.borrow_mut().under_way.push(cpu);
        true
    }

    fn measure(&mut self, _: u32) -> bool {
        false
    }

    fn collect(&mut self) -> Vec<(u32, Option<f64>)> {
        let mut hardware = self.borrow_mut();
        let ended = std::mem::take(&mut hardware.under_way);
        hardware.ended += ended.len() as u32;
        let result = |cpu: &u32| {
            let sibling = cpu ^ 1;
            let beside = *cpu < THREADS && (ended.contains(&sibling) || hardware.ran[sibling as usize]);
            (*cpu, Some(step_ns(*cpu) / if beside { BESIDE } else { 1.0 }))
        };
        ended.iter().map(result).collect()
    }
}

/// Run an hour. In each interval, `load` says of each thread for how long tasks run [ns], and
/// whether one runs at its end. Return the number of checks and the largest relative error of the
/// threads' costs at any time.
fn hour(mut load: impl FnMut() -> (u64, bool)) -> (u32, f64) {
    let hardware = Rc::new(RefCell::new(Hardware::default()));
    let references = (0..CPUS).map(|cpu| Reference { cpu, khz: None, step_ns: Some(step_ns(cpu)) });
    let mut recal = Recalibrator::with(
        &table(),
        references.collect(),
        true,
        Box::new(Rc::clone(&hardware)),
        ClockLimits::default(),
    );
    let mut live = Live::new(table());
    let mut readings: Vec<_> = (0..CPUS).map(|cpu| CpuReading { cpu, ..CpuReading::default() }).collect();
    let (start, mut worst) = (Instant::now(), 0.0f64);
    let mut now = start;
    while now - start < Duration::from_secs(3600) {
        let pause = recal.step(now, &|| readings.clone(), &mut live.costs);
        live.publish(|_| Ok(()));
        let errors = live.table().cpus.iter().filter(|entry| entry.cpu < THREADS);
        worst = errors.map(|entry| f64::from(entry.cost_permille[0]) / 1000.0 - 1.0).fold(worst, f64::max);
        now += pause;
        for reading in &mut readings {
            let (ran_ns, busy) = if reading.cpu < THREADS { load() } else { (0, false) };
            reading.busy = busy;
            // The slow CPU 7 always runs.
            reading.ran_ns += if reading.cpu == 7 { pause.as_nanos() as u64 } else { ran_ns };
            hardware.borrow_mut().ran[reading.cpu as usize] = ran_ns > 1_000_000 || busy;
        }
    }
    let ended = hardware.borrow().ended;
    (ended, worst)
}

#[test]
fn threads_of_a_core_are_not_checked_beside_each_other() {
    let (checks, worst) = hour(|| (0, false));
    assert!(checks > 3600 && worst < 0.05, "{checks} checks, costs are off by {worst:.2}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Servers run on each thread for up to a fifth of the time, so that the thread counts as idle.
    #[test]
    fn tasks_of_siblings_leave_the_costs_alone(
        loads in prop::collection::vec((prop_oneof![Just(0u64), 0..500_000u64, 1_000_000..19_000_000u64], prop::bool::weighted(0.1)), 64..512),
    ) {
        let mut next = loads.iter().cycle();
        let (checks, worst) = hour(|| *next.next().unwrap());
        prop_assert!(checks > 1000 && worst < 0.05, "{checks} checks, costs are off by {worst:.2}");
    }
}
