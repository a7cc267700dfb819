// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Settings: the options of a run, each defined once.
//!
//! # Problem
//!
//! A setting has a name, a meaning, valid values and a default. The flags, `--help`, the man page,
//! completions, the configuration file, its template and the reload all need them.
//!
//! # Approach
//!
//! [`Setting::PLAIN`] lists the settings, and [`Setting::KNOBS`] is made from the list of knobs.
//! Values have the types of JSON, which flags and TOML can express. An entry converts its value to
//! the field of [`RunOptions`] and back.
//!
//! # Invariants
//!
//! Setting the value that `get` returned changes nothing. `null` stands for the default.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tracing::Level;

use super::knobs::with_knobs;
use super::profile::Profile;
use super::run_options::RunOptions;
use super::value::{between, one_of, optional, switch, text, texts, thresholds, whole};
use crate::housekeeping::HousekeepingCpu;
use crate::pmu::Override;

pub use super::value::interval;

/// Form of a setting's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `true` or `false`. The flag alone means `true`.
    Switch,
    /// A number.
    Number,
    /// A whole number.
    Whole,
    /// A text.
    Text,
    /// A list of texts. The flag is repeated.
    List,
}

/// Definition of a setting.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Key in the configuration file.
    pub key: &'static str,
    /// Earlier keys, which this release still accepts.
    pub formerly: &'static [&'static str],
    /// Key of the long flag, which has dashes for underscores: the singular of a list of paths.
    pub flag: &'static str,
    /// Form of the value.
    pub form: Form,
    /// What the value is, shown in `--help`.
    pub value_name: &'static str,
    /// Meaning of the setting, and its trade-off.
    pub help: &'static str,
    /// A value in the notation of TOML, the default if there is one.
    pub example: &'static str,
    /// All valid texts. Empty if there are too many.
    pub words: &'static [&'static str],
    /// True if the setting can change while the scheduler runs. Cgroups can unless that changes
    /// the scope.
    pub live: bool,
    /// True if the values of file and command line both apply, that of the command line last.
    pub adds: bool,
    get: fn(&RunOptions) -> Value,
    set: fn(&mut RunOptions, &Value) -> Result<(), String>,
}

/// Valid intervals of the agent's snapshots [ms].
const SWAP_MS: std::ops::RangeInclusive<u64> = 20..=10_000;
/// Valid lengths of the kernel's dump [bytes].
const DUMP_BYTES: std::ops::RangeInclusive<u64> = 1024..=16_777_216;

