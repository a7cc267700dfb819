//! Queue classes: which CPUs are fast and which are slow, if any are.
//!
//! Problem. Every measurement of equal CPUs differs a little. A machine split by noise pays for two sets of queues and moves tasks
//! for nothing; a machine left whole that is unequal gains nothing from this scheduler.
//!
//! Approach. For each component the CPUs are cut in two where the variance between the groups is largest (on the logarithm of the
//! median time, so that ratios count). The cut counts if it is
//! * large enough: the mean ratio between the groups exceeds a minimum effect (3 % for execute; twice that for stalls, since stalls are
//!   rarely more than half of a task's time and so are worth half as much; [`PLACEMENT_PERMILLE`] for stalls outside the core, for the pages that
//!   a CPU happens to load from make less); and
//! * significant: a permutation test on block medians of the raw samples. Labels of the CPUs are exchanged within each
//!   block, and each exchange is cut at its own best place, so that the freedom to choose the cut is paid for. A plain
//!   two-sample test of the groups found by the cut would not: it would test a choice with the data that made it.
//!
//! The component with the largest effect beyond its minimum decides. Three kinds of core give two classes, since two queues a
//! cache is what the scheduler keeps; their cost stays per CPU. Similarity of pairs, for people to read, is the Anderson-Darling
//! and Kolmogorov-Smirnov pair of seed 000 (sections 2 and 3; see [`crate::ranktest`]).
//!
//! Invariants. Neither order of the CPUs nor a common factor changes the classes; equal CPUs give one class; every fast CPU is
//! at least as good as every slow one in the component that decided.
//!
//! Limits. CPUs that differ in nothing but memory latency, and by less than a fifth, are one class; their costs still differ. Two CPUs need eight blocks to be told apart at 1 %: fewer exchanges than that cannot be significant.

use crate::ranktest::{anderson_darling, kolmogorov_smirnov};
use crate::samples::{block_medians, median};
use crate::table::{COMPONENTS, Class, Component};

/// Blocks of samples per CPU that the permutation test exchanges.
const BLOCKS: usize = 10;
/// Exchanges tried; the smallest p-value is one in this plus one.
const EXCHANGES: u32 = 999;
/// A test is given up as not significant once this many exchanges were as extreme.
const GIVE_UP: u32 = 20;

/// Least mean ratio between classes, less one, in external stalls [permille]. Equal CPUs were seen to differ by 5 to 12 % where their memory kernel
/// got other physical pages, of which a cache keeps more or less; significance does not tell that from a slower CPU, for it lasts.
pub const PLACEMENT_PERMILLE: u32 = 200;

/// When a split counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SplitRule {
    /// Least mean ratio between the classes, less one, in execute [permille]; twice that for stalls, and never less than [`PLACEMENT_PERMILLE`]
    /// for those outside the core.
    pub min_effect_permille: u32,
    /// Highest p-value.
    pub max_p: f64,
}

impl Default for SplitRule {
    fn default() -> Self {
        Self { min_effect_permille: 30, max_p: 0.01 }
    }
}

impl SplitRule {
    /// Least mean ratio between the classes, less one, in `component` [permille].
    #[must_use]
    pub fn least_permille(&self, component: Component) -> u32 {
        let stalls = self.min_effect_permille.saturating_mul(2);
        match component {
            Component::Execute => self.min_effect_permille,
            Component::Internal => stalls,
            Component::External => stalls.max(PLACEMENT_PERMILLE),
        }
    }
}

/// Times per unit of work of one CPU, in the order taken.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CpuSamples {
    /// CPU number.
    pub cpu: u32,
    /// Samples per component [any unit of time, the same for all CPUs].
    pub times: [Vec<f64>; COMPONENTS],
}

/// The classes and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Split {
    /// Class of each CPU, in the order of the input.
    pub classes: Vec<Class>,
    /// What decided; None when there is one class.
    pub reason: Option<SplitReason>,
}

/// Why a split counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SplitReason {
    /// Component that decided.
    pub component: Component,
    /// Mean ratio between the classes, less one [permille].
    pub effect_permille: u32,
    /// p-value of the permutation test; None when there were no samples to test (a table written by hand).
    pub p_value: Option<f64>,
}

/// Classes from raw samples: significant and large enough, or one class.
#[must_use]
pub fn split(cpus: &[CpuSamples], rule: SplitRule) -> Split {
    let candidates = Component::ALL.into_iter().filter_map(|component| {
        let times: Vec<&[f64]> = cpus.iter().map(|cpu| &cpu.times[component.index()][..]).collect();
        let medians = times.iter().map(|times| median(times)).collect::<Option<Vec<f64>>>()?;
        let (cut, reason) = large_enough(&medians, component, rule)?;
        let p_value = permutation_p(&times)?;
        (p_value <= rule.max_p).then_some((cut, SplitReason { p_value: Some(p_value), ..reason }))
    });
    decide(candidates.collect(), cpus.len())
}

/// Classes from costs alone, for a table without samples: large enough, or one class.
#[must_use]
pub fn split_by_cost(costs_permille: &[[u32; COMPONENTS]], rule: SplitRule) -> Split {
    let candidates = Component::ALL.into_iter().filter_map(|component| {
        let costs: Vec<f64> = costs_permille.iter().map(|cost| f64::from(cost[component.index()])).collect();
        large_enough(&costs, component, rule)
    });
    decide(candidates.collect(), costs_permille.len())
}

/// Takes the candidate with the largest effect; of equal ones the first.
fn decide(candidates: Vec<(Cut, SplitReason)>, count: usize) -> Split {
    let mut best: Option<(Cut, SplitReason)> = None;
    for candidate in candidates {
        if best.as_ref().is_none_or(|(_, reason)| candidate.1.effect_permille > reason.effect_permille) {
            best = Some(candidate);
        }
    }
    match best {
        Some((cut, reason)) => Split { classes: cut.classes, reason: Some(reason) },
        None => Split { classes: vec![Class::Fast; count], reason: None },
    }
}

