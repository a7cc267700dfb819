// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The PMUs in `/sys/bus/event_source/devices`: their type, CPUs, fields and named events.
//!
//! # Problem
//! A raw event code is valid on one core type only. On another core it fails to open or, worse,
//! counts something else. So every event is opened with the type of the PMU that serves the CPU.
//!
//! # Limits
//! Events with parameters (`?` in sysfs) and scaled events are not supported: PMUs of cores have
//! none.

use super::identity::number;
use crate::cpulist;
use std::fs;
use std::path::{Path, PathBuf};

/// Configuration words that a field may be part of.
pub const CONFIGS: usize = 3;
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
pub struct Field {
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
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (word, ranges) = text.trim().split_once(':')?;
        let word = match word {
            "config" => 0,
            "config1" => 1,
            "config2" => 2,
            _ => return None,
        };
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            (first <= last && last < 64).then_some((first, last))
        };
        let ranges: Option<Vec<_>> = ranges.split(',').map(range).collect();
        ranges.map(|ranges| Self { word, ranges })
    }

    /// Return the word with the value in this field's bits; None when the value does not fit.
    #[must_use]
    pub fn place(&self, value: u64) -> Option<u64> {
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

#[cfg(test)]
#[path = "sysfs_tests.rs"]
mod tests;
