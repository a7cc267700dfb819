//! The configuration file: reading it, and printing a template of it.
//!
//! # Problem
//! The file, the flags and `--help` have to agree on the names, units and meanings of all options.
//!
//! # Approach
//! The keys are the fields of [`RunSettings`] and the knobs. Names, units and explanations are
//! those of the flags. The list of arguments thus defines the valid keys and their comments in a
//! template.
//!
//! # Invariants
//! Every error about the content is one line with the file, the line of the key in it, the cause
//! and the remedy. Where values contradict each other, it has the lines of all that the file
//! decides. Root reads only files that no other user can have written. Reading a template gives the
//! options of its origin.

use crate::cli::{RunSettings, Source};
use crate::output::complain;
use bias_agent::failure::Failure;
use bias_agent::options::knobs::Knob;
use bias_agent::safefile;
use clap::{Args, Command};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use toml::de::DeTable;
use toml::{Spanned, Value};

/// Default file, read if it exists and the command line names no other one.
pub const USUAL: &str = "/etc/scx_bias.toml";
/// Width of the template [columns].
const WIDTH: usize = 100;

impl Source {
    /// Return the path of the file to read, or None without one.
    pub fn file(&self) -> Option<PathBuf> {
        match &self.config {
            Some(path) => Some(path.clone()),
            None => {
                Some(PathBuf::from(USUAL)).filter(|path| !self.no_config && path.symlink_metadata().is_ok())
            }
        }
    }
}

/// Values that are wrong or contradict each other.
#[derive(Debug)]
pub struct Wrong {
    /// Keys of the values.
    pub keys: Vec<&'static str>,
    /// Cause and remedy.
    pub failure: Failure,
}

impl From<Wrong> for Failure {
    fn from(wrong: Wrong) -> Self {
        wrong.failure
    }
}

/// Lines of the keys of a configuration file. Without a file there are none.
#[derive(Debug, Default)]
pub struct Places {
    path: PathBuf,
    lines: BTreeMap<String, usize>,
}

impl Places {
    fn of(path: &Path, text: &str) -> Self {
        let table = DeTable::parse(text).map(Spanned::into_inner).unwrap_or_default();
        let lines = table.keys().map(|key| (key.get_ref().to_string(), line(text, key.span().start)));
        Self { path: path.to_owned(), lines: lines.collect() }
    }

    /// Remove the keys of `given`, which decides instead of the file.
    pub fn overridden(mut self, given: &RunSettings) -> Self {
        let table = toml::Table::try_from(given).unwrap_or_default();
        self.lines.retain(|key, _| !table.contains_key(key) && !given.numbers.0.contains_key(key.as_str()));
        self
    }

    /// Return the failure with the file and the lines of the keys. It stays as it is if no key
    /// stands in the file, because then the command line is wrong.
    pub fn locate(&self, wrong: Wrong) -> Failure {
        let mut lines: Vec<usize> =
            wrong.keys.iter().filter_map(|key| self.lines.get(*key).copied()).collect();
        lines.sort_unstable();
        lines.dedup();
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        let at = match &lines[..] {
            [] => return wrong.failure,
            [line] => format!("line {line}"),
            lines => format!("lines {}", lines.join(" and ")),
        };
        let Failure { exit, message } = wrong.failure;
        Failure::new(exit, format!("configuration file {}, {at}: {message}", self.path.display()))
    }
}

/// Return the number of the line with the byte at `offset`, from 1.
fn line(text: &str, offset: usize) -> usize {
    text.get(..offset).unwrap_or("").matches('\n').count() + 1
}

/// Read the options of a configuration file, and the lines of their keys. Relative paths in it are
/// relative to its directory.
///
/// # Errors
/// Usage failure for a file that cannot be read or trusted, or that has an invalid key or value.
pub fn read(path: &Path) -> Result<(RunSettings, Places), Failure> {
    let text = safefile::read_own_text(path, "configuration file")?;
    let mut settings = parse(&text).map_err(|error| {
        let line = error.span().map_or(1, |span| line(&text, span.start));
        let why = plain(&error.message());
        let remedy = if why.contains("; ") || why.contains(": give ") {
            ""
        } else {
            "; `scx_bias config` prints such a file"
        };
        Failure::usage(format!("configuration file {}, line {line}: {why}{remedy}", path.display()))
    })?;
    if let Some(directory) = path.parent() {
        for file in settings.capacity_file.iter_mut().chain(&mut settings.cgroups) {
            *file = directory.join(&*file);
        }
    }
    Ok((settings, Places::of(path, &text)))
}

fn parse(text: &str) -> Result<RunSettings, toml::de::Error> {
    toml::Deserializer::parse(text)?.deserialize_map(Document)
}

/// Return all valid keys of a file, also earlier ones.
fn keys() -> Vec<String> {
    let flags = RunSettings::augment_args(Command::new("keys"));
    flags.get_arguments().map(|argument| argument.get_id().to_string()).collect()
}

/// Visitor that reads the knobs and leaves the other keys to the derived code.
struct Document;

impl<'de> Visitor<'de> for Document {
    type Value = RunSettings;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("options")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RunSettings, A::Error> {
        let mut numbers = Vec::new();
        let rest = Rest { map, keys: keys(), numbers: &mut numbers, key: String::new() };
        let mut settings = RunSettings::deserialize(MapAccessDeserializer::new(rest))?;
        settings.numbers.0.extend(numbers);
        Ok(settings)
    }
}

