//! The command line of bias-bench: commands, options and their help texts.

mod ab;
mod commands;
mod meter;

use crate::ratio::CpuPair;
use crate::spec::{CpuList, Kind, Mix};
use crate::{Error, Result};
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Workloads with known behaviour, and the comparison of schedulers.
///
/// Every command prints a short text, or with --json one JSON document on standard output. Progress
/// and messages go to standard error. Exit codes: 0 success, 1 a measurement failed, 2 usage, 3 the
/// kernel or a capability is missing, 4 another sched_ext scheduler is active.
#[derive(Debug, Parser)]
#[command(name = "bias-bench", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run one workload alone and report its speed
    Work(WorkArgs),
    /// Compare two CPUs on several kinds of work, and with the prediction of the counters
    Ratio(RatioArgs),
    /// Run tasks at the same time and report what each of them achieved
    Mix(MixArgs),
    /// Run any workload of the comparisons (`bias-bench list`) under the active scheduler
    Run(RunArgs),
    /// Count the instructions that a context switch costs
    Pingpong(PingpongArgs),
    /// Count the instructions that all threads of a process execute, kernel included
    Cost(CostArgs),
    /// Show the same mixes under the default scheduler and under another one
    Demo(DemoArgs),
    /// Churn: forks, execs, affinity, nice, cgroup and policy changes, signals; fails if a task is
    /// lost
    Storm(StormArgs),
    /// Kill a scheduler repeatedly under load and take a CPU offline; fails if a task is lost
    Survive(SurviveArgs),
    /// Stop a scheduler's process, flood its socket, kill it; reports how long tasks wait meanwhile
    Control(ControlArgs),
    /// Hold counters of the asymmetric VM's PMU on every CPU, like a profiler, until standard input
    /// ends
    HoldCounters(HoldArgs),
    /// Run any other command while a scheduler is loaded
    Under(UnderArgs),
    Ab(ab::AbArgs),
    Report(ab::ReportArgs),
    Compare(ab::CompareArgs),
    List(ab::ListArgs),
    #[command(hide = true)]
    AbBoot(ab::BootArgs),
}

