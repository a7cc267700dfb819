//! Scales costs to changed clocks.

use crate::table::{COMPONENTS, Component, costs_from_times};

/// Scale the costs `home_permille` of CPUs to `speeds` [permille of the best CPU of each
/// component]. A speed is relative to the one at which the CPU had its cost. Execution and internal
/// stalls are cycles and scale with the clock. External stalls keep their time. Return None if a
/// speed is invalid.
#[must_use]
pub fn scaled(home_permille: &[[u32; COMPONENTS]], speeds: &[f64]) -> Option<Vec<[u32; COMPONENTS]>> {
    let mut costs = vec![[0; COMPONENTS]; home_permille.len()];
    for component in Component::ALL {
        let at = component.index();
        let times: Vec<f64> = home_permille
            .iter()
            .zip(speeds)
            .map(|(home, speed)| match component {
                Component::Execute | Component::Internal => f64::from(home[at]) / speed,
                Component::External => f64::from(home[at]),
            })
            .collect();
        for (row, cost) in costs.iter_mut().zip(costs_from_times(&times)?) {
            row[at] = cost;
        }
    }
    (home_permille.len() == speeds.len()).then_some(costs)
}
