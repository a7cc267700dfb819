// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The shipped event table, `data/events.toml`: which event is a memory stall on which core.
//!
//! # Problem
//! Manuals publish events as fields (event, unit mask, counter mask and so on). The kernel takes
//! one number, and each vendor packs it differently. That number alone cannot be checked against
//! the manual.
//!
//! # Approach
//! The table keeps the fields, and a formula of the vendor packs them. A test compares the result
//! with the table's own `config`.
//!
//! # Invariants
//! Tests check these: the table parses, every vendor formula gives the published code, and no CPU
//! and PMU fits two entries. A field that does not fit is an error and is never truncated.

use super::events::Unit;
use super::sysfs::Identity;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::OnceLock;

const TEXT: &str = include_str!("../../data/events.toml");

/// Vendor of entries that fit by the PMU's name alone.
const VIRTUAL: &str = "virtual";

/// Formula by which a vendor packs an event's fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Formula {
    /// event, umask << 8, edge << 18, inv << 23, cmask << 24, with 8 bits each of event and unit
    /// mask.
    Intel,
    /// Like Intel, with bits 8 to 11 of the event at bit 32.
    Amd,
    /// The event alone, 16 bits.
    Arm,
    /// No formula: the event has a name in the PMU's sysfs directory.
    Sysfs,
}

/// The whole table.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    vendor: BTreeMap<String, Vendor>,
    entry: Vec<EventEntry>,
}

/// Properties that the cores of a vendor share.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vendor {
    /// Formula that packs an event's fields.
    pub formula: Formula,
    /// Cycles of the core.
    pub cycles: EventRow,
    /// Instructions retired.
    pub instructions: EventRow,
}

/// Events of a core type.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventEntry {
    /// Names of the cores.
    pub name: String,
    vendor: String,
    #[serde(default)]
    family: u32,
    #[serde(default)]
    models: Vec<Models>,
    pmu: Vec<String>,
    /// Alternatives for memory stalls, best first.
    pub external: Vec<EventRow>,
    /// Alternatives for other stalls, best first; empty when the core counts none.
    pub internal: Vec<EventRow>,
    /// Stalls that the chosen events leave out.
    #[cfg_attr(not(test), allow(dead_code))]
    lost: String,
    /// Publication that gives the event codes.
    #[cfg_attr(not(test), allow(dead_code))]
    source: String,
}

/// One model, or an inclusive range of models.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(untagged)]
enum Models {
    One(u32),
    Range([u32; 2]),
}

/// An event of the table, in the fields of its manual.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventRow {
    /// Name in the manual, or in sysfs when there is no `event`.
    pub name: String,
    event: Option<u32>,
    /// Unit mask: selects the event's variants.
    #[serde(default)]
    umask: u32,
    /// Counter mask: count cycles with at least this number of occurrences.
    #[serde(default)]
    cmask: u32,
    /// Count transitions.
    #[serde(default)]
    edge: bool,
    /// Invert the comparison with the counter mask.
    #[serde(default)]
    inv: bool,
    #[serde(default)]
    config1: u64,
    unit: Option<RowUnit>,
    width: Option<u32>,
    /// Expected result of the formula.
    #[cfg_attr(not(test), allow(dead_code))]
    config: Option<u64>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RowUnit {
    Slots,
    Misses,
}

impl Models {
    fn contain(self, model: u32) -> bool {
        match self {
            Self::One(one) => one == model,
            Self::Range([first, last]) => (first..=last).contains(&model),
        }
    }
}

