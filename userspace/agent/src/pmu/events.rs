// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Events that the user names: `--events external=cpu_core/event=0xa3,umask=6,cmask=6/`.
//!
//! The grammar follows perf's: `ROLE=PMU/TERMS/`, with an optional unit after it.
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

use super::roles::{Events, PerfEvent, Role, Unit};
use super::sysfs::{Pmu, Term, is_name, parse_terms};
use crate::failure::Failure;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

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
    let (terms, unit) = rest.rsplit_once('/').ok_or("there is no / behind the terms")?;
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
            "{text:?} is no unit of {}: stalls may have @cycles or @slots=WIDTH, external also @misses",
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
            ("external=cpu/event=1", "no / behind"),
            ("external=cpu//", "is not a term"),
            ("external=cpu/event=x/", "decimal or 0x"),
            ("external=cpu/event=1/@slots=0", "1 to 64"),
            ("internal=cpu/event=1/@misses", "is no unit of internal"),
            ("cycles=cpu/event=1/@slots=4", "is no unit of cycles"),
            ("external=cpu/event=1/u", "is no unit"),
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
    fn holds_for_the_cpus_of_its_pmu() {
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
    fn what_does_not_exist_is_refused_before_the_start() {
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
