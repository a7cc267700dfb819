// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of every invariant of the module under steps, noise, outliers and crossing speeds.

#![allow(clippy::unwrap_used)]

use super::state::{CHANGES_A_MINUTE, Filter};
use super::*;
use crate::costs::Costs;
use crate::table::{CapacityTable, Class, CpuCapacity};
use crate::testkit::{cpu, table};
use proptest::prelude::*;

const EVERY_MS: u64 = 500;

const KHZ: [f64; 4] = [60e3, 60e3, 24e3, 24e3];

fn references() -> Vec<Reference> {
    (0..).zip(KHZ).map(|(cpu, khz)| Reference { cpu, khz: Some(khz), step_ns: Some(1e9 / khz) }).collect()
}

/// A machine with a reading of its CPUs every [`EVERY_MS`].
struct Bench {
    recal: Recal,
    costs: Costs,
    now_ms: u64,
    log: Vec<Change>,
}

impl Bench {
    fn new(references: &[Reference]) -> Self {
        let recal = Recal::new(&table(), references);
        Self { recal, costs: Costs::new(table()), now_ms: 0, log: Vec::new() }
    }

    fn step(&mut self, samples: &[Sample]) -> usize {
        self.now_ms += EVERY_MS;
        let before = self.costs.clocked().clone();
        let changes = self.recal.step(self.now_ms, samples, &mut self.costs);
        self.costs.clocked().check().unwrap();
        assert_eq!(changes.is_empty(), before == *self.costs.clocked(), "reported if and only if changed");
        for (old, new) in before.cpus.iter().zip(&self.costs.clocked().cpus) {
            let change = changes.iter().find(|change| change.cpu == old.cpu);
            let told = change.map(|c| (c.old.cost_permille, c.new.cost_permille, c.old.class, c.new.class));
            let happened = (old.cost_permille, new.cost_permille, old.class, new.class);
            assert_eq!(told.is_some(), old != new);
            assert!(told.is_none_or(|told| told == happened));
        }
        self.log.extend(changes.clone());
        changes.len()
    }

    /// Keep all CPUs busy at these frequencies for `times` steps. Return the number of steps that
    /// changed the table.
    fn busy(&mut self, khz: [f64; 4], times: usize) -> usize {
        let cycles = |khz| Evidence::Cycles { khz, busy: true };
        let samples: Vec<_> =
            (0..).zip(khz).map(|(cpu, khz)| Sample { cpu, evidence: cycles(khz) }).collect();
        (0..times).filter(|_| self.step(&samples) > 0).count()
    }

    fn one(&mut self, cpu: u32, evidence: Evidence, times: usize) -> usize {
        (0..times).filter(|_| self.step(&[Sample { cpu, evidence }]) > 0).count()
    }

    fn cost(&self, cpu: u32) -> [u32; 3] {
        self.costs.clocked().get(cpu).unwrap().cost_permille
    }

    fn classes(&self) -> Vec<Class> {
        self.costs.clocked().cpus.iter().map(|entry| entry.class).collect()
    }
}

use Class::{Fast, Slow};

#[test]
fn a_throttled_cpu_and_its_recovery_are_in_the_table_within_two_seconds() {
    let mut bench = Bench::new(&references());
    assert_eq!(bench.busy(KHZ, 10), 0);
    // The speed changes in the middle of an interval.
    assert_eq!(bench.busy([40e3, 60e3, 24e3, 24e3], 1), 0);
    assert_eq!(bench.busy([20e3, 60e3, 24e3, 24e3], 2), 1);
    assert_eq!(bench.cost(0), [3000, 3000, 1000]);
    assert_eq!(bench.cost(2), [2500, 1580, 1000]);
    assert_eq!(bench.classes(), [Slow, Fast, Slow, Slow]);
    assert_eq!(bench.log.len(), 1);
    let change = &bench.log[0];
    assert_eq!((change.cpu, change.cause, change.trigger), (0, Cause::Cycles, None));
    assert_eq!((change.old.class, change.new.class, change.old.cost_permille), (Fast, Slow, [1000; 3]));
    assert_eq!(bench.recal.speed_permille(0), Some(333));
    assert_eq!(bench.busy([20e3, 60e3, 24e3, 24e3], 20), 0);
    bench.busy([45e3, 60e3, 24e3, 24e3], 1);
    assert_eq!(bench.busy(KHZ, 2), 1);
    assert_eq!(*bench.costs.clocked(), table());
}

