// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of the fit on simulated machines with known counters.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::table::{CpuCapacity, costs_from_times};
use proptest::prelude::*;

/// True behaviour of one CPU. Each loop takes `execute_ns` per step; stalling loops add the stall.
#[derive(Debug, Clone, Copy)]
struct Truth {
    execute_ns: f64,
    external_ns: f64,
    internal_ns: f64,
    /// Cycles per nanosecond.
    clock: f64,
    /// Counts per cycle of stall; None without the counter, 0 for a dead one.
    external_counts: Option<f64>,
    internal_counts: Option<f64>,
}

const FAST: Truth = Truth {
    execute_ns: 8.0,
    external_ns: 90.0,
    internal_ns: 16.0,
    clock: 4.0,
    external_counts: Some(1.0),
    internal_counts: Some(1.0),
};
const SLOW: Truth = Truth { execute_ns: 20.0, internal_ns: 24.0, clock: 2.0, ..FAST };
const STEPS: f64 = 1e6;

impl Truth {
    fn sample(&self, name: Loop) -> LoopSample {
        let (external_ns, internal_ns) = match name {
            Loop::FarChase => (self.external_ns, 0.0),
            Loop::RandomBranches => (0.0, self.internal_ns),
            _ => (0.0, 0.0),
        };
        let step_ns = self.execute_ns + external_ns + internal_ns;
        let cycles = |ns: f64| ns * STEPS * self.clock;
        let count = |per_cycle: Option<f64>, ns| per_cycle.map(|counts| (cycles(ns) * counts).round() as u64);
        let counts = Counts {
            ran_ns: (step_ns * STEPS) as u64,
            cycles: cycles(step_ns) as u64,
            instructions: 100_000_000,
            external: count(self.external_counts, external_ns),
            internal: count(self.internal_counts, internal_ns),
        };
        LoopSample { step_ns, spread_permille: 10, counts: Some(counts) }
    }

    fn loops(&self, cpu: u32) -> CpuLoops {
        CpuLoops {
            cpu,
            external_nominal: self.external_counts.map(|_| 1000),
            internal_nominal: self.internal_counts.map(|_| 1000),
            loops: Loop::ALL.map(|name| self.sample(name)),
        }
    }
}

/// Return the table that calibration would produce for these CPUs. The first is the fast one.
fn table(cpus: &[Truth]) -> CapacityTable {
    let column =
        |time: fn(&Truth) -> f64| costs_from_times(&cpus.iter().map(time).collect::<Vec<_>>()).unwrap();
    let columns = [column(|t| t.execute_ns), column(|t| t.internal_ns), column(|t| t.external_ns)];
    let entry = |at: usize| {
        CpuCapacity::alone(
            at as u32,
            if at == 0 { Class::Fast } else { Class::Slow },
            [columns[0][at], columns[1][at], columns[2][at]],
        )
    };
    CapacityTable::new((0..cpus.len()).map(entry).collect()).unwrap()
}

fn loops(cpus: &[Truth]) -> Vec<CpuLoops> {
    cpus.iter().zip(0..).map(|(truth, cpu)| truth.loops(cpu)).collect()
}

fn model(cpus: &[Truth]) -> Model {
    fit(&table(cpus), &loops(cpus))
}

#[test]
fn a_machine_with_exact_counters_is_predicted_exactly() {
    let model = model(&[FAST, SLOW]);
    for cpu in &model.cpus {
        assert_eq!((cpu.external, cpu.internal), (Some(Scale::Fitted(1000)), Some(Scale::Fitted(1000))));
        assert!(cpu.error_permille.unwrap() <= 5, "{model:?}");
    }
    let errors = model.errors.unwrap();
    assert!(errors.mean_permille <= errors.worst_permille && errors.worst_permille <= 10, "{model:?}");
    let names: Vec<Loop> = model.loops.iter().map(|speedup| speedup.name).collect();
    assert_eq!(names, Loop::ALL);
    let far = model.loops[Loop::FarChase.index()];
    assert_eq!(far.measured_permille, 1122);
    assert!(far.from_fast_permille.unwrap().abs_diff(1122) <= 10);
    assert!(far.from_slow_permille.unwrap().abs_diff(1122) <= 10);
    assert_eq!(model.loops[Loop::Execute.index()].measured_permille, 2500);
}

