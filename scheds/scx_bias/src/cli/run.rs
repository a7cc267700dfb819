//! Options of scheduling. What is in [`RunSettings`] may also stand in a configuration file, under the name of its field.

use super::Numbers;
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Options of scheduling.
#[derive(Debug, Default, Clone, Args)]
pub struct RunArgs {
    /// Where options come from besides the command line.
    #[command(flatten)]
    pub source: Source,

    /// Options that a configuration file may hold.
    #[command(flatten)]
    pub options: RunSettings,

    /// Measure the CPUs again even if the stored table is still good. Takes up to three seconds
    #[arg(long)]
    pub recalibrate: bool,

    /// Do not schedule: print statistics of the running scx_bias at this interval
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["stats", "recalibrate", "config"])]
    pub monitor: Option<f64>,

    /// Print more: what is reused or measured and why, and the verifier's log if loading fails
    #[arg(short, long)]
    pub verbose: bool,
}

/// Options of `config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// Where options come from besides the command line.
    #[command(flatten)]
    pub source: Source,

    /// Options to be printed, too.
    #[command(flatten)]
    pub options: RunSettings,
}

/// Where options come from besides the command line.
#[derive(Debug, Default, Clone, Args)]
pub struct Source {
    /// Read options from this TOML file; its keys are the long flags with underscores. The command line wins [default: /etc/scx_bias.toml if it
    /// is there]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Read no configuration file
    #[arg(long, conflicts_with = "config")]
    pub no_config: bool,
}

/// Options that may also stand in a configuration file.
#[derive(Debug, Default, Clone, PartialEq, Args, Serialize, Deserialize)]
#[serde(default)]
pub struct RunSettings {
    /// Schedule only the threads of this cgroup and of those below it [repeatable; in a file, a list]: a folder of cgroup v2, such as
    /// /sys/fs/cgroup/work.slice. Everything else stays on the default scheduler, which goes first [default: the whole system]
    #[arg(long = "cgroup", value_name = "PATH")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cgroups: Vec<PathBuf>,

    /// With --cgroup: schedule everything, and judge only the tasks of these cgroups by what they stall on. Nothing of theirs waits behind the
    /// default scheduler then, and no thread's policy is changed; but everybody's tasks share the CPUs by scx_bias's rules
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whole_system: Option<bool>,

    /// Use the capacity table in this file instead of measuring. It must list every online CPU
    #[arg(long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_file: Option<PathBuf>,

    /// The knobs.
    #[command(flatten)]
    #[serde(skip)]
    pub numbers: Numbers,

    /// Do not count what tasks stall on: every task is taken to gain all of the difference between CPUs, as on a machine without
    /// performance counters. Saves a tenth of a switch and leaves the counters to others
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_bias: Option<bool>,

    /// Keep the capacity table as it is at the start, whatever becomes of the CPUs' clocks. Saves a look each half second; then throttled
    /// CPUs are taken for as fast as they were
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_recalibrate: Option<bool>,

    /// Plan no swaps: tasks change places only where a CPU's own search finds a reason. Saves the agent's glances; leaves what these
    /// searches cannot reach
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_swap: Option<bool>,

    /// Time between the agent's glances where a swap may pay [20 to 10000; default 50]. Longer costs less; shorter mends a bad placement
    /// sooner
    #[arg(long, value_name = "MILLISECONDS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_interval_ms: Option<u64>,

    /// Let no CPU move running tasks by itself: no idle pull, no swaps for gain, no taking turns. An ablation, to see what the agent's swaps do
    /// alone
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_pull: Option<bool>,

    /// Count this event in place of the one chosen [repeatable; in a file, a list]: cycles, instructions, external or internal, with the PMU's
    /// name and the event in perf's notation; behind it @slots=WIDTH for issue slots or @misses for misses, cycles otherwise. It holds for the CPUs
    /// that the PMU serves
    #[arg(long, value_name = "ROLE=PMU/TERMS/")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,

    /// Predicted speedups, slow over fast, up to which a task belongs on slow CPUs and from which on fast ones, e.g. 1200,1800
    /// [default: 5 % around the average of what runs]. Fixed ones keep a task's kind whatever runs beside it
    #[arg(long, value_name = "LOW,HIGH", value_parser = thresholds)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thresholds_permille: Option<Thresholds>,

    /// Print statistics at this interval while scheduling [0.1 to 86400]
    #[arg(long, value_name = "SECONDS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stats: Option<f64>,

    /// What to log on standard error [default: info]. Each level includes those before it; -v is debug
    #[arg(long, value_name = "LEVEL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_level: Option<LogLevel>,
}

/// What is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// What ends it
    Error,
    /// And what is not as it should be
    Warn,
    /// And what it does
    Info,
    /// And why
    Debug,
    /// And every step
    Trace,
}

/// Fixed thresholds of the predicted speedup [permille].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Form", into = "Form")]
pub struct Thresholds {
    /// Up to this a task belongs on slow CPUs.
    pub low: u32,
    /// From this on it belongs on fast ones.
    pub high: u32,
}

/// How they may stand in a file.
#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "give two speedups from 1000 to 64000, the lower first, e.g. [1200, 1800]")]
enum Form {
    Pair([u32; 2]),
    Text(String),
}

impl TryFrom<Form> for Thresholds {
    type Error = String;

    fn try_from(form: Form) -> Result<Self, String> {
        match form {
            Form::Pair([low, high]) => thresholds(&format!("{low},{high}")),
            Form::Text(text) => thresholds(&text),
        }
    }
}

impl From<Thresholds> for Form {
    fn from(Thresholds { low, high }: Thresholds) -> Self {
        Self::Pair([low, high])
    }
}

fn thresholds(text: &str) -> Result<Thresholds, String> {
    let number = |text: &str| text.trim().parse::<u32>().ok().filter(|n| (1000..=64_000).contains(n));
    let pair = text.split_once(',').and_then(|(low, high)| number(low).zip(number(high)));
    match pair {
        Some((low, high)) if low <= high => Ok(Thresholds { low, high }),
        _ => Err(format!("'{text}': give two speedups from 1000 to 64000, the lower first, e.g. 1200,1800")),
    }
}
