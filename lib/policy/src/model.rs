// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Scales of stall counters: the cycles that one counted stall stands for, and the error of the
//! speedups that are predicted from the counts.
//!
//! # Problem
//!
//! A task's CPI stack is made of counters whose meaning comes from manuals. A count may be a cycle,
//! an issue slot or a miss. It may leave out half of the stalls or contain others. Speedups
//! predicted from it may be wrong by any amount, and nothing would show the error.
//!
//! # Approach
//!
//! Calibration's loops come in pairs that execute the same instructions. One loop of a pair stalls,
//! the other does not. So the share of time that the stalling loop loses is known without counters:
//! `(with - without) / with`. The scale of a counter is the number of cycles per count at which the
//! counted share of the stalling loop equals that share.
//!
//! Every loop then gets a predicted speedup from the counts of each CPU, by the C functions that
//! the kernel side uses. The prediction is compared with the ratio of the measured times.
//!
//! | counter  | stalls          | does not stall    |
//! |----------|-----------------|-------------------|
//! | external | far chase       | near chase        |
//! | internal | random branches | branches one way  |
//!
//! # Invariants
//!
//! * A scale is within [`bounds`] of its nominal one.
//! * A counter has no scale if it never moves, or does not move more where the CPU stalls more.
//! * Scales depend neither on the time base nor on the length of the count.
//! * No input panics.
//!
//! # Limits
//!
//! * One scale cannot correct a counter that also counts events other than stalls. This appears as
//!   error of the loops without stalls.
//! * The loops take part in the fit, so the error of the stalling ones is a lower bound of the
//!   error for tasks.

use crate::ffi;
use crate::table::{CapacityTable, Class};
use serde::{Deserialize, Serialize};

/// Number of loops that are timed.
pub const LOOPS: usize = 5;
/// Highest scale [permille]: its product with the largest valid count still fits 64 bits.
pub const SCALE_MAX: u32 = (u64::MAX / ffi::BIAS_COUNTS_MAX) as u32;
/// Least share of the stalling loop's time at which a stall stands out from noise [permille].
const MIN_STALL_PERMILLE: f64 = 50.0;
/// Least ratio of the counter's share of the cycles in the stalling loop to that in the other loop.
/// Below it the counter does not follow the stall.
const MIN_RISE: f64 = 1.1;

/// A calibration loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loop {
    /// Dependent loads beyond the caches.
    FarChase,
    /// The same loads from the first-level cache.
    NearChase,
    /// Branches that cannot be predicted.
    RandomBranches,
    /// The same branches, always going one way.
    SteadyBranches,
    /// Integer work in registers.
    Execute,
}

impl Loop {
    /// All loops, in the order of the indices.
    pub const ALL: [Self; LOOPS] =
        [Self::FarChase, Self::NearChase, Self::RandomBranches, Self::SteadyBranches, Self::Execute];

    /// Return the index in an array of loops.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Return the name that users see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FarChase => "far chase",
            Self::NearChase => "near chase",
            Self::RandomBranches => "random branches",
            Self::SteadyBranches => "steady branches",
            Self::Execute => "execute",
        }
    }
}

/// Counts of one run of a loop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Time that the loop ran [ns].
    pub ran_ns: u64,
    /// Number of cycles.
    pub cycles: u64,
    /// Number of instructions.
    pub instructions: u64,
    /// Counts of external stalls; None where there is no counter.
    pub external: Option<u64>,
    /// Counts of internal stalls; None where there is no counter.
    pub internal: Option<u64>,
}

/// A loop on one CPU.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LoopSample {
    /// Median time of a step [ns]; not positive if it was not measured.
    pub step_ns: f64,
    /// Spread of a single sample [permille of the median].
    pub spread_permille: u32,
    /// Counts of the loop; None if nothing was counted.
    pub counts: Option<Counts>,
}

/// All loops on one CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuLoops {
    /// CPU number.
    pub cpu: u32,
    /// Nominal scale of external stalls: cycles per count by the counter's unit [permille]; None
    /// without the counter.
    pub external_nominal: Option<u32>,
    /// Nominal scale of internal stalls, likewise.
    pub internal_nominal: Option<u32>,
    /// One sample per loop, by [`Loop::index`].
    pub loops: [LoopSample; LOOPS],
}

/// Result of fitting a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Cycles that one count stands for [permille].
    Fitted(u32),
    /// Noise hid the stall, so the nominal scale of the unit applies.
    Unclear,
    /// The counter moves, but not with the stall: do not use it.
    Unrelated,
    /// The counter never moves: do not use it.
    Still,
}

impl Scale {
    /// Return the cycles per count to use [permille]; None if the counter must not be used.
    #[must_use]
    pub fn permille(self, nominal: u32) -> Option<u32> {
        match self {
            Self::Fitted(permille) => Some(permille),
            Self::Unclear => Some(nominal),
            Self::Unrelated | Self::Still => None,
        }
    }
}