#[test]
fn when_the_best_are_throttled_the_others_become_the_measure() {
    let mut bench = Bench::new(&references());
    bench.busy([20e3, 20e3, 24e3, 24e3], 3);
    assert_eq!(bench.cost(2), [1000, 1000, 1000]);
    assert_eq!(bench.cost(0), [1200, 1899, 1000]);
    assert_eq!(bench.classes(), [Slow, Slow, Fast, Fast]);
    let causes: Vec<Cause> = bench.log.iter().map(|change| change.cause).collect();
    assert_eq!(causes, [Cause::Cycles, Cause::Cycles, Cause::Others, Cause::Others]);
}

/// A step just beyond the tolerance must also be beyond it on the way back.
#[test]
fn an_entry_that_changed_by_little_is_restored() {
    for speed in [1.0405, 0.961] {
        let mut bench = Bench::new(&references());
        bench.busy(times(KHZ, [1.0, speed, 1.0, 1.0]), 6);
        assert_ne!(*bench.costs.clocked(), table());
        bench.busy(KHZ, 6);
        assert_eq!(*bench.costs.clocked(), table());
    }
}

#[test]
fn single_outliers_of_any_size_change_nothing() {
    let mut bench = Bench::new(&references());
    for wrong in [1.0, 20e3, 59e9, f64::NAN, f64::INFINITY, -3.0, 0.0] {
        assert_eq!(bench.busy([wrong, 60e3, 24e3, 24e3], 2), 0);
        assert_eq!(bench.busy(KHZ, 1), 0);
    }
}

#[test]
fn an_idle_cpu_does_not_count_as_throttled_but_a_faster_one_is_believed() {
    let mut bench = Bench::new(&references());
    let lazy = |khz| Evidence::Cycles { khz, busy: false };
    assert_eq!(bench.one(0, lazy(20e3), 20), 0);
    assert_eq!(bench.one(0, Evidence::Cycles { khz: 20e3, busy: true }, 3), 1);
    assert_eq!(bench.one(0, lazy(60e3), 3), 1);
    assert_eq!(*bench.costs.clocked(), table());
}

#[test]
fn an_unknown_reference_is_learned_and_rises_with_the_best_reading() {
    let mut bench = Bench::new(&[]);
    // The first readings define the meaning of the entry.
    assert_eq!(bench.busy(KHZ, 3), 0);
    assert_eq!(bench.busy([20e3, 60e3, 24e3, 24e3], 3), 1);
    assert_eq!(bench.cost(0)[0], 3000);
    assert_eq!(bench.busy(KHZ, 3), 1);
    // A CPU faster than ever raises its reference: the table describes CPUs at their best.
    assert_eq!(bench.busy([75e3, 60e3, 24e3, 24e3], 10), 0);
    assert_eq!(bench.busy([25e3, 60e3, 24e3, 24e3], 3), 1);
    assert_eq!(bench.cost(0)[0], 3000);
}

#[test]
fn readings_that_disagree_give_no_reference() {
    let mut bench = Bench::new(&[]);
    for khz in [60e3, 50e3, 60e3, 50e3, 40e3] {
        bench.busy([khz, 60e3, 24e3, 24e3], 1);
    }
    assert_eq!(bench.recal.seen(0), None);
    assert!(bench.recal.seen(1).is_some());
}

