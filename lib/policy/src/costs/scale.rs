// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Scales costs to changed clocks.

use crate::table::{COMPONENTS, Component, costs_from_times};

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
