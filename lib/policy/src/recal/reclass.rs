//! Fast and slow, told anew.
//!
//! The cut is that of [`crate::classes`], by cost. It replaces the present classes only if it separates the CPUs clearly better than they do (by a
//! quarter of the variance between the groups); a machine of one class is split only at twice the effect that would keep it split, and becomes
//! one again at half of it. So costs that wander about a boundary move no CPU to and fro.

use crate::classes::{SplitRule, split_by_cost};
use crate::table::{COMPONENTS, Class, Component};

/// How much clearer another cut must be.
const CLEARER: f64 = 1.25;

/// Classes of CPUs of these costs [permille] that were of `present` classes. One CPU at least is fast.
#[must_use]
pub fn reclassify(costs_permille: &[[u32; COMPONENTS]], present: &[Class], rule: SplitRule) -> Vec<Class> {
    let was_split = present.contains(&Class::Slow);
    let split = split_by_cost(costs_permille, rule);
    let Some(reason) = split.reason else {
        // Too little between them to split; but classes that still tell something apart stay.
        let least = |component: Component| f64::from(rule.least_permille(component)) / 1000.0 / 2.0;
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
        reason.effect_permille < rule.min_effect_permille.saturating_mul(2)
    };
    if keep && present.len() == costs_permille.len() { present.to_vec() } else { split.classes }
}

/// How far apart the classes are (difference of the mean logarithms, slow less fast), and the variance between them up to a factor. None if a class
/// is empty or the slow one is the better.
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