/// A task leaves a throttled CPU before enough readings of its cycles have confirmed the change.
#[test]
fn spot_checks_confirm_a_change_that_cycles_first_showed() {
    let mut bench = Bench::new(&references());
    bench.busy(KHZ, 3);
    assert_eq!(bench.one(0, Evidence::Cycles { khz: 20e3, busy: true }, 1), 0);
    assert_eq!(bench.recal.wants_spot(0, bench.now_ms, true), Want::Soon);
    let slow = Evidence::Spot { step_ns: 1e9 / 20e3 };
    assert_eq!(bench.one(0, slow, 2), 1);
    assert_eq!((bench.cost(0)[0], bench.log[0].cause), (3000, Cause::SpotCheck));
    // The next spot check refutes one wrong count.
    bench.busy(KHZ, 3);
    bench.one(0, Evidence::Cycles { khz: 20e3, busy: true }, 1);
    bench.one(0, Evidence::Spot { step_ns: 1e9 / KHZ[0] }, 1);
    assert_eq!(bench.one(0, slow, 2), 0);
    assert_eq!(bench.recal.wants_spot(0, bench.now_ms, true), Want::Nothing);
}

#[test]
fn spot_checks_decide_only_where_cycles_are_not_counted() {
    let mut bench = Bench::new(&references());
    let slow = Evidence::Spot { step_ns: 1e9 / 20e3 };
    assert_eq!(bench.recal.wants_spot(0, 0, false), Want::Routine);
    // The CPU has no reading yet, but its cycles are counted once a task runs there.
    assert_eq!(bench.recal.wants_spot(0, 0, true), Want::Rare);
    assert_eq!(bench.one(0, slow, 1), 0);
    assert_eq!(bench.recal.wants_spot(0, bench.now_ms, false), Want::Soon);
    assert_eq!(bench.one(0, slow, 1), 1);
    assert_eq!((bench.cost(0)[0], bench.log[0].cause), (3000, Cause::SpotCheck));
    assert_eq!(bench.recal.wants_spot(0, bench.now_ms, false), Want::Nothing);
    // A CPU below its class needs spot checks even with counters, because no task may ever run
    // there.
    assert_eq!(bench.recal.wants_spot(0, bench.now_ms + FRESH_MS, true), Want::Routine);
    bench.busy(KHZ, 3);
    assert_eq!(bench.one(0, slow, 2), 0);
    // A CPU that agrees with its class needs only rare spot checks.
    bench.busy(KHZ, 1);
    assert_eq!(bench.recal.wants_spot(0, bench.now_ms + FRESH_MS - 1, true), Want::Nothing);
    assert_eq!(bench.recal.wants_spot(0, bench.now_ms + FRESH_MS, true), Want::Rare);
}

#[test]
fn two_spot_checks_that_disagree_are_decided_by_a_third() {
    let mut bench = Bench::new(&references());
    let spot = |khz: f64| Evidence::Spot { step_ns: 1e9 / khz };
    // The first spot check runs while the speed changes.
    assert_eq!(bench.one(0, spot(40e3), 1) + bench.one(0, spot(20e3), 1), 0);
    assert_eq!(bench.one(0, spot(20e3), 1), 1);
    assert_eq!(bench.cost(0)[0], 3000);
    assert_eq!(bench.one(0, spot(700e3), 1) + bench.one(0, spot(60e3), 1), 0);
    assert_eq!(bench.one(0, spot(60e3), 1), 1);
    assert_eq!(*bench.costs.clocked(), table());
}

#[test]
fn triggers_and_limits_need_fewer_readings_and_are_reported() {
    let mut bench = Bench::new(&references());
    bench.recal.trigger(0, Trigger::FrequencyPolicy);
    assert_eq!(bench.recal.wants_spot(0, 0, true), Want::Soon);
    assert_eq!(bench.busy([20e3, 60e3, 24e3, 24e3], 2), 1);
    assert_eq!(bench.log[0].trigger, Some(Trigger::FrequencyPolicy));
    bench.recal.trigger(1, Trigger::Thermal);
    bench.busy([20e3, 60e3, 24e3, 24e3], 1);
    assert_eq!(bench.recal.wants_spot(1, bench.now_ms, true), Want::Nothing);
    let mut blind = Bench::new(&[]);
    assert_eq!(blind.one(3, Evidence::Limit { share: 0.5 }, 1), 1);
    assert_eq!((blind.cost(3)[0], blind.log[0].cause), (5000, Cause::Limit));
}

