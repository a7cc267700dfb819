// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Events: their roles and units, and those that the user names.
//!
//! The option `--events external=cpu_core/event=0xa3,umask=6,cmask=6/` names an event. Its grammar
//! follows perf's: `ROLE=PMU/TERMS/`, with an optional unit after it.
//!
//! * ROLE is `cycles`, `instructions`, `external` or `internal`.
//! * TERMS are the PMU's fields and named events in sysfs, separated by commas:
//!   `event=0x3c,umask=1,inv` or `stall_backend`. `config=`, `config1=` and `config2=` give whole
//!   words.
//! * The unit is `@slots=6` for issue slots, six of them per cycle, or `@misses` for counts without
//!   duration. The default is cycles.
//!
//! Such an event applies to the CPUs that its PMU serves: a hybrid machine needs one for each of
//! its PMUs. If several name the same CPU and role, the last one counts. If the event cannot be
//! opened, the CPU has no counters: no other event replaces it.

use super::sysfs::{Pmu, Term, is_name, parse_terms};
use crate::failure::Failure;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::str::FromStr;

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
    /// An issue slot. A cycle has `width` of them.
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
    pub(super) fn is_time(self) -> bool {
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

/// An event that the user named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    /// Role of the event.
    pub role: Role,
    /// Name of its PMU.
    pub pmu: String,
    /// Fields and event names.
    pub terms: Vec<Term>,
    /// Unit of a count.
    pub unit: Unit,
}

impl FromStr for Override {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        parse(text).map_err(|why| {
            Failure::usage(format!(
                "--events {text:?}: {why}; write for example external=cpu/event=0xa3,umask=6,cmask=6/ or internal=cpu_atom/event=0x71/@slots=5"
            ))
        })
    }
}

impl fmt::Display for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let terms: Vec<String> = self.terms.iter().map(ToString::to_string).collect();
        write!(f, "{}={}/{}/", self.role.name(), self.pmu, terms.join(","))?;
        match self.unit {
            Unit::Slots { width } => write!(f, "@slots={width}"),
            Unit::Misses => f.write_str("@misses"),
            Unit::Cycles | Unit::Instructions => Ok(()),
        }
    }
}

fn parse(text: &str) -> Result<Override, String> {
    let (role, event) = text.split_once('=').ok_or("there is no ROLE= in front")?;
    let role = Role::ALL
        .into_iter()
        .find(|known| known.name() == role)
        .ok_or_else(|| format!("{role:?} is not one of cycles, instructions, external, internal"))?;
    let (pmu, rest) = event.split_once('/').ok_or("there is no PMU/ in front of the terms")?;
    if !is_name(pmu) {
        return Err(format!("{pmu:?} is not the name of a PMU"));
    }
    let (terms, unit) = rest.rsplit_once('/').ok_or("there is no / after the terms")?;
    Ok(Override { role, pmu: pmu.to_owned(), terms: parse_terms(terms)?, unit: parse_unit(role, unit)? })
}

fn parse_unit(role: Role, text: &str) -> Result<Unit, String> {
    let stall = matches!(role, Role::External | Role::Internal);
    match text.strip_prefix('@') {
        None if text.is_empty() => Ok(Unit::of(role)),
        Some("cycles") if stall => Ok(Unit::Cycles),
        Some("misses") if role == Role::External => Ok(Unit::Misses),
        Some(unit) if stall && unit.starts_with("slots=") => {
            let width = unit["slots=".len()..].parse().ok().filter(|width| (1..=64).contains(width));
            width
                .map(|width| Unit::Slots { width })
                .ok_or_else(|| "slots= needs the width of the core, 1 to 64".to_owned())
        }
        _ => Err(format!(
            "{text:?} is not a unit of {}: stalls may have @cycles or @slots=WIDTH, external also @misses",
            role.name()
        )),
    }
}

impl Override {
    fn event(&self, pmu: &Pmu) -> Result<PerfEvent, String> {
        let config = pmu.configure(&self.terms)?;
        let text = self.to_string();
        let name = text.split_once('=').map_or(text.clone(), |(_, event)| event.to_owned());
        Ok(PerfEvent { name, kind: pmu.kind, config, unit: self.unit })
    }
}

/// Return the events named for `cpu`, by role.
///
/// # Errors
/// One sentence when a PMU, field or event does not exist.
pub(super) fn resolve(overrides: &[Override], pmus: &[Pmu], cpu: u32) -> Result<Events, String> {
    let mut events = Events::default();
    for named in overrides {
        let pmu = pmus.iter().find(|pmu| pmu.name == named.pmu).ok_or_else(|| {
            let known: Vec<&str> = pmus.iter().map(|pmu| pmu.name.as_str()).collect();
            format!("--events {named}: there is no PMU {}; this machine has {}", named.pmu, known.join(", "))
        })?;
        if pmu.serves(cpu) {
            let event = named.event(pmu).map_err(|why| format!("--events {named}: {why}"))?;
            events[named.role.index()] = Some(event);
        }
    }
    Ok(events)
}

/// Check that this machine has the events that the user named, before anything is started.
///
/// # Errors
/// Usage failure that names the first event that does not exist.
pub fn check(overrides: &[Override]) -> Result<(), Failure> {
    check_at(Path::new("/"), overrides)
}

