// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Options of a run, each defined once.
//!
//! # Problem
//!
//! An option has a name, a meaning, valid values and a default. The flags, `--help`, the man page,
//! completions, the configuration file, its template and the reload all need them.
//!
//! # Approach
//!
//! Each option is a field of [`RunOptions`]. clap makes its flag of it and serde its key in the
//! file, which is the name of the field. The comment is the help. The type ([`values`]) has the
//! valid values and the default. All other code walks [`RunOptions::flags`] and
//! [`RunOptions::values`].
//!
//! # Invariants
//!
//! An option that needs a restart is not in [`LIVE`]. The kernel side reads the numbers in that
//! list at each use (`KNOB` in `bpf/state.bpf.h`). `write_knobs()` in `bpf/prepare.rs` writes them.
//! A test compares ranges and defaults in help texts with those of the types.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Arg, ArgAction, Args, Command};
use serde::{Deserialize, Serialize};
use toml::Table;

use crate::counter_model::CounterModel;
use crate::housekeeping::HousekeepingCpu;
use crate::pmu::{self, Override};
use crate::swaps::SwapOptions;

use super::values::{self, Bytes, Count, LogLevel, Micros, Millis, Permille, Profile, Seconds, StatsFormat};

/// Options of a run that the user can choose.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize)]
#[serde(default)]
pub struct RunOptions {
    /// Use the defaults for a kind of use [default: auto]. gaming and lowlatency: shorter slices.
    /// server: longer slices. powersave: less work of the scheduler itself. Options that are given
    /// take precedence over the profile
    #[arg(long, value_name = "PROFILE")]
    #[serde(deserialize_with = "values::word")]
    pub profile: Profile,

    /// Schedule only the threads of this cgroup and of those below it [repeatable; in a file, a
    /// list]. The value is a directory of cgroup v2, such as /sys/fs/cgroup/work.slice. All other
    /// threads stay on the default scheduler, which goes first [default: the whole system]
    #[arg(long = "cgroup", value_name = "PATH", value_parser = PathBuf::from_str)]
    #[serde(deserialize_with = "values::list")]
    pub cgroups: Vec<PathBuf>,

    /// Schedule only tasks that ask for the policy SCHED_EXT, such as those of `chrt --ext 0
    /// PROGRAM`, and threads of opted-in cgroups. All other tasks stay on the default scheduler,
    /// which goes first
    #[arg(long)]
    #[serde(deserialize_with = "values::switch")]
    pub partial: bool,

    /// With --cgroup: schedule everything, and limit only bias to these cgroups: their tasks are
    /// placed by their stalls. They then do not wait behind the default scheduler, and no thread's
    /// policy changes. All tasks share the CPUs by scx_bias's rules
    #[arg(long)]
    #[serde(deserialize_with = "values::switch")]
    pub limit_bias: bool,

    /// With --cgroup: run all threads outside these cgroups on one CPU, and none of the threads
    /// inside. The value is the slowest CPU, the fastest one, or a number. This covers kernel
    /// threads that the kernel does not pin. Affinities are set, and restored at the end
    #[arg(long, value_name = "slow|fast|CPU")]
    #[serde(deserialize_with = "values::some")]
    pub housekeeping: Option<HousekeepingCpu>,

    /// Use the capacity table in this file instead of measuring. The table must list every online
    /// CPU
    #[arg(long, value_name = "FILE", value_parser = PathBuf::from_str)]
    pub capacity_file: Option<PathBuf>,

    /// Do not count the stalls of tasks. The scheduler then assumes that every task gains the full
    /// difference between CPUs, as on a machine without performance counters. This saves a tenth of
    /// a switch and leaves the counters to other programs
    #[arg(long)]
    #[serde(deserialize_with = "values::switch")]
    pub no_bias: bool,

    /// Keep the capacity table of the start. This saves a check every half second, but a throttled
    /// CPU still counts as fast as at the start
    #[arg(long)]
    #[serde(deserialize_with = "values::switch")]
    pub no_recalibrate: bool,

    /// Plan no swaps. Only the CPUs' own searches then migrate running tasks. This saves the
    /// agent's snapshots, but keeps bad placements that these searches cannot reach
    #[arg(long)]
    #[serde(deserialize_with = "values::switch")]
    pub no_swap: bool,

