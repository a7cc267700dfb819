//! Reload of the configuration while the scheduler runs.
//!
//! # Approach
//!
//! Read and check the configuration as at a start. If that fails, nothing changes. Take over each
//! changed option that can change in a run ([`Knob::ALL`], and settings below with a `take`
//! function). Report the others, which decide what is loaded into the kernel.
//!
//! # Invariants
//!
//! After a reload the options equal the configuration, except for those reported as needing a
//! restart. A second reload changes nothing.

use serde::{Deserialize, Serialize};

use super::knobs::Knob;
use super::run_options::RunOptions;
use crate::failure::Failure;

/// Source of the options, which can be read again.
pub trait Config {
    /// Return the options that a start would find now.
    ///
    /// # Errors
    /// Fail as a start does.
    fn reread(&self) -> Result<RunOptions, Failure>;

    /// Apply options that take effect outside the scheduler, such as the log level.
    fn applied(&self, options: &RunOptions);
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

/// Option that is not a knob.
struct Setting {
    key: &'static str,
    show: fn(&RunOptions) -> String,
    /// Function that takes the option over, None if that needs a restart.
    take: Option<fn(&mut RunOptions, &RunOptions)>,
}

const SETTINGS: [Setting; 11] = [
    Setting {
        key: "thresholds_permille",
        show: |options| {
            options
                .thresholds_permille
                .map_or_else(|| "adaptive".into(), |(low, high)| format!("{low},{high}"))
        },
        take: Some(|old, new| old.thresholds_permille = new.thresholds_permille),
    },
    Setting {
        key: "stats",
        show: |options| {
            options.stats_interval.map_or_else(|| "none".into(), |time| format!("{}", time.as_secs_f64()))
        },
        take: Some(|old, new| old.stats_interval = new.stats_interval),
    },
    Setting {
        key: "log_level",
        show: |options| options.log_level.as_str().to_lowercase(),
        take: Some(|old, new| old.log_level = new.log_level),
    },
    Setting { key: "whole_system", show: |options| options.whole_system.to_string(), take: None },
    Setting { key: "no_bias", show: |options| (!options.bias).to_string(), take: None },
    Setting { key: "no_recalibrate", show: |options| (!options.recalibrate).to_string(), take: None },
    Setting { key: "no_swap", show: |options| (!options.swaps.enabled).to_string(), take: None },
    Setting {
        key: "swap_interval_ms",
        show: |options| options.swaps.interval.as_millis().to_string(),
        take: None,
    },
    Setting { key: "no_pull", show: |options| (!options.moving).to_string(), take: None },
    Setting {
        key: "events",
        show: |options| list(options.events.iter().map(ToString::to_string)),
        take: None,
    },
    Setting {
        key: "capacity_file",
        show: |options| list(options.capacity_file.iter().map(|path| path.display().to_string())),
        take: None,
    },
];

/// Key of the cgroups. They can change during a run unless that changes the scope.
const CGROUPS: &str = "cgroups";

/// Return the keys of the options that a reload changes at once. Those of cgroups
/// ([`can_change_cgroups`]) depend on the values.
pub fn keys_at_once() -> impl Iterator<Item = &'static str> {
    let settings = SETTINGS.iter().filter(|setting| setting.take.is_some()).map(|setting| setting.key);
    Knob::ALL.iter().map(|knob| knob.key).chain(settings).chain([CGROUPS])
}

/// Return the keys of the options that need a restart.
pub fn keys_of_restart() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().filter(|setting| setting.take.is_none()).map(|setting| setting.key)
}

fn list(items: impl Iterator<Item = String>) -> String {
    let text = items.collect::<Vec<_>>().join(" ");
    if text.is_empty() { "none".to_owned() } else { text }
}

