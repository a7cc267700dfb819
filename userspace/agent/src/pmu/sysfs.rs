//! The PMUs that the kernel lists in `/sys/bus/event_source/devices`: their number, CPUs, fields and named events.
//!
//! Problem. Raw numbers hold on one kind of core only, and opening one on another's fails or, worse, counts something else. So every
//! event is opened with the number of the PMU that serves the CPU.
//!
//! Limits. Events with parameters (`?` in sysfs) and scaled ones are not supported: cores' PMUs have none.

use super::identity::number;
use crate::cpulist;
use std::fs;
use std::path::{Path, PathBuf};

/// Words of configuration that a field may lie in.
pub const CONFIGS: usize = 3;
/// Longest sysfs file that is looked at [bytes].
const LONGEST: usize = 4096;

/// A PMU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pmu {
    /// Its folder's name.
    pub name: String,
    /// The number the kernel knows it by.
    pub kind: u32,
    /// CPUs it serves; None when it does not say, which means all.
    pub cpus: Option<Vec<u32>>,
    /// Is it a core's own, and not that of a bus, cache or package?
    pub core: bool,
    folder: PathBuf,
}

/// One field of a PMU's configuration: bit ranges of one word, lowest bits of the value first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    word: usize,
    ranges: Vec<(u32, u32)>,
}

impl Pmu {
    /// All PMUs of the machine below `root`, by name. A folder without a readable number is not one.
    #[must_use]
    pub fn list(root: &Path) -> Vec<Self> {
        let folder = root.join("sys/bus/event_source/devices");
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut pmus: Vec<Self> = entries.filter_map(|entry| Self::read(&entry.path())).collect();
        pmus.sort_by(|one, other| one.name.cmp(&other.name));
        pmus
    }

    fn read(folder: &Path) -> Option<Self> {
        let name = folder.file_name()?.to_str()?.to_owned();
        let kind = text(&folder.join("type"))?.trim().parse().ok()?;
        let list = |file: &str| text(&folder.join(file)).and_then(|text| cpulist::parse(&text));
        // Cores list whom they serve in `cpus`; others name in `cpumask` the CPUs to open their events on.
        let served = list("cpus");
        let core = name == "cpu" || served.is_some();
        let cpus = served.or_else(|| list("cpumask").filter(|cpus| !cpus.is_empty()));
        Some(Self { name, kind, cpus, core, folder: folder.to_owned() })
    }

    /// Can events of `cpu` be opened here?
    #[must_use]
    pub fn serves(&self, cpu: u32) -> bool {
        self.cpus.as_ref().is_none_or(|cpus| cpus.contains(&cpu))
    }

    /// `config`, `config1`, `config2` of terms as in `event=0x3c,umask=1` or `cache-misses`.
    ///
    /// # Errors
    /// One sentence when a name or number is not this PMU's.
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
            text(&self.folder.join("events").join(&term.name)).filter(|_| named && term.value.is_none());
        let Some(event) = event else {
            return Err(format!(
                "{here} has no field or event {}; it has the fields {} and the events {}",
                term.name,
                names(&self.folder.join("format")),
                names(&self.folder.join("events"))
            ));
        };
        let terms = parse_terms(event.trim()).map_err(|why| format!("{here}: event {}: {why}", term.name))?;
        terms.iter().try_for_each(|inner| self.apply(inner, configs, false))
    }

    /// A field of this PMU, or one of the words as a whole; None when it has none of that name.
    fn field(&self, name: &str) -> Result<Option<Field>, String> {
        if let Some(format) = text(&self.folder.join("format").join(name)) {
            let unknown =
                || format!("PMU {}: field {name} has the unknown format {:?}", self.name, format.trim());
            return Field::parse(&format).ok_or_else(unknown).map(Some);
        }
        let word = ["config", "config1", "config2"].iter().position(|word| *word == name);
        Ok(word.map(|word| Field { word, ranges: vec![(0, 63)] }))
    }
}

impl Field {
    /// The kernel's notation, such as `config:0-7,32-35`.
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

    /// The word with the value in this field's bits; None when it does not fit.
    #[must_use]
    pub fn place(&self, value: u64) -> Option<u64> {
        let mut rest = u128::from(value);
        let mut placed = 0u64;
        for (first, last) in &self.ranges {
            let width = last - first + 1;
            let part = rest & ((1u128 << width) - 1);
            // At most 64 bits, and `first + width` is at most 64.
            placed |= (part as u64) << first;
            rest >>= width;
        }
        (rest == 0).then_some(placed)
    }
}

/// `name=value`, or a name alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// Field or event.
    pub name: String,
    /// None when only the name was given.
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

/// Terms separated by commas.
///
/// # Errors
/// One sentence that names the term that is wrong.
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

/// A name that sysfs may have and that cannot leave its folder.
#[must_use]
pub(super) fn is_name(text: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    !text.is_empty() && text.len() <= 128 && !text.starts_with('.') && text.chars().all(fine)
}

fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().filter(|text| text.len() <= LONGEST)
}

/// File names of a folder, for messages.
fn names(folder: &Path) -> String {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
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
