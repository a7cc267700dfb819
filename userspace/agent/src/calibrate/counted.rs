// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Counts of the CPUs' events while the loops of the calibration run.
//!
//! # Problem
//! The scale of a counter must be found on the machine itself, under loops with known stalls. This
//! must not make the calibration longer.
//!
//! # Approach
//! A visit reads the CPU's counters before and after each loop. The differences of all visits are
//! added up, and the times are kept for the median. After the rounds, [`bias_policy::model`] fits
//! scales to them and predicts the loops' times. The counts over the two loops that stall also show
//! which events are dead, so that these need no probe.
//!
//! # Invariants
//! A visit adds no counts if its counters could not be read, ran backwards or were never scheduled:
//! sums and their durations belong together. Without counters nothing is read.
//!
//! # Limits
//! The sums include what interrupts count meanwhile. They also include the chunks that find a
//! loop's pace, which run the same loop.

use crate::counter_model::{CounterModel, CounterSet};
use crate::pmu::{Delta, Group, Probed, Role};
use bias_policy::model::{Counts, CpuLoops, LOOPS, Loop, LoopSample, Model, fit};
use bias_policy::samples::summarise;
use bias_policy::table::CapacityTable;

/// One loop on one CPU over all visits.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoopRecord {
    /// Time per step [ns].
    pub samples_ns: Vec<f64>,
    /// Sum of the counts of all visits; None if no visit was counted.
    pub counted: Option<Delta>,
}

/// All loops on one CPU, by [`Loop::index`].
pub type Records = [LoopRecord; LOOPS];

impl LoopRecord {
    /// Run a loop of a visit and read the counters around it. Keep both and return the samples.
    pub fn visit(&mut self, group: Option<&Group>, run: impl FnOnce() -> Vec<f64>) -> Vec<f64> {
        let read = || group.and_then(|group| group.read().ok());
        let before = read();
        let samples = run();
        if let Some((before, after)) = before.zip(read()) {
            self.count(&after.since(&before));
        }
        self.samples_ns.extend(&samples);
        samples
    }

    /// Add the samples and counts of another record of the loop.
    pub fn add(&mut self, other: &Self) {
        self.samples_ns.extend(&other.samples_ns);
        self.counted = match (self.counted, other.counted) {
            (Some(sum), Some(other)) => Some(sum.plus(&other)),
            (one, other) => one.or(other),
        };
    }

    fn count(&mut self, delta: &Delta) {
        let Some(scaled) = delta.scaled().filter(|delta| !delta.backwards) else { return };
        self.counted = Some(self.counted.map_or(scaled, |sum| sum.plus(&scaled)));
    }

    /// Return cycles per millisecond; None if no cycles were counted.
    #[must_use]
    pub fn khz(&self) -> Option<u64> {
        let delta = self.counted.filter(|delta| delta.enabled > 0)?;
        let khz = u128::from(delta.count(Role::Cycles)?) * 1_000_000 / u128::from(delta.enabled);
        u64::try_from(khz).ok().filter(|khz| *khz > 0)
    }

    fn sample(&self) -> LoopSample {
        let (step_ns, spread_permille) =
            summarise(&self.samples_ns).map_or((0.0, 0), |summary| (summary.median, summary.spread_permille));
        let counts = self.counted.map(|delta| Counts {
            ran_ns: delta.enabled,
            cycles: delta.count(Role::Cycles).unwrap_or(0),
            instructions: delta.count(Role::Instructions).unwrap_or(0),
            external: delta.count(Role::External),
            internal: delta.count(Role::Internal),
        });
        LoopSample { step_ns, spread_permille, counts }
    }
}

/// Return the counts of one CPU's calibration for [`crate::pmu::Counters::probe_at_start`]; None
/// without counters of external stalls.
#[must_use]
pub fn seen(group: &Group, records: &Records) -> Option<Probed> {
    let event = group.event(Role::External)?.id();
    let external = records[Loop::FarChase.index()].counted?;
    let internal = records[Loop::RandomBranches.index()].counted?;
    Some(Probed { cpu: group.cpu(), event, external, internal })
}

/// Fit the scales of the counters in `cpus`, each with the times and counts of its CPU's loops;
/// None if no CPU has counters.
#[must_use]
pub fn model(table: &CapacityTable, cpus: &[(u32, Option<&Group>, &Records)]) -> Option<CounterModel> {
    let counted = cpus.iter().any(|(_, group, _)| group.is_some());
    let nominal =
        |group: Option<&Group>, role| group.and_then(|group| group.unit(role)).map(|u| u.nominal_permille());
    let loops = cpus.iter().map(|(cpu, group, records)| CpuLoops {
        cpu: *cpu,
        external_nominal: nominal(*group, Role::External),
        internal_nominal: nominal(*group, Role::Internal),
        loops: records.each_ref().map(LoopRecord::sample),
    });
    counted.then(|| named(&fit(table, &loops.collect::<Vec<_>>()), cpus))
}

/// Group the model's CPUs by the events that their counters count.
fn named(model: &Model, cpus: &[(u32, Option<&Group>, &Records)]) -> CounterModel {
    let mut sets: Vec<CounterSet> = Vec::new();
    for (fitted, (_, group, _)) in model.cpus.iter().zip(cpus) {
        let Some(group) = group else { continue };
        let event = |role| group.event(role).map(crate::pmu::PerfEvent::id);
        let (external, internal) = (event(Role::External), event(Role::Internal));
        match sets.iter_mut().find(|set| set.external == external && set.internal == internal) {
            Some(set) => set.cpus.push(*fitted),
            None => sets.push(CounterSet { external, internal, cpus: vec![*fitted] }),
        }
    }
    CounterModel { errors: model.errors, loops: model.loops.clone(), sets }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn delta(counts: [Option<u64>; 4]) -> Delta {
        Delta { counts, enabled: 1000, running: 500, backwards: false }
    }

    #[test]
    fn visits_are_added_up_and_scaled() {
        let mut record = LoopRecord::default();
        record.count(&delta([Some(10), Some(20), Some(3), None]));
        record.samples_ns = vec![5.0];
        let mut other = LoopRecord::default();
        other.count(&delta([Some(10), Some(20), Some(4), None]));
        other.samples_ns = vec![6.0, 900.0];
        record.add(&other);
        let sample = record.sample();
        assert_eq!(sample.step_ns, 6.0);
        let counts = sample.counts.unwrap();
        assert_eq!(
            (counts.ran_ns, counts.cycles, counts.external, counts.internal),
            (2000, 40, Some(14), None)
        );
        assert_eq!(record.khz(), Some(20_000));
    }

    #[test]
    fn what_cannot_be_trusted_adds_nothing() {
        let mut record = LoopRecord::default();
        record.count(&Delta { running: 0, ..delta([Some(1); 4]) });
        record.count(&Delta { backwards: true, ..delta([Some(1); 4]) });
        assert_eq!((record.counted, record.khz()), (None, None));
        assert_eq!(record.visit(None, || vec![1.0]), [1.0]);
        assert_eq!((record.samples_ns.len(), record.sample().counts), (1, None));
    }
}