impl Setting {
    /// Return all settings.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        Self::PLAIN.iter().chain(Self::KNOBS)
    }

    /// Return the setting that `key` names, now or in an earlier release.
    #[must_use]
    pub fn find(key: &str) -> Option<&'static Self> {
        Self::all().find(|setting| setting.key == key || setting.formerly.contains(&key))
    }

    /// Return true if the value is a path or a list of paths.
    #[must_use]
    pub fn is_path(&self) -> bool {
        matches!(self.value_name, "FILE" | "PATH")
    }

    /// Return the setting's value in `options`, `null` if there is none.
    #[must_use]
    pub fn of(&self, options: &RunOptions) -> Value {
        (self.get)(options)
    }

    /// Set the setting's value in `options`; `null` sets the default.
    ///
    /// # Errors
    /// Fail with the key, the cause and the remedy if the value is not valid.
    pub fn set(&self, options: &mut RunOptions, value: &Value) -> Result<(), String> {
        let default = || self.of(&RunOptions::default());
        let value = if value.is_null() { &default() } else { value };
        (self.set)(options, value).map_err(|why| format!("{} is {value}: {why}", self.key))
    }

    /// Settings other than knobs.
    pub const PLAIN: &[Self] = &[
        Self {
            form: Form::Text,
            value_name: "PROFILE",
            help: "Use the defaults for a kind of use [default: auto]. gaming and lowlatency: shorter slices. \
                   server: longer slices. powersave: less work of the scheduler itself. Options that are given \
                   take precedence over the profile",
            example: "\"auto\"",
            words: Profile::WORDS,
            live: true,
            ..setting(
                "profile",
                |options| json!(options.profile.word()),
                |options, value| {
                    let profile = text(value).ok().and_then(|word| Profile::named(&word));
                    options.profile = profile.ok_or_else(|| one_of(Profile::WORDS))?;
                    Ok(())
                },
            )
        },
        Self {
            flag: "cgroup",
            form: Form::List,
            value_name: "PATH",
            help: "Schedule only the threads of this cgroup and of those below it [repeatable; in a file, a \
                   list]. The value is a directory of cgroup v2, such as /sys/fs/cgroup/work.slice. All other \
                   threads stay on the default scheduler, which goes first [default: the whole system]",
            example: "[\"/sys/fs/cgroup/work.slice\"]",
            live: true,
            ..setting(
                "cgroups",
                |options| json!(options.cgroups),
                |options, value| {
                    options.cgroups = texts(value)?.into_iter().map(PathBuf::from).collect();
                    Ok(())
                },
            )
        },
        Self {
            help: "Schedule only tasks that ask for the policy SCHED_EXT, such as those of `chrt --ext 0 PROGRAM`, \
                   and threads of opted-in cgroups. All other tasks stay on the default scheduler, which goes \
                   first",
            ..setting(
                "partial",
                |options| json!(options.partial),
                |options, value| switch(value).map(|on| options.partial = on),
            )
        },
        Self {
            formerly: &["whole_system"],
            help: "With --cgroup: schedule everything, and limit only bias to these cgroups: their tasks are \
                   placed by their stalls. They then do not wait behind the default scheduler, and no thread's \
                   policy changes. All tasks share the CPUs by scx_bias's rules",
            ..setting(
                "limit_bias",
                |options| json!(options.limit_bias),
                |options, value| switch(value).map(|on| options.limit_bias = on),
            )
        },
        Self {
            form: Form::Text,
            value_name: "slow|fast|CPU",
            help: "With --cgroup: run all threads outside these cgroups on one CPU, and none of the threads \
                   inside. The value is the slowest CPU, the fastest one, or a number. This covers kernel \
                   threads that the kernel does not pin. Affinities are set, and restored at the end",
            example: "\"slow\"",
            ..setting(
                "housekeeping",
                |options| json!(options.housekeeping.map(|cpu| cpu.to_string())),
                |options, value| {
                    optional(value, HousekeepingCpu::read).map(|given| options.housekeeping = given)
                },
            )
        },
        Self {
            form: Form::Text,
            value_name: "FILE",
            help: "Use the capacity table in this file instead of measuring. The table must list every online CPU",
            example: "\"/var/lib/scx_bias/capacity.json\"",
            ..setting(
                "capacity_file",
                |options| json!(options.capacity_file),
                |options, value| {
                    options.capacity_file = optional(value, text)?.map(PathBuf::from);
                    Ok(())
                },
            )
        },
        Self {
            help: "Do not count the stalls of tasks. The scheduler then assumes that every task gains the full \
                   difference between CPUs, as on a machine without performance counters. This saves a tenth of \
                   a switch and leaves the counters to other programs",
            ..setting(
                "no_bias",
                |options| json!(!options.bias),
                |options, value| switch(value).map(|on| options.bias = !on),
            )
        },
        Self {
            help: "Keep the capacity table of the start. This saves a check each half second, but a throttled \
                   CPU still counts as fast as at the start",
            ..setting(
                "no_recalibrate",
                |options| json!(!options.recalibrate),
                |options, value| switch(value).map(|on| options.recalibrate = !on),
            )
        },
        Self {
            help: "Plan no swaps. Only the CPUs' own searches then migrate running tasks. This saves the \
                   agent's snapshots, but keeps bad placements that these searches cannot reach",
            ..setting(
                "no_swap",
                |options| json!(!options.swaps.enabled),
                |options, value| switch(value).map(|on| options.swaps.enabled = !on),
            )
        },
        Self {
            form: Form::Number,
            value_name: "MILLISECONDS",
            help: "Time between the agent's snapshots while a swap may pay [20 to 10000; default 50]. Longer \
                   costs less; shorter corrects a bad placement sooner",
            example: "50",
            ..setting(
                "swap_interval_ms",
                |options| json!(options.swaps.interval.as_millis() as u64),
                |options, value| {
                    let ms =
                        value.as_u64().filter(|ms| SWAP_MS.contains(ms)).ok_or_else(|| between(&SWAP_MS))?;
                    options.swaps.interval = Duration::from_millis(ms);
                    Ok(())
                },
            )
        },
        Self {
            formerly: &["no_pull"],
            help: "Let no CPU migrate running tasks by itself: no idle pull, no gain swaps, no rotation. This \
                   is an ablation that shows the effect of the agent's swaps alone",
            ..setting(
                "no_moves",
                |options| json!(!options.moving),
                |options, value| switch(value).map(|on| options.moving = !on),
            )
        },
        Self {
            form: Form::List,
            value_name: "ROLE=PMU/TERMS/",
            help: "Count this event instead of the chosen one [repeatable; in a file, a list]. ROLE is cycles, \
                   instructions, external or internal. PMU is the PMU's name, TERMS is the event in perf's \
                   notation. An event counts cycles unless @slots=WIDTH (issue slots) or @misses (misses) \
                   follows. The option applies to the CPUs of the PMU",
            example: "[\"external=cpu/event=0xa3,umask=0x5,cmask=5/\"]",
            adds: true,
            ..setting("events", events, |options, value| {
                let parse = |text: String| text.parse::<Override>().map_err(|failure| failure.message);
                options.events = texts(value)?.into_iter().map(parse).collect::<Result<_, _>>()?;
                Ok(())
            })
        },
        Self {
            form: Form::Text,
            value_name: "LOW,HIGH",
            help: "Fix the bounds of the bias, as two predicted speedups, slow over fast, e.g. 1200,1800. Up to \
                   LOW a task belongs on slow CPUs, from HIGH on fast ones [default: 5 % around the average of \
                   running tasks]. With fixed bounds a task's bias does not depend on the other tasks",
            example: "[1200, 1800]",
            live: true,
            ..setting(
                "thresholds_permille",
                |options| json!(options.thresholds_permille),
                |options, value| optional(value, thresholds).map(|given| options.thresholds_permille = given),
            )
        },
        Self {
            form: Form::Number,
            value_name: "SECONDS",
            help: "Print statistics at this interval while scheduling [0.1 to 86400]",
            example: "10.0",
            live: true,
            ..setting(
                "stats",
                |options| json!(options.stats_interval.map(|time| time.as_secs_f64())),
                |options, value| optional(value, interval).map(|given| options.stats_interval = given),
            )
        },
        Self {
            form: Form::Text,
            value_name: "FORMAT",
            help: "Print the statistics of --stats and --monitor in this format [default: text]. json is one \
                   object per line, with all counters of the interval",
            example: "\"text\"",
            words: FORMATS,
            live: true,
            ..setting(
                "stats_format",
                |options| json!(if options.stats_as_json { "json" } else { "text" }),
                |options, value| {
                    let word = text(value).ok().filter(|word| FORMATS.contains(&word.as_str()));
                    options.stats_as_json = word.ok_or_else(|| one_of(FORMATS))? == "json";
                    Ok(())
                },
            )
        },
        Self {
            form: Form::Whole,
            value_name: "BYTES",
            help: "Length of the dump of tasks and queues that the kernel makes when it ends the scheduler with \
                   an error [1024 to 16777216; default 32768]. Longer keeps the dump of a large machine whole",
            example: "32768",
            ..setting(
                "exit_dump_len",
                |options| json!(options.exit_dump_len),
                |options, value| {
                    // The range fits.
                    whole(value, "BYTES", DUMP_BYTES).map(|bytes| options.exit_dump_len = bytes as u32)
                },
            )
        },
        Self {
            form: Form::Text,
            value_name: "LEVEL",
            help: "Log messages of this level on standard error [default: that in RUST_LOG, else info]. Each \
                   level includes those before it: errors that end scx_bias, conditions that need attention, \
                   actions, the reasons of actions, every step. -v is debug, -vv is trace",
            example: "\"info\"",
            words: LEVELS,
            live: true,
            ..setting(
                "log_level",
                |options| json!(options.log_level.as_str().to_lowercase()),
                |options, value| {
                    let word = text(value).ok().filter(|word| LEVELS.contains(&word.as_str()));
                    let level = word.and_then(|word| word.parse::<Level>().ok());
                    options.log_level = level.ok_or_else(|| one_of(LEVELS))?;
                    Ok(())
                },
            )
        },
    ];
}

