// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Types that describe counters: the role of an event, its unit, and the completeness of a CPU's
//! set.

use serde::{Deserialize, Serialize};

/// Most counters of a CPU.
pub const ROLES: usize = 4;

/// Role of a counter. The order is that of the kernel side's slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Cycles of the core.
    Cycles,
    /// Instructions retired.
    Instructions,
    /// Stalls on memory beyond the caches.
    External,
    /// Any other stall of the core.
    Internal,
}

impl Role {
    /// All roles, in the order of the slots.
    pub const ALL: [Self; ROLES] = [Self::Cycles, Self::Instructions, Self::External, Self::Internal];

    /// Return the role's slot.
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }

    /// Return the role's name on the command line and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cycles => "cycles",
            Self::Instructions => "instructions",
            Self::External => "external",
            Self::Internal => "internal",
        }
    }
}

/// Assumed stall per miss of the last-level cache, where stalls cannot be counted [cycles].
const MISS_CYCLES: u32 = 100;

/// Unit of a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "unit", rename_all = "lowercase")]
pub enum Unit {
    /// A cycle.
    Cycles,
    /// An issue slot, of which a cycle has `width`.
    Slots {
        /// Slots in a cycle, at least 1.
        width: u32,
    },
    /// A miss, to be multiplied by a latency.
    Misses,
    /// An instruction.
    Instructions,
}

impl Unit {
    /// Return the default unit of a role.
    #[must_use]
    pub fn of(role: Role) -> Self {
        if role == Role::Instructions { Self::Instructions } else { Self::Cycles }
    }

    /// Return the nominal scale: cycles per count while no fitted scale is known [permille].
    #[must_use]
    pub fn nominal_permille(self) -> u32 {
        match self {
            Self::Slots { width } => 1000 / width.max(1),
            Self::Misses => 1000 * MISS_CYCLES,
            Self::Cycles | Self::Instructions => 1000,
        }
    }

    /// Return true if counts of this unit are time.
    fn is_time(self) -> bool {
        matches!(self, Self::Cycles | Self::Slots { .. })
    }
}

/// An event, in the form that perf_event_open() takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PerfEvent {
    /// Name in the manual, or the user's text.
    pub name: String,
    /// The PMU's type, from its file `type` in sysfs.
    #[serde(rename = "type")]
    pub kind: u32,
    /// `config`, `config1` and `config2` of `struct perf_event_attr`.
    pub config: [u64; 3],
    /// Unit of a count.
    #[serde(flatten)]
    pub unit: Unit,
}

impl PerfEvent {
    /// Return a name that is unique among events on this machine and stable over restarts.
    #[must_use]
    pub fn id(&self) -> String {
        let [config, config1, config2] = self.config;
        match (config1, config2) {
            (0, 0) => format!("{} ({config:#x})", self.name),
            _ => format!("{} ({config:#x}, {config1:#x}, {config2:#x})", self.name),
        }
    }
}

/// A CPU's events by role. Without cycles and instructions nothing can be opened.
pub type Events = [Option<PerfEvent>; ROLES];

/// Completeness of a CPU's counters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "source", rename_all = "lowercase")]
pub enum CounterState {
    /// Both kinds of stall are counted as time.
    Full,
    /// Cycles, instructions and only a part of the stalls, or misses instead of them.
    Degraded {
        /// The missing counts, with the cause.
        reason: String,
    },
    /// Nothing is counted: tasks get no profile from this CPU.
    Unknown {
        /// The cause, and a remedy.
        reason: String,
    },
}

impl CounterState {
    /// Classify a set of opened events. `reason` gives the cause if the set is not full.
    #[must_use]
    pub fn of(events: &Events, reason: impl FnOnce() -> String) -> Self {
        let timed = |role: Role| events[role.index()].as_ref().is_some_and(|e| e.unit.is_time());
        if timed(Role::External) && timed(Role::Internal) {
            Self::Full
        } else {
            Self::Degraded { reason: reason() }
        }
    }

    /// Return the cause why the set is not full; None when it is.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Full => None,
            Self::Degraded { reason } | Self::Unknown { reason } => Some(reason),
        }
    }
}

/// State of one CPU's counters for `scx_bias status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuSummary {
    /// The kernel's CPU number.
    pub cpu: u32,
    /// Completeness of its counters.
    #[serde(flatten)]
    pub source: CounterState,
    /// Name of the PMU that serves the CPU.
    pub pmu: Option<String>,
    /// Origin of the choice of events.
    pub origin: String,
    /// The open events.
    pub events: Vec<EventSummary>,
}

/// One open event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventSummary {
    /// Role of the event.
    pub role: Role,
    /// The event.
    #[serde(flatten)]
    pub event: PerfEvent,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_taken_for_cycles() {
        let nominal = |unit: Unit| unit.nominal_permille();
        assert_eq!([Unit::Cycles, Unit::Instructions].map(nominal), [1000, 1000]);
        assert_eq!([5, 0].map(|width| nominal(Unit::Slots { width })), [200, 1000]);
        assert_eq!(nominal(Unit::Misses), 100_000);
    }

    #[test]
    fn an_event_is_told_by_name_and_number() {
        let event = |config| PerfEvent { name: "E".into(), kind: 4, config, unit: Unit::Cycles }.id();
        assert_eq!(event([0xa3, 0, 0]), "E (0xa3)");
        assert_eq!(event([0xa3, 1, 0]), "E (0xa3, 0x1, 0x0)");
    }

    #[test]
    fn misses_are_never_full() {
        let event = |unit| Some(PerfEvent { name: "e".into(), kind: 4, config: [0; 3], unit });
        let events =
            |external| [event(Unit::Cycles), event(Unit::Instructions), external, event(Unit::Cycles)];
        assert_eq!(
            CounterState::of(&events(event(Unit::Slots { width: 4 })), String::new),
            CounterState::Full
        );
        for external in [event(Unit::Misses), None] {
            assert_eq!(CounterState::of(&events(external), || "why".into()).reason(), Some("why"));
        }
    }
}