impl EventRow {
    /// Return `config` and `config1` by the formula; None when the event is found by name.
    ///
    /// # Errors
    /// One sentence when a field is too large or the vendor has no such field.
    pub fn encoded(&self, formula: Formula) -> Result<Option<[u64; 2]>, String> {
        let Some(event) = self.event else { return Ok(None) };
        let fit = |name: &str, value: u32, most: u32| match value > most {
            true => Err(format!("{name}={value:#x} is more than the {most:#x} that fits")),
            false => Ok(u64::from(value)),
        };
        let most = match formula {
            Formula::Intel => 0xff,
            Formula::Amd => 0xfff,
            Formula::Arm if (self.umask, self.cmask, self.edge, self.inv) == (0, 0, false, false) => {
                return Ok(Some([fit("event", event, 0xffff)?, self.config1]));
            }
            Formula::Arm => return Err("Arm events have no umask, cmask, edge or inv; leave them out".into()),
            Formula::Sysfs => {
                return Err("events of this PMU have names, not numbers; leave out event".into());
            }
        };
        let event = fit("event", event, most)?;
        let (umask, cmask) = (fit("umask", self.umask, 0xff)?, fit("cmask", self.cmask, 0xff)?);
        let flags = u64::from(self.edge) << 18 | u64::from(self.inv) << 23;
        let config = (event & 0xff) | umask << 8 | flags | cmask << 24 | (event >> 8) << 32;
        Ok(Some([config, self.config1]))
    }

    /// Return the unit of a count when it is not the role's default.
    #[must_use]
    pub fn unit(&self) -> Option<Unit> {
        match self.unit? {
            RowUnit::Misses => Some(Unit::Misses),
            // A test checks that slots have a width.
            RowUnit::Slots => Some(Unit::Slots { width: self.width.unwrap_or(1).max(1) }),
        }
    }
}

impl EventEntry {
    /// Return true if the entry applies to a core of type `identity` with this PMU.
    #[must_use]
    pub fn fits(&self, identity: &Identity, pmu: &str) -> bool {
        self.names_pmu(pmu) && self.names_core(identity)
    }

    fn names_pmu(&self, pmu: &str) -> bool {
        self.pmu.iter().any(|name| match name.strip_suffix('*') {
            Some(start) => pmu.starts_with(start),
            None => pmu == name,
        })
    }

    fn names_core(&self, identity: &Identity) -> bool {
        self.vendor == VIRTUAL
            || (self.vendor == identity.vendor
                && self.family == identity.family
                && self.models.iter().any(|models| models.contain(identity.model)))
    }
}

