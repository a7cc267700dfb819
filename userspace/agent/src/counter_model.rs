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
/// None means that its counters give no CPI stack: without external stalls, tasks cannot be
/// distinguished. Without a counter of internal stalls, these count as execution.
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
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::pmu::Options;
    use crate::pmu::fake::{FakeOpener, FakeSysfs};
    use crate::pmu::{Counters, Override};

    fn counters(kernel: &FakeOpener<'_>, machine: &FakeSysfs, named: &[&str]) -> Counters {
        let events: Vec<Override> = named.iter().map(|text| text.parse().unwrap()).collect();
        Counters::open_by(kernel, machine.root(), &machine.topology, &Options { events, enabled: true })
    }

    /// A model of the events of this group, as a file would have it.
    fn model(group: &Group, external: Scale, internal: Scale) -> CounterModel {
        let id = |role| Some(group.event(role).unwrap().id());
        let (external, internal) = (Some(external), Some(internal));
        let cpus = vec![CpuModel { cpu: group.cpu(), external, internal, error_permille: None }];
        let set = CounterSet { external: id(Role::External), internal: id(Role::Internal), cpus };
        let text =
            serde_json::to_string(&CounterModel { sets: vec![set], ..CounterModel::default() }).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn fitted_scales_apply_to_the_events_they_were_fitted_for() {
        let (kernel, machine) = (FakeOpener::new(|_| None), FakeSysfs::hybrid());
        let usual = counters(&kernel, &machine, &[]);
        let group = usual.cpu(2).unwrap();
        let nominal = Scales { external_permille: 1000, internal_permille: Some(200) };
        assert_eq!(scales(None, group), Some(nominal));
        let model = model(group, Scale::Fitted(700), Scale::Fitted(310));
        assert_eq!(
            scales(Some(&model), group),
            Some(Scales { external_permille: 700, internal_permille: Some(310) })
        );
        assert!(model.covers(group) && !model.covers(usual.cpu(3).unwrap()));
        // Another CPU, and another event on the same CPU: nominal.
        assert_eq!(scales(Some(&model), usual.cpu(3).unwrap()), Some(nominal));
        let other = counters(&kernel, &machine, &["external=cpu_atom/event=0x77/@misses"]);
        assert_eq!(
            scales(Some(&model), other.cpu(2).unwrap()),
            Some(Scales { external_permille: 100_000, internal_permille: Some(310) })
        );
    }

    #[test]
    fn counters_that_do_not_follow_the_stall_are_left_out() {
        let (kernel, machine) = (FakeOpener::new(|_| None), FakeSysfs::hybrid());
        let counters = counters(&kernel, &machine, &[]);
        let group = counters.cpu(0).unwrap();
        let without_internal = model(group, Scale::Unclear, Scale::Unrelated);
        assert_eq!(
            scales(Some(&without_internal), group),
            Some(Scales { external_permille: 1000, internal_permille: None })
        );
        for useless in [Scale::Still, Scale::Unrelated] {
            assert_eq!(scales(Some(&model(group, useless, Scale::Fitted(1))), group), None);
        }
    }

    #[test]
    fn a_scale_that_cannot_be_multiplied_by_is_refused() {
        let (kernel, machine) = (FakeOpener::new(|_| None), FakeSysfs::amp());
        let counters = counters(&kernel, &machine, &[]);
        let group = counters.cpu(1).unwrap();
        for (permille, fine) in [(0, false), (1, true), (SCALE_MAX, true), (SCALE_MAX + 1, false)] {
            let checked = model(group, Scale::Fitted(permille), Scale::Still).check();
            assert_eq!(checked.is_ok(), fine);
            assert!(checked.is_ok() || checked.unwrap_err().contains("CPU 1 has a counter of scale"));
        }
    }
}