pub(super) fn check_at(root: &Path, overrides: &[Override]) -> Result<(), Failure> {
    let pmus = Pmu::list(root);
    for named in overrides {
        // One of the PMU's own CPUs, or any.
        let cpus = pmus.iter().find(|pmu| pmu.name == named.pmu).and_then(|pmu| pmu.cpus.clone());
        let cpu = cpus.and_then(|cpus| cpus.first().copied()).unwrap_or(0);
        resolve(std::slice::from_ref(named), &pmus, cpu).map_err(Failure::usage)?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::fake::FakeSysfs;
    use super::*;
    use crate::failure::Exit;
    use proptest::prelude::*;

    #[test]
    fn nominal_scales_convert_counts_to_cycles() {
        let nominal = |unit: Unit| unit.nominal_permille();
        assert_eq!([Unit::Cycles, Unit::Instructions].map(nominal), [1000, 1000]);
        assert_eq!([5, 0].map(|width| nominal(Unit::Slots { width })), [200, 1000]);
        assert_eq!(nominal(Unit::Misses), 100_000);
    }

    #[test]
    fn the_id_of_an_event_has_its_name_and_code() {
        let event = |config| PerfEvent { name: "E".into(), kind: 4, config, unit: Unit::Cycles }.id();
        assert_eq!(event([0xa3, 0, 0]), "E (0xa3)");
        assert_eq!(event([0xa3, 1, 0]), "E (0xa3, 0x1, 0x0)");
    }

    #[test]
    fn reads_perfs_notation() {
        let named: Override = "external=cpu_core/event=0xa3,umask=0x6,cmask=6/".parse().unwrap();
        assert_eq!((named.role, named.pmu.as_str(), named.unit), (Role::External, "cpu_core", Unit::Cycles));
        assert_eq!(named.terms.len(), 3);
        let slots: Override = "internal=cpu_atom/event=0x71/@slots=5".parse().unwrap();
        assert_eq!(slots.unit, Unit::Slots { width: 5 });
        let misses: Override = "external=cpu/cache-misses/@misses".parse().unwrap();
        assert_eq!(
            (misses.unit, misses.to_string().as_str()),
            (Unit::Misses, "external=cpu/cache-misses/@misses")
        );
    }

    #[test]
    fn a_mistake_is_a_usage_failure_with_an_example() {
        for (text, says) in [
            ("cpu/event=1/", "is not one of cycles"),
            ("external", "no ROLE="),
            ("stalls=cpu/event=1/", "\"stalls\" is not one of"),
            ("external=event", "no PMU/"),
            ("external=/event=1/", "not the name of a PMU"),
            ("external=../cpu/event=1/", "not the name"),
            ("external=cpu/event=1", "no / after"),
            ("external=cpu//", "is not a term"),
            ("external=cpu/event=x/", "decimal or 0x"),
            ("external=cpu/event=1/@slots=0", "1 to 64"),
            ("internal=cpu/event=1/@misses", "is not a unit of internal"),
            ("cycles=cpu/event=1/@slots=4", "is not a unit of cycles"),
            ("external=cpu/event=1/u", "is not a unit"),
        ] {
            let failure = text.parse::<Override>().unwrap_err();
            assert!(
                failure.message.contains(says) && failure.message.contains("for example"),
                "{}",
                failure.message
            );
            assert_eq!(failure.exit, Exit::Usage);
        }
    }

    #[test]
    fn an_event_applies_to_the_cpus_of_its_pmu() {
        let machine = FakeSysfs::hybrid();
        let pmus = Pmu::list(machine.root());
        let named =
            ["external=cpu_core/event=1/", "external=cpu_core/event=2/", "external=cpu_atom/event=3/"];
        let named: Vec<Override> = named.iter().map(|text| text.parse().unwrap()).collect();
        let external = |cpu| resolve(&named, &pmus, cpu).unwrap()[Role::External.index()].clone().unwrap();
        assert_eq!((external(0).kind, external(0).config[0]), (4, 2));
        assert_eq!((external(3).kind, external(3).config[0]), (10, 3));
        assert_eq!(external(3).name, "cpu_atom/event=0x3/");
        assert_eq!(check_at(machine.root(), &named), Ok(()));
    }

    #[test]
    fn unknown_pmus_and_fields_are_refused_before_the_start() {
        let machine = FakeSysfs::hybrid();
        for (text, says) in [
            ("external=cpu/event=1/", "there is no PMU cpu; this machine has cpu_atom, cpu_core, uncore_imc"),
            ("external=cpu_atom/evnt=1/", "no field or event evnt"),
        ] {
            let failure = check_at(machine.root(), &[text.parse().unwrap()]).unwrap_err();
            assert!(failure.exit == Exit::Usage && failure.message.contains(says), "{}", failure.message);
        }
    }

    fn any_override() -> impl Strategy<Value = Override> {
        let term =
            ("[a-z][a-z0-9_]{0,8}", any::<Option<u64>>()).prop_map(|(name, value)| Term { name, value });
        let unit = prop_oneof![
            Just(Unit::Cycles),
            Just(Unit::Misses),
            (1u32..65).prop_map(|width| Unit::Slots { width })
        ];
        (0usize..4, "[a-z][a-z0-9_]{0,8}", prop::collection::vec(term, 1..4), unit).prop_map(
            |(role, pmu, terms, unit)| {
                let role = Role::ALL[role];
                let fits = match role {
                    Role::External => true,
                    Role::Internal => unit != Unit::Misses,
                    _ => false,
                };
                Override { role, pmu, terms, unit: if fits { unit } else { Unit::of(role) } }
            },
        )
    }

    proptest! {
        #[test]
        fn parsing_undoes_printing(named in any_override()) {
            prop_assert_eq!(named.to_string().parse::<Override>().unwrap(), named);
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,60}", near in "(external|cycles)?=?[a-z/@=,0-9x]{0,24}") {
            let _ = text.parse::<Override>();
            let _ = near.parse::<Override>();
        }
    }
}
