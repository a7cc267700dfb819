// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A made-up kernel and made-up spot checks for tests of recalibration.

#![allow(clippy::unwrap_used)]

use super::limits::ClockLimits;
use super::recalibrator::{CpuReading, EVERY, Recalibrator};
use super::report::RecalReport;
use super::spot::Spots;
use crate::costs::Live;
use bias_policy::table::{CapacityTable, Class, CpuCapacity};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Return the table of two fast and two slow CPUs.
pub(crate) fn table() -> CapacityTable {
    let entry = |cpu, class, cost| CpuCapacity::alone(cpu, class, [cost, cost, 1000]);
    let (fast, slow) = (Class::Fast, Class::Slow);
    CapacityTable::new(vec![
        entry(0, fast, 1000),
        entry(1, fast, 1000),
        entry(2, slow, 2500),
        entry(3, slow, 2500),
    ])
    .unwrap()
}

/// Four CPUs with the given clocks and shares of busy time.
pub(crate) struct Made {
    pub(crate) khz: [u64; 4],
    pub(crate) busy: [bool; 4],
    counted: bool,
    pub(crate) sums: Vec<CpuReading>,
    pub(crate) tables: Vec<CapacityTable>,
    pub(crate) refuses: bool,
}

impl Made {
    pub(crate) fn new(counted: bool) -> Self {
        let sums = (0..4).map(|cpu| CpuReading { cpu, counted, ..CpuReading::default() }).collect();
        Self {
            khz: [60_000, 60_000, 24_000, 24_000],
            busy: [true; 4],
            counted,
            sums,
            tables: Vec::new(),
            refuses: false,
        }
    }

    pub(crate) fn pass(&mut self, ns: u64) {
        for (at, sum) in self.sums.iter_mut().enumerate() {
            sum.busy = self.busy[at];
            if !sum.busy {
                continue;
            }
            sum.ran_ns += ns;
            if self.counted {
                sum.counted_ns += ns / 2;
                sum.cycles += self.khz[at] * (ns / 2) / 1_000_000;
            }
        }
    }

    fn publish(&mut self, table: &CapacityTable) -> anyhow::Result<()> {
        anyhow::ensure!(!self.refuses, "no program");
        self.tables.push(table.clone());
        Ok(())
    }
}

/// Spot checks that end at once, except those of CPUs in `endless`. Those of CPUs in `disturbed`
/// give no result.
#[derive(Default)]
pub(crate) struct Quick {
    pub(crate) endless: Vec<u32>,
    pub(crate) disturbed: Vec<u32>,
    pub(crate) step_ns: [f64; 6],
    pub(crate) asked: Vec<u32>,
    pub(crate) measured: Vec<u32>,
    pending: Vec<u32>,
}

impl Spots for Rc<RefCell<Quick>> {
    fn ask(&mut self, cpu: u32, _: Option<f64>) -> bool {
        let mut quick = self.borrow_mut();
        if quick.pending.contains(&cpu) {
            return false;
        }
        quick.asked.push(cpu);
        quick.pending.push(cpu);
        true
    }

    fn measure(&mut self, cpu: u32) -> bool {
        self.borrow_mut().measured.push(cpu);
        self.ask(cpu, None)
    }

    fn collect(&mut self) -> Vec<(u32, Option<f64>)> {
        let mut quick = self.borrow_mut();
        let pending = std::mem::take(&mut quick.pending);
        let (endless, ended): (Vec<_>, Vec<_>) =
            pending.into_iter().partition(|cpu| quick.endless.contains(cpu));
        quick.pending = endless;
        let result = |cpu: &u32| (!quick.disturbed.contains(cpu)).then_some(quick.step_ns[*cpu as usize]);
        ended.iter().map(|cpu| (*cpu, result(cpu))).collect()
    }
}

/// A recalibrator between the made-up kernel and spot checks, and its time.
pub(crate) struct Rig {
    pub(crate) recal: Recalibrator,
    pub(crate) live: Live,
    pub(crate) made: Made,
    pub(crate) quick: Rc<RefCell<Quick>>,
    pub(crate) now: Instant,
    sysfs: tempfile::TempDir,
}

impl Rig {
    pub(crate) fn new(counted: bool, on: bool) -> Self {
        let quick =
            Rc::new(RefCell::new(Quick { step_ns: [10.0, 10.0, 25.0, 25.0, 20.0, 0.0], ..Quick::default() }));
        let recal =
            Recalibrator::with(&table(), Vec::new(), on, Box::new(Rc::clone(&quick)), ClockLimits::default());
        let live = Live::new(table());
        let sysfs = tempfile::tempdir().unwrap();
        Self { recal, live, made: Made::new(counted), quick, now: Instant::now(), sysfs }
    }

    pub(crate) fn step(&mut self, now: Instant) -> Duration {
        let pause = self.recal.step(now, &|| self.made.sums.clone(), &mut self.live.costs);
        self.live.publish(|table| self.made.publish(table));
        pause
    }

    pub(crate) fn report(&self) -> RecalReport {
        self.recal.report(&self.live)
    }

    pub(crate) fn steps(&mut self, count: usize) {
        for _ in 0..count {
            self.now += EVERY;
            self.made.pass(EVERY.as_nanos() as u64);
            self.step(self.now);
        }
    }
    /// Make `list` the online CPUs of the machine that has the rig's CPUs.
    pub(crate) fn online(&mut self, list: &str) {
        let directory = self.sysfs.path().join("devices/system/cpu");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("online"), list).unwrap();
        self.recal.late.sysfs = self.sysfs.path().to_owned();
    }
}