#[test]
fn the_scale_compensates_for_uncounted_stalls() {
    let half = |truth: Truth| Truth { external_counts: Some(0.5), internal_counts: Some(0.25), ..truth };
    let model = model(&[half(FAST), half(SLOW)]);
    assert_eq!(model.cpus[1].external, Some(Scale::Fitted(2000)));
    assert_eq!(model.cpus[1].internal, Some(Scale::Fitted(4000)));
    assert!(model.errors.unwrap().worst_permille <= 10, "{model:?}");
}

#[test]
fn slots_and_misses_have_scales_of_their_own() {
    // Six slots per cycle; one miss per 360 cycles.
    let counted =
        |truth: Truth| Truth { external_counts: Some(1.0 / 360.0), internal_counts: Some(6.0), ..truth };
    let machine = [counted(FAST), counted(SLOW)];
    let units =
        |cpu: CpuLoops| CpuLoops { external_nominal: Some(100_000), internal_nominal: Some(166), ..cpu };
    let model = fit(&table(&machine), &loops(&machine).into_iter().map(units).collect::<Vec<_>>());
    assert_eq!(model.cpus[0].external, Some(Scale::Fitted(360_000)));
    assert_eq!(model.cpus[0].internal, Some(Scale::Fitted(167)));
    assert!(model.errors.unwrap().worst_permille <= 10, "{model:?}");
}

#[test]
fn without_internal_counts_only_random_branches_are_wrong() {
    let machine = [FAST, SLOW].map(|truth| Truth { internal_counts: None, ..truth });
    let model = model(&machine);
    assert!(model.cpus.iter().all(|cpu| cpu.internal.is_none()));
    for speedup in &model.loops {
        let error = speedup.from_slow_permille.unwrap().abs_diff(speedup.measured_permille);
        assert_eq!(error > 100, speedup.name == Loop::RandomBranches, "{speedup:?}");
    }
}

#[test]
fn a_counter_that_stays_at_zero_is_not_used() {
    let dead = Truth { internal_counts: Some(0.0), ..SLOW };
    let fitted = model(&[FAST, dead]).cpus[1];
    assert_eq!((fitted.external, fitted.internal), (Some(Scale::Fitted(1000)), Some(Scale::Still)));
    // Without external stalls a CPU gets no prediction, but the other CPU still gets one.
    let blind = Truth { external_counts: Some(0.0), ..SLOW };
    let model = model(&[FAST, blind]);
    assert_eq!((model.cpus[1].external, model.cpus[1].error_permille), (Some(Scale::Still), None));
    assert!(model.loops.iter().all(|l| l.from_fast_permille.is_some() && l.from_slow_permille.is_none()));
    let mut stopped = loops(&[FAST, SLOW]);
    for sample in &mut stopped[0].loops {
        sample.counts = sample.counts.map(|counts| Counts { cycles: 0, ..counts });
    }
    assert_eq!(fit(&table(&[FAST, SLOW]), &stopped).cpus[0].external, Some(Scale::Still));
}

#[test]
fn a_counter_of_something_else_is_detected() {
    let mut machine = loops(&[FAST, SLOW]);
    for sample in &mut machine[0].loops {
        // Externally a tenth of the cycles in every loop; internally one count per loop.
        sample.counts = sample.counts.map(|c| Counts {
            external: Some(c.cycles / 10),
            internal: c.internal.map(|n| n.min(1)),
            ..c
        });
    }
    let fitted = fit(&table(&[FAST, SLOW]), &machine).cpus[0];
    assert_eq!((fitted.external, fitted.internal), (Some(Scale::Unrelated), Some(Scale::Unrelated)));
    assert_eq!((Scale::Unrelated.permille(7), Scale::Still.permille(7)), (None, None));
}

