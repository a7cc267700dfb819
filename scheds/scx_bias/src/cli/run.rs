//! Options of scheduling. A configuration file may hold those of [`RunSettings`], each under the
//! name of its field.

use super::Numbers;
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Options of scheduling.
#[derive(Debug, Default, Clone, Args)]
pub struct RunArgs {
    /// Configuration file to read.
    #[command(flatten)]
    pub source: Source,

    /// Options that a configuration file may hold.
    #[command(flatten)]
    pub options: RunSettings,

    /// Measure the CPUs again even if the stored table is still good. Takes up to three seconds
    #[arg(long)]
    pub recalibrate: bool,

    /// Print statistics of the running scx_bias at this interval, and do not schedule
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["stats", "recalibrate", "config"])]
    pub monitor: Option<f64>,

    /// Print more: each reuse and measurement with its reason, and the verifier's log if loading
    /// fails
    #[arg(short, long)]
    pub verbose: bool,
}

/// Options of `config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// Configuration file to read.
    #[command(flatten)]
    pub source: Source,

    /// Options of the command line, which are printed as well.
    #[command(flatten)]
    pub options: RunSettings,
}

/// Source of options other than the command line.
#[derive(Debug, Default, Clone, Args)]
pub struct Source {
    /// Read options from this TOML file. Its keys are the long flags with underscores. The command
    /// line takes precedence [default: /etc/scx_bias.toml if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Read no configuration file
    #[arg(long, conflicts_with = "config")]
    pub no_config: bool,
}

/// Options that a configuration file may also hold.
#[derive(Debug, Default, Clone, PartialEq, Args, Serialize, Deserialize)]
#[serde(default)]
pub struct RunSettings {
    /// Schedule only the threads of this cgroup and of those below it [repeatable; in a file, a
    /// list]. The value is a directory of cgroup v2, such as /sys/fs/cgroup/work.slice. All other
    /// threads stay on the default scheduler, which goes first [default: the whole system]
    #[arg(long = "cgroup", value_name = "PATH")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cgroups: Vec<PathBuf>,

    /// With --cgroup: schedule everything, and place only the tasks of these cgroups by their
    /// stalls. Their tasks then do not wait behind the default scheduler, and no thread's policy
    /// changes. All tasks share the CPUs by scx_bias's rules
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whole_system: Option<bool>,

    /// Use the capacity table in this file instead of measuring. The table must list every online
    /// CPU
    #[arg(long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_file: Option<PathBuf>,

    /// Knobs.
    #[command(flatten)]
    #[serde(skip)]
    pub numbers: Numbers,

    /// Do not count the stalls of tasks. The scheduler then assumes that every task gains the full
    /// difference between CPUs, as on a machine without performance counters. This saves a tenth of
    /// a switch and leaves the counters to other programs
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_bias: Option<bool>,

    /// Keep the capacity table of the start. This saves a check each half second, but a throttled
    /// CPU still counts as fast as at the start
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_recalibrate: Option<bool>,

    /// Plan no swaps. Only the CPUs' own searches then migrate running tasks. This saves the
    /// agent's snapshots, but keeps bad placements that these searches cannot reach
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_swap: Option<bool>,

    /// Time between the agent's snapshots while a swap may pay [20 to 10000; default 50]. Longer
    /// costs less; shorter corrects a bad placement sooner
    #[arg(long, value_name = "MILLISECONDS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_interval_ms: Option<u64>,

    /// Let no CPU migrate running tasks by itself: no idle pull, no gain swaps, no rotation. This
    /// is an ablation that shows the effect of the agent's swaps alone
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_pull: Option<bool>,

    /// Count this event instead of the chosen one [repeatable; in a file, a list]. ROLE is cycles,
    /// instructions, external or internal. PMU is the PMU's name, TERMS is the event in perf's
    /// notation. An event counts cycles unless @slots=WIDTH (issue slots) or @misses (misses)
    /// follows. The option applies to the CPUs of the PMU
    #[arg(long, value_name = "ROLE=PMU/TERMS/")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,

    /// Fix the bounds of the bias, as two predicted speedups, slow over fast, e.g. 1200,1800. Up to
    /// LOW a task belongs on slow CPUs, from HIGH on fast ones [default: 5 % around the average of
    /// running tasks]. With fixed bounds a task's bias does not depend on the other tasks
    #[arg(long, value_name = "LOW,HIGH", value_parser = thresholds)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thresholds_permille: Option<Thresholds>,

    /// Print statistics at this interval while scheduling [0.1 to 86400]
    #[arg(long, value_name = "SECONDS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stats: Option<f64>,

    /// Log messages of this level on standard error [default: info]. Each level includes those
    /// before it; -v is debug
    #[arg(long, value_name = "LEVEL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_level: Option<LogLevel>,
}

/// Log level. Each level includes the messages of those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Errors that end scx_bias
    Error,
    /// Also conditions that need attention
    Warn,
    /// Also actions
    Info,
    /// Also the reasons of actions
    Debug,
    /// Also every step
    Trace,
}

/// Fixed thresholds of the predicted speedup [permille].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Form", into = "Form")]
pub struct Thresholds {
    /// Largest speedup of a slow-biased task [permille].
    pub low: u32,
    /// Smallest speedup of a fast-biased task [permille].
    pub high: u32,
}

/// Formats of the thresholds in a file: a list of two numbers, or the text of the flag.
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
