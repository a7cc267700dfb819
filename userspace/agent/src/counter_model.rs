// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The scales of the counters as they are stored, shown and passed to the kernel side.
//!
//! # Problem
//! A scale belongs to an event on a CPU. The next start may count other events: the user named
//! some, the event table changed, or another kernel refuses an event that was counted before.
//!
//! # Approach
//! Scales are kept under the names of the events that they were fitted for
//! ([`crate::pmu::PerfEvent::id`]) and apply to these alone. Any other event has the nominal scale
//! of its unit. [`bias_policy::model`] fits the scales.
//!
//! # Invariants
//! A checked model has scales that the kernel side can multiply by. No model means nominal scales.

use crate::pmu::{Group, Role};
use bias_policy::model::{CpuModel, Errors, LoopSpeedup, SCALE_MAX, Scale};
use serde::{Deserialize, Serialize};

/// Result of the calibration for the counters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CounterModel {
    /// Errors of all predictions; absent on a machine of one class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<Errors>,
    /// Predicted and measured speedup of each loop.
    #[serde(default)]
    pub loops: Vec<LoopSpeedup>,
    /// The CPUs, grouped by the events that they count.
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
    /// The CPUs of the group.
    pub cpus: Vec<CpuModel>,
}

/// Scales that the kernel side applies to the counts of a CPU [permille of a cycle].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scales {
    /// External stalls.
    pub external_permille: u32,
    /// Internal stalls; None when they are not to be counted.
    pub internal_permille: Option<u32>,
}

impl CounterModel {
    /// Check a model that came from a file.
    ///
    /// # Errors
    /// A sentence that names the first CPU with an invalid scale, and the remedy.
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

    /// Return true if the calibration tried to fit the external event of `group`, with any result.
    #[must_use]
    pub fn covers(&self, group: &Group) -> bool {
        self.fitted(group, Role::External).is_some()
    }

    /// Return the result of the fit for the event that `group` counts in `role`.
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

/// Return the scales for the counts of `group`: the fitted ones, else the nominal ones.
///
/// None means that no CPI stack can be made of its counters: without external stalls, tasks cannot
/// be distinguished. Without a counter of internal stalls, these count as execution.
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
#[path = "counter_model_tests.rs"]
mod tests;
