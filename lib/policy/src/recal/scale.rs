//! What costs become when clocks change.

use crate::table::{COMPONENTS, Component, costs_from_times};

/// Costs of CPUs that run at `speeds` relative to when they had the costs `home_permille` [permille of the best CPU of each component]. Execution
/// and internal stalls are cycles and scale; external stalls take the time they take. None for a speed that is none.
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
