// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Entitlements of tasks: weighted max-min fairness.
//!
//! # Problem
//!
//! A part of the CPU time in proportion to weight is not always possible. A task cannot use more
//! than one CPU, nor a CPU that its affinity excludes, nor more time than it asks for. What it
//! leaves belongs to the others.
//!
//! # Approach
//!
//! All CPUs are alike. Rates rise together, each in proportion to its weight, as water does. A rate
//! stops at its task's demand. Tasks of some affinities stop when they fill all CPUs that any of
//! them may use. By Hall's theorem, rates that fill no such set beyond its size are those of some
//! assignment to CPUs. Tasks with rates of at most 1 never need two CPUs at the same time (open
//! shop, Gonzalez and Sahni 1976).
//!
//! Cgroups divide what their parent has in the same way, level by level. Affinities and cgroups do
//! not combine here: the scheduler chooses which of them takes precedence.
//!
//! # Invariants
//!
//! No rate can rise unless another one falls that is, per weight, no larger.

use crate::mask::Mask;

/// Maximum number of affinities, because every set of them is checked.
const MAX_AFFINITIES: usize = 10;

/// Rates below it count as 0 [CPUs].
const EPSILON: f64 = 1e-9;

/// Demand of a task, or of a chain of tasks that fork each other.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// Its weight.
    pub weight: f64,
    /// The most that it can use [CPUs].
    pub most: f64,
    /// CPUs that it may use.
    pub cpus: Mask,
    /// Its cgroup; 0 is the root.
    pub group: usize,
}

/// A cgroup that divides its time: its parent and its weight. Group 0 is the root, and parents come
/// first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Divided {
    /// Its parent.
    pub parent: usize,
    /// Its weight.
    pub weight: f64,
}

/// Return the level at which claims of these weights and limits use `capacity`: each gets the level
/// times its weight, or its limit. Infinite if all limits fit.
fn level(claims: &[(f64, f64)], capacity: f64) -> f64 {
    if claims.iter().map(|(_, most)| most).sum::<f64>() <= capacity + EPSILON {
        return f64::INFINITY;
    }
    let mut order: Vec<(f64, f64)> = claims.to_vec();
    order.sort_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)));
    let mut weight: f64 = order.iter().map(|(weight, _)| weight).sum();
    let mut left = capacity.max(0.0);
    for (own, most) in order {
        if most / own * weight >= left {
            return left / weight;
        }
        left -= most;
        weight -= own;
    }
    f64::INFINITY
}

/// Divide `capacity` between claims of these weights and limits.
fn divide(claims: &[(f64, f64)], capacity: f64) -> Vec<f64> {
    let level = level(claims, capacity);
    claims.iter().map(|(weight, most)| (level * weight).min(*most)).collect()
}

/// Return the rates [CPUs] of `claims` on `cpus` CPUs that are alike. None if there are too many
/// affinities, or if they combine with cgroups.
#[must_use]
pub fn entitlements(claims: &[Claim], groups: &[Divided], cpus: usize) -> Option<Vec<f64>> {
    let all = Mask::first_cpus(cpus);
    if claims.iter().all(|claim| claim.cpus == all) {
        return Some(by_group(claims, groups, cpus as f64));
    }
    if claims.iter().any(|claim| claim.group != 0) {
        return None;
    }
    by_affinity(claims)
}

/// Divide `capacity` level by level.
fn by_group(claims: &[Claim], groups: &[Divided], capacity: f64) -> Vec<f64> {
    let count = groups.len().max(1);
    // A group can use as much as all below it together.
    let mut most = vec![0.0; count];
    claims.iter().for_each(|claim| most[claim.group] += claim.most);
    for group in (1..count).rev() {
        most[groups[group].parent] += most[group];
    }
    let mut rates = vec![0.0; claims.len()];
    let mut has = vec![0.0; count];
    has[0] = capacity;
    for group in 0..count {
        let tasks: Vec<usize> = (0..claims.len()).filter(|task| claims[*task].group == group).collect();
        let below: Vec<usize> = (1..count).filter(|below| groups[*below].parent == group).collect();
        let mut parts: Vec<(f64, f64)> =
            tasks.iter().map(|task| (claims[*task].weight, claims[*task].most)).collect();
        parts.extend(below.iter().map(|below| (groups[*below].weight, most[*below])));
        let divided = divide(&parts, has[group]);
        for (task, rate) in tasks.iter().zip(&divided) {
            rates[*task] = *rate;
        }
        for (below, rate) in below.iter().zip(&divided[tasks.len()..]) {
            has[*below] = *rate;
        }
    }
    rates
}

/// Raise all rates until they fill the CPUs of some set of affinities, fix those, and repeat.
fn by_affinity(claims: &[Claim]) -> Option<Vec<f64>> {
    let mut affinities: Vec<Mask> = Vec::new();
    for claim in claims {
        if !affinities.contains(&claim.cpus) {
            affinities.push(claim.cpus);
        }
    }
    if affinities.len() > MAX_AFFINITIES {
        return None;
    }
    let of = |claim: &Claim| affinities.iter().position(|cpus| *cpus == claim.cpus).unwrap_or(0);
    let bits: Vec<usize> = claims.iter().map(|claim| 1 << of(claim)).collect();
    let size = |set: usize| {
        let inside = affinities.iter().enumerate().filter(|(at, _)| set & 1 << at != 0);
        inside.fold(Mask::default(), |sum, (_, cpus)| sum.or(cpus)).count() as f64
    };
    let mut rates: Vec<Option<f64>> = vec![None; claims.len()];
    while rates.iter().any(Option::is_none) {
        let mut lowest = (f64::INFINITY, usize::MAX);
        for set in 1..1 << affinities.len() {
            let inside = |task: &usize| bits[*task] & set != 0;
            let fixed: f64 = (0..claims.len()).filter(inside).filter_map(|task| rates[task]).sum();
            let free: Vec<(f64, f64)> = (0..claims.len())
                .filter(inside)
                .filter(|task| rates[*task].is_none())
                .map(|task| (claims[task].weight, claims[task].most))
                .collect();
            let level = if free.is_empty() { f64::INFINITY } else { level(&free, size(set) - fixed) };
            if level < lowest.0 {
                lowest = (level, set);
            }
        }
        for task in 0..claims.len() {
            if rates[task].is_none() && bits[task] & lowest.1 != 0 {
                rates[task] = Some((lowest.0 * claims[task].weight).min(claims[task].most));
            }
        }
    }
    Some(rates.into_iter().flatten().collect())
}

#[cfg(test)]
#[path = "entitlement_tests.rs"]
mod tests;
