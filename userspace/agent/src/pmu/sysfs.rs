// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Counting as sysfs and `/proc` describe it: the PMUs with their type, CPUs, fields and named
//! events, and the core type of each CPU as the event table names it.
//!
//! # Problem
//! A raw event code is valid on one core type only. On another core it fails to open or, worse,
//! counts something else. So every event is opened with the type of the PMU that serves the CPU.
//!
//! # Approach
//! PMUs are in `/sys/bus/event_source/devices`. The core type on x86 is vendor, family and model of
//! `/proc/cpuinfo`. Both core types of a hybrid part have the same values there, and the PMU
//! distinguishes them. On Arm it is implementer and part of the MIDR in sysfs, else of
//! `/proc/cpuinfo`. Any other core is unnamed, and the kernel's generic events serve it.
//!
//! # Limits
//! Events with parameters (`?` in sysfs) and scaled events are not supported: PMUs of cores have
//! none.

use crate::cpulist;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Configuration words that a field may be part of.
const CONFIGS: usize = 3;
/// Largest sysfs file that is parsed [bytes].
const LONGEST: usize = 4096;

/// A PMU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pmu {
    /// Name of its sysfs directory.
    pub name: String,
    /// Type by which the kernel identifies it.
    pub kind: u32,
    /// CPUs that it serves. None when sysfs does not say, which means all.
    pub cpus: Option<Vec<u32>>,
    /// True for a core's PMU, false for that of a bus, cache or package.
    pub core: bool,
    directory: PathBuf,
}

/// One field of a PMU's configuration: bit ranges of one word, lowest bits of the value first.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    word: usize,
    ranges: Vec<(u32, u32)>,
}

impl Pmu {
    /// List all PMUs of the machine below `root`, by name. A directory without a readable type is
    /// skipped.
    #[must_use]
    pub fn list(root: &Path) -> Vec<Self> {
        let directory = root.join("sys/bus/event_source/devices");
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let mut pmus: Vec<Self> = entries.filter_map(|entry| Self::read(&entry.path())).collect();
        pmus.sort_by(|one, other| one.name.cmp(&other.name));
        pmus
    }

    fn read(directory: &Path) -> Option<Self> {
        let name = directory.file_name()?.to_str()?.to_owned();
        let kind = text(&directory.join("type"))?.trim().parse().ok()?;
        let list = |file: &str| text(&directory.join(file)).and_then(|text| cpulist::parse(&text));
        // PMUs of cores list the CPUs that they serve in `cpus`. Others list in `cpumask` the CPUs
        // to open their events on.
        let served = list("cpus");
        let core = name == "cpu" || served.is_some();
        let cpus = served.or_else(|| list("cpumask").filter(|cpus| !cpus.is_empty()));
        Some(Self { name, kind, cpus, core, directory: directory.to_owned() })
    }

    /// Return true if events of `cpu` can be opened on this PMU.
    #[must_use]
    pub fn serves(&self, cpu: u32) -> bool {
        self.cpus.as_ref().is_none_or(|cpus| cpus.contains(&cpu))
    }

    /// Compute `config`, `config1` and `config2` from terms such as `event=0x3c,umask=1` or
    /// `cache-misses`.
    ///
    /// # Errors
    /// One sentence when the PMU does not have a name, or a value does not fit its field.
    pub fn configure(&self, terms: &[Term]) -> Result<[u64; CONFIGS], String> {
        let mut configs = [0; CONFIGS];
        for term in terms {
            self.apply(term, &mut configs, true)?;
        }
        Ok(configs)
    }

    fn apply(&self, term: &Term, configs: &mut [u64; CONFIGS], named: bool) -> Result<(), String> {
        let here = format!("PMU {}", self.name);
        if let Some(field) = self.field(&term.name)? {
            let value = term.value.unwrap_or(1);
            let bits = field
                .place(value)
                .ok_or_else(|| format!("{here}: {value:#x} does not fit the field {}", term.name))?;
            configs[field.word] |= bits;
            return Ok(());
        }
        let event =
            text(&self.directory.join("events").join(&term.name)).filter(|_| named && term.value.is_none());
        let Some(event) = event else {
            return Err(format!(
                "{here} has no field or event {}; it has the fields {} and the events {}",
                term.name,
                names(&self.directory.join("format")),
                names(&self.directory.join("events"))
            ));
        };
        let terms = parse_terms(event.trim()).map_err(|why| format!("{here}: event {}: {why}", term.name))?;
        terms.iter().try_for_each(|inner| self.apply(inner, configs, false))
    }