/// The counters of one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuModel {
    /// CPU number.
    pub cpu: u32,
    /// Scale of external stalls; None without the counter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<Scale>,
    /// Scale of internal stalls; None without the counter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub internal: Option<Scale>,
    /// Mean absolute error of the speedups predicted from its counts [permille]; None without a
    /// prediction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_permille: Option<u32>,
}

/// Speedup of a loop, measured and predicted: time on slow CPUs over time on fast ones [permille].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoopSpeedup {
    /// The loop.
    #[serde(rename = "loop")]
    pub name: Loop,
    /// Ratio of the mean times of both classes.
    pub measured_permille: u32,
    /// Mean of the predictions from the fast CPUs' counts; None where nothing was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_fast_permille: Option<u32>,
    /// Mean of the predictions from the slow CPUs' counts; None where nothing was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_slow_permille: Option<u32>,
}

/// Absolute errors of all predictions, one per loop and CPU [permille of the measured speedup].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Errors {
    /// Mean error.
    pub mean_permille: u32,
    /// Largest error.
    pub worst_permille: u32,
}

/// The counters of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Model {
    /// Counters of each CPU, in the order of the input.
    pub cpus: Vec<CpuModel>,
    /// Speedups of the loops; empty on a machine of one class, which has no speedup to predict.
    pub loops: Vec<LoopSpeedup>,
    /// Errors of the predictions; None when there was no prediction.
    pub errors: Option<Errors>,
}

/// Fit the scales of every CPU of `cpus`, and predict the loops' speedups with them on the machine
/// of `table`.
#[must_use]
pub fn fit(table: &CapacityTable, cpus: &[CpuLoops]) -> Model {
    let mut model = Model { cpus: cpus.iter().map(fit_cpu).collect(), ..Model::default() };
    if table.nr_classes() < 2 {
        return model;
    }
    let mut errors = vec![Vec::new(); cpus.len()];
    for name in Loop::ALL {
        let Some(measured) = measured_speedup(table, cpus, name) else { continue };
        let mut by_class = [Vec::new(), Vec::new()];
        for ((cpu, fitted), errors) in cpus.iter().zip(&model.cpus).zip(&mut errors) {
            let Some(entry) = table.get(cpu.cpu) else { continue };
            let Some(speedup) = predicted_permille(table, cpu, fitted, name) else { continue };
            by_class[usize::from(entry.class == Class::Slow)].push(f64::from(speedup));
            errors.push((f64::from(speedup) / (measured * 1000.0) - 1.0).abs() * 1000.0);
        }
        model.loops.push(LoopSpeedup {
            name,
            measured_permille: (measured * 1000.0).round() as u32,
            from_fast_permille: mean(&by_class[0]),
            from_slow_permille: mean(&by_class[1]),
        });
    }
    for (cpu, errors) in model.cpus.iter_mut().zip(&errors) {
        cpu.error_permille = mean(errors);
    }
    let all = errors.concat();
    let worst = all.iter().copied().fold(0.0, f64::max).round() as u32;
    model.errors = mean(&all).map(|mean_permille| Errors { mean_permille, worst_permille: worst });
    model
}

/// Return the rounded mean; None without values.
fn mean(values: &[f64]) -> Option<u32> {
    (!values.is_empty()).then(|| (values.iter().sum::<f64>() / values.len() as f64).round() as u32)
}

fn fit_cpu(cpu: &CpuLoops) -> CpuModel {
    let fit = |nominal: Option<u32>, with: Loop, without: Loop, count: fn(&Counts) -> Option<u64>| {
        nominal.map(|nominal| fit_scale(cpu, nominal, with, without, count))
    };
    CpuModel {
        cpu: cpu.cpu,
        external: fit(cpu.external_nominal, Loop::FarChase, Loop::NearChase, |counts| counts.external),
        internal: fit(cpu.internal_nominal, Loop::RandomBranches, Loop::SteadyBranches, |counts| {
            counts.internal
        }),
        error_permille: None,
    }
}

/// Return the scale at which the counter's share of the stalling loop equals the true share.
fn fit_scale(
    cpu: &CpuLoops,
    nominal: u32,
    with: Loop,
    without: Loop,
    count: fn(&Counts) -> Option<u64>,
) -> Scale {
    let read = |sample: &LoopSample| sample.counts.and_then(|counts| Some((count(&counts)?, counts.cycles)));
    let all: Vec<_> = cpu.loops.iter().filter_map(read).collect();
    // A zero counts against the counter only if the stalling loop itself was counted.
    if read(&cpu.loops[with.index()]).is_some()
        && (all.iter().all(|(count, _)| *count == 0) || all.iter().all(|(_, cycles)| *cycles == 0))
    {
        return Scale::Still;
    }
    let share = |name: Loop| {
        let (count, cycles) = read(&cpu.loops[name.index()])?;
        (cycles > 0).then(|| count as f64 / cycles as f64)
    };
    let stalls = true_share(&cpu.loops[with.index()], &cpu.loops[without.index()]);
    let (Some(counted), Some(stalls)) = (share(with), stalls) else { return Scale::Unclear };
    if share(without).is_some_and(|plain| counted < plain * MIN_RISE) {
        return Scale::Unrelated;
    }
    let permille = (stalls / counted * 1000.0).round();
    let (least, most) = bounds(nominal);
    // A count of zero makes the quotient infinite, which is out of bounds too.
    if (f64::from(least)..=f64::from(most)).contains(&permille) {
        Scale::Fitted(permille as u32)
    } else {
        Scale::Unrelated
    }
}

