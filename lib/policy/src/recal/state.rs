// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! State of one CPU: its references, its believed speed and the readings that support them.

use super::evidence::{Cause, Evidence, FRESH_MS, Trigger};
use super::filter::{Filter, TOLERANCE};
use crate::samples::median;

/// Largest deviation of a ratio from one that counts as one, so that the entry returns to its
/// calibrated value.
const SNAP_TO_CALIBRATED: f64 = 0.02;
/// Number of consecutive readings that must agree to become the reference.
const LEARN: usize = 3;
/// Bounds of a ratio. A reading beyond them is ignored, because its measurement must be wrong.
pub(super) const SLOWEST: f64 = 1.0 / 64.0;
pub(super) const FASTEST: f64 = 8.0;

/// Reference for one type of reading.
#[derive(Debug, Clone, Default)]
pub(super) struct Gauge {
    /// Speed when the entry was true, in any unit.
    pub(super) reference: Option<f64>,
    pub(super) learned: bool,
    pub(super) learning: Vec<f64>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct CpuState {
    pub(super) cpu: u32,
    pub(super) cycles: Gauge,
    pub(super) spot: Gauge,
    /// Believed speed relative to the calibrated one; the clock factor follows from it.
    pub(super) speed: f64,
    /// Cause of a change in this step.
    pub(super) changed: Option<Cause>,
    /// The last reading agreed with the CPU's class.
    pub(super) with_class: bool,
    /// Time of the last adjustment to its class [ms].
    pub(super) followed_ms: Option<u64>,
    pub(super) trigger: Option<Trigger>,
    pub(super) seen_ms: Option<u64>,
    pub(super) cycles_ms: Option<u64>,
    pub(super) filter: Filter,
}

impl Gauge {
    pub(super) fn of(reference: Option<f64>) -> Self {
        Self { reference, ..Self::default() }
    }

    /// Use a speed as reference after [`LEARN`] consecutive readings that agree.
    fn learn(&mut self, speed: f64) {
        if self.learning.iter().any(|other| (other / speed - 1.0).abs() > TOLERANCE) {
            self.learning.clear();
        }
        self.learning.push(speed);
        if self.learning.len() >= LEARN {
            self.reference = median(&self.learning);
            self.learned = true;
            self.learning.clear();
        }
    }
}

impl CpuState {
    pub(super) fn new(cpu: u32) -> Self {
        Self { cpu, speed: 1.0, with_class: true, ..Self::default() }
    }

    pub(super) fn is_fresh(&self, now_ms: u64) -> bool {
        self.seen_ms.is_some_and(|seen| now_ms.saturating_sub(seen) <= FRESH_MS)
    }

    pub(super) fn observe(&mut self, now_ms: u64, evidence: Evidence) {
        let counted = self.cycles_ms.is_some_and(|at| now_ms.saturating_sub(at) <= FRESH_MS);
        let (ratio, cause, busy) = match evidence {
            Evidence::Cycles { khz, busy } => match self.ratio(true, khz, busy) {
                Some(ratio) => (ratio, Cause::Cycles, busy),
                None => return,
            },
            // Cycles that are off await confirmation, and no task may run here to give it.
            Evidence::Spot { step_ns } if !counted || self.filter.suspects() => {
                match self.ratio(false, 1.0 / step_ns, true) {
                    Some(ratio) => (ratio, Cause::SpotCheck, true),
                    None => return,
                }
            }
            Evidence::Limit { share } if !self.is_fresh(now_ms) && share <= 1.0 => {
                (share, Cause::Limit, true)
            }
            Evidence::Spot { .. } | Evidence::Limit { .. } => return,
        };
        if !(SLOWEST..=FASTEST).contains(&ratio) {
            return;
        }
        // A governor may lower the clock of a CPU with little work.
        if !busy && ratio < self.speed * (1.0 - TOLERANCE) {
            return;
        }
        self.seen_ms = Some(now_ms);
        if cause == Cause::Cycles && busy {
            self.cycles_ms = Some(now_ms);
        }
        if let Some(decided) = self.filter.add(ratio, self.speed, now_ms, cause) {
            self.decide(decided, cause);
        } else if self.filter.settled() {
            self.trigger = None;
        }
    }

    /// Return the ratio of a speed to the reference; None while there is no reference.
    fn ratio(&mut self, cycles: bool, speed: f64, busy: bool) -> Option<f64> {
        let at_home = (self.speed - 1.0).abs() <= TOLERANCE;
        let gauge = if cycles { &mut self.cycles } else { &mut self.spot };
        if !speed.is_finite() || speed <= 0.0 {
            return None;
        }
        match gauge.reference {
            Some(reference) => Some(speed / reference),
            None => {
                // The entry describes the present speed, unless it has changed since calibration.
                if busy && at_home {
                    gauge.learn(speed);
                }
                None
            }
        }
    }

    fn decide(&mut self, ratio: f64, cause: Cause) {
        let gauge = if cause == Cause::Cycles { &mut self.cycles } else { &mut self.spot };
        let mut ratio = ratio;
        if ratio > 1.0 && gauge.learned && cause != Cause::Limit {
            gauge.reference = gauge.reference.map(|reference| reference * ratio);
            ratio = 1.0;
        }
        self.speed = if (ratio - 1.0).abs() <= SNAP_TO_CALIBRATED { 1.0 } else { ratio };
        self.changed = Some(cause);
    }
}