struct Rest<'a, A> {
    map: A,
    keys: Vec<String>,
    numbers: &'a mut Vec<(&'static str, u64)>,
    key: String,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Rest<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        loop {
            let Some(key) = self.map.next_key_seed(Key(&self.keys))? else { return Ok(None) };
            match Knob::find(&key) {
                Some((knob, earlier)) => {
                    if earlier {
                        complain(&format!("configuration file: {key} is now {}", knob.key));
                    }
                    self.numbers.push((knob.key, self.map.next_value_seed(Number(knob))?));
                }
                None => {
                    self.key.clone_from(&key);
                    return seed.deserialize(serde::de::IntoDeserializer::into_deserializer(key)).map(Some);
                }
            }
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(Named(&self.key, seed))
    }
}

/// Deserializer of a key, which must be a valid one.
struct Key<'a>(&'a [String]);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        let key = String::deserialize(deserializer)?;
        if self.0.contains(&key) {
            return Ok(key);
        }
        let guess = guess(&key, self.0).map_or_else(String::new, |guess| format!("write {guess}; "));
        Err(D::Error::custom(format!("there is no option {key}; {guess}`scx_bias config` prints all")))
    }
}

/// Guess the intended key: `key` may have dashes, another case, another unit or a plural `s`.
fn guess<'a>(key: &str, keys: &'a [String]) -> Option<&'a String> {
    let plain = key.replace('-', "_").to_lowercase();
    let stem = |key: &str| key.rsplit_once('_').map_or_else(|| key.to_owned(), |(stem, _)| stem.to_owned());
    let singular = |key: &str| key.trim_end_matches('s').to_owned();
    keys.iter()
        .find(|known| **known == plain)
        .or_else(|| keys.iter().find(|known| singular(known) == singular(&plain)))
        .or_else(|| {
            keys.iter()
                .find(|known| known.contains('_') && (stem(known) == stem(&plain) || stem(known) == plain))
        })
}

/// Deserializer of the value of a knob.
struct Number(&'static Knob);

impl<'de> DeserializeSeed<'de> for Number {
    type Value = u64;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<u64, D::Error> {
        let Self(knob) = self;
        let value = Value::deserialize(deserializer)?;
        let number = value.as_integer().and_then(|number| u64::try_from(number).ok()).ok_or_else(|| {
            let unit = knob.unit.to_lowercase();
            let of = if unit == "n" { String::new() } else { format!(" of {unit}") };
            format!("{} is {value}: give a whole number{of} from {} to {}", knob.key, knob.min, knob.max)
        });
        number.and_then(|number| knob.check(number).map(|()| number)).map_err(D::Error::custom)
    }
}

/// Deserializer of a value that adds the key to errors.
struct Named<'a, V>(&'a str, V);

impl<'de, V: DeserializeSeed<'de>> DeserializeSeed<'de> for Named<'_, V> {
    type Value = V::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        let Self(key, seed) = self;
        seed.deserialize(deserializer).map_err(|error| {
            D::Error::custom(format!("{key}: {}; `scx_bias config` shows an example", plain(&error)))
        })
    }
}

/// Return the first line of an error, without the excerpt of the file that toml adds.
fn plain(error: &impl fmt::Display) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

/// Values in a template for options that are not knobs and are not set.
const EXAMPLES: [(&str, &str); 12] = [
    ("cgroups", "[\"/sys/fs/cgroup/work.slice\"]"),
    ("capacity_file", "\"/var/lib/scx_bias/capacity.json\""),
    ("whole_system", "false"),
    ("no_bias", "false"),
    ("no_recalibrate", "false"),
    ("no_swap", "false"),
    ("swap_interval_ms", "50"),
    ("no_pull", "false"),
    ("events", "[\"external=cpu/event=0xa3,umask=0x5,cmask=5/\"]"),
    ("thresholds_permille", "[1200, 1800]"),
    ("stats", "10.0"),
    ("log_level", "\"info\""),
];

/// Return a configuration file with these options, and with all other options as comments.
///
/// # Errors
/// Usage failure for a path that is not UTF-8.
pub fn template(settings: &RunSettings) -> Result<String, Failure> {
    let mut given = toml::Table::try_from(settings).map_err(|error| {
        Failure::usage(format!("an option cannot be written ({error}); name a path in UTF-8"))
    })?;
    let numbers = settings.numbers.0.iter();
    given.extend(
        numbers.map(|(key, value)| {
            ((*key).to_owned(), Value::Integer(i64::try_from(*value).unwrap_or(i64::MAX)))
        }),
    );
    let mut text = String::new();
    wrap(
        &mut text,
        &format!(
            "Configuration of scx_bias, {USUAL} unless --config names another file. Flags go before it. After a change: `scx_bias reload`."
        ),
    );
    wrap(&mut text, "Options with a # in front have their defaults, or none.");
    let flags = RunSettings::augment_args(Command::new("keys"));
    for argument in flags.get_arguments().filter(|argument| !argument.is_hide_set()) {
        let key = argument.get_id().as_str();
        let help =
            argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
        text.push('\n');
        wrap(&mut text, &help);
        text += &match given.get(key) {
            Some(value) => format!("{key} = {value}\n"),
            None => format!("# {key} = {}\n", example(key)),
        };
    }
    Ok(text)
}

fn example(key: &str) -> String {
    let knob = Knob::ALL.iter().find(|knob| knob.key == key).map(|knob| knob.default.to_string());
    let other = EXAMPLES.iter().find(|(name, _)| *name == key).map(|(_, value)| (*value).to_owned());
    knob.or(other).unwrap_or_default()
}

/// Append `comment` to `text` as comment lines of at most [`WIDTH`] columns.
fn wrap(text: &mut String, comment: &str) {
    let mut line = String::from("#");
    for word in comment.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            *text += &line;
            line = String::from("\n#");
        }
        line.push(' ');
        line += word;
    }
    *text += &line;
    text.push('\n');
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