/// The best cut of one component, if its effect reaches the rule's minimum.
fn large_enough(times: &[f64], component: Component, rule: SplitRule) -> Option<(Cut, SplitReason)> {
    if times.iter().any(|time| !time.is_finite() || *time <= 0.0) {
        return None;
    }
    let logs: Vec<f64> = times.iter().map(|time| time.ln()).collect();
    let cut = best_cut(&logs)?;
    let effect_permille = (cut.difference.exp_m1() * 1000.0).round().min(1e9) as u32;
    let reason = SplitReason { component, effect_permille, p_value: None };
    (effect_permille >= rule.least_permille(component)).then_some((cut, reason))
}

/// A cut of the CPUs in two.
#[derive(Debug)]
struct Cut {
    /// Class of each CPU: the lower values are fast.
    classes: Vec<Class>,
    /// Difference between the means of the groups.
    difference: f64,
    /// Variance between the groups, up to a constant factor.
    between: f64,
}

/// Cuts values in two where the variance between the groups is largest; equal values stay together. None when all are equal.
fn best_cut(values: &[f64]) -> Option<Cut> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let total: f64 = values.iter().sum();
    let (mut below, mut best) = (0.0, None);
    for count in 1..order.len() {
        let (last, next) = (values[order[count - 1]], values[order[count]]);
        below += last;
        if last == next {
            continue;
        }
        let (low, high) = (count as f64, (order.len() - count) as f64);
        let difference = (total - below) / high - below / low;
        let between = difference * difference * low * high;
        if best.is_none_or(|(_, _, most)| between > most) {
            best = Some((count, difference, between));
        }
    }
    let (count, difference, between) = best?;
    let mut classes = vec![Class::Slow; values.len()];
    for at in order.iter().take(count) {
        classes[*at] = Class::Fast;
    }
    Some(Cut { classes, difference, between })
}

/// Probability that CPUs without differences give as clear a cut. None without samples.
fn permutation_p(times: &[&[f64]]) -> Option<f64> {
    let blocks = times.iter().map(|times| times.len()).min()?.min(BLOCKS);
    let logs: Vec<Vec<f64>> =
        times.iter().map(|times| block_medians(times, blocks).into_iter().map(f64::ln).collect()).collect();
    // rows[block][cpu]: exchanging within a row keeps what all CPUs of that moment share.
    let mut rows: Vec<Vec<f64>> =
        (0..blocks).map(|block| logs.iter().filter_map(|cpu| cpu.get(block).copied()).collect()).collect();
    if blocks == 0 || rows.iter().flatten().any(|value| !value.is_finite()) {
        return None;
    }
    let clarity = |rows: &[Vec<f64>]| {
        let sums: Vec<f64> =
            (0..times.len()).map(|cpu| rows.iter().filter_map(|row| row.get(cpu)).sum()).collect();
        best_cut(&sums).map_or(0.0, |cut| cut.between)
    };
    let observed = clarity(&rows);
    let mut random = XorShift(0x9e37_79b9_7f4a_7c15);
    let mut as_extreme = 0;
    for tried in 1..=EXCHANGES {
        for row in &mut rows {
            random.shuffle(row);
        }
        // Rounding must not make an exchange that restores the observed order look less extreme.
        as_extreme += u32::from(clarity(&rows) >= observed * (1.0 - 1e-9));
        if as_extreme == GIVE_UP {
            return Some(f64::from(as_extreme) / f64::from(tried));
        }
    }
    Some(f64::from(as_extreme + 1) / f64::from(EXCHANGES + 1))
}

/// A small generator with a fixed seed: the same samples always give the same classes.
struct XorShift(u64);

impl XorShift {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0) * bound as u128) >> 64) as usize
    }

    fn shuffle(&mut self, values: &mut [f64]) {
        for last in (1..values.len()).rev() {
            let other = self.below(last + 1);
            values.swap(last, other);
        }
    }
}

/// How alike two CPUs are in one component.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Similarity {
    /// Anderson-Darling p-value, 0.001 to 0.25.
    pub p_value: f64,
    /// Kolmogorov-Smirnov distance, 0 to 1.
    pub distance: f64,
    /// Ratio of the larger median to the smaller, less one [permille].
    pub ratio_permille: u32,
}

impl Similarity {
    /// Differences below this are within what calibration can resolve [permille].
    pub const RESOLUTION_PERMILLE: u32 = 10;

    /// True unless the distributions differ significantly (p < 0.01, as in seed 000) and by more than the resolution.
    #[must_use]
    pub fn alike(&self) -> bool {
        self.p_value >= 0.01 || self.ratio_permille < Self::RESOLUTION_PERMILLE
    }
}

/// Similarity of two CPUs' samples of one component; None when a sample is empty or has no positive median.
#[must_use]
pub fn similarity(a: &[f64], b: &[f64]) -> Option<Similarity> {
    let (one, other) = (median(a)?, median(b)?);
    let ratio = one.max(other) / one.min(other);
    if !ratio.is_finite() || ratio < 1.0 {
        return None;
    }
    Some(Similarity {
        // A test that cannot be computed (all values equal) has found no difference.
        p_value: anderson_darling(&[a, b]).map_or(0.25, |test| test.p_value),
        distance: kolmogorov_smirnov(a, b)?,
        ratio_permille: ((ratio - 1.0) * 1000.0).round().min(1e9) as u32,
    })
}

#[cfg(test)]
#[path = "classes_tests.rs"]
mod tests;