    /// Return a field of this PMU, or one of the words as a whole; None when no field has the name.
    fn field(&self, name: &str) -> Result<Option<Field>, String> {
        if let Some(format) = text(&self.directory.join("format").join(name)) {
            let unknown =
                || format!("PMU {}: field {name} has the unknown format {:?}", self.name, format.trim());
            return Field::parse(&format).ok_or_else(unknown).map(Some);
        }
        let word = ["config", "config1", "config2"].iter().position(|word| *word == name);
        Ok(word.map(|word| Field { word, ranges: vec![(0, 63)] }))
    }
}

impl Field {
    /// Parse the kernel's notation, such as `config:0-7,32-35`.
    fn parse(text: &str) -> Option<Self> {
        let (word, ranges) = text.trim().split_once(':')?;
        let word = match word {
            "config" => 0,
            "config1" => 1,
            "config2" => 2,
            _ => return None,
        };
        cpulist::ranges(ranges, 64).map(|ranges| Self { word, ranges })
    }

    /// Return the word with the value in this field's bits; None when the value does not fit.
    fn place(&self, value: u64) -> Option<u64> {
        let mut rest = u128::from(value);
        let mut placed = 0u64;
        for (first, last) in &self.ranges {
            let width = last - first + 1;
            let part = rest & ((1u128 << width) - 1);
            // The part has at most 64 bits, and `first + width` is at most 64.
            placed |= (part as u64) << first;
            rest >>= width;
        }
        (rest == 0).then_some(placed)
    }
}

/// A term: `name=value`, or a name alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// Name of a field or event.
    pub name: String,
    /// None when the term is a name alone.
    pub value: Option<u64>,
}

impl std::fmt::Display for Term {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.value {
            Some(value) => write!(f, "{}={value:#x}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// Parse terms separated by commas.
///
/// # Errors
/// One sentence that names the invalid term.
pub fn parse_terms(text: &str) -> Result<Vec<Term>, String> {
    let term = |part: &str| {
        let (name, value) = match part.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (part, None),
        };
        if !is_name(name) {
            return Err(format!("{part:?} is not a term; write name=number or name, separated by commas"));
        }
        let parsed = value.map(|value| {
            number(value).ok_or_else(|| format!("{part:?}: the value must be a decimal or 0x number"))
        });
        Ok(Term { name: name.to_owned(), value: parsed.transpose()? })
    };
    text.split(',').map(term).collect()
}

/// Return true for a name that sysfs may have and that cannot leave its directory.
#[must_use]
pub(super) fn is_name(text: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    !text.is_empty() && text.len() <= 128 && !text.starts_with('.') && text.chars().all(fine)
}

fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().filter(|text| text.len() <= LONGEST)
}

/// List the file names of a directory for messages.
fn names(directory: &Path) -> String {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| !name.ends_with(".scale") && !name.ends_with(".unit"));
    names.sort();
    match names.len() {
        0 => "(none)".to_owned(),
        1..=12 => names.join(", "),
        more => format!("{} and {} more", names[..12].join(", "), more - 12),
    }
}

/// Type of a core.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// Vendor as the table names it; `arm` for every Arm core.
    pub vendor: String,
    /// Family, or Arm implementer.
    pub family: u32,
    /// Model, or Arm part number.
    pub model: u32,
}

impl Identity {
    /// Decode the fields of Arm's main ID register.
    fn from_midr(midr: u64) -> Self {
        let family = (midr >> 24) as u32 & 0xff;
        Self { vendor: "arm".to_owned(), family, model: (midr >> 4) as u32 & 0xfff }
    }

