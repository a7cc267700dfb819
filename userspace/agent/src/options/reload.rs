// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Reload of the configuration while the scheduler runs.
//!
//! # Approach
//!
//! Read and check the configuration as at a start. If that fails, nothing changes. Apply each
//! changed option that can change in a run ([`LIVE`]). Report the others, which decide what is
//! loaded into the kernel.
//!
//! # Invariants
//!
//! After a reload the options equal the configuration, except for those reported as needing a
//! restart. A second reload changes nothing.

use serde::{Deserialize, Serialize};
use toml::Value;

use super::run_options::{LIVE, RunOptions};
use crate::failure::Failure;

/// Source of the options, which can be read again.
pub struct Config<'a> {
    /// Return the options that a start would find now, or fail as a start does.
    pub reread: &'a dyn Fn() -> Result<RunOptions, Failure>,
    /// Apply options that take effect outside the scheduler, such as the log level.
    pub applied: &'a dyn Fn(&RunOptions),
}

/// Option that has another value than before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Key of the option in the configuration file.
    pub key: String,
    /// Value before the reload.
    pub from: String,
    /// Value in the configuration now.
    pub to: String,
}

/// Result of a reload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadReport {
    /// Options that were changed.
    pub changed: Vec<Change>,
    /// Options that keep their values until scx_bias is restarted.
    pub needs_restart: Vec<Change>,
}

impl ReloadReport {
    /// Return one line for each change, or one that reports no change.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let changed = self.changed.iter().map(|Change { key, from, to }| format!("{key}: {from} -> {to}"));
        let restart = self.needs_restart.iter().map(|Change { key, from, to }| {
            format!("{key}: stays {from}; for {to} restart scx_bias (`systemctl restart scx_bias`)")
        });
        let lines: Vec<_> = changed.chain(restart).collect();
        if lines.is_empty() { vec!["nothing has changed".to_owned()] } else { lines }
    }
}

/// Return the keys of the options that a reload changes, or of those that need a restart.
/// Whether a reload changes cgroups ([`can_change_cgroups`]) depends on the values.
pub fn keys(at_once: bool) -> impl Iterator<Item = String> {
    RunOptions::keys().filter(move |key| LIVE.contains(&key.as_str()) == at_once)
}

fn show(value: Option<&Value>) -> String {
    match value {
        None => "default".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(list)) if list.is_empty() => "none".to_owned(),
        Some(Value::Array(list)) => list.iter().map(|item| show(Some(item))).collect::<Vec<_>>().join(" "),
        Some(value) => value.to_string(),
    }
}

/// Return the differences between the options of a run and those of the configuration.
#[must_use]
pub fn differences(old: &RunOptions, new: &RunOptions) -> ReloadReport {
    let mut report = ReloadReport::default();
    let cgroups = can_change_cgroups(old, new);
    let (old, new) = (old.values(), new.values());
    for key in RunOptions::keys().filter(|key| old.get(key) != new.get(key)) {
        let list = if can_change(&key, cgroups) { &mut report.changed } else { &mut report.needs_restart };
        list.push(Change { from: show(old.get(&key)), to: show(new.get(&key)), key });
    }
    report
}

/// Return true if the option can change without loading another scheduler. `cgroups` is true if
/// they can.
fn can_change(key: &str, cgroups: bool) -> bool {
    LIVE.contains(&key) && (key != "cgroups" || cgroups)
}

/// Return true if the cgroups can be changed without loading another scheduler.
pub(crate) fn can_change_cgroups(old: &RunOptions, new: &RunOptions) -> bool {
    let decided = |options: &RunOptions| (options.schedules_everything(), options.limits_bias());
    decided(old) == decided(new)
}

/// Apply all options that can change during a run.
pub fn take_over(old: &mut RunOptions, new: &RunOptions) {
    let cgroups = can_change_cgroups(old, new);
    let mut values = old.values();
    values.retain(|key, _| !can_change(key, cgroups));
    values.extend(new.values().into_iter().filter(|(key, _)| can_change(key, cgroups)));
    // A value that an option has is always valid.
    if let Ok(taken) = values.try_into::<RunOptions>() {
        *old = RunOptions { verbose: old.verbose, model: old.model.take(), ..taken };
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::options::values::LogLevel;
    use proptest::prelude::*;

    fn options() -> RunOptions {
        RunOptions::default()
    }

    fn any_options() -> impl Strategy<Value = RunOptions> {
        let count = options().knobs().len();
        let flags = proptest::collection::vec(any::<bool>(), 5);
        (proptest::collection::vec(0i64..3, count), flags, 0usize..3).prop_map(|(added, flags, cgroups)| {
            let knobs = options().knobs().into_iter().zip(added);
            let knobs = knobs.map(|((key, value), added)| (key, Value::Integer(value as i64 + added)));
            let mut options: RunOptions = knobs.collect::<toml::Table>().try_into().unwrap();
            options.thresholds_permille = flags[0].then_some((1200, 1800));
            options.stats = flags[1].then(|| "2".parse().unwrap());
            options.no_bias = flags[2];
            options.capacity_file = flags[3].then(|| "/table".into());
            options.log_level = if flags[4] { LogLevel::Warn } else { LogLevel::Info };
            options.cgroups = ["/a", "/b"][..cgroups].iter().map(Into::into).collect();
            options
        })
    }

    proptest! {
        #[test]
        fn differences_left_after_a_reload_need_a_restart(old in any_options(), new in any_options()) {
            let mut run = old.clone();
            let before = differences(&run, &new);
            take_over(&mut run, &new);
            let after = differences(&run, &new);
            prop_assert_eq!(&after.needs_restart, &before.needs_restart);
            prop_assert_eq!(after.changed, vec![]);
            // Options that need a restart were left alone.
            prop_assert_eq!(differences(&old, &run).needs_restart, vec![]);
            let lines = before.lines().len();
            prop_assert_eq!(lines, (before.changed.len() + before.needs_restart.len()).max(1));
        }
    }

    #[test]
    fn changes_are_reported_by_configuration_key() {
        let (old, mut new) = (options(), options());
        assert_eq!(differences(&old, &new).lines(), ["nothing has changed"]);
        new.slice_us = "5000".parse().unwrap();
        new.no_bias = true;
        new.stats = Some("1.5".parse().unwrap());
        let lines = differences(&old, &new).lines();
        assert_eq!(lines[..2], ["stats: default -> 1.5", "slice_us: 10000 -> 5000"]);
        assert!(lines[2].starts_with("no_bias: stays false; for true restart scx_bias"));
    }

    #[test]
    fn cgroups_can_change_unless_the_scope_changes() {
        let with =
            |paths: &[&str]| RunOptions { cgroups: paths.iter().map(Into::into).collect(), ..options() };
        assert_eq!(differences(&with(&["/a"]), &with(&["/a", "/b"])).changed.len(), 1);
        let biased = RunOptions { limit_bias: true, ..with(&["/a"]) };
        for (old, new) in [(with(&[]), with(&["/a"])), (with(&["/a"]), with(&[])), (with(&["/a"]), biased)] {
            let report = differences(&old, &new);
            assert_eq!((report.changed.len(), report.needs_restart.len()), (0, 1));
        }
    }
}