    /// Time between the agent's snapshots while a swap may pay [20 to 10000; default 50]. Longer
    /// costs less; shorter corrects a bad placement sooner
    #[arg(long, value_name = "MILLISECONDS")]
    pub swap_interval_ms: Millis<20, 10_000, 50>,

    /// Let no CPU migrate running tasks by itself: no idle pull, no gain swaps, no rotation. This
    /// is an ablation that shows the effect of the agent's swaps alone
    #[arg(long)]
    #[serde(deserialize_with = "values::switch")]
    pub no_moves: bool,

    /// Count this event instead of the chosen one [repeatable; in a file, a list]. ROLE is cycles,
    /// instructions, external or internal. PMU is the PMU's name, TERMS is the event in perf's
    /// notation. An event counts cycles unless @slots=WIDTH (issue slots) or @misses (misses)
    /// follows. The option applies to the CPUs of the PMU
    #[arg(long, value_name = "ROLE=PMU/TERMS/")]
    #[serde(deserialize_with = "values::list")]
    pub events: Vec<Override>,

    /// Fix the bounds of the bias, as two predicted speedups, slow over fast, e.g. 1200,1800. Up to
    /// LOW a task belongs on slow CPUs, from HIGH on fast ones [default: 5 % around the average of
    /// running tasks]. With fixed bounds a task's bias does not depend on the other tasks
    #[arg(long, value_name = "LOW,HIGH", value_parser = values::pair)]
    #[serde(deserialize_with = "values::some_pair")]
    pub thresholds_permille: Option<(u32, u32)>,

    /// Print statistics at this interval while scheduling [0.1 to 86400]
    #[arg(long, value_name = "SECONDS")]
    #[serde(deserialize_with = "values::some")]
    pub stats: Option<Seconds>,

    /// Print the statistics of --stats and --monitor in this format [default: text]. json is one
    /// object per line, with all counters of the interval
    #[arg(long, value_name = "FORMAT")]
    #[serde(deserialize_with = "values::word")]
    pub stats_format: StatsFormat,

    /// Length of the dump of tasks and queues that the kernel makes when it ends the scheduler with
    /// an error [1024 to 16777216; default 32768]. Longer keeps the dump of a large machine whole
    #[arg(long, value_name = "BYTES")]
    pub exit_dump_len: Bytes<1024, 16_777_216, 32_768>,

    /// Log messages of this level on standard error [default: that in RUST_LOG, else info]. Each
    /// level includes those before it: errors that end scx_bias, conditions that need attention,
    /// actions, the reasons of actions, every step. -v is debug, -vv is trace
    #[arg(long, value_name = "LEVEL")]
    #[serde(deserialize_with = "values::word")]
    pub log_level: LogLevel,

    /// Longest time that a task runs before others may run. Longer slices mean fewer switches and
    /// better throughput. Shorter slices mean less waiting [100 to 100000; default 10000]
    #[arg(long, value_name = "MICROSECONDS")]
    pub slice_us: Micros<100, 100_000, 10_000>,

    /// Slice when many tasks wait, at most slice_us. Longer favours throughput under load. Shorter
    /// favours response under load [10 to 100000; default 1000]
    #[arg(long, value_name = "MICROSECONDS")]
    pub slice_min_us: Micros<10, 100_000, 1_000>,

    /// Difference in vtime at which a task on a fast CPU and one on a slow CPU migrate to each
    /// other's CPU. Larger means fewer migrations. Smaller means more equal progress [1000 to
    /// 10000000; default 40000]
    #[arg(long, value_name = "MICROSECONDS")]
    pub rotate_gap_us: Micros<1_000, 10_000_000, 40_000>,

    /// A CPU whose tasks sleep sooner than this keeps a wakee on its waker's CPU. A fast CPU without
    /// work pulls a task that has run for a fifth of this on a slow CPU. Larger keeps more tasks
    /// that communicate in one cache. Smaller spreads them, and 0 always spreads [0 to 1000000;
    /// default 500]
    #[arg(long, value_name = "MICROSECONDS")]
    pub sync_burst_us: Micros<0, 1_000_000, 500>,

    /// Instructions of a window, after which a task's stalls enter its profile. A window also lasts
    /// at least 16 ns per instruction, or 8 ms if that is less. Larger ignores short phases.
    /// Smaller follows them sooner [10000 to 1000000000; default 500000]
    #[arg(long, value_name = "N")]
    pub window_instructions: Count<10_000, 1_000_000_000, 500_000>,

