// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Classification of CPUs by changed costs.
//!
//! The cut is that of [`crate::classes`], by cost. It replaces the present classes only if it
//! separates the CPUs clearly better, by a quarter of the variance between the groups. A machine of
//! one class is split only where a component has twice its least effect
//! ([`SplitRule::min_permille`]). A split machine gets one class again when every component is
//! below half of its least effect. So costs near a boundary do not move CPUs between the classes
//! repeatedly.

use crate::classes::{SplitRule, is_cut_clear, split_by_cost};
use crate::table::{COMPONENTS, Class, Component};

/// Ratio by which another cut must be clearer than the present classes.
const CLEARER: f64 = 1.25;
/// Least effects that a machine of one class needs for a split.
const FIRST_SPLIT: u32 = 2;

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
#[path = "reclass_tests.rs"]
mod tests;