#[test]
fn noise_leaves_the_nominal_scale() {
    let mut noisy = loops(&[FAST, SLOW]);
    noisy[0].loops[Loop::SteadyBranches.index()].spread_permille = 3000;
    noisy[1].loops[Loop::NearChase.index()].step_ns = 108.0;
    noisy[1].loops[Loop::RandomBranches.index()].counts = None;
    let model = fit(&table(&[FAST, SLOW]), &noisy);
    assert_eq!(
        (model.cpus[0].internal, model.cpus[0].external),
        (Some(Scale::Unclear), Some(Scale::Fitted(1000)))
    );
    assert_eq!(
        (model.cpus[1].internal, model.cpus[1].external),
        (Some(Scale::Unclear), Some(Scale::Unclear))
    );
    assert_eq!((Scale::Unclear.permille(200), Scale::Fitted(7).permille(200)), (Some(200), Some(7)));
}

#[test]
fn without_counters_or_classes_there_is_nothing_to_predict() {
    let mut uncounted = loops(&[FAST, SLOW]);
    for cpu in &mut uncounted {
        (cpu.external_nominal, cpu.internal_nominal) = (None, None);
        cpu.loops.iter_mut().for_each(|sample| sample.counts = None);
    }
    let model = fit(&table(&[FAST, SLOW]), &uncounted);
    assert!(model.errors.is_none() && model.cpus.iter().all(|cpu| cpu.external.is_none()));
    let mut one_class = table(&[FAST, SLOW]);
    one_class.cpus[1].class = Class::Fast;
    let model = fit(&one_class, &loops(&[FAST, SLOW]));
    assert!(model.loops.is_empty() && model.errors.is_none());
    assert_eq!(model.cpus[1].external, Some(Scale::Fitted(1000)));
    assert_eq!(fit(&one_class, &[]), Model::default());
}

#[test]
fn a_speedup_beyond_the_largest_cost_is_not_measured() {
    let measured = |factor: f64| {
        let slow = Truth { execute_ns: FAST.execute_ns * factor, ..SLOW };
        let model = fit(&table(&[FAST, SLOW]), &loops(&[FAST, slow]));
        model.loops.iter().find(|l| l.name == Loop::Execute).map(|l| l.measured_permille)
    };
    assert_eq!(measured(63.0), Some(63_000));
    assert_eq!(measured(65.0), None);
}

#[test]
fn counts_of_hours_are_shortened_alike() {
    let long = shortened([1 << 50, 1 << 49, 1 << 48, 0]);
    assert_eq!((long.cycles, long.external), (1 << 39, 1 << 37));
    let short = shortened([1000, 2, 3, 4]);
    assert_eq!((short.cycles, short.internal), (1000, 4));
}

fn any_sample() -> impl Strategy<Value = LoopSample> {
    let counts = (any::<[u64; 3]>(), any::<[Option<u64>; 2]>()).prop_map(
        |([ran_ns, cycles, instructions], [external, internal])| Counts {
            ran_ns,
            cycles,
            instructions,
            external,
            internal,
        },
    );
    (any::<f64>(), any::<u32>(), prop::option::of(counts))
        .prop_map(|(step_ns, spread_permille, counts)| LoopSample { step_ns, spread_permille, counts })
}

fn truth() -> impl Strategy<Value = (Truth, f64)> {
    let times = (1.0f64..50.0, 20.0f64..500.0, 5.0f64..100.0, 0.5f64..6.0);
    (times, 0.01f64..10.0, 0.1f64..10.0).prop_map(
        |((execute_ns, external_ns, internal_ns, clock), counts, scale)| {
            let (external_counts, internal_counts) = (Some(counts), Some(counts * scale));
            (Truth { execute_ns, external_ns, internal_ns, clock, external_counts, internal_counts }, scale)
        },
    )
}