#[derive(Debug, Args)]
struct Output {
    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct WorkArgs {
    /// Workload: compute, float, chase[:SIZE], stalled[:MULTIPLIES], branchy, stream[:SIZE],
    /// mixed[:PERCENT], phases[:MS], cachestress[:SIZE], swpcpu, swpmem[:SIZE] or swp[:PERCENT]. A
    /// larger size misses larger caches. More multiplications per load mean a smaller share of
    /// stalls. A percentage is the share of computing. A period is the time of one change and the
    /// change back
    kind: Kind,
    /// Seconds to run. A longer run averages over more interrupts
    #[arg(long, value_parser = seconds, default_value = "1", conflicts_with = "steps")]
    seconds: Duration,
    /// Steps to run instead of a time (a step is about 20 000 cycles)
    #[arg(long)]
    steps: Option<u64>,
    /// CPU to run on; the scheduler decides unless given
    #[arg(long)]
    cpu: Option<usize>,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
struct RatioArgs {
    /// The two CPUs, e.g. 0,2. A ratio is the time on the second over the time on the first
    #[arg(long)]
    cpus: CpuPair,
    /// Kinds of work, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "compute,chase,stalled")]
    kinds: Vec<Kind>,
    /// Rounds of each kind on each CPU, interleaved. More rounds give steadier medians and take
    /// proportionally longer
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// Seconds of a round. Longer rounds average out interrupts better, shorter ones the machine's
    /// drift
    #[arg(long, value_parser = seconds, default_value = "0.4")]
    seconds: Duration,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
struct MixArgs {
    /// Tasks, e.g. 2compute+2chase; a missing count means 1
    #[arg(long)]
    tasks: Mix,
    /// Seconds measured per round. Fairness shows only over a time that is many times the
    /// scheduler's slice
    #[arg(long, value_parser = seconds, default_value = "4")]
    seconds: Duration,
    /// Seconds before the measurement. Raise it for schedulers that have to learn how tasks behave
    #[arg(long, value_parser = seconds, default_value = "0.5")]
    warmup: Duration,
    /// Repetitions, each with new processes; medians are reported. Placement varies by chance, so
    /// use several
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// File of solo rates: read if it exists, else measured and written. Share it between the runs
    /// of one boot, so that all are relative to the same rates. Without it every run measures its
    /// own (about 2 s)
    #[arg(long)]
    solo: Option<PathBuf>,
    /// CPUs that count as fast; found by probing unless given
    #[arg(long)]
    fast_cpus: Option<CpuList>,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
struct RunArgs {
    /// The workload, e.g. interactive+4compute, groups:2, barrier:4:static
    cell: String,
    /// Seconds measured per round. Rare events, and thus high percentiles, need long windows
    #[arg(long, value_parser = seconds, default_value = "2")]
    seconds: Duration,
    /// Seconds before the measurement. Raise it for schedulers that have to learn how tasks behave
    #[arg(long, value_parser = seconds, default_value = "0.5")]
    warmup: Duration,
    /// Repetitions, each with new processes; medians are reported
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// Factor on the workload's own periods. 5 suits the asymmetric VM with slices of 50 ms, 1
    /// suits hardware
    #[arg(long, value_parser = factor, default_value = "1")]
    stretch: f64,
    /// File of solo rates, as for `mix`
    #[arg(long)]
    solo: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
struct PingpongArgs {
    /// Pairs of processes at the same time
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pairs: u16,
    /// CPU for all processes; the scheduler decides unless given
    #[arg(long)]
    cpu: Option<usize>,
    /// Switches per round, all pairs together. More switches reduce the noise
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    switches: u32,
    /// Rounds. Reported are the mean of the middle half for instructions, and the median for times
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
struct CostArgs {
    /// Pid of the process, e.g. a scheduler's agent
    #[arg(long)]
    pid: u32,
    /// Seconds to count. Must be many times the period of the process's activity
    #[arg(long, value_parser = seconds, default_value = "10")]
    seconds: Duration,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
struct HoldArgs {
    /// Groups of four events on each CPU. Where counters are few, more groups leave a smaller share
    /// to other users
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    groups: u16,
    /// Pin the groups to their counters, so that other users get none of these counters
    #[arg(long)]
    pinned: bool,
}

#[derive(Debug, Args)]
struct SchedulerArgs {
    /// Command that loads a sched_ext scheduler and stays in the foreground, e.g. "scx_bias". No
    /// shell stays around it; to set a variable write "env NAME=value scx_bias"
    #[arg(long, value_name = "COMMAND")]
    scheduler_cmd: String,
    /// Seconds until the kernel must report it enabled. Big schedulers need a minute or two in the
    /// VM
    #[arg(long, value_parser = seconds, default_value = "60", value_name = "SECONDS")]
    load_timeout: Duration,
}

#[derive(Debug, Args)]
struct DemoArgs {
    #[command(flatten)]
    scheduler: SchedulerArgs,
    /// The mixes, separated by commas
    #[arg(long, value_delimiter = ',', default_value = crate::demo::DEFAULT_MIXES)]
    mixes: Vec<Mix>,
    /// Seconds measured per mix and scheduler. A longer window shows fairness better
    #[arg(long, value_parser = seconds, default_value = "4")]
    seconds: Duration,
    /// Seconds before each measurement
    #[arg(long, value_parser = seconds, default_value = "0.5")]
    warmup: Duration,
    /// Repetitions of each mix; medians are shown
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// CPUs that count as fast; found by probing unless given
    #[arg(long)]
    fast_cpus: Option<CpuList>,
    /// File for the JSON report; demo.json in the directory $OUT if that is set, else none
    #[arg(long)]
    out: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
struct StormArgs {
    /// Seconds of churn
    #[arg(long, value_parser = seconds, default_value = "10")]
    seconds: Duration,
    /// Seed of the order of changes, to repeat a run; 0 takes one from the clock
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Seconds without progress after which a task counts as lost. A lower limit finds shorter
    /// stalls, but on a slow or overloaded machine it also reports harmless waits
    #[arg(long, value_parser = seconds, default_value = "10", value_name = "SECONDS")]
    stall_limit: Duration,
    /// Do not run stress-ng at the same time (it runs where it is installed)
    #[arg(long)]
    no_stress_ng: bool,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
struct ControlArgs {
    #[command(flatten)]
    scheduler: SchedulerArgs,
    /// Seconds for which the scheduler's process is stopped. Before that it is left alone as long,
    /// but not longer than 5 s
    #[arg(long, value_parser = seconds, default_value = "3")]
    stop: Duration,
    /// Clients that flood the socket
    #[arg(long, default_value_t = 1000)]
    clients: usize,
    /// Seconds of the flood
    #[arg(long, value_parser = seconds, default_value = "5")]
    flood: Duration,
    /// The tasks that work meanwhile
    #[arg(long, default_value = "4compute")]
    tasks: Mix,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
struct SurviveArgs {
    #[command(flatten)]
    scheduler: SchedulerArgs,
    /// Times to load the scheduler and kill it with SIGKILL. Each costs the time that loading takes
    #[arg(long, default_value_t = 20)]
    kills: u32,
    /// CPU to take offline and bring back under load; none unless given. CPU 0 often cannot
    #[arg(long, value_name = "CPU")]
    hotplug: Option<usize>,
    /// Times to take it offline
    #[arg(long, default_value_t = 3)]
    hotplugs: u32,
    /// The tasks that must survive. More tasks reach more DSQs and states
    #[arg(long, default_value = "4compute+2chase+1branchy+1stream")]
    tasks: Mix,
    /// Seconds without progress after an event that count as a failure
    #[arg(long, value_parser = seconds, default_value = "10", value_name = "SECONDS")]
    stall_limit: Duration,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
struct UnderArgs {
    #[command(flatten)]
    scheduler: SchedulerArgs,
    /// In the asymmetric VM, suspend the emulation while the scheduler loads and unloads. This
    /// saves ten seconds of guest time. Not for a scheduler that measures the CPUs while it starts
    /// (give scx_bias a --capacity-file)
    #[arg(long)]
    unpaced_load: bool,
    /// A bias-bench command with its options, after --
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// Parse a positive number of seconds, up to a day.
fn seconds(text: &str) -> std::result::Result<Duration, String> {
    let value = text.parse::<f64>().ok().filter(|s| *s > 0.0 && *s <= 86_400.0);
    value
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("'{text}' is not a number of seconds up to 86400"))
}

/// Parse a positive factor, up to 10 000.
fn factor(text: &str) -> std::result::Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|f| (0.001..=10_000.0).contains(f));
    value.ok_or_else(|| format!("'{text}' is not a factor from 0.001 to 10000"))
}

/// Run the program: parse the command line, run the command, print, and map errors to exit codes.
pub fn main() -> ExitCode {
    match commands::run(Cli::parse().command) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("bias-bench: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

/// Parse the command given to `under`. Commands that load a scheduler themselves are refused.
fn nested(command: Vec<String>) -> Result<Command> {
    let words = std::iter::once("bias-bench".to_string()).chain(command);
    let cli = Cli::try_parse_from(words).map_err(|e| Error::Usage(e.to_string().trim_end().to_string()))?;
    match cli.command {
        Command::Under(_)
        | Command::Demo(_)
        | Command::Survive(_)
        | Command::Control(_)
        | Command::Ab(_)
        | Command::AbBoot(_) => Err(Error::Usage(
            "'under' takes a command that loads no scheduler itself; not demo, survive, ab or under".into(),
        )),
        command => Ok(command),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent_and_all_defaults_parse() {
        Cli::command().debug_assert();
        for line in
            ["work compute", "ratio --cpus 0,1", "mix --tasks compute", "run groups:2", "pingpong", "storm"]
        {
            assert!(Cli::try_parse_from(["bias-bench"].into_iter().chain(line.split(' '))).is_ok(), "{line}");
        }
        assert!(Cli::try_parse_from(["bias-bench", "demo", "--scheduler-cmd", "x"]).is_ok());
    }

    /// A list of kernels in the help would miss those that join the table later.
    #[test]
    fn the_help_names_no_kernel_but_the_default() {
        let table = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/ampvm/kernel/kernels.toml");
        let table: toml::Table = toml::from_str(&std::fs::read_to_string(table).unwrap()).unwrap();
        let names: Vec<&str> =
            table["kernel"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect();
        let command = Cli::command();
        let ab = command.find_subcommand("ab").unwrap();
        let kernel = ab.get_arguments().find(|argument| argument.get_id() == "kernel").unwrap();
        let help = kernel.get_help().unwrap().to_string();
        assert!(help.contains("cargo xtask kernel list"), "{help}");
        assert!(names.iter().all(|name| !help.contains(name)), "{help}");
        assert!(names.contains(&kernel.get_default_values()[0].to_str().unwrap()));
    }

    #[test]
    fn under_takes_no_command_that_loads_a_scheduler() {
        let words = |line: &str| line.split(' ').map(String::from).collect::<Vec<_>>();
        assert!(nested(words("mix --tasks compute")).is_ok());
        assert_eq!(nested(words("demo --scheduler-cmd x")).unwrap_err().exit_code(), 2);
        assert_eq!(nested(words("mix --tasks computer")).unwrap_err().exit_code(), 2);
    }

    #[test]
    fn seconds_are_positive_and_finite() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["0", "-1", "nan", "inf", "1e9", "x", ""] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