macro_rules! settings {
    ($(
        $(#[doc = $help:literal])+
        $name:ident: $unit:literal, $min:literal to $max:literal, $default:literal $(, formerly $old:literal)?;
    )+) => {
        impl Setting {
            /// The knobs.
            pub const KNOBS: &[Self] = &[$(Self {
                formerly: &[$($old)?],
                form: Form::Whole,
                value_name: $unit,
                help: concat!($($help,)+ " [", $min, " to ", $max, "; default ", $default, "]"),
                example: concat!($default),
                live: true,
                ..setting(
                    stringify!($name),
                    |options| json!(options.knobs.$name),
                    |options, value| whole(value, $unit, $min..=$max).map(|given| options.knobs.$name = given),
                )
            },)+];
        }
    };
}
with_knobs!(settings);

const LEVELS: &[&str] = &["error", "warn", "info", "debug", "trace"];
const FORMATS: &[&str] = &["text", "json"];

/// Return a switch that is off by default and needs a restart.
const fn setting(
    key: &'static str,
    get: fn(&RunOptions) -> Value,
    set: fn(&mut RunOptions, &Value) -> Result<(), String>,
) -> Setting {
    Setting {
        key,
        formerly: &[],
        flag: key,
        form: Form::Switch,
        value_name: "BOOL",
        help: "",
        example: "false",
        words: &[],
        live: false,
        adds: false,
        get,
        set,
    }
}

fn events(options: &RunOptions) -> Value {
    options.events.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
#[path = "setting_tests.rs"]
mod tests;