impl Table {
    /// Return the table of this build.
    #[must_use]
    pub fn shipped() -> &'static Self {
        static TABLE: OnceLock<Table> = OnceLock::new();
        // A test parses it. If parsing fails nevertheless, generic events remain.
        TABLE.get_or_init(|| toml::from_str(TEXT).unwrap_or_default())
    }

    /// Iterate over entries with their vendor, in the order of the file.
    pub fn entries(&self) -> impl Iterator<Item = (&EventEntry, &Vendor)> {
        self.entry.iter().filter_map(|entry| Some((entry, self.vendor.get(&entry.vendor)?)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table() -> Table {
        toml::from_str(TEXT).unwrap()
    }

    #[test]
    fn every_formula_gives_the_published_number() {
        let table = table();
        let mut rows = 0;
        let mut check = |formula, row: &EventRow, what: &str| {
            let encoded = row.encoded(formula).unwrap();
            assert_eq!(encoded.map(|[config, _]| config), row.config, "{what}: {}", row.name);
            assert_eq!(encoded.is_none(), formula == Formula::Sysfs, "{what}: {}", row.name);
            rows += 1;
        };
        for (name, vendor) in &table.vendor {
            check(vendor.formula, &vendor.cycles, name);
            check(vendor.formula, &vendor.instructions, name);
        }
        for (entry, vendor) in table.entries() {
            entry
                .external
                .iter()
                .chain(&entry.internal)
                .for_each(|row| check(vendor.formula, row, &entry.name));
        }
        assert!(rows > 60, "{rows}");
    }

    #[test]
    fn every_entry_is_complete() {
        let table = table();
        assert_eq!(table.entries().count(), table.entry.len(), "an entry's vendor is not in the table");
        for (entry, _) in table.entries() {
            assert!(!entry.external.is_empty(), "{}", entry.name);
            assert!(!entry.lost.is_empty() && !entry.source.is_empty(), "{}", entry.name);
            for row in entry.external.iter().chain(&entry.internal) {
                let slots = matches!(row.unit, Some(RowUnit::Slots));
                assert_eq!(row.width.is_some_and(|width| (2..=16).contains(&width)), slots, "{}", row.name);
            }
        }
    }

    #[test]
    fn no_core_fits_two_entries() {
        let table = table();
        let pmus = ["amp", "cpu", "cpu_core", "cpu_atom", "cpu_lowpower", "armv8_pmuv3_0", "armv9_cortex_x4"];
        let mut fitting = 0;
        for (vendor, families) in [
            ("GenuineIntel", vec![6, 15, 18]),
            ("AuthenticAMD", vec![0x15, 0x17, 0x19, 0x1a]),
            ("arm", vec![0x41]),
        ] {
            for family in families {
                for model in 0..0x1000 {
                    let identity = Identity { vendor: vendor.into(), family, model };
                    for pmu in pmus.into_iter().skip(1) {
                        let fits: Vec<_> = table
                            .entries()
                            .filter(|(e, _)| e.fits(&identity, pmu))
                            .map(|(e, _)| &e.name)
                            .collect();
                        assert!(fits.len() <= 1, "{identity:?} {pmu}: {fits:?}");
                        fitting += fits.len();
                    }
                }
            }
        }
        assert!(fitting > 200, "{fitting}");
        let names: std::collections::BTreeSet<_> = table.entry.iter().map(|entry| &entry.name).collect();
        assert_eq!(names.len(), table.entry.len());
    }

    #[test]
    fn one_number_means_different_things_on_one_machine() {
        let table = table();
        let lunar = Identity { vendor: "GenuineIntel".into(), family: 6, model: 0xbd };
        let of = |pmu: &str| table.entries().find(|(entry, _)| entry.fits(&lunar, pmu)).unwrap().0;
        assert_eq!(of("cpu_atom").internal[0].unit(), Some(Unit::Slots { width: 8 }));
        assert_eq!(of("cpu_core").internal[0].unit(), None);
    }

    fn row(event: u32, umask: u32, cmask: u32) -> EventRow {
        EventRow { event: Some(event), umask, cmask, ..EventRow::default() }
    }

    fn config(formula: Formula, row: &EventRow) -> Result<u64, String> {
        row.encoded(formula).map(|encoded| encoded.unwrap()[0])
    }

    #[test]
    fn formulas_agree_with_published_numbers() {
        assert_eq!(config(Formula::Intel, &row(0xa3, 6, 6)), Ok(0x0600_06a3));
        assert_eq!(config(Formula::Amd, &row(0x1a0, 1, 0)), Ok(0x1_0000_01a0));
        assert_eq!(config(Formula::Arm, &row(0x4005, 0, 0)), Ok(0x4005));
        // IDQ_BUBBLES.CYCLES_FE_WAS_OK: inverted.
        let inverted = EventRow { inv: true, ..row(0x9c, 1, 1) };
        assert_eq!(config(Formula::Intel, &inverted), Ok(0x0180_019c));
        assert_eq!(config(Formula::Intel, &EventRow { edge: true, ..row(0xa3, 0, 0) }), Ok(0x4_00a3));
    }

    #[test]
    fn fields_that_do_not_fit_are_refused() {
        assert!(config(Formula::Intel, &row(0x1a0, 0, 0)).is_err());
        assert!(config(Formula::Amd, &row(0x1000, 0, 0)).is_err());
        assert!(config(Formula::Arm, &row(0x11, 1, 0)).is_err());
        assert!(config(Formula::Sysfs, &row(0, 0, 0)).is_err());
    }

    proptest! {
        #[test]
        fn no_two_events_share_a_number(
            one in (0u32..0x1000, 0u32..0x100, 0u32..0x100, any::<bool>(), any::<bool>()),
            two in (0u32..0x1000, 0u32..0x100, 0u32..0x100, any::<bool>(), any::<bool>()),
        ) {
            let number = |(event, umask, cmask, edge, inv)| {
                config(Formula::Amd, &EventRow { edge, inv, ..row(event, umask, cmask) })
            };
            prop_assert_eq!(number(one) == number(two), one == two);
        }

        #[test]
        fn no_fields_panic(event: u32, umask: u32, cmask: u32, edge: bool, inv: bool) {
            for formula in [Formula::Intel, Formula::Amd, Formula::Arm, Formula::Sysfs] {
                let _ = EventRow { edge, inv, ..row(event, umask, cmask) }.encoded(formula);
            }
        }
    }
}