/// Return the differences between the options of a run and those of the configuration.
#[must_use]
pub fn differences(old: &RunOptions, new: &RunOptions) -> ReloadReport {
    let mut report = ReloadReport::default();
    let mut compare = |key: &str, from: String, to: String, live: bool| {
        if from != to {
            let to_list = if live { &mut report.changed } else { &mut report.needs_restart };
            to_list.push(Change { key: key.to_owned(), from, to });
        }
    };
    for knob in Knob::ALL {
        compare(knob.key, knob.of(&old.knobs).to_string(), knob.of(&new.knobs).to_string(), true);
    }
    for setting in &SETTINGS {
        compare(setting.key, (setting.show)(old), (setting.show)(new), setting.take.is_some());
    }
    let cgroups = |options: &RunOptions| list(options.cgroups.iter().map(|path| path.display().to_string()));
    compare(CGROUPS, cgroups(old), cgroups(new), can_change_cgroups(old, new));
    report
}

/// Return true if the cgroups can be changed without loading another scheduler.
pub(crate) fn can_change_cgroups(old: &RunOptions, new: &RunOptions) -> bool {
    let decided = |options: &RunOptions| (options.schedules_everything(), options.limits_bias());
    decided(old) == decided(new)
}

/// Take over all options that can change during a run.
pub fn take_over(old: &mut RunOptions, new: &RunOptions) {
    old.knobs = new.knobs.clone();
    for take in SETTINGS.iter().filter_map(|setting| setting.take) {
        take(old, new);
    }
    if can_change_cgroups(old, new) {
        old.cgroups.clone_from(&new.cgroups);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    fn options() -> RunOptions {
        RunOptions::default()
    }

    fn any_options() -> impl Strategy<Value = RunOptions> {
        let knobs = proptest::collection::vec(0u64..3, Knob::ALL.len());
        let flags = proptest::collection::vec(any::<bool>(), 5);
        (knobs, flags, 0usize..3).prop_map(|(values, flags, cgroups)| {
            let mut options = options();
            for (knob, value) in Knob::ALL.iter().zip(values) {
                knob.set(&mut options.knobs, knob.min + value).unwrap();
            }
            options.thresholds_permille = flags[0].then_some((1200, 1800));
            options.stats_interval = flags[1].then_some(Duration::from_secs(2));
            options.bias = flags[2];
            options.capacity_file = flags[3].then(|| "/table".into());
            options.log_level = if flags[4] { tracing::Level::WARN } else { tracing::Level::INFO };
            options.cgroups = ["/a", "/b"][..cgroups].iter().map(Into::into).collect();
            options
        })
    }

    proptest! {
        #[test]
        fn what_is_left_after_a_reload_needs_a_restart(old in any_options(), new in any_options()) {
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
    fn what_changes_is_told_in_the_words_of_the_configuration() {
        let (old, mut new) = (options(), options());
        assert_eq!(differences(&old, &new).lines(), ["nothing has changed"]);
        new.knobs.slice_us = 5000;
        new.bias = false;
        new.stats_interval = Some(Duration::from_millis(1500));
        let lines = differences(&old, &new).lines();
        assert_eq!(lines[..2], ["slice_us: 10000 -> 5000", "stats: none -> 1.5"]);
        assert!(lines[2].starts_with("no_bias: stays false; for true restart scx_bias"));
    }

    #[test]
    fn cgroups_change_unless_that_changes_what_is_scheduled_at_all() {
        let with =
            |paths: &[&str]| RunOptions { cgroups: paths.iter().map(Into::into).collect(), ..options() };
        assert_eq!(differences(&with(&["/a"]), &with(&["/a", "/b"])).changed.len(), 1);
        let biased = RunOptions { whole_system: true, ..with(&["/a"]) };
        for (old, new) in [(with(&[]), with(&["/a"])), (with(&["/a"]), with(&[])), (with(&["/a"]), biased)] {
            let report = differences(&old, &new);
            assert_eq!((report.changed.len(), report.needs_restart.len()), (0, 1));
        }
    }
}