proptest! {
    #[test]
    fn true_scales_are_recovered((truth, _) in truth(), nominal in 1u32..200_000) {
        let cpu = CpuLoops { external_nominal: Some(nominal), internal_nominal: Some(nominal), ..truth.loops(0) };
        let fitted = fit_cpu(&cpu);
        let (least, most) = bounds(nominal);
        for (scale, counts) in [(fitted.external, truth.external_counts), (fitted.internal, truth.internal_counts)] {
            let expected = 1000.0 / counts.unwrap();
            match scale.unwrap() {
                Scale::Fitted(permille) => {
                    prop_assert!((f64::from(permille) - expected).abs() <= 0.5 + expected * 1e-4);
                    prop_assert!((least..=most).contains(&permille));
                }
                Scale::Unrelated => prop_assert!(expected < f64::from(least) + 1.0 || expected > f64::from(most) - 1.0),
                Scale::Unclear => prop_assert!(truth.internal_ns < truth.execute_ns / 10.0),
                Scale::Still => prop_assert!(false),
            }
        }
    }

    /// Predictions equal those of exact counters, in any unit of the counts.
    #[test]
    fn predictions_do_not_depend_on_the_unit((fast, _) in truth(), dearer in 1.1f64..4.0, stalls in 1.0f64..4.0) {
        prop_assume!(fast.internal_ns > fast.execute_ns / 5.0 && fast.external_ns > fast.execute_ns);
        let slow = Truth {
            execute_ns: fast.execute_ns * dearer,
            internal_ns: fast.internal_ns * stalls,
            clock: fast.clock / dearer,
            ..fast
        };
        prop_assume!(slow.internal_ns > slow.execute_ns / 5.0 && slow.external_ns > slow.execute_ns / 5.0);
        let machine = [fast, slow];
        let nominal = |counts: Option<f64>| counts.map(|counts| ((1500.0 / counts) as u32).max(1));
        let units = |cpu: CpuLoops| CpuLoops {
            external_nominal: nominal(fast.external_counts),
            internal_nominal: nominal(fast.internal_counts),
            ..cpu
        };
        let model = fit(&table(&machine), &loops(&machine).into_iter().map(units).collect::<Vec<_>>());
        // At a scale of ten permille, rounding changes the scale by five percent.
        let coarse = 1000 * 500 / nominal(fast.internal_counts).unwrap().min(nominal(fast.external_counts).unwrap()) / 400;
        prop_assert!(model.errors.unwrap().worst_permille <= 10 + coarse, "{model:?}");
    }

    #[test]
    fn scales_do_not_depend_on_the_time_base((truth, _) in truth(), factor in 0.1f64..10.0) {
        let mut other = truth.loops(0);
        other.loops.iter_mut().for_each(|sample| sample.step_ns *= factor);
        let (one, two) = (fit_cpu(&truth.loops(0)), fit_cpu(&other));
        let close = |one, two| match (one, two) {
            (Some(Scale::Fitted(a)), Some(Scale::Fitted(b))) => u32::abs_diff(a, b) <= 1,
            (one, two) => one == two,
        };
        prop_assert!(close(one.external, two.external) && close(one.internal, two.internal));
    }

    #[test]
    fn no_input_panics_and_scales_stay_in_bounds(
        fast in prop::array::uniform5(any_sample()),
        slow in prop::array::uniform5(any_sample()),
        external_nominal: Option<u32>,
        internal_nominal: Option<u32>,
    ) {
        let cpu = |cpu, loops| CpuLoops { cpu, external_nominal, internal_nominal, loops };
        let model = fit(&table(&[FAST, SLOW]), &[cpu(0, fast), cpu(1, slow), cpu(9, slow)]);
        for fitted in model.cpus {
            for (scale, nominal) in [(fitted.external, external_nominal), (fitted.internal, internal_nominal)] {
                prop_assert_eq!(scale.is_none(), nominal.is_none());
                if let (Some(Scale::Fitted(permille)), Some(nominal)) = (scale, nominal) {
                    let (least, most) = bounds(nominal);
                    prop_assert!((least..=most).contains(&permille) && permille <= SCALE_MAX);
                }
            }
        }
    }

    /// At the highest scale the largest valid count neither wraps nor exceeds the cycles.
    #[test]
    fn the_highest_scale_does_not_wrap(count in 1u64..ffi::BIAS_COUNTS_MAX) {
        let mut counts = ffi::bias_counts { cycles: ffi::BIAS_COUNTS_MAX - 1, instructions: 1, external: count, internal: 0 };
        // SAFETY: a pure function over a reference that lives across the call.
        unsafe { ffi::bias_counts_correct(&mut counts, SCALE_MAX, 1000) };
        let exact = u128::from(count) * u128::from(SCALE_MAX) / 1000;
        prop_assert_eq!(u128::from(counts.external), exact.min(u128::from(ffi::BIAS_COUNTS_MAX - 1)));
    }
}