/// Clocks of a package fall together when more of its cores are busy. Idle cores must not appear
/// faster because of that.
#[test]
fn an_idle_cpu_follows_its_class() {
    let alike = CapacityTable::new((0..8).map(|number| cpu(number, Fast)).collect()).unwrap();
    let references: Vec<_> = (0..8).map(|cpu| Reference { cpu, khz: Some(5e6), step_ns: None }).collect();
    let mut recal = Recal::new(&alike, &references);
    let mut costs = Costs::new(alike);
    let busy = |cpus: std::ops::Range<u32>, khz| -> Vec<Sample> {
        cpus.map(|cpu| Sample { cpu, evidence: Evidence::Cycles { khz, busy: true } }).collect()
    };
    for step in 1..=3 {
        recal.step(step * EVERY_MS, &busy(0..4, 4e6), &mut costs);
    }
    assert!(costs.clocked().cpus.iter().all(|entry| entry.cost_permille == [1000; 3] && entry.class == Fast));
    assert_eq!(recal.speed_permille(7), Some(800));
    // One CPU alone runs at its best, so the others could as well.
    for step in 30..=33 {
        recal.step(step * EVERY_MS, &busy(0..1, 5e6), &mut costs);
    }
    assert!(costs.clocked().cpus.iter().all(|entry| entry.cost_permille == [1000; 3]));
    // One hot CPU alone is no evidence about the others.
    for step in 34..=40 {
        recal.step(step * EVERY_MS, &busy(0..1, 2.5e6), &mut costs);
    }
    assert_eq!(costs.clocked().get(0).unwrap().cost_permille, [2000, 2000, 1000]);
    assert_eq!(costs.clocked().get(0).unwrap().class, Slow);
    assert_eq!(costs.clocked().get(7).unwrap().cost_permille, [1000; 3]);
}

#[test]
fn a_cpu_that_came_back_needs_a_new_reading() {
    let mut bench = Bench::new(&references());
    bench.busy(KHZ, 1);
    bench.recal.trigger(2, Trigger::Hotplug);
    assert_eq!(bench.recal.seen(2), None);
    assert_eq!(bench.recal.wants_spot(2, bench.now_ms, true), Want::Soon);
    bench.recal.trigger(77, Trigger::Hotplug);
    assert_eq!(bench.recal.wants_spot(77, 0, false), Want::Nothing);
}

#[test]
fn of_two_spot_checks_that_agree_the_faster_is_believed() {
    let mut filter = Filter::default();
    assert_eq!(filter.add(0.94, 0.33, 0, Cause::SpotCheck), None);
    assert_eq!(filter.add(0.97, 0.33, 100, Cause::SpotCheck), Some(0.97));
    // The first of three may have begun before the CPU slowed down.
    assert_eq!(filter.add(0.60, 0.97, 200, Cause::SpotCheck), None);
    assert_eq!(filter.add(0.33, 0.97, 300, Cause::SpotCheck), None);
    assert_eq!(filter.add(0.32, 0.97, 400, Cause::SpotCheck), Some(0.33));
}

const FAST_NS: f64 = 10.0;

/// Return fast CPUs 0 and 1, and with `slow` also the slow CPUs 4 and 5.
fn recal(slow: bool) -> (Recal, Costs, Vec<Reference>) {
    let mut cpus: Vec<_> = [0, 1].map(|number| cpu(number, Fast)).into();
    if slow {
        cpus.extend([4, 5].map(|number| cpu(number, Slow)));
    }
    let step = |cpu: &CpuCapacity| FAST_NS * f64::from(cpu.cost_permille[0]) / 1000.0;
    let reference = |cpu: &CpuCapacity| Reference { cpu: cpu.cpu, khz: None, step_ns: Some(step(cpu)) };
    let references = cpus.iter().map(reference).collect::<Vec<_>>();
    let table = CapacityTable::new(cpus).unwrap();
    (Recal::new(&table, &references), Costs::new(table), references)
}

fn newcomer(cpu: u32, step_ns: f64) -> Newcomer {
    Newcomer { cpu, core: cpu, llc: 0, node: 0, step_ns }
}

