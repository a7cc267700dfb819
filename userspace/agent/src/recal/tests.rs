// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests with a fake kernel and fake spot checks: readings, checks, tables and reports.

#![allow(clippy::unwrap_used)]

use super::*;
use bias_policy::table::CpuCapacity;
use proptest::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;

/// Return the table of two fast and two slow CPUs.
fn table() -> CapacityTable {
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
struct Made {
    khz: [u64; 4],
    busy: [bool; 4],
    counted: bool,
    sums: Vec<CpuReading>,
    tables: Vec<CapacityTable>,
    refuses: bool,
}

impl Made {
    fn new(counted: bool) -> Self {
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

    fn pass(&mut self, ns: u64) {
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

/// Spot checks that end immediately, except those of CPUs in `endless`. Those of CPUs in
/// `disturbed` give no result.
#[derive(Default)]
struct Quick {
    endless: Vec<u32>,
    disturbed: Vec<u32>,
    step_ns: [f64; 6],
    asked: Vec<u32>,
    measured: Vec<u32>,
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

/// A recalibrator between the fake kernel and spot checks, and its time.
struct Rig {
    recal: Recalibrator,
    live: Live,
    made: Made,
    quick: Rc<RefCell<Quick>>,
    now: Instant,
    sysfs: tempfile::TempDir,
}

impl Rig {
    fn new(counted: bool, on: bool) -> Self {
        let quick =
            Rc::new(RefCell::new(Quick { step_ns: [10.0, 10.0, 25.0, 25.0, 20.0, 0.0], ..Quick::default() }));
        let recal =
            Recalibrator::with(&table(), Vec::new(), on, Box::new(Rc::clone(&quick)), ClockLimits::default());
        let live = Live::new(table());
        let sysfs = tempfile::tempdir().unwrap();
        Self { recal, live, made: Made::new(counted), quick, now: Instant::now(), sysfs }
    }

    fn step(&mut self, now: Instant) -> Duration {
        let pause = self.recal.step(now, &|| self.made.sums.clone(), &mut self.live.costs);
        self.live.publish(|table| self.made.publish(table));
        pause
    }

    fn report(&self) -> RecalReport {
        self.recal.report(&self.live)
    }

    fn steps(&mut self, count: usize) {
        for _ in 0..count {
            self.now += EVERY;
            self.made.pass(EVERY.as_nanos() as u64);
            self.step(self.now);
        }
    }

    /// Make `list` the online CPUs of the machine that has the rig's CPUs.
    fn online(&mut self, list: &str) {
        let directory = self.sysfs.path().join("devices/system/cpu");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("online"), list).unwrap();
        self.recal.sysfs = self.sysfs.path().to_owned();
    }
}

#[test]
fn counted_cycles_reach_the_kernel_side_as_one_table_and_the_report() {
    let mut rig = Rig::new(true, true);
    rig.steps(6);
    assert!(rig.made.tables.is_empty() && rig.quick.borrow().asked.is_empty());
    rig.made.khz[0] = 20_000;
    rig.steps(3);
    assert_eq!(rig.made.tables.len(), 1);
    assert_eq!(rig.made.tables[0], *rig.live.table());
    let report = rig.report();
    assert_eq!((report.cpus[0].cost_permille[0], report.cpus[0].class), (3000, Class::Slow));
    assert!(report.cpus.iter().all(|cpu| cpu.follows == Follows::Cycles && cpu.seen_ms_ago.is_some()));
    assert_eq!((report.changed, report.changes.len()), (1, 1));
    assert_eq!(
        line(&report.changes[0]),
        "CPU 0: fast 1.00/1.00/1.00 became slow 3.00/3.00/1.00 (execute/internal/external), by counted cycles"
    );
    rig.made.khz[0] = 60_000;
    rig.steps(3);
    assert_eq!(rig.made.tables[1], table());
}

#[test]
fn a_throttled_cpu_that_idles_is_checked_until_it_has_recovered() {
    let mut rig = Rig::new(true, true);
    rig.steps(6);
    rig.made.khz[0] = 20_000;
    rig.steps(3);
    rig.made.busy[0] = false;
    rig.steps(8);
    assert!(!rig.quick.borrow().asked.is_empty());
    assert!(rig.quick.borrow().asked.iter().all(|cpu| *cpu == 0));
}

#[test]
fn idle_cpus_are_checked_where_nothing_is_counted() {
    let mut rig = Rig::new(false, true);
    rig.made.busy = [true, false, false, false];
    rig.steps(12);
    assert!(rig.made.tables.is_empty());
    assert!(!rig.quick.borrow().asked.contains(&0), "a busy CPU is left alone");
    rig.quick.borrow_mut().step_ns[1] = 30.0;
    // The check begins at most a second later, and another check confirms it.
    rig.steps(5);
    assert_eq!(rig.live.table().get(1).unwrap().cost_permille[0], 3000);
    let report = rig.report();
    assert_eq!((report.cpus[0].follows, report.cpus[1].follows), (Follows::Nothing, Follows::SpotChecks));
    assert!(report.spot_checks >= 5);
    rig.quick.borrow_mut().step_ns[1] = 10.0;
    rig.steps(5);
    assert_eq!(*rig.live.table(), table());
}

/// With opted-in cgroups, tasks of the default scheduler can keep a check from ending.
#[test]
fn checks_under_way_leave_the_budget_to_other_cpus() {
    let mut rig = Rig::new(true, true);
    rig.made.busy = [true, false, false, false];
    rig.quick.borrow_mut().endless = vec![2, 3];
    rig.steps(4);
    assert_eq!(rig.quick.borrow().asked[..3], [3, 2, 1]);
}

#[test]
fn cpus_whose_checks_give_no_result_leave_the_budget_to_others() {
    let mut rig = Rig::new(true, true);
    rig.made.busy = [true, false, false, false];
    rig.quick.borrow_mut().disturbed = vec![2, 3];
    rig.steps(6);
    assert!(rig.quick.borrow().asked.contains(&1), "{:?}", rig.quick.borrow().asked);
}

#[test]
fn an_idle_machine_gets_no_checks() {
    let mut rig = Rig::new(false, true);
    rig.made.busy = [false; 4];
    rig.steps(20);
    assert!(rig.quick.borrow().asked.is_empty());
}

#[test]
fn recalibration_that_is_off_changes_nothing() {
    let mut rig = Rig::new(true, false);
    rig.steps(4);
    rig.made.khz[0] = 20_000;
    rig.steps(10);
    assert!(rig.made.tables.is_empty() && !rig.report().on);
    assert_eq!(rig.step(rig.now), Duration::MAX);
}

#[test]
fn a_refused_table_is_reported() {
    let mut rig = Rig::new(true, true);
    rig.steps(5);
    rig.made.refuses = true;
    rig.made.khz[0] = 20_000;
    rig.steps(4);
    assert_eq!(rig.report().failure.as_deref(), Some("no program"));
    rig.made.refuses = false;
    rig.made.khz[0] = 60_000;
    rig.steps(4);
    assert_eq!(rig.report().failure, None);
}

#[test]
fn an_early_step_does_nothing_and_returns_the_time_left() {
    let mut rig = Rig::new(true, true);
    rig.steps(2);
    let left = rig.step(rig.now + EVERY / 5);
    assert_eq!(left, EVERY - EVERY / 5);
}

#[test]
fn an_announced_change_is_read_soon_and_needs_less_evidence() {
    let mut rig = Rig::new(true, true);
    rig.steps(6);
    rig.made.khz[0] = 20_000;
    rig.recal.note_thermal(&ThermalEvent::Cpus(vec![0, 99]), rig.now);
    assert!(rig.step(rig.now) <= AGAIN);
    rig.steps(2);
    let report = rig.report();
    assert_eq!((report.cpus[0].class, report.changes[0].trigger), (Class::Slow, Some(Trigger::Feedback)));
    rig.recal.note_thermal(&ThermalEvent::Somewhere, rig.now);
    assert!(rig.recal.limits_due);
    rig.steps(1);
    assert!(!rig.recal.limits_due);
}

/// No task runs on the CPU, so no cycles are counted, and none will run while its entry says that
/// it is slow.
#[test]
fn an_idle_cpu_is_checked_rarely_and_sooner_if_it_seems_changed() {
    let mut rig = Rig::new(true, true);
    rig.steps(6);
    rig.made.busy = [true, false, false, false];
    // The first steps learn the CPUs' speeds.
    rig.steps(12);
    rig.quick.borrow_mut().asked.clear();
    rig.steps(12);
    assert!(rig.made.tables.is_empty());
    let asked = rig.quick.borrow().asked.len();
    assert!((4..=9).contains(&asked), "{asked} checks of three CPUs in 6 s");
    rig.quick.borrow_mut().step_ns[1] = 30.0;
    let start = rig.now;
    while rig.made.tables.is_empty() && rig.now - start < 5 * EVERY {
        let pause = rig.step(rig.now);
        rig.now += pause;
        rig.made.pass(pause.as_nanos() as u64);
    }
    assert_eq!(rig.live.table().get(1).unwrap().cost_permille[0], 3000);
    assert!(rig.now - start <= 4 * EVERY + 2 * AGAIN, "{:?}", rig.now - start);
}

/// As on a busy host of virtual CPUs.
#[test]
fn checks_that_never_agree_are_not_repeated_for_ever() {
    let mut rig = Rig::new(true, true);
    rig.made.busy = [true, false, false, false];
    rig.steps(16);
    rig.quick.borrow_mut().asked.clear();
    let start = rig.now;
    let mut step_ns = 20.0;
    while rig.now - start < 40 * EVERY {
        step_ns = (step_ns * 1.7) % 100.0 + 20.0;
        rig.quick.borrow_mut().step_ns = [10.0, step_ns, 25.0, 25.0, 0.0, 0.0];
        let pause = rig.step(rig.now);
        rig.now += pause;
        rig.made.pass(pause.as_nanos() as u64);
    }
    // At most once per step (40) and six more times per 5 s (24).
    let asked = rig.quick.borrow().asked.iter().filter(|cpu| **cpu == 1).count();
    assert!((20..=80).contains(&asked), "{asked} checks of a CPU in 20 s");
}

#[test]
fn a_cpu_that_came_online_needs_less_evidence_and_the_log_is_bounded() {
    let mut rig = Rig::new(true, true);
    rig.steps(5);
    rig.made.sums[3].onlined += 1;
    rig.made.khz[3] = 12_000;
    rig.steps(2);
    let report = rig.report();
    assert_eq!(report.changes[0].trigger, Some(Trigger::Hotplug));
    for step in 0..4000 {
        rig.made.khz[(step / 4) % 4] = 10_000 + (step as u64 * 7919) % 50_000;
        rig.steps(1);
    }
    let report = rig.report();
    assert!(report.changed > KEPT as u64 && report.changes.len() == KEPT, "{}", report.changed);
}

#[test]
fn a_late_cpu_is_measured_though_it_is_busy_and_reported_until_then() {
    let mut rig = Rig::new(true, true);
    rig.online("0-3");
    rig.steps(8);
    assert!(rig.quick.borrow().measured.is_empty());
    rig.online("0-5");
    rig.steps(4);
    // The other CPUs have no reference, so one of each class is measured, too. CPU 5 gives no time
    // yet.
    assert_eq!(rig.quick.borrow().measured, [4, 5, 0, 2]);
    rig.steps(1);
    let report = rig.report();
    assert_eq!(report.unmeasured, [5]);
    let joined = rig.made.tables.last().unwrap().get(4).unwrap().clone();
    assert_eq!((joined.class, joined.cost_permille), (Class::Slow, [2000, 2000, 1000]));
    assert_eq!((report.cpus[4].cpu, report.cpus[4].follows), (4, Follows::SpotChecks));
    rig.quick.borrow_mut().step_ns[5] = 10.0;
    rig.steps(5);
    assert_eq!(rig.report().unmeasured, Vec::<u32>::new());
    assert_eq!(rig.made.tables.last().unwrap().get(5).unwrap().cost_permille, [1000; 3]);
    let measured = rig.quick.borrow().measured.len();
    rig.steps(20);
    assert_eq!(rig.quick.borrow().measured.len(), measured);
}

#[test]
fn late_cpus_that_leave_are_forgotten_and_when_off_only_reported() {
    let mut rig = Rig::new(true, true);
    rig.online("0-3,5");
    rig.steps(5);
    assert_eq!(rig.report().unmeasured, [5]);
    rig.online("0-3");
    rig.steps(4);
    assert_eq!(rig.report().unmeasured, Vec::<u32>::new());
    let mut off = Rig::new(true, false);
    off.online("0-4");
    off.steps(4);
    assert_eq!(off.report().unmeasured, [4]);
    assert!(off.made.tables.is_empty() && off.quick.borrow().measured.is_empty());
}

#[test]
fn references_come_from_the_measurements_in_the_file() {
    let text = r#"{"version": 1, "cpus": [{"cpu": 0, "cost_permille": [1000, 1000, 1000], "execute_khz": 60000,
        "samples_ps": [[9000, 10000, 30000], [], []]}, {"cpu": 1, "cost_permille": [2500, 1580, 1000]}]}"#;
    let file: CapacityFile = serde_json::from_str(text).unwrap();
    let expected = [
        Reference { cpu: 0, khz: Some(60e3), step_ns: Some(10.0) },
        Reference { cpu: 1, khz: None, step_ns: None },
    ];
    assert_eq!(references(&file), expected);
}

// Spot checks of a core's threads beside siblings that other tasks and other checks use.

/// Speed of a thread while its sibling is busy, of that alone.
const BESIDE: f64 = 0.62;
/// CPUs 0 to 3 are the threads of two fast cores, 4 to 7 slow cores.
const THREADS: u32 = 4;
const CPUS: u32 = 8;

fn unshared_ns(cpu: u32) -> f64 {
    if cpu < THREADS { 10.0 } else { 25.0 }
}

fn threads_table() -> CapacityTable {
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
            (*cpu, Some(unshared_ns(*cpu) / if beside { BESIDE } else { 1.0 }))
        };
        ended.iter().map(result).collect()
    }
}

/// Run an hour. In each interval, `load` says of each thread for how long tasks run [ns], and
/// whether one runs at its end. Return the number of checks and the largest relative error of the
/// threads' costs at any time.
fn hour(mut load: impl FnMut() -> (u64, bool)) -> (u32, f64) {
    let hardware = Rc::new(RefCell::new(Hardware::default()));
    let references = (0..CPUS).map(|cpu| Reference { cpu, khz: None, step_ns: Some(unshared_ns(cpu)) });
    let mut recal = Recalibrator::with(
        &threads_table(),
        references.collect(),
        true,
        Box::new(Rc::clone(&hardware)),
        ClockLimits::default(),
    );
    let mut live = Live::new(threads_table());
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
