//! The command line. One definition of each flag feeds the parser, `--help`, the man page, completions and the configuration file.

use crate::help;
use bias_agent::optin::Request;
use bias_policy::pick::RankBy;
use bias_policy::table::{Class, Component};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use serde::Deserialize;
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

const EXIT_CODES: &str = "Exit codes: 0 clean, 1 runtime or BPF error, 2 usage, 3 kernel or permission, \
4 another sched_ext scheduler is active.";

/// Schedule tasks where they gain most on a machine whose CPUs are not equally fast.
///
/// Without a sub-command: measures the CPUs if need be, loads the scheduler and stays until SIGINT or SIGTERM, which return
/// every task to the kernel's default scheduler.
#[derive(Debug, Parser)]
#[command(version, after_help = EXIT_CODES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Cli {
    /// What to do; schedule when absent.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Options of scheduling.
    #[command(flatten)]
    pub run: RunArgs,
}

/// Everything but scheduling itself.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Tell whether this machine can run scx_bias: one line and one remedy for each thing missing
    #[command(after_help = EXIT_CODES)]
    Check(CheckArgs),
    /// Measure what execute, internal-stall and external-stall work costs on every CPU, and store the table
    #[command(after_help = EXIT_CODES)]
    Calibrate(CalibrateArgs),
    /// Show the table: cost and class of every CPU, and which CPUs are alike
    #[command(after_help = EXIT_CODES)]
    Table(TableArgs),
    /// Run a program on the fastest CPUs, or on those that others miss least, with and without a scheduler. Needs no privilege
    #[command(override_usage = help::EXEC_USAGE, after_help = help::EXEC_EXIT_CODES, after_long_help = help::exec())]
    Exec(ExecArgs),
    /// Tell what the running scx_bias sees and does: CPUs and their counters, thresholds, kinds of tasks, moves
    #[command(after_help = help::EXIT_CODES, after_long_help = help::status())]
    Status(StatusArgs),
    /// Show what each task stalls on, what that makes of it, and who moved it
    #[command(after_help = help::EXIT_CODES, after_long_help = help::top())]
    Top(TopArgs),
    /// Opt cgroups in to the running scx_bias, which was started with --cgroup, or let them go
    #[command(after_help = help::EXIT_CODES, after_long_help = help::cgroup())]
    Cgroup(CgroupArgs),
    /// Print shell completions
    Completions {
        /// Shell to complete for
        shell: Shell,
    },
    /// Print the man page
    Man,
}

/// Options of scheduling.
#[derive(Debug, Default, Args)]
pub struct RunArgs {
    /// Read options from this TOML file; its keys are the long flags without the dashes. The command line wins
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

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

/// Options that may also stand in a configuration file.
#[derive(Debug, Default, Clone, PartialEq, Args, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct RunSettings {
    /// Schedule only the threads of this cgroup and of those below it [repeatable; in a file, a list]: a folder of cgroup v2, such as
    /// /sys/fs/cgroup/work.slice. Everything else stays on the default scheduler, which goes first [default: the whole system]
    #[arg(long, value_name = "PATH")]
    pub cgroup: Vec<PathBuf>,

    /// Use the capacity table in this file instead of measuring. It must list every online CPU
    #[arg(long, value_name = "FILE")]
    pub capacity_file: Option<PathBuf>,

    /// Longest time a task runs before others get their turn [100 to 100000; default 10000]. Longer slices mean fewer switches
    /// and better throughput; shorter ones mean less waiting
    #[arg(long, value_name = "MICROSECONDS")]
    pub slice_us: Option<u64>,

    /// Time a task runs when many wait [10 to the slice; default 1000]. Longer favours throughput under load; shorter
    /// favours response under load
    #[arg(long, value_name = "MICROSECONDS")]
    pub slice_min_us: Option<u64>,

    /// Difference in progress at which running tasks change places between fast and slow CPUs [1000 to 10000000; default 40000].
    /// Larger means fewer migrations; smaller means more equal progress
    #[arg(long, value_name = "MICROSECONDS")]
    pub rotate_gap_us: Option<u64>,

    /// CPUs whose tasks sleep sooner than this keep a woken task where its waker runs [0 to 1000000; default 500]. Larger keeps
    /// more conversations in one cache; smaller spreads them; 0 always spreads
    #[arg(long, value_name = "MICROSECONDS")]
    pub sync_burst_us: Option<u64>,

    /// Do not count what tasks stall on: every task is taken to gain all of the difference between CPUs, as on a machine without
    /// performance counters. Saves a tenth of a switch and leaves the counters to others
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub no_bias: Option<bool>,

    /// Count this event in place of the one chosen [repeatable]: cycles, instructions, external or internal, with the PMU's name and
    /// the event in perf's notation; behind it @slots=WIDTH for issue slots or @misses for misses, cycles otherwise. It holds for the CPUs
    /// that the PMU serves
    #[arg(long, value_name = "ROLE=PMU/TERMS/")]
    pub events: Vec<String>,