#[test]
fn a_cpu_like_others_gets_their_entry() {
    let (mut recal, mut costs, references) = recal(true);
    let changes = recal.join(7, newcomer(3, 25.0), &references, &mut costs).unwrap();
    let joined = costs.clocked().get(3).unwrap();
    assert_eq!((joined.class, joined.cost_permille), (Slow, [2500, 1580, 1000]));
    assert_eq!((changes.len(), changes[0].cpu, changes[0].cause), (1, 3, Cause::SpotCheck));
    assert_eq!(changes[0].old, Entry { class: Fast, cost_permille: [1000; 3] });
    // A CPU that equals the best changes no entry, but it is in the table.
    assert_eq!(recal.join(8, newcomer(2, 10.0), &references, &mut costs), Some(vec![]));
    assert_eq!(costs.clocked().cpus.iter().map(|entry| entry.cpu).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    assert_eq!(recal.join(9, newcomer(2, 10.0), &references, &mut costs), None, "already in the table");
}

#[test]
fn slow_cores_that_come_later_form_a_class() {
    let (mut recal, mut costs, references) = recal(false);
    for cpu in [6, 7] {
        recal.join(0, newcomer(cpu, 25.0), &references, &mut costs).unwrap();
    }
    let classes: Vec<Class> = costs.clocked().cpus.iter().map(|cpu| cpu.class).collect();
    assert_eq!(classes, [Fast, Fast, Slow, Slow]);
    assert_eq!(costs.clocked().get(7).unwrap().cost_permille, [2500, 2500, 1000]);
    // The new CPUs' entries match their time at arrival, and the other CPUs do not follow them.
    for step in 0..20 {
        let sample = |cpu| Sample { cpu, evidence: Evidence::Spot { step_ns: 25.0 } };
        assert_eq!(recal.step(step * 500, &[sample(6), sample(7)], &mut costs), vec![]);
    }
}

#[test]
fn a_faster_newcomer_is_the_new_best_cpu() {
    let (mut recal, mut costs, references) = recal(true);
    let changes = recal.join(0, newcomer(2, 5.0), &references, &mut costs).unwrap();
    assert_eq!(costs.clocked().get(2).unwrap().cost_permille, [1000, 1000, 1000]);
    assert_eq!(costs.clocked().get(0).unwrap().cost_permille, [2000, 2000, 1000]);
    assert!(changes.iter().filter(|change| change.cpu != 2).all(|change| change.cause == Cause::Others));
}

#[test]
fn a_newcomer_without_a_comparison_changes_nothing() {
    let (mut recal, mut costs, references) = recal(true);
    let before = costs.clocked().clone();
    assert_eq!(recal.join(0, newcomer(2, 10.0), &[], &mut costs), None);
    for step_ns in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9, 1e-9] {
        assert_eq!(recal.join(0, newcomer(2, step_ns), &references, &mut costs), None);
    }
    assert_eq!(*costs.clocked(), before);
}

fn noise(amplitude: f64) -> impl Strategy<Value = Vec<[f64; 4]>> {
    prop::collection::vec(prop::array::uniform4(1.0 - amplitude..1.0 + amplitude), 1..80)
}

fn times(khz: [f64; 4], noise: [f64; 4]) -> [f64; 4] {
    std::array::from_fn(|at| khz[at] * noise[at])
}