    /// Count one run in N slices of a task's run time while its profile is stable. Larger makes
    /// switches cheaper. Smaller detects changes of tasks that never run into a tick sooner [1 to
    /// 1000; default 8]
    #[arg(long, value_name = "N")]
    pub sample_every: Count<1, 1_000, 8>,

    /// Difference in predicted speedup that is worth a migration. Larger means fewer migrations.
    /// Smaller acts on smaller gains [10 to 10000; default 100]
    #[arg(long, value_name = "PERMILLE")]
    pub gain_permille: Permille<10, 10_000, 100>,

    /// Lag at which a task of the other class goes before the tasks of a CPU's own class. Larger
    /// favours throughput. Smaller favours equal progress [1000 to 10000000; default 40000]
    #[arg(long, value_name = "MICROSECONDS")]
    pub steal_lag_us: Micros<1_000, 10_000_000, 40_000>,

    /// Lag at which a running task takes the fast CPU of a task that gains more. Larger favours
    /// throughput. Smaller favours equal progress [1000 to 100000000; default 320000]
    #[arg(long, value_name = "MICROSECONDS")]
    pub unfair_gap_us: Micros<1_000, 100_000_000, 320_000>,

    /// Most by which the progress of equal tasks may differ while more tasks want CPUs of one class
    /// than of the other. Larger favours throughput: with six computing and two memory-bound tasks
    /// on two fast and two slow CPUs, 1000 to 1250 to 2000 to no bound give 3.28, 3.38, 3.64, 3.79
    /// times the throughput of one fast CPU (simulated). Smaller favours equal progress [1000 to
    /// 1000000; default 1250]
    #[arg(long, value_name = "PERMILLE")]
    pub max_unfairness_permille: Permille<1_000, 1_000_000, 1_250>,

    /// True if libbpf's messages are printed, with the verifier's log.
    #[arg(skip)]
    #[serde(skip)]
    pub verbose: bool,

    /// Scales of the counters from calibration, None for nominal scales.
    #[arg(skip)]
    #[serde(skip)]
    pub model: Option<CounterModel>,
}

/// Options that a reload changes while the scheduler runs. A change of cgroups that changes the
/// scope needs a restart.
pub const LIVE: &[&str] = &[
    "profile",
    "cgroups",
    "thresholds_permille",
    "stats",
    "stats_format",
    "log_level",
    "slice_us",
    "slice_min_us",
    "rotate_gap_us",
    "sync_burst_us",
    "window_instructions",
    "sample_every",
    "gain_permille",
    "steal_lag_us",
    "unfair_gap_us",
    "max_unfairness_permille",
];

/// Earlier keys, which this release still accepts, with the present ones.
pub const EARLIER: &[(&str, &str)] =
    &[("whole_system", "limit_bias"), ("no_pull", "no_moves"), ("borrow_gap_us", "steal_lag_us")];

/// Examples of options that have no default.
const EXAMPLES: &str = r#"
cgroups = ["/sys/fs/cgroup/work.slice"]
housekeeping = "slow"
capacity_file = "/var/lib/scx_bias/capacity.json"
events = ["external=cpu/event=0xa3,umask=0x5,cmask=5/"]
thresholds_permille = [1200, 1800]
stats = 10.0
"#;

/// Options of a run that contradict each other.
#[derive(Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// Keys of the options.
    pub keys: [&'static str; 2],
    /// Cause and remedy.
    pub why: String,
}

impl RunOptions {
    /// Return the options of a run with this profile and nothing else. A profile replaces defaults,
    /// so an option keeps the value that the user gave it.
    #[must_use]
    pub fn of(profile: Profile) -> Self {
        let differs = match profile {
            Profile::Auto => "",
            Profile::Gaming => "slice_us = 4000\nslice_min_us = 500\nrotate_gap_us = 80000",
            Profile::LowLatency => "slice_us = 2000\nslice_min_us = 300\nsteal_lag_us = 20000",
            Profile::PowerSave => "slice_us = 20000\nsample_every = 16\ngain_permille = 200\nno_swap = true",
            Profile::Server => "slice_us = 20000\nslice_min_us = 3000",
        };
        // A test parses all of them.
        Self { profile, ..toml::from_str(differs).unwrap_or_default() }
    }