    /// Instructions after which what a task stalled on is taken into its profile [10000 to 1000000000; default 500000]. More ignore
    /// short phases; fewer follow them sooner
    #[arg(long, value_name = "N")]
    pub window_instructions: Option<u64>,

    /// Count one run in so many of a task whose profile is stable [1 to 1000; default 8]. Larger costs less a switch; smaller sees
    /// changes of tasks that run briefly sooner
    #[arg(long, value_name = "N")]
    pub sample_every: Option<u32>,

    /// Predicted speedups, slow over fast, up to which a task belongs on slow CPUs and from which on fast ones, e.g. 1200,1800
    /// [default: 5 % around the average of what runs]. Fixed ones keep a task's kind whatever runs beside it
    #[arg(long, value_name = "LOW,HIGH", value_parser = thresholds)]
    pub thresholds_permille: Option<Thresholds>,

    /// Difference in predicted speedup that is worth a move [10 to 10000; default 100]. Larger means fewer migrations; smaller
    /// acts on smaller gains
    #[arg(long, value_name = "PERMILLE")]
    pub gain_permille: Option<u32>,

    /// How far behind in progress tasks that gain little must be to go first on a fast CPU, and the others on a slow one [1000 to
    /// 10000000; default 40000]. Larger favours throughput; smaller favours equal progress
    #[arg(long, value_name = "MICROSECONDS")]
    pub borrow_gap_us: Option<u64>,

    /// How far behind a running task must be to take the place of one that gains more [1000 to 100000000; default 320000]. Larger
    /// favours throughput; smaller favours equal progress
    #[arg(long, value_name = "MICROSECONDS")]
    pub unfair_gap_us: Option<u64>,

    /// Keep the capacity table as it is at the start, whatever becomes of the CPUs' clocks. Saves a look each half second; then throttled
    /// CPUs are taken for as fast as they were
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub no_recalibrate: Option<bool>,

    /// Print statistics at this interval while scheduling [0.1 to 86400]
    #[arg(long, value_name = "SECONDS")]
    pub stats: Option<f64>,
}

/// Fixed thresholds of the predicted speedup [permille].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Thresholds {
    /// Up to this a task belongs on slow CPUs.
    pub low: u32,
    /// From this on it belongs on fast ones.
    pub high: u32,
}

impl TryFrom<String> for Thresholds {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        thresholds(&text)
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

/// Options of `check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Print JSON for machines
    #[arg(long)]
    pub json: bool,

    /// Examine the machine whose /sys and /proc are below this folder
    #[arg(long, value_name = "FOLDER", hide = true, default_value = "/")]
    pub root: PathBuf,
}

/// Options of `status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Print JSON for machines
    #[arg(long)]
    pub json: bool,

    /// Ask on this socket
    #[arg(long, value_name = "FILE", hide = true)]
    pub socket: Option<PathBuf>,
}

/// Options of `cgroup`.
#[derive(Debug, Args)]
pub struct CgroupArgs {
    /// What to do.
    #[command(subcommand)]
    pub action: CgroupAction,

    /// Print JSON for machines
    #[arg(long, global = true)]
    pub json: bool,

    /// Ask on this socket
    #[arg(long, value_name = "FILE", hide = true, global = true)]
    pub socket: Option<PathBuf>,
}

/// What to do with opted-in cgroups.
#[derive(Debug, Clone, Subcommand)]
pub enum CgroupAction {
    /// Opt a cgroup in: its threads and those of cgroups below it run under scx_bias
    Add {
        /// Its folder, such as /sys/fs/cgroup/work.slice
        path: PathBuf,
    },
    /// Let a cgroup go: its threads get back the policy they had
    Remove {
        /// Its folder
        path: PathBuf,
    },
    /// Show the opted-in cgroups, and how many threads of each run under scx_bias
    List,
}

impl From<CgroupAction> for Request {
    fn from(action: CgroupAction) -> Self {
        match action {
            CgroupAction::Add { path } => Self::Add(path),
            CgroupAction::Remove { path } => Self::Remove(path),
            CgroupAction::List => Self::List,
        }
    }
}

/// Options of `top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Print a JSON object a line, one an interval, for machines
    #[arg(long)]
    pub json: bool,

    /// Time between tables [0.1 to 86400]. Longer steadies the shares; shorter shows moves sooner
    #[arg(long, short, value_name = "SECONDS", default_value_t = 2.0)]
    pub interval: f64,

    /// End after so many tables, and print them as plain text, as is always done where there is no terminal [default: go on]
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// Ask on this socket
    #[arg(long, value_name = "FILE", hide = true)]
    pub socket: Option<PathBuf>,
}