    /// Return true for an x86 core.
    #[must_use]
    pub fn is_x86(&self) -> bool {
        !self.vendor.is_empty() && self.vendor != "arm"
    }
}

/// Core types of the CPUs of the machine below `root`.
pub struct Identities {
    listed: BTreeMap<u32, Identity>,
    root: PathBuf,
}

impl Identities {
    /// Read the file that lists all CPUs.
    #[must_use]
    pub fn read(root: &Path) -> Self {
        let cpuinfo = fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default();
        Self { listed: parse(&cpuinfo), root: root.to_owned() }
    }

    /// Return the core type of one CPU; unnamed when nothing is known.
    #[must_use]
    pub fn of(&self, cpu: u32) -> Identity {
        let midr = self.root.join(format!("sys/devices/system/cpu/cpu{cpu}/regs/identification/midr_el1"));
        match fs::read_to_string(midr).ok().and_then(|text| number(text.trim())) {
            Some(midr) => Identity::from_midr(midr),
            None => self.listed.get(&cpu).cloned().unwrap_or_default(),
        }
    }
}

/// Parse the text of `/proc/cpuinfo` to core types by CPU.
fn parse(cpuinfo: &str) -> BTreeMap<u32, Identity> {
    let mut kinds = BTreeMap::new();
    for block in cpuinfo.split("\n\n") {
        let pairs = block.lines().filter_map(|line| line.split_once(':'));
        let values: BTreeMap<&str, &str> = pairs.map(|(key, value)| (key.trim(), value.trim())).collect();
        let get = |key: &str| values.get(key).copied();
        let get_number = |key: &str| get(key).and_then(number).and_then(|value| u32::try_from(value).ok());
        let Some(cpu) = get_number("processor") else { continue };
        let kind = if let Some(vendor) = get("vendor_id") {
            let (family, model) = (get_number("cpu family"), get_number("model"));
            family.zip(model).map(|(family, model)| Identity { vendor: vendor.to_owned(), family, model })
        } else {
            let (family, model) = (get_number("CPU implementer"), get_number("CPU part"));
            family.zip(model).map(|(family, model)| Identity { vendor: "arm".to_owned(), family, model })
        };
        kinds.extend(kind.map(|kind| (cpu, kind)));
    }
    kinds
}

