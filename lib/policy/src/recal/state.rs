// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! State of one CPU: its references, its believed speed and the readings that support them. A
//! filter decides when readings are believed.
//!
//! A reading within [`TOLERANCE`] confirms the entry. The filter keeps a reading that is off by
//! more. Once enough consecutive readings are off in the same direction, their median is believed.
//! The first of them may be half of the old speed and half of the new. Of two spot checks that
//! agree the faster is believed: interrupts and cold caches only lengthen them.
//!
//! | reading | required |
//! |---|---|
//! | cycles | 3 |
//! | cycles after a trigger | 2 that agree, else 3 |
//! | spot check, itself the median of several chunks | 2 that agree, else 3 |
//! | limit | 1 |
//!
//! A CPU that changes often needs more. After [`CHANGES_A_MINUTE`] changes within a minute it needs
//! four times as many readings. After twice as many changes it keeps its entry until the minute is
//! over.

use crate::samples::median;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Age up to which a reading holds [ms].
pub const FRESH_MS: u64 = 2000;

/// Largest deviation that still confirms an entry, as a factor in either direction. So a step that
/// exceeds it also exceeds it on the way back.
pub(super) const TOLERANCE: f64 = 0.04;
/// Changes of a CPU in a minute from which the filter requires more readings.
pub(super) const CHANGES_A_MINUTE: usize = 6;
/// Factor on the required readings of a CPU that changes too often.
const SLOWER: usize = 4;
/// Number of readings kept, which exceeds every requirement.
const KEPT: usize = 16;
const MINUTE_MS: u64 = 60_000;
/// Largest deviation of a ratio from one that counts as one, so that the entry returns to its
/// calibrated value.
const SNAP_TO_CALIBRATED: f64 = 0.02;
/// Number of consecutive readings that must agree to become the reference.
const LEARN: usize = 3;
/// Bounds of a ratio. A reading beyond them is ignored, because its measurement must be wrong.
pub(super) const SLOWEST: f64 = 1.0 / 64.0;
pub(super) const FASTEST: f64 = 8.0;

/// A reading, by its type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Evidence {
    /// Cycles per time, counted while tasks ran.
    Cycles {
        /// Cycles per millisecond.
        khz: f64,
        /// True if the CPU ran tasks for most of the interval.
        busy: bool,
    },
    /// Time of a step of the execute loop.
    Spot {
        /// Nanoseconds per step.
        step_ns: f64,
    },
    /// Share of its calibrated clock that a policy leaves the CPU.
    Limit {
        /// The share, at most 1.
        share: f64,
    },
}

/// Cause of a change of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The cycles counted while tasks ran.
    Cycles,
    /// A spot check.
    SpotCheck,
    /// A limit of the CPU's clock.
    Limit,
    /// The other CPUs of its class; the CPU itself had no recent reading.
    Class,
    /// A change of another CPU: costs are relative to the best.
    Others,
}

/// Event that led to a check of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trigger {
    /// The CPU came online.
    Hotplug,
    /// The limits of its clock changed.
    FrequencyPolicy,
    /// The hardware reported that it throttled the CPU.
    Thermal,
    /// The hardware feedback interface changed its values for the CPU.
    Feedback,
}

/// Readings of one CPU that are not believed yet.
#[derive(Debug, Clone, Default)]
pub(super) struct Filter {
    /// Consecutive readings that are off in the same direction.
    off: Vec<f64>,
    /// Times of the CPU's changes in the last minute [ms].
    changed_ms: VecDeque<u64>,
    hurried: bool,
    settled: bool,
}

impl Filter {
    /// Add a reading at `ratio` of the CPU's reference while the believed ratio is `present`.
    /// Return the new ratio if it is believed.
    pub(super) fn add(&mut self, ratio: f64, present: f64, now_ms: u64, cause: Cause) -> Option<f64> {
        let off = (ratio / present).max(present / ratio) - 1.0;
        self.settled = false;
        if off <= TOLERANCE {
            self.settled = true;
            self.hurried = false;
            self.off.clear();
            return None;
        }
        // The caller has already rejected NaN. A NaN here would be kept and lose against the
        // others.
        if self.off.first().is_some_and(|first| (first > &present) != (ratio > present)) {
            self.off.clear();
        }
        if self.off.len() >= KEPT {
            self.off.remove(0);
        }
        self.off.push(ratio);
        let wanted = self.wanted(now_ms, cause)?;
        // If two readings disagree, a third one decides.
        let wanted = if wanted == 2 && !self.last_agree() { 3 } else { wanted };
        if self.off.len() < wanted {
            return None;
        }
        let last = self.off.len() - wanted;
        let readings = self.off.get(last..)?;
        let believed = match (cause, wanted) {
            (Cause::SpotCheck, 2) => readings.iter().copied().reduce(f64::max),
            _ => median(readings),
        };
        self.off.clear();
        self.hurried = false;
        self.changed_ms.push_back(now_ms);
        believed
    }

    fn last_agree(&self) -> bool {
        matches!(self.off.as_slice(), [.., before, last] if (last / before - 1.0).abs() <= TOLERANCE)
    }

    /// Require fewer readings for the next decision.
    pub(super) fn hurry(&mut self) {
        self.hurried = true;
    }

    /// Return true if there is a reading that another one has to confirm.
    pub(super) fn suspects(&self) -> bool {
        !self.off.is_empty()
    }

    /// Return true if the last reading confirmed the believed ratio.
    fn settled(&self) -> bool {
        self.settled
    }

    /// Return the number of consecutive readings required; None if none are believed now.
    fn wanted(&mut self, now_ms: u64, cause: Cause) -> Option<usize> {
        while self.changed_ms.front().is_some_and(|at| now_ms.saturating_sub(*at) >= MINUTE_MS) {
            self.changed_ms.pop_front();
        }
        let least = match cause {
            Cause::Limit => 1,
            Cause::SpotCheck => 2,
            _ if self.hurried => 2,
            _ => 3,
        };
        match self.changed_ms.len() / CHANGES_A_MINUTE {
            0 => Some(least),
            1 => Some(least * SLOWER),
            _ => None,
        }
    }
}

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
