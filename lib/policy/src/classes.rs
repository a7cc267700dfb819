// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Classes of CPUs: which CPUs are fast and which are slow, if any are.
//!
//! # Problem
//!
//! Measurements of equal CPUs always differ a little. A machine that is split by noise pays for two
//! sets of DSQs and migrates tasks without gain. An unequal machine that is left whole gains
//! nothing from this scheduler.
//!
//! # Approach
//!
//! For each component, cut the CPUs in two where the variance between the groups is largest. The
//! cut uses the logarithm of the median time, so that ratios count. A cut counts if both of these
//! hold:
//! * It is large enough: the mean ratio between the groups exceeds a minimum effect. The minimum is
//!   3 % for execute. It is twice that for internal stalls, because stalls are rarely more than
//!   half of a task's time and so matter half as much. External stalls need [`PLACEMENT_PERMILLE`],
//!   because the physical pages that a CPU loads from cause smaller differences.
//! * It is significant in a permutation test on block medians of the raw samples. The test
//!   exchanges the CPUs' labels within each block and cuts each exchange at its own best place.
//!   That accounts for the freedom to choose the cut. A plain two-sample test of the two groups
//!   would not, because the same data made the choice that it tests.
//!
//! Of the components whose cut counts, the one with the largest effect decides. A machine with
//! three core types still gets two classes, because the scheduler keeps two DSQs per last-level
//! cache; [`crate::tiers`] tells the types apart. Costs stay per CPU. The similarity of two CPUs,
//! for display only, is the Anderson-Darling p-value with the Kolmogorov-Smirnov distance
//! (\[Reif20\]; see [`crate::ranktest`]).
//!
//! # Invariants
//!
//! * Neither the order of the CPUs nor a common factor changes the classes.
//! * Equal CPUs give one class.
//! * Every fast CPU is at least as good as every slow one in the component that decided.
//!
//! # Limits
//!
//! * CPUs that differ only in memory latency, and by less than a fifth, are one class. Their costs
//!   still differ.
//! * Two CPUs need eight blocks to differ at 1 %: fewer blocks have too few exchanges for
//!   significance.

use crate::ranktest::{anderson_darling, kolmogorov_smirnov};
use crate::samples::{block_medians, median};
use crate::table::{COMPONENTS, Class, Component};
use serde::{Deserialize, Serialize};

/// Blocks of samples per CPU that the permutation test exchanges.
const BLOCKS: usize = 10;
/// Exchanges tried; the smallest p-value is 1 / (`EXCHANGES` + 1).
const EXCHANGES: u32 = 999;
/// Exchanges as extreme as the observation after which the test ends as not significant.
const GIVE_UP: u32 = 20;

/// Least mean ratio between classes, less one, in external stalls [permille]. Equal CPUs differed
/// by 5 to 12 % where the memory loop got other physical pages, because a cache keeps more or fewer
/// of them. That difference lasts, so a significance test cannot separate it from a slower CPU.
pub const PLACEMENT_PERMILLE: u32 = 200;

/// Conditions under which a split counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SplitRule {
    /// Least mean ratio between the classes, less one, in execute [permille]. Stalls need twice
    /// that, and external stalls never less than [`PLACEMENT_PERMILLE`].
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
    /// Return the least mean ratio between the classes, less one, in `component` [permille].
    #[must_use]
    pub fn min_permille(&self, component: Component) -> u32 {
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

/// Classes of the CPUs, and the reason for a split.
#[derive(Debug, Clone, PartialEq)]
pub struct Split {
    /// Class of each CPU, in the order of the input.
    pub classes: Vec<Class>,
    /// The component that decided and its effect; None when there is one class.
    pub reason: Option<SplitReason>,
}

/// Why a split counts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitReason {
    /// Component that decided.
    pub component: Component,
    /// Mean ratio between the classes, less one [permille].
    pub effect_permille: u32,
    /// p-value of the permutation test; None when there were no samples to test (a table written by
    /// hand).
    pub p_value: Option<f64>,
}

/// Split the CPUs by their raw samples. Return one class unless a cut is significant and large
/// enough.
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

/// Split the CPUs by costs alone, for a table without samples. Return one class unless a cut is
/// large enough.
#[must_use]
pub fn split_by_cost(costs_permille: &[[u32; COMPONENTS]], rule: SplitRule) -> Split {
    decide(cuts_by_cost(costs_permille, rule).collect(), costs_permille.len())
}

/// Return true if the best cut of some component has `factor` times the least effect of that
/// component, or more.
pub(crate) fn is_cut_clear(costs_permille: &[[u32; COMPONENTS]], rule: SplitRule, factor: u32) -> bool {
    cuts_by_cost(costs_permille, rule).any(|(_, reason)| {
        reason.effect_permille >= rule.min_permille(reason.component).saturating_mul(factor)
    })
}

/// Return the cut of each component whose cut is large enough by costs.
fn cuts_by_cost(
    costs_permille: &[[u32; COMPONENTS]],
    rule: SplitRule,
) -> impl Iterator<Item = (Cut, SplitReason)> {
    Component::ALL.into_iter().filter_map(move |component| {
        let costs: Vec<f64> = costs_permille.iter().map(|cost| f64::from(cost[component.index()])).collect();
        large_enough(&costs, component, rule)
    })
}

/// Take the candidate with the largest effect, and the first of equal ones.
fn decide(candidates: Vec<(Cut, SplitReason)>, count: usize) -> Split {
    // Of equal keys, `max_by_key` takes the last one.
    let best = candidates.into_iter().rev().max_by_key(|(_, reason)| reason.effect_permille);
    match best {
        Some((cut, reason)) => Split { classes: cut.classes, reason: Some(reason) },
        None => Split { classes: vec![Class::Fast; count], reason: None },
    }
}

/// Return the best cut of one component, if its effect reaches the rule's minimum.
fn large_enough(times: &[f64], component: Component, rule: SplitRule) -> Option<(Cut, SplitReason)> {
    if times.iter().any(|time| !time.is_finite() || *time <= 0.0) {
        return None;
    }
    let logs: Vec<f64> = times.iter().map(|time| time.ln()).collect();
    let cut = best_cut(&logs)?;
    let effect_permille = (cut.difference.exp_m1() * 1000.0).round().min(1e9) as u32;
    let reason = SplitReason { component, effect_permille, p_value: None };
    (effect_permille >= rule.min_permille(component)).then_some((cut, reason))
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

/// Cut the values in two where the variance between the groups is largest. Equal values stay
/// together. Return None if all are equal.
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

/// Return the probability that CPUs without differences give as clear a cut; None without samples.
fn permutation_p(times: &[&[f64]]) -> Option<f64> {
    let blocks = times.iter().map(|times| times.len()).min()?.min(BLOCKS);
    let logs: Vec<Vec<f64>> =
        times.iter().map(|times| block_medians(times, blocks).into_iter().map(f64::ln).collect()).collect();
    // rows[block][cpu]: an exchange within a row keeps effects that all CPUs share in that block.
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

/// A small random generator with a fixed seed: the same samples always give the same classes.
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

/// Similarity of two CPUs in one component.
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
    /// Resolution of a calibration: smaller differences are noise [permille].
    pub const RESOLUTION_PERMILLE: u32 = 10;

    /// Return true unless the distributions differ by more than the resolution and significantly (p
    /// < 0.01, as in \[Reif20\]).
    #[must_use]
    pub fn alike(&self) -> bool {
        self.p_value >= 0.01 || self.ratio_permille < Self::RESOLUTION_PERMILLE
    }
}

/// Compare two CPUs' samples of one component. Return None when a sample is empty or has no
/// positive median.
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