/// Options of `calibrate`.
#[derive(Debug, Args)]
pub struct CalibrateArgs {
    /// Store the table in this file [default: /var/lib/scx_bias/capacity.json for root, the XDG state folder for users]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Measure even if the stored table is still good
    #[arg(long)]
    pub force: bool,

    /// Visits to each CPU. More average out slow disturbances and take longer
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,

    /// Length of a visit. Longer visits average out short disturbances; five loops share it [default: 40 to 120, so that
    /// all visits take some two seconds]
    #[arg(long, value_name = "MILLISECONDS", value_parser = clap::value_parser!(u64).range(5..=10_000))]
    pub visit_ms: Option<u64>,

    /// Size of the memory kernel's set. Must exceed the last-level cache, or part of the loads is not external; larger takes
    /// longer to build [default: found by measuring]
    #[arg(long, value_name = "KIB", value_parser = clap::value_parser!(u32).range(4..=4 << 20))]
    pub external_kib: Option<u32>,

    /// Least mean difference in speed that makes two classes of CPUs; twice this for stalls. Raise it to have unequal CPUs treated
    /// as equal, lower it to act on smaller differences
    #[arg(long, value_name = "PERMILLE", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub min_effect_permille: u32,

    /// Count this event in place of the one chosen while measuring [repeatable], as `scx_bias --help` explains
    #[arg(long, value_name = "ROLE=PMU/TERMS/")]
    pub events: Vec<String>,

    /// Print the table as JSON for machines
    #[arg(long)]
    pub json: bool,

    /// Tell what is reused or measured and why
    #[arg(short, long)]
    pub verbose: bool,
}

/// Options of `table`.
#[derive(Debug, Args)]
pub struct TableArgs {
    /// Show the table in this file instead of the stored one
    #[arg(long, value_name = "FILE")]
    pub capacity_file: Option<PathBuf>,

    /// Print JSON for machines
    #[arg(long)]
    pub json: bool,

    /// Show how alike each pair of CPUs is in one component: a dot, or the distance between their distributions
    #[arg(long, value_name = "COMPONENT", conflicts_with = "json")]
    pub matrix: Option<ComponentName>,
}

/// Options of `exec`.
#[derive(Debug, Args)]
pub struct ExecArgs {
    /// Number of CPUs. More let more threads run at once; fewer keep to the best [default with --class: all of the class]
    #[arg(short = 'n', long, value_name = "N", required_unless_present = "class")]
    pub cpus: Option<NonZeroUsize>,

    /// Use CPUs of this class only
    #[arg(long)]
    pub class: Option<ClassName>,

    /// Cost by which CPUs are ranked: that of the work the program does most
    #[arg(long, default_value = "execute")]
    pub component: RankName,

    /// Use one CPU of each core at most. For as many busy threads as CPUs, which as SMT siblings would share a core; without it, faster
    /// siblings go before slower cores
    #[arg(long)]
    pub whole_cores: bool,

    /// Choose by the table in this file instead of the stored one
    #[arg(long, value_name = "FILE")]
    pub capacity_file: Option<PathBuf>,

    /// Print the CPUs and their costs, and run nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Print them as JSON for machines
    #[arg(long, requires = "dry_run")]
    pub json: bool,

    /// Tell on standard error which CPUs are chosen before the program runs
    #[arg(short, long)]
    pub verbose: bool,

    /// The program, found through PATH, and its arguments
    #[arg(value_name = "CMD", trailing_var_arg = true, required_unless_present = "dry_run")]
    pub command: Vec<OsString>,
}

/// A class as the command line names it.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ClassName {
    /// The faster CPUs, the fastest first
    Fast,
    /// The slower CPUs, the slowest first: for what should not be in the way
    Slow,
}

impl From<ClassName> for Class {
    fn from(name: ClassName) -> Self {
        match name {
            ClassName::Fast => Self::Fast,
            ClassName::Slow => Self::Slow,
        }
    }
}

/// What ranks CPUs, as the command line names it.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum RankName {
    /// Integer work in registers: for programs that compute
    Execute,
    /// Stalls inside the core: for programs of many branches and pages
    Internal,
    /// Stalls outside the core: for programs that wait for memory
    External,
    /// The mean of the three: for programs that are not known
    Mean,
}

impl From<RankName> for RankBy {
    fn from(name: RankName) -> Self {
        match name {
            RankName::Execute => Self::Component(Component::Execute),
            RankName::Internal => Self::Component(Component::Internal),
            RankName::External => Self::Component(Component::External),
            RankName::Mean => Self::Mean,
        }
    }
}

/// A component as the command line names it.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ComponentName {
    /// Integer work in registers
    Execute,
    /// Stalls inside the core
    Internal,
    /// Stalls outside the core
    External,
}

impl From<ComponentName> for Component {
    fn from(name: ComponentName) -> Self {
        match name {
            ComponentName::Execute => Self::Execute,
            ComponentName::Internal => Self::Internal,
            ComponentName::External => Self::External,
        }
    }
}