    /// Return the flags, in the order of the fields. The id of a flag is the option's key.
    #[must_use]
    pub fn flags() -> Vec<Arg> {
        let complete = |flag: &Arg| {
            let earlier = EARLIER.iter().filter(|(_, key)| flag.get_id() == *key);
            let flag = flag.clone().aliases(earlier.map(|(old, _)| old.replace('_', "-")));
            // The command that takes the flag decides its place.
            let flag = flag.display_order(None::<usize>);
            match flag.get_action() {
                // The flag alone means true. --no-bias=false overrides the file.
                ArgAction::SetTrue => flag
                    .action(ArgAction::Set)
                    .value_name("BOOL")
                    .num_args(0..=1)
                    .require_equals(true)
                    .default_missing_value("true"),
                _ => flag,
            }
        };
        Self::augment_args_for_update(Command::new("flags")).get_arguments().map(complete).collect()
    }

    /// Return the keys of all options.
    pub fn keys() -> impl Iterator<Item = String> {
        Self::flags().into_iter().map(|flag| flag.get_id().to_string())
    }

    /// Return the key of the option that `name` names, now or in an earlier release.
    #[must_use]
    pub fn key(name: &str) -> Option<String> {
        let present = EARLIER.iter().find(|(old, _)| *old == name).map_or(name, |(_, key)| key);
        Self::keys().find(|key| key == present)
    }

    /// Return the values by key. An option without a value is absent.
    #[must_use]
    pub fn values(&self) -> Table {
        // No value can fail: paths are UTF-8, because flags and files are.
        Table::try_from(self).unwrap_or_default()
    }

    /// Return the defaults of a profile by key, with examples of options that have no default.
    #[must_use]
    pub fn examples(profile: Profile) -> Table {
        let mut values = Self::of(profile).values();
        values.extend(EXAMPLES.parse::<Table>().unwrap_or_default());
        values
    }

    /// Return the knobs of the kernel side: the numbers that a reload changes.
    #[must_use]
    pub fn knobs(&self) -> BTreeMap<String, u64> {
        let knob = |(key, value): (String, toml::Value)| {
            let value = value.as_integer().filter(|_| LIVE.contains(&key.as_str()))?;
            Some((key, value.unsigned_abs()))
        };
        self.values().into_iter().filter_map(knob).collect()
    }

    /// Check that the options are consistent.
    ///
    /// # Errors
    /// Fail with the cause and the remedy of the first contradiction.
    pub fn check(&self) -> Result<(), Contradiction> {
        let wrong = |keys, why: &str| Err(Contradiction { keys, why: why.to_owned() });
        if self.limit_bias && self.partial {
            return wrong(
                ["limit_bias", "partial"],
                "limit_bias and partial are mutually exclusive: drop one",
            );
        }
        if self.limit_bias && self.cgroups.is_empty() {
            return wrong(
                ["limit_bias", "cgroups"],
                "limit_bias limits bias to the given cgroups, but no cgroup is given: add --cgroup or drop limit_bias",
            );
        }
        if self.housekeeping.is_some() && self.cgroups.is_empty() {
            return wrong(
                ["housekeeping", "cgroups"],
                "housekeeping confines threads outside the given cgroups, but no cgroup is given: add --cgroup or drop housekeeping",
            );
        }
        let (least_us, slice_us) = (*self.slice_min_us, *self.slice_us);
        if least_us > slice_us {
            let why = format!(
                "slice_min_us is {least_us} and slice_us {slice_us}: give a shorter least slice or a longer slice"
            );
            return wrong(["slice_min_us", "slice_us"], &why);
        }
        Ok(())
    }

    /// Return the options for opening counters.
    #[must_use]
    pub fn counting(&self) -> pmu::Options {
        pmu::Options { events: self.events.clone(), enabled: !self.no_bias }
    }

    /// Return the options of planned swaps.
    #[must_use]
    pub fn swaps(&self) -> SwapOptions {
        SwapOptions { enabled: !self.no_swap, interval: Duration::from_millis(*self.swap_interval_ms) }
    }

    /// Return the interval at which statistics are printed, None for never.
    #[must_use]
    pub fn stats_interval(&self) -> Option<Duration> {
        self.stats.map(Seconds::duration)
    }

    /// Return true if the whole system is scheduled.
    #[must_use]
    pub fn schedules_everything(&self) -> bool {
        !self.partial && (self.cgroups.is_empty() || self.limit_bias)
    }

    /// Return true if the whole system is scheduled and bias is limited to some cgroups.
    #[must_use]
    pub fn limits_bias(&self) -> bool {
        !self.cgroups.is_empty() && self.limit_bias
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
