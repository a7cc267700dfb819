//! The scales of the counters as they are stored, shown and handed to the kernel side.
//!
//! Problem. A scale belongs to an event on a CPU. The next start may count others: the user named some, the table learned better ones,
//! another kernel refuses what was counted before.
//!
//! Approach. Scales are kept under the names of the events they were fitted for ([`crate::pmu::Event::id`]) and apply to these alone; any
//! other event has the nominal scale of its unit. How they are found: [`bias_policy::model`].
//!
//! Invariants. A checked model has scales that the kernel side can multiply by. No model means nominal scales.

use crate::pmu::{Group, Role};
use bias_policy::model::{Errors, LoopSpeedup, SCALE_MAX, Scale};
use serde::{Deserialize, Serialize};

/// What calibration found of the counters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CounterModel {
    /// Of all predictions; absent on a machine of one class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<Errors>,
    /// Predicted and measured speedup of each loop.
    #[serde(default)]
    pub loops: Vec<LoopSpeedup>,
    /// The CPUs by what they count.
    pub sets: Vec<CounterSet>,
}

/// CPUs that count the same events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CounterSet {
    /// Event of external stalls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<String>,
    /// Event of internal stalls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub internal: Option<String>,
    /// Their CPUs.
    pub cpus: Vec<CpuScales>,
}

/// Scales of one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuScales {
    /// Its number.
    pub cpu: u32,
    /// Of external stalls; absent without the counter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<Scale>,
    /// Of internal stalls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub internal: Option<Scale>,
    /// Mean absolute error of what is predicted from its counts [permille].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_permille: Option<u32>,
}

/// What the kernel side is to take the counts of a CPU for [permille of a cycle].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scales {
    /// External stalls.
    pub external_permille: u32,
    /// Internal stalls; None when they are not to be counted.
    pub internal_permille: Option<u32>,
}

impl CounterModel {
    /// Checks what came from a file.
    ///
    /// # Errors
    /// Names the first CPU whose scale is none, and how to mend it.
    pub fn check(&self) -> Result<(), String> {
        for scales in self.sets.iter().flat_map(|set| &set.cpus) {
            for scale in [scales.external, scales.internal].into_iter().flatten() {
                if let Scale::Fitted(permille) = scale
                    && !(1..=SCALE_MAX).contains(&permille)
                {
                    return Err(format!(
                        "CPU {} has a counter of scale {permille}; give a permille figure between 1 and {SCALE_MAX}, or remove \"model\"",
                        scales.cpu
                    ));
                }
            }
        }
        Ok(())
    }

    /// Was what `group` counts of external stalls looked at, whatever came of it?
    #[must_use]
    pub fn covers(&self, group: &Group) -> bool {
        self.fitted(group, Role::External).is_some()
    }

    /// The scale that was fitted for what `group` counts in `role`.
    fn fitted(&self, group: &Group, role: Role) -> Option<Scale> {
        let event = group.event(role)?.id();
        let set = |set: &&CounterSet| match role {
            Role::External => set.external.as_ref() == Some(&event),
            _ => set.internal.as_ref() == Some(&event),
        };
        let scales = self
            .sets
            .iter()
            .filter(set)
            .flat_map(|set| &set.cpus)
            .find(|scales| scales.cpu == group.cpu())?;
        if role == Role::External { scales.external } else { scales.internal }
    }
}

/// What to take the counts of `group` for: the fitted scales, else the nominal ones. None when no stack can be made of its counters:
/// external stalls are what tells tasks apart; without internal ones these count as execution.
#[must_use]
pub fn scales(model: Option<&CounterModel>, group: &Group) -> Option<Scales> {
    let scale = |role| {
        let nominal = group.unit(role)?.nominal_permille();
        model
            .and_then(|model| model.fitted(group, role))
            .map_or(Some(nominal), |scale| scale.permille(nominal))
    };
    Some(Scales { external_permille: scale(Role::External)?, internal_permille: scale(Role::Internal) })
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