proptest! {
    #[test]
    fn noise_of_a_few_percent_never_changes_a_true_table(noise in noise(0.038)) {
        let mut bench = Bench::new(&references());
        for noise in noise {
            prop_assert_eq!(bench.busy(times(KHZ, noise), 1), 0);
        }
        prop_assert_eq!(bench.costs.clocked(), &table());
    }

    #[test]
    fn after_a_step_the_table_is_true_in_three_readings_and_stays_so(
        speeds in prop::array::uniform4(prop_oneof![Just(1.0), 0.05f64..0.9, 1.1f64..4.0]), noise in noise(0.015)
    ) {
        let mut bench = Bench::new(&references());
        bench.busy(KHZ, 2);
        let khz = times(KHZ, speeds);
        let mut noise = noise.into_iter().cycle();
        for _ in 0..3 {
            bench.busy(times(khz, noise.next().unwrap()), 1);
        }
        // Costs of execution are times, relative to the best.
        let time = |at: usize| 1.0 / khz[at];
        let best = (0..4).map(time).fold(f64::INFINITY, f64::min);
        for at in 0..4 {
            let cost = f64::from(bench.cost(at as u32)[0]) / 1000.0;
            // A cost that is cut to the highest one is correct.
            let truth = (time(at) / best).min(64.0);
            prop_assert!((cost / truth - 1.0).abs() < 0.05, "CPU {at}: {cost} for {truth}");
        }
        let settled = bench.costs.clocked().clone();
        for _ in 0..40 {
            bench.busy(times(khz, noise.next().unwrap()), 1);
        }
        prop_assert_eq!(bench.costs.clocked(), &settled);
    }

    #[test]
    fn a_speed_that_returns_restores_the_table(speeds in prop::array::uniform4(0.05f64..4.0)) {
        let mut bench = Bench::new(&references());
        bench.busy(times(KHZ, speeds), 6);
        bench.busy(KHZ, 6);
        prop_assert_eq!(bench.costs.clocked(), &table());
    }

    #[test]
    fn any_readings_keep_the_table_valid_and_its_changes_bounded(
        readings in prop::collection::vec((0u32..5, 0u32..4, -1e3f64..1e9, any::<bool>()), 0..400)
    ) {
        let mut bench = Bench::new(&references()[..2]);
        let mut decided = Vec::new();
        for (cpu, kind, value, busy) in readings {
            let evidence = match kind {
                0 | 1 => Evidence::Cycles { khz: value, busy },
                2 => Evidence::Spot { step_ns: value },
                _ => Evidence::Limit { share: value / 1e9 },
            };
            bench.step(&[Sample { cpu, evidence }]);
            let now_ms = bench.now_ms;
            let by_itself = |change: &&Change| change.at_ms == now_ms && change.cause != Cause::Others && change.cause != Cause::Class;
            decided.extend(bench.log.iter().filter(by_itself).map(|change| (change.at_ms, change.cpu)));
        }
        for (at, cpu) in &decided {
            let minute = decided.iter().filter(|(other, by)| by == cpu && (at..=&(at + 59_000)).contains(&other)).count();
            prop_assert!(minute <= 2 * CHANGES_A_MINUTE, "CPU {cpu} changed {minute} times");
        }
    }

    /// A CPU that throttles periodically changes the table only a bounded number of times.
    #[test]
    fn an_oscillation_is_damped(half in 3usize..8) {
        let mut bench = Bench::new(&references());
        let mut changes = 0;
        for step in 0..120 {
            let khz = if step / half % 2 == 0 { 60e3 } else { 20e3 };
            changes += bench.busy([khz, 60e3, 24e3, 24e3], 1);
        }
        prop_assert!(changes <= CHANGES_A_MINUTE + 1, "{changes}");
    }

    #[test]
    fn without_a_reading_nothing_changes(turns in 1usize..50) {
        let mut bench = Bench::new(&references());
        for _ in 0..turns {
            prop_assert_eq!(bench.step(&[]), 0);
        }
        prop_assert_eq!(bench.costs.clocked(), &table());
    }

    #[test]
    fn a_table_with_newcomers_stays_valid(joins in prop::collection::vec((0u32..12, 3.0f64..150.0), 1..8), slow: bool) {
        let (mut recal, mut costs, references) = recal(slow);
        for (cpu, step_ns) in joins {
            let before = costs.clocked().clone();
            if recal.join(0, newcomer(cpu, step_ns), &references, &mut costs).is_none() {
                prop_assert_eq!(costs.clocked(), &before);
                continue;
            }
            let now = costs.clocked();
            prop_assert!(now.check().is_ok());
            prop_assert_eq!(now.cpus.len(), before.cpus.len() + 1);
            prop_assert!(before.cpus.iter().all(|entry| now.get(entry.cpu).is_some()));
            // Costs follow the ratio of the times, as long as none is cut to the highest cost.
            let cost = |cpu| f64::from(now.get(cpu).unwrap().cost_permille[0]);
            let ratio = cost(cpu) / cost(0);
            prop_assert!((ratio / (step_ns / FAST_NS) - 1.0).abs() < 0.01, "{} for {}", ratio, step_ns);
        }
    }
}