/// Return the scales that are possible for a counter whose unit stands for `nominal` [permille]. A
/// counter beyond them counts something else.
#[must_use]
pub fn bounds(nominal: u32) -> (u32, u32) {
    ((nominal / 20).max(1), nominal.saturating_mul(1000).clamp(1, SCALE_MAX))
}

/// Return the share of its time that `with` stalls, by the times alone; None if noise could be the
/// cause.
fn true_share(with: &LoopSample, without: &LoopSample) -> Option<f64> {
    let stall_ns = with.step_ns - without.step_ns;
    let noise_ns = |sample: &LoopSample| sample.step_ns * f64::from(sample.spread_permille) / 1000.0;
    let clear = stall_ns > noise_ns(with).hypot(noise_ns(without));
    let share = stall_ns / with.step_ns;
    let positive = without.step_ns > 0.0 && share.is_finite();
    (positive && clear && share * 1000.0 >= MIN_STALL_PERMILLE).then_some(share)
}

/// Return the mean time of a loop on the slow CPUs over that on the fast ones; None unless both
/// were measured.
fn measured_speedup(table: &CapacityTable, cpus: &[CpuLoops], name: Loop) -> Option<f64> {
    let mean_ns = |class: Class| {
        let of_class = cpus.iter().filter(|cpu| table.get(cpu.cpu).is_some_and(|entry| entry.class == class));
        let times: Vec<f64> = of_class.map(|cpu| cpu.loops[name.index()].step_ns).collect();
        let sound = !times.is_empty() && times.iter().all(|time| time.is_finite() && *time > 0.0);
        sound.then(|| times.iter().sum::<f64>() / times.len() as f64)
    };
    let ratio = mean_ns(Class::Slow)? / mean_ns(Class::Fast)?;
    // A ratio beyond the largest cost cannot be right.
    (ratio.is_finite() && ratio > 0.0 && ratio * 1000.0 <= f64::from(ffi::BIAS_COST_MAX)).then_some(ratio)
}

/// Return the speedup that the kernel side would predict from the counts of `cpu` in a loop
/// [permille]; None where it would not count.
fn predicted_permille(table: &CapacityTable, cpu: &CpuLoops, fitted: &CpuModel, name: Loop) -> Option<u32> {
    let entry = table.get(cpu.cpu)?;
    let seen = cpu.loops[name.index()].counts?;
    let external_permille = fitted.external?.permille(cpu.external_nominal?)?;
    let internal_permille =
        fitted.internal.zip(cpu.internal_nominal).and_then(|(scale, nominal)| scale.permille(nominal));
    let internal = internal_permille.and(seen.internal).unwrap_or(0);
    let counts = shortened([seen.cycles, seen.instructions, seen.external?, internal]);
    let class_cost = |class| ffi::bias_cost { permille: table.class_cost_permille(class) };
    let stack = stack_of(
        counts,
        [external_permille, internal_permille.unwrap_or(1000)],
        seen.ran_ns,
        &ffi::bias_cost { permille: entry.cost_permille },
    )?;
    // SAFETY: a pure function over references that live across the call.
    Some(unsafe { ffi::bias_speedup_permille(&stack, &class_cost(Class::Slow), &class_cost(Class::Fast)) })
}

/// Shift all counts down alike, so that the C side accepts them as valid and their shares stay.
fn shortened(counts: [u64; 4]) -> ffi::bias_counts {
    let most = counts.into_iter().max().unwrap_or(0);
    let shift = (u64::BITS - most.leading_zeros()).saturating_sub(ffi::BIAS_COUNTS_MAX.ilog2());
    let [cycles, instructions, external, internal] = counts.map(|count| count >> shift);
    ffi::bias_counts { cycles, instructions, external, internal }
}

/// Return the stack on the reference CPU as the kernel side derives it from one interval; None if
/// it would drop the interval.
fn stack_of(
    mut counts: ffi::bias_counts,
    [external_permille, internal_permille]: [u32; 2],
    ran_ns: u64,
    cost: &ffi::bias_cost,
) -> Option<ffi::bias_stack> {
    let (mut window, mut stack) = (ffi::bias_window::default(), ffi::bias_stack::default());
    // SAFETY: pure functions over references that live across the calls; after the check they get
    // valid counts only.
    unsafe {
        if !ffi::bias_counts_valid(&counts) {
            return None;
        }
        ffi::bias_counts_correct(&mut counts, external_permille, internal_permille);
        ffi::bias_window_add(&mut window, &counts, ran_ns, cost);
        ffi::bias_window_stack(&window, &mut stack);
    }
    Some(stack)
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
