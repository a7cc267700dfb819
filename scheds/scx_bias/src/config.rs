// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Options in effect: those of the command line and of the configuration file, and a template of
//! such a file.
//!
//! # Approach
//! The file's values replace the defaults of the profile, and the flags replace both. Then the
//! options are checked together, because a contradiction may involve all three.
//!
//! # Invariants
//! Every error about the content is one line with the file, the line of the key in it, the cause
//! and the remedy. Where values contradict each other, it has the lines of all that the file
//! decides. Root reads only files that no other user can have written. Reading a template gives the
//! options of its origin.

use crate::cli::{Given, Source};
use crate::output::{complain, renamed, wrap};
use bias_agent::failure::Failure;
use bias_agent::options::RunOptions;
use bias_agent::pmu;
use bias_agent::safefile;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::{Spanned, Table, Value};

/// Default file, read if it exists and the command line names no other one.
pub const USUAL: &str = "/etc/scx_bias.toml";
/// Width of the template [columns].
const WIDTH: usize = 100;
/// Least likeness of a wrong key to the one that an error proposes.
const LIKE: f64 = 0.85;

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

/// Options in effect.
#[derive(Debug)]
pub struct Resolved {
    /// Options, with the profile's defaults for those that are not given.
    pub options: RunOptions,
    given: Given,
    file: File,
}

/// Return the checked options: those in `given`, else those of the configuration file.
///
/// # Errors
/// Usage failure for a bad file, an event that does not exist, and contradictions.
pub fn resolve(given: &Given, source: &Source) -> Result<Resolved, Failure> {
    let file = source.file().map(|path| File::read(&path)).transpose()?.unwrap_or_default();
    let profile = given.over(file.options(RunOptions::default())?)?.profile;
    let mut options = file.options(RunOptions::of(profile))?;
    // The events of both apply, and the last one of a role counts.
    let events = std::mem::take(&mut options.events);
    pmu::events::check(&events).map_err(|failure| file.locate(&["events"], failure))?;
    let mut options = given.over(options)?;
    pmu::events::check(&options.events)?;
    options.events.splice(0..0, events);
    let resolved = Resolved { options, given: given.clone(), file };
    let wrong = resolved.options.check();
    wrong.map_err(|wrong| resolved.locate(&wrong.keys, Failure::usage(wrong.why)))?;
    Ok(resolved)
}

impl Resolved {
    /// Return true if the command line or the file gives the option.
    pub fn gives(&self, key: &str) -> bool {
        self.given.has(key) || self.file.values.contains_key(key)
    }

    /// Return the failure with the lines of the keys that the file decides.
    pub fn locate(&self, keys: &[&str], failure: Failure) -> Failure {
        let keys: Vec<&str> = keys.iter().copied().filter(|key| !self.given.has(key)).collect();
        self.file.locate(&keys, failure)
    }

    /// Return a configuration file with these options, and with all other options as comments.
    pub fn template(&self) -> String {
        let mut text = comment(&format!(
            "Configuration of scx_bias, {USUAL} unless --config names another file. Flags take precedence. After a change: `scx_bias reload`."
        ));
        text += &comment("Options with a # in front have their defaults, which `profile` decides, or none.");
        let (values, examples) = (self.options.values(), RunOptions::examples(self.options.profile));
        for flag in RunOptions::flags() {
            let key = flag.get_id().as_str();
            let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
            let (mark, values) = if self.gives(key) { ("", &values) } else { ("# ", &examples) };
            // Every option has an example.
            let value = values.get(key).map(ToString::to_string).unwrap_or_default();
            text += &format!("\n{}{mark}{key} = {value}\n", comment(&help));
        }
        text
    }
}

/// Return lines of a comment.
fn comment(text: &str) -> String {
    wrap(text, WIDTH - 2, 0).iter().map(|line| format!("# {line}\n")).collect()
}

/// Configuration file, whose values are valid each on its own.
#[derive(Debug, Default)]
struct File {
    path: PathBuf,
    values: Table,
    lines: BTreeMap<String, usize>,
}

impl File {
    /// Read a file.
    ///
    /// # Errors
    /// Usage failure for a file that cannot be read or trusted, or has an invalid key or value.
    fn read(path: &Path) -> Result<Self, Failure> {
        let text = safefile::read_own_text(path, "configuration file")?;
        Self::parse(path, &text).map_err(|(line, why)| {
            Failure::usage(format!("configuration file {}, line {line}: {why}", path.display()))
        })
    }

    /// Read the text of the file at `path`. An error is the line, and the cause with the remedy.
    fn parse(path: &Path, text: &str) -> Result<Self, (usize, String)> {
        let line = |offset| text.get(..offset).unwrap_or("").matches('\n').count() + 1;
        let keys: BTreeMap<Spanned<String>, Value> = toml::from_str(text).map_err(|error| {
            let cause = error.message().lines().next().unwrap_or_default();
            let line = error.span().map_or(1, |span| line(span.start));
            (line, format!("{cause}; `scx_bias config` prints such a file"))
        })?;
        let mut file = Self { path: path.to_owned(), ..Self::default() };
        for (name, value) in keys {
            let line = line(name.span().start);
            let name = name.into_inner();
            let key = RunOptions::key(&name).ok_or_else(|| (line, unknown(&name)))?;
            let alone = Table::from_iter([(key.clone(), value.clone())]);
            alone
                .try_into::<RunOptions>()
                .map_err(|error| (line, format!("{key} is {value}: {}", error.message())))?;
            if file.values.insert(key.clone(), value).is_some() {
                let why = format!("{key} is given twice, also by an earlier name; remove one");
                return Err((line, why));
            }
            if key != name {
                complain(&format!("configuration file: {}", renamed(&name, &key)));
            }
            file.lines.insert(key, line);
        }
        Ok(file)
    }

    /// Return the options of the file, with `beneath` for those that it does not give. Relative
    /// paths in it are relative to its directory.
    fn options(&self, beneath: RunOptions) -> Result<RunOptions, Failure> {
        let mut values = beneath.values();
        values.extend(self.values.clone());
        // Each value was valid alone.
        let options = values.try_into::<RunOptions>();
        let mut options = options.map_err(|error| Failure::usage(error.message()))?;
        if let Some(directory) = self.path.parent() {
            for path in options.cgroups.iter_mut().chain(&mut options.capacity_file) {
                *path = directory.join(&*path).to_string_lossy().into_owned().into();
            }
        }
        Ok(options)
    }

    /// Return the failure with the file and the lines of the keys. It stays as it is if no key
    /// stands in the file, because then the command line is wrong.
    fn locate(&self, keys: &[&str], failure: Failure) -> Failure {
        let mut lines: Vec<usize> = keys.iter().filter_map(|key| self.lines.get(*key).copied()).collect();
        lines.sort_unstable();
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        let at = match &lines[..] {
            [] => return failure,
            [line] => format!("line {line}"),
            lines => format!("lines {}", lines.join(" and ")),
        };
        let Failure { exit, message } = failure;
        Failure::new(exit, format!("configuration file {}, {at}: {message}", self.path.display()))
    }
}

/// Return the error of a key that no option has.
fn unknown(name: &str) -> String {
    let plain = name.replace('-', "_").to_lowercase();
    let alike = RunOptions::keys().map(|key| (strsim::jaro_winkler(&plain, &key), key));
    let guess = alike.filter(|(likeness, _)| *likeness > LIKE).max_by(|one, other| one.0.total_cmp(&other.0));
    let guess = guess.map_or_else(String::new, |(_, key)| format!("write {key}; "));
    format!("there is no option {name}; {guess}`scx_bias config` prints all")
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