/// Parse a decimal number, or a hexadecimal one after `0x`.
#[must_use]
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        // from_str_radix accepts a sign.
        Some(digits) if digits.starts_with('+') => None,
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None if text.starts_with('+') => None,
        None => text.parse().ok(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::fake::FakeSysfs;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_pmus_with_number_and_cpus() {
        let machine = FakeSysfs::hybrid();
        let pmus = Pmu::list(machine.root());
        let of = |name: &str| pmus.iter().find(|pmu| pmu.name == name).unwrap();
        assert_eq!((of("cpu_core").kind, of("cpu_core").cpus.clone()), (4, Some(vec![0, 1])));
        assert!(of("cpu_atom").core && of("cpu_atom").serves(3) && !of("cpu_atom").serves(0));
        assert!(!of("uncore_imc").core && of("uncore_imc").serves(0) && !of("uncore_imc").serves(1));
        assert!(pmus.iter().all(|pmu| pmu.name != "broken"));
        assert!(Pmu::list(Path::new("/nowhere")).is_empty());
    }

    #[test]
    fn terms_become_configurations_by_the_format_files() {
        let machine = FakeSysfs::hybrid();
        let pmus = Pmu::list(machine.root());
        let core = pmus.iter().find(|pmu| pmu.name == "cpu_core").unwrap();
        let configure = |text: &str| parse_terms(text).and_then(|terms| core.configure(&terms));
        assert_eq!(configure("event=0xa3,umask=6,cmask=6"), Ok([0x0600_06a3, 0, 0]));
        assert_eq!(configure("event=0x9c,umask=0x101,inv"), Ok([0x100_0080_019c, 0, 0]));
        assert_eq!(configure("cache-misses"), Ok([0x412e, 0, 0]));
        assert_eq!(configure("offcore_rsp=0x10,event=0x2a"), Ok([0x2a, 0x10, 0]));
        assert_eq!(configure("config=0x3c,config2=5"), Ok([0x3c, 0, 5]));
    }

    #[test]
    fn unknown_fields_are_reported_with_the_known_ones() {
        let machine = FakeSysfs::hybrid();
        let pmus = Pmu::list(machine.root());
        let core = pmus.iter().find(|pmu| pmu.name == "cpu_core").unwrap();
        let refuse = |text: &str| parse_terms(text).and_then(|terms| core.configure(&terms)).unwrap_err();
        assert!(refuse("evnt=1").contains("no field or event evnt; it has the fields cmask, edge, event"));
        assert!(refuse("event=0x100").contains("0x100 does not fit the field event"));
        assert!(refuse("cache-misses=1").contains("no field or event cache-misses"));
        assert!(refuse("recursive").contains("no field or event cache-misses"));
        assert!(refuse("parameter").contains("decimal or 0x"));
        assert!(refuse("odd=1").contains("unknown format"));
        for bad in ["", "=1", "a=", "../type", "event=0x+1", "event=-1", "event=1,,umask=1"] {
            assert!(!refuse(bad).contains('\n'), "{bad}");
        }
    }

    #[test]
    fn fields_in_pieces() {
        let field = Field::parse("config:0-7,32-35\n").unwrap();
        assert_eq!(field.place(0x1a0), Some(0x1_0000_00a0));
        assert_eq!(field.place(0x1000), None);
        assert_eq!(Field::parse("config2:0-63").unwrap().place(u64::MAX), Some(u64::MAX));
        for bad in
            ["", "config", "config:", "config:8-0", "config:0-64", "config9:1", "config:0-7,", "config:a"]
        {
            assert_eq!(Field::parse(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_format_panics(text in "(config[0-3]?)?:?[0-9,-]{0,12}", value: u64) {
            if let Some(field) = Field::parse(&text) {
                let _ = field.place(value);
            }
        }

        #[test]
        fn a_field_keeps_every_bit(split in 1u32..63, value: u64) {
            // Two pieces in reverse order lose nothing.
            let field = Field::parse(&format!("config:{split}-63,0-{}", split - 1)).unwrap();
            prop_assert_eq!(field.place(value), Some(value.rotate_left(split)));
        }

        #[test]
        fn terms_survive_printing(names in prop::collection::vec("[a-z][a-z0-9_.-]{0,10}", 1..5), value: Option<u64>) {
            let terms: Vec<Term> = names.into_iter().map(|name| Term { name, value }).collect();
            let text = terms.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            prop_assert_eq!(parse_terms(&text), Ok(terms));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,60}") {
            let _ = parse_terms(&text);
            let _ = Field::parse(&text);
        }
    }

    #[test]
    fn x86_and_arm_are_recognised_by_their_files() {
        let x86 = parse("processor\t: 3\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 183\n\n");
        assert_eq!(x86[&3], Identity { vendor: "GenuineIntel".into(), family: 6, model: 0xb7 });
        assert!(x86[&3].is_x86());
        let arm = parse("processor: 0\nCPU implementer: 0x41\nCPU part: 0xd05\n\nprocessor: 1\nisa: rv64\n");
        assert_eq!(arm[&0], Identity { vendor: "arm".into(), family: 0x41, model: 0xd05 });
        assert!(!arm[&0].is_x86() && !arm.contains_key(&1));
    }

    #[test]
    fn the_register_comes_before_the_list() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("sys/devices/system/cpu/cpu1/regs/identification");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("midr_el1"), "0x00000000410fd461\n").unwrap();
        let kinds = Identities::read(root.path());
        assert_eq!(kinds.of(1), Identity { vendor: "arm".into(), family: 0x41, model: 0xd46 });
        assert_eq!(kinds.of(0), Identity::default());
    }

    proptest! {
        #[test]
        fn no_cpuinfo_panics(text in "\\PC{0,80}", lines in prop::collection::vec("(processor|model|vendor_id|CPU part): [0-9a-fx+-]{0,9}", 0..8)) {
            let _ = parse(&text);
            let _ = parse(&lines.join("\n"));
            let _ = number(&text);
        }
    }
}
