// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Costs of the CPUs, and their parts.
//!
//! # Problem
//!
//! Calibration, recalibration and the audit of swaps each know a part of a CPU's costs. If each
//! wrote a table of its own, the last one would undo the others.
//!
//! # Approach
//!
//! [`Costs`] keeps the parts apart and computes the table from them:
//!
//! ```text
//! effective(cpu) = calibrated(cpu) x clock(cpu) x learned(class)
//! ```
//!
//! | part | one factor or cost for | set by |
//! |---|---|---|
//! | calibrated | each CPU and component | calibration; [`Costs::add`] for a CPU that comes later |
//! | clock | each CPU | [`crate::recal`] |
//! | learned | each component of slow CPUs | [`crate::audit`] |
//!
//! * A clock factor is the time of a cycle over that at calibration. [`scaled`] applies it and
//!   normalises the costs to the best CPU.
//! * [`reclassify`] then gives the CPUs their classes. The cut is that of [`crate::classes`], by
//!   cost. It replaces the present classes only if it separates the CPUs clearly better, by a
//!   quarter of the variance between the groups. A machine of one class is split only where a
//!   component has twice its least effect ([`SplitRule::min_permille`]). A split machine gets one
//!   class again when every component is below half of its least effect. So costs near a boundary
//!   do not move CPUs between the classes repeatedly.
//! * Learned factors apply last, to the slow CPUs of these classes. The result is cut to the range
//!   of a cost.
//!
//! Example: a slow CPU has execute cost 2500. It runs at half of its clock, and the factor learned
//! from swaps is 900. If a fast CPU keeps its clock, the cost is 2500 x 2000 x 900 permille = 4500.
//!
//! # Invariants
//!
//! Tests check these:
//! * Clocks and learned factors can be set in any order, with the same result.
//! * While all factors are 1000, the table is the calibrated one.
//! * Every cost is within [`COST_BEST`]..=[`COST_MAX`]. Without learned factors the table passes
//!   [`CapacityTable::check`] if the calibrated one does.
//! * Input that would break the table changes nothing.
//!
//! # Limits
//!
//! The classes depend on the present ones as well, because [`reclassify`] has hysteresis.

use crate::classes::{SplitRule, is_cut_clear, split_by_cost};
use crate::table::{
    COMPONENTS, COST_BEST, COST_MAX, CapacityTable, Class, Component, CpuCapacity, costs_from_times,
};

/// Factor that changes nothing [permille].
pub const SAME: u32 = 1000;
/// Ratio by which another cut must be clearer than the present classes.
const CLEARER: f64 = 1.25;
/// Least effects that a machine of one class needs for a split.
const FIRST_SPLIT: u32 = 2;

/// The costs of a machine's CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Costs {
    calibrated: CapacityTable,
    /// Clock factors in the order of the table [permille].
    clock_permille: Vec<u32>,
    /// Calibrated costs times clocks, with the present classes.
    clocked: CapacityTable,
    learned_permille: [u32; COMPONENTS],
    version: u64,
}

impl Costs {
    /// Start with a calibrated table.
    #[must_use]
    pub fn new(calibrated: CapacityTable) -> Self {
        Self {
            clock_permille: vec![SAME; calibrated.cpus.len()],
            clocked: calibrated.clone(),
            calibrated,
            learned_permille: [SAME; COMPONENTS],
            version: 0,
        }
    }

    /// Return the calibrated table.
    #[must_use]
    pub fn calibrated(&self) -> &CapacityTable {
        &self.calibrated
    }

    /// Return the table with the present clocks and classes, without learned factors.
    #[must_use]
    pub fn clocked(&self) -> &CapacityTable {
        &self.clocked
    }

    /// Return the clock factor of a CPU [permille]; None for one that is not in the table.
    #[must_use]
    pub fn clock_permille(&self, cpu: u32) -> Option<u32> {
        let at = self.calibrated.cpus.binary_search_by_key(&cpu, |entry| entry.cpu).ok()?;
        self.clock_permille.get(at).copied()
    }

    /// Return the learned factors of a class [permille].
    #[must_use]
    pub fn learned_permille(&self, class: Class) -> [u32; COMPONENTS] {
        if class == Class::Slow { self.learned_permille } else { [SAME; COMPONENTS] }
    }

    /// Return a number that grows whenever the effective table may have changed.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Return the product of all parts.
    #[must_use]
    pub fn effective(&self) -> CapacityTable {
        let mut table = self.clocked.clone();
        for entry in &mut table.cpus {
            entry.cost_permille = corrected(entry.cost_permille, self.learned_permille(entry.class));
        }
        table
    }

    /// Set the clock factors of all CPUs, in the order of the table [permille], and classify the
    /// CPUs again. Do nothing if the resulting table is invalid.
    pub fn set_clocks(&mut self, clock_permille: Vec<u32>) {
        if let Some(clocked) = clocked(&self.calibrated, &clock_permille, &self.clocked) {
            self.version += u64::from(clocked != self.clocked);
            (self.clocked, self.clock_permille) = (clocked, clock_permille);
        }
    }

    /// Set the learned factors of slow CPUs [permille].
    pub fn set_learned(&mut self, factors_permille: [u32; COMPONENTS]) {
        self.version += u64::from(factors_permille != self.learned_permille);
        self.learned_permille = factors_permille;
    }

