// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The configuration file: reading it, and printing a template of it.
//!
//! # Problem
//! The file, the flags and `--help` have to agree on the names, units and meanings of all options.
//!
//! # Approach
//! `bias_agent::options` defines all options. The flags are made from its list, and so are the
//! valid keys and the comments of a template.
//!
//! # Invariants
//! Every error about the content is one line with the file, the line of the key in it, the cause
//! and the remedy. Where values contradict each other, it has the lines of all that the file
//! decides. Root reads only files that no other user can have written. Reading a template gives the
//! options of its origin.

use crate::cli::{RunSettings, Source};
use crate::output::{complain, renamed};
use bias_agent::failure::Failure;
use bias_agent::options::RunOptions;
use bias_agent::options::setting::Setting;
use bias_agent::safefile;
use clap::{Args, Command};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::de::DeTable;

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
    /// Remove the keys of `given`, which decides instead of the file.
    pub fn overridden(mut self, given: &RunSettings) -> Self {
        self.lines.retain(|key, _| !given.0.contains_key(key.as_str()));
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
    let (mut settings, lines) = parse(&text).map_err(|(line, why)| {
        let remedy = if why.contains("; ") || why.contains(": give ") {
            ""
        } else {
            "; `scx_bias config` prints such a file"
        };
        Failure::usage(format!("configuration file {}, line {line}: {why}{remedy}", path.display()))
    })?;
    if let Some(directory) = path.parent() {
        for setting in Setting::all().filter(|setting| setting.is_path()) {
            settings.0.entry(setting.key).and_modify(|value| make_absolute(value, directory));
        }
    }
    Ok((settings, Places { path: path.to_owned(), lines }))
}

/// Make the relative paths of a value absolute.
fn make_absolute(value: &mut Value, directory: &Path) {
    match value {
        Value::String(path) => *path = directory.join(&*path).to_string_lossy().into_owned(),
        Value::Array(paths) => paths.iter_mut().for_each(|path| make_absolute(path, directory)),
        _ => {}
    }
}

/// Return the options in a file, and the line of each key. An error is the line and the cause.
fn parse(text: &str) -> Result<(RunSettings, BTreeMap<String, usize>), (usize, String)> {
    let wrong = |error: toml::de::Error| {
        let cause = error.message().lines().next().unwrap_or_default().to_owned();
        (error.span().map_or(1, |span| line(text, span.start)), cause)
    };
    let spans = DeTable::parse(text).map_err(wrong)?.into_inner();
    let keys = spans.keys().map(|key| (key.get_ref().to_string(), line(text, key.span().start)));
    let mut lines: BTreeMap<String, usize> = keys.collect();
    let mut settings = RunSettings::default();
    for (key, value) in toml::from_str::<toml::Table>(text).map_err(wrong)? {
        let wrong = |why| (lines.get(&key).copied().unwrap_or(1), why);
        let option = Setting::find(&key).ok_or_else(|| wrong(unknown(&key)))?;
        let value = to_json(&value);
        option.set(&mut RunOptions::default(), &value).map_err(wrong)?;
        if settings.0.insert(option.key, value).is_some() {
            return Err(wrong(format!("{} is given twice, also by an earlier name; remove one", option.key)));
        }
        if option.key != key {
            complain(&format!("configuration file: {}", renamed(&key, option.key)));
            let line = lines.remove(&key).map(|line| (option.key.to_owned(), line));
            lines.extend(line);
        }
    }
    Ok((settings, lines))
}

/// Convert a value. One that JSON lacks becomes a text, which no number accepts.
fn to_json(value: &toml::Value) -> Value {
    let json = serde_json::to_value(value).unwrap_or_default();
    if json.is_null() { Value::String(value.to_string()) } else { json }
}

/// Return the error of a key that no option has.
fn unknown(key: &str) -> String {
    let keys: Vec<String> = Setting::all().map(|option| option.key.to_owned()).collect();
    let guess = guess(key, &keys).map_or_else(String::new, |guess| format!("write {guess}; "));
    format!("there is no option {key}; {guess}`scx_bias config` prints all")
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

/// Return a configuration file with these options, and with all other options as comments.
pub fn template(settings: &RunSettings) -> String {
    let mut text = String::new();
    wrap(
        &mut text,
        &format!(
            "Configuration of scx_bias, {USUAL} unless --config names another file. Flags go before it. After a change: `scx_bias reload`."
        ),
    );
    wrap(&mut text, "Options with a # in front have their defaults, which `profile` decides, or none.");
    let flags = RunSettings::augment_args(Command::new("keys"));
    let defaults = RunOptions::of(settings.profile());
    for argument in flags.get_arguments().filter(|argument| !argument.is_hide_set()) {
        let key = argument.get_id().as_str();
        text.push('\n');
        wrap(&mut text, &argument.get_help().map(ToString::to_string).unwrap_or_default());
        text += &match (settings.0.get(key), Setting::find(key)) {
            // JSON has the notation of TOML for all types that options have.
            (Some(value), _) => format!("{key} = {value}\n"),
            (None, Some(knob)) if is_knob(knob) => format!("# {key} = {}\n", knob.of(&defaults)),
            (None, option) => format!("# {key} = {}\n", option.map_or("", |option| option.example)),
        };
    }
    text
}

/// Return true if the option always has a value, which the profile decides.
fn is_knob(option: &Setting) -> bool {
    Setting::KNOBS.iter().any(|knob| knob.key == option.key)
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