    /// Add a CPU with the calibrated entry `new`, scaled by a clock factor. Return None and do
    /// nothing if the CPU is in the table already, or the resulting table is invalid.
    pub fn add(&mut self, new: CpuCapacity, clock_permille: u32) -> Option<()> {
        let at = self.calibrated.cpus.binary_search_by_key(&new.cpu, |entry| entry.cpu).err()?;
        let mut joined = self.clone();
        let mut clocks = vec![SAME; joined.clock_permille.len()];
        clocks.insert(at, clock_permille);
        joined.calibrated.cpus.insert(at, new);
        joined.calibrated = clocked(&joined.calibrated, &clocks, &joined.calibrated)?;
        joined.clock_permille.insert(at, SAME);
        joined.clocked.cpus.insert(at, joined.calibrated.cpus.get(at)?.clone());
        joined.clocked = clocked(&joined.calibrated, &joined.clock_permille, &joined.clocked)?;
        joined.version += 1;
        *self = joined;
        Some(())
    }
}

/// Return `calibrated` with its costs scaled to clock factors [permille]. The classes follow from
/// the costs and the classes of `present`, a table of the same CPUs. Return None if the result is
/// invalid.
fn clocked(
    calibrated: &CapacityTable,
    clock_permille: &[u32],
    present: &CapacityTable,
) -> Option<CapacityTable> {
    let costs: Vec<_> = calibrated.cpus.iter().map(|entry| entry.cost_permille).collect();
    let scaled = scaled(&costs, clock_permille)?;
    let mut table = calibrated.clone();
    // Equal costs keep the calibrated classes.
    if scaled != costs {
        let present: Vec<Class> = present.cpus.iter().map(|entry| entry.class).collect();
        let classes = reclassify(&scaled, &present, SplitRule::default());
        for (entry, (cost, class)) in table.cpus.iter_mut().zip(scaled.into_iter().zip(classes)) {
            (entry.cost_permille, entry.class) = (cost, class);
        }
    }
    table.check().is_ok().then_some(table)
}

/// Multiply costs by factors [both permille], within the range of a cost.
#[must_use]
pub fn corrected(cost_permille: [u32; COMPONENTS], factors_permille: [u32; COMPONENTS]) -> [u32; COMPONENTS] {
    let product = |cost: u32, factor: u32| (u64::from(cost) * u64::from(factor) + 500) / u64::from(SAME);
    std::array::from_fn(|k| {
        product(cost_permille[k], factors_permille[k]).clamp(COST_BEST.into(), COST_MAX.into()) as u32
    })
}

/// Scale costs to clock factors [permille] and normalise them to the best CPU of each component.
/// Execution and internal stalls are cycles and scale with the clock. External stalls keep their
/// time. Return None if a factor is 0, or the numbers of costs and factors differ.
#[must_use]
pub fn scaled(home_permille: &[[u32; COMPONENTS]], clock_permille: &[u32]) -> Option<Vec<[u32; COMPONENTS]>> {
    let mut costs = vec![[0; COMPONENTS]; home_permille.len()];
    for component in Component::ALL {
        let at = component.index();
        let times: Vec<f64> = home_permille
            .iter()
            .zip(clock_permille)
            .map(|(home, factor)| match component {
                Component::Execute | Component::Internal => f64::from(home[at]) * f64::from(*factor),
                Component::External => f64::from(home[at]),
            })
            .collect();
        for (row, cost) in costs.iter_mut().zip(costs_from_times(&times)?) {
            row[at] = cost;
        }
    }
    (home_permille.len() == clock_permille.len()).then_some(costs)
}

/// Classify CPUs of these costs [permille], which had the classes `present`. At least one CPU is
/// fast.
#[must_use]
pub fn reclassify(costs_permille: &[[u32; COMPONENTS]], present: &[Class], rule: SplitRule) -> Vec<Class> {
    let was_split = present.contains(&Class::Slow);
    let split = split_by_cost(costs_permille, rule);
    let Some(reason) = split.reason else {
        // The effect is too small for a split, but present classes that still differ stay.
        let least = |component: Component| f64::from(rule.min_permille(component)) / 1000.0 / 2.0;
        let tells = |component: Component| {
            effect(costs_permille, component, present)
                .is_some_and(|(effect, _)| effect.exp_m1() >= least(component))
        };
        let stays = was_split && Component::ALL.into_iter().any(tells);
        return if stays { present.to_vec() } else { vec![Class::Fast; costs_permille.len()] };
    };
    let clear =
        |classes: &[Class]| effect(costs_permille, reason.component, classes).map_or(0.0, |(_, clear)| clear);
    let keep = if was_split {
        clear(present) * CLEARER >= clear(&split.classes) && present.contains(&Class::Fast)
    } else {
        !is_cut_clear(costs_permille, rule, FIRST_SPLIT)
    };
    if keep && present.len() == costs_permille.len() { present.to_vec() } else { split.classes }
}

/// Return the distance of the classes and the variance between them, up to a factor. The distance
/// is the mean logarithm of the slow costs less that of the fast ones. Return None if a class is
/// empty or the slow class is the better one.
fn effect(
    costs_permille: &[[u32; COMPONENTS]],
    component: Component,
    classes: &[Class],
) -> Option<(f64, f64)> {
    let mean = |wanted: Class| {
        let logs = costs_permille.iter().zip(classes).filter(|(_, class)| **class == wanted);
        let (sum, count) = logs.fold((0.0, 0.0), |(sum, count), (cost, _)| {
            (sum + f64::from(cost[component.index()].max(1)).ln(), count + 1.0)
        });
        (count > 0.0).then_some((sum / count, count))
    };
    let ((fast, fasts), (slow, slows)) = (mean(Class::Fast)?, mean(Class::Slow)?);
    let difference = slow - fast;
    (difference > 0.0).then_some((difference, difference * difference * fasts * slows))
}

#[cfg(test)]
#[path = "costs_tests.rs"]
mod tests;
