// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Any command as a cell: `command:make -j8`, alone or beside other commands.
//!
//! # Problem
//! Users judge a scheduler by their own programs: a compile, a server under load, a game's frames.
//!
//! # Approach
//! A shell runs the command again and again until the window is over, and at least once. The
//! figures are its wall time and CPU time, and any number in its output that an expression finds
//! ([`Printed`]). A command to prepare runs before each of them, unmeasured. Commands beside it
//! start first, start again when they end, and are killed at its end. Where the VM has a root in
//! memory (`$ROOT`), all of them run there, so that no program waits for a file of the host.
//!
//! # Invariants
//! * A command that fails, does not end within [`LIMIT`] or prints no matching number gives a
//!   one-line error. So does a failing command beside it.
//! * Processes of the command's group end with the run.
//!
//! # Limits
//! Commands have no terminal. CPU time, switches and migrations leave out processes for which the
//! command did not wait. A process that leaves the group, as daemons do, lives on: end it in the
//! command, or in the next preparation.

use super::child::{self, Program, last};
use super::{Description, Env, Measured, Workload, measured};
use crate::counters::Migrations;
use crate::{Error, Result, metrics};
use nix::sys::resource::{Usage, UsageWho, getrusage};
use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Longest run of a command.
const LIMIT: Duration = Duration::from_secs(1800);

/// The root in memory of the VM, in `ROOT`. On other machines the variable may mean anything.
const GUEST_ROOT: &str = "/run/bias/root";

/// Entry of this workload in [`super::list`].
pub const DESCRIPTION: Description = Description {
    name: "command",
    syntax: "command:COMMAND such as 'command:make -j8'; with more options: ab --command",
    measures: "any command, run by a shell until the window is over: its time",
    metrics: &["time_ms", "cpu_ms", "switches_per_s"],
    with_pmu: &[],
};

/// A number in the output of a command. Written `EXPRESSION:better=higher`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Printed {
    /// The expression. Its first group is the number. A group's name is the name of the metric.
    expression: Regex,
    higher: bool,
}

impl FromStr for Printed {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let form =
            "write EXPRESSION:better=higher or :better=lower, e.g. 'Requests/sec: *([0-9.]+):better=higher'";
        let (expression, direction) =
            text.rsplit_once(":better=").ok_or_else(|| format!("'{text}': {form}"))?;
        let higher = match direction {
            "higher" => true,
            "lower" => false,
            _ => return Err(format!("'{direction}' is not a direction; {form}")),
        };
        let expression = Regex::new(expression)
            .map_err(|e| format!("'{expression}': {}", e.to_string().lines().last().unwrap_or("").trim()))?;
        if expression.captures_len() != 2 {
            return Err(format!(
                "'{expression}' needs one group in parentheses, which is the number; {form}"
            ));
        }
        Ok(Printed { expression, higher })
    }
}

impl TryFrom<String> for Printed {
    type Error = String;

    fn try_from(text: String) -> std::result::Result<Self, String> {
        text.parse()
    }
}

impl From<Printed> for String {
    fn from(metric: Printed) -> String {
        metric.to_string()
    }
}

impl fmt::Display for Printed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:better={}", self.expression, if self.higher { "higher" } else { "lower" })
    }
}

impl PartialEq for Printed {
    fn eq(&self, other: &Self) -> bool {
        self.higher == other.higher && self.expression.as_str() == other.expression.as_str()
    }
}

impl Printed {
    /// Return the name in samples: that of the group, after the direction.
    pub fn name(&self) -> String {
        let group = self.expression.capture_names().flatten().next().unwrap_or("printed");
        format!("{}_{group}", if self.higher { "higher" } else { "lower" })
    }

    /// Return the last number that the output holds.
    pub fn find(&self, output: &str) -> Option<f64> {
        let found = self.expression.captures_iter(output).last()?;
        found.get(1)?.as_str().replace(',', "").parse().ok().filter(|value: &f64| value.is_finite())
    }
}

/// Surroundings of a command, in a plan's cell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Around {
    /// Name in reports, instead of the command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Command that runs before each run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prepare: Option<String>,
    /// Commands that run beside it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<String>,
    /// Numbers in its output.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Printed>,
}

/// Programs that a command runs, and their Debian packages. Empty if they are unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Needs {
    /// Names of the programs.
    pub runs: &'static [&'static str],
    /// Names of the packages.
    pub packages: &'static [&'static str],
}

/// The workload.
#[derive(Debug, Clone, PartialEq)]
pub struct AnyCommand {
    name: String,
    line: String,
    around: Around,
    needs: Needs,
}

impl AnyCommand {
    /// Return the workload for a command line in these surroundings.
    pub fn new(line: &str, around: Around) -> Self {
        let beside = around.beside.iter().map(|line| format!(" beside {line}")).collect::<String>();
        let name = format!("command:{}{beside}", around.label.as_deref().unwrap_or(line));
        AnyCommand { name, line: line.into(), around, needs: Needs::default() }
    }

    /// Return the workload of this name for a command line that runs Debian programs.
    pub fn packaged(name: &str, line: &str, around: Around, needs: Needs) -> Self {
        AnyCommand { name: name.into(), needs, ..AnyCommand::new(line, around) }
    }

    /// Parse the text after the name.
    pub(super) fn parse(rest: &str) -> Option<Self> {
        let line = rest.strip_prefix(':').filter(|line| !line.trim().is_empty())?;
        Some(AnyCommand::new(line, Around::default()))
    }

    /// Return its name in messages.
    fn shown(&self) -> String {
        format!("'{}'", self.name.strip_prefix("command:").unwrap_or(&self.name))
    }

    /// Run the command once, after its preparation.
    fn once(&self, migrations: &mut Option<Migrations>) -> Result<Once> {
        let mut moved = || migrations.as_mut().map_or(Ok(0), Migrations::read);
        if let Some(prepare) = &self.around.prepare {
            child::capture(&mut shell(prepare), &format!("the preparation of {}", self.shown()), LIMIT)?;
        }
        let (before, migrations_before) = (used()?, moved()?);
        let (output, time) = child::capture(&mut shell(&self.line), &self.shown(), LIMIT)?;
        let (after, migrations) = (used()?, moved()?.saturating_sub(migrations_before) as f64);
        let printed = self.around.metrics.iter().map(|metric| {
            let why =
                || format!("printed no number that '{metric}' finds; its last line is '{}'", last(&output));
            metric.find(&output).ok_or_else(|| Error::failed(self.shown(), why()))
        });
        Ok(Once {
            time,
            cpu_ms: cpu_ms(&after) - cpu_ms(&before),
            switches: (switches(&after) - switches(&before)) as f64,
            migrations,
            printed: printed.collect::<Result<_>>()?,
        })
    }
}

/// Figures of one run.
struct Once {
    time: Duration,
    cpu_ms: f64,
    switches: f64,
    migrations: f64,
    printed: Vec<f64>,
}

impl Workload for AnyCommand {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn missing(&self) -> Option<String> {
        let Needs { runs, packages } = self.needs;
        let program = runs.iter().find(|program| !is_installed(program))?;
        Some(format!("{program} is not installed; install {}", packages.join(" ")))
    }

    fn run(&self, env: &Env) -> Result<Measured> {
        let mut beside: Vec<Beside> =
            self.around.beside.iter().map(|line| Beside::start(line)).collect::<Result<_>>()?;
        let mut migrations = Migrations::open().ok();
        std::thread::sleep(env.warmup);
        let start = Instant::now();
        let mut runs = Vec::new();
        while runs.is_empty() || start.elapsed() < env.window {
            runs.push(self.once(&mut migrations)?);
            beside.iter_mut().try_for_each(Beside::check)?;
        }
        let mean = |of: &dyn Fn(&Once) -> f64| metrics::sum(runs.iter().map(of)) / runs.len() as f64;
        let time_ms = mean(&|run| run.time.as_secs_f64() * 1e3);
        let mut figures = BTreeMap::from([
            ("time_ms".to_string(), time_ms),
            ("cpu_ms".to_string(), mean(&|run| run.cpu_ms)),
            ("switches_per_s".to_string(), mean(&|run| run.switches) / time_ms * 1e3),
        ]);
        if migrations.is_some() {
            figures.insert("migrations_per_s".into(), mean(&|run| run.migrations) / time_ms * 1e3);
        }
        for (at, metric) in self.around.metrics.iter().enumerate() {
            figures.insert(metric.name(), mean(&|run| run.printed[at]));
        }
        let times: Vec<f64> = runs.iter().map(|run| run.time.as_secs_f64() * 1e3).collect();
        measured(figures, json!({ "command": self.line, "around": self.around, "times_ms": times }))
    }
}

/// A command that runs beside another one, repeatedly.
struct Beside {
    line: String,
    program: Program,
}

impl Beside {
    fn start(line: &str) -> Result<Self> {
        // A failing command ends the loop, so that a command that cannot run does not load the
        // machine.
        let mut command = shell(&format!("while ( {line}\n ) do :; done; exit 1"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        child::die_with_parent(&mut command);
        let program = command.spawn().map_err(|e| Error::failed(format!("'{line}'"), e))?;
        Ok(Beside { line: line.into(), program: Program(program) })
    }

    /// Return an error if the command has failed.
    fn check(&mut self) -> Result<()> {
        let ended = self.program.0.try_wait().map_err(|e| Error::failed(format!("'{}'", self.line), e))?;
        match ended {
            None => Ok(()),
            Some(_) => Err(Error::failed(
                format!("'{}', the command beside", self.line),
                "it failed; run it alone to see why",
            )),
        }
    }
}

/// Return the root in memory, if there is one.
fn root() -> Option<&'static Path> {
    std::env::var_os("ROOT").filter(|root| root == GUEST_ROOT).map(|_| Path::new(GUEST_ROOT))
}

/// Return true if a shell finds the program.
fn is_installed(program: &str) -> bool {
    let root = root().unwrap_or(Path::new("/"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .any(|directory| root.join(directory.strip_prefix("/").unwrap_or(&directory)).join(program).exists())
}

/// Return a shell that runs the command line, in the root in memory if there is one.
fn shell(line: &str) -> Command {
    let root = root();
    let mut command = Command::new(if root.is_some() { "chroot" } else { "sh" });
    if let Some(root) = root {
        command.arg(root).arg("sh");
    }
    command.arg("-c").arg(line);
    command
}

fn used() -> Result<Usage> {
    getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|e| Error::failed("reading the CPU time of the command", e))
}

fn cpu_ms(usage: &Usage) -> f64 {
    let ms = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 * 1e3 + time.tv_usec() as f64 / 1e3;
    ms(usage.user_time()) + ms(usage.system_time())
}

fn switches(usage: &Usage) -> i64 {
    usage.voluntary_context_switches() + usage.involuntary_context_switches()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solo::Solo;

    fn run(line: &str, around: Around) -> Result<Measured> {
        let solo = Solo {
            schema: String::new(),
            boot_id: String::new(),
            cpu_speed: BTreeMap::new(),
            fast_cpus: vec![0],
            rates: BTreeMap::new(),
        };
        let (warmup, window) = (Duration::from_millis(10), Duration::from_millis(50));
        AnyCommand::new(line, around).run(&Env { solo: &solo, warmup, window, stretch: 1.0, pins: None })
    }

    fn metric(text: &str) -> Printed {
        text.parse().unwrap()
    }

    #[test]
    fn a_command_is_timed_and_its_numbers_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("prepared");
        let around = Around {
            label: None,
            prepare: Some(format!("echo 1 >> {}", file.display())),
            beside: vec!["sleep 0.01".into()],
            metrics: vec![
                metric("(?<rps>[0-9,.]+) requests:better=higher"),
                metric("p99 ([0-9]+):better=lower"),
            ],
        };
        let result = run("sleep 0.03; echo 7 requests; echo 12,345.5 requests, p99 17", around).unwrap();
        assert!(result.metrics["time_ms"] >= 30.0 && result.metrics["cpu_ms"] < result.metrics["time_ms"]);
        assert!((result.metrics["higher_rps"] - 12_345.5).abs() < 1e-9);
        assert!((result.metrics["lower_printed"] - 17.0).abs() < 1e-9);
        let runs = result.detail["times_ms"].as_array().unwrap().len();
        assert_eq!(std::fs::read_to_string(file).unwrap().lines().count(), runs);
    }

    #[test]
    fn each_failure_is_one_line_that_names_the_command() {
        let beside = |line: &str| Around { beside: vec![line.into()], ..Around::default() };
        let prints = Around { metrics: vec![metric("n=([0-9]+):better=higher")], ..Around::default() };
        let prepares = Around { prepare: Some("echo no disk; false".into()), ..Around::default() };
        for (line, around, shown) in [
            ("echo bad luck; exit 3", Around::default(), "bad luck"),
            ("no-such-program", Around::default(), "not found"),
            ("echo nothing", prints, "no number"),
            ("true", prepares, "no disk"),
            ("sleep 0.1", beside("false"), "run it alone"),
        ] {
            let error = run(line, around).unwrap_err().to_string();
            assert!(error.contains(shown) && !error.contains('\n'), "{line}: {error}");
        }
    }

    #[test]
    fn leftover_processes_end_with_the_run() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pid");
        run(&format!("sleep 1000 >/dev/null 2>&1 & echo $! > {}", file.display()), Around::default())
            .unwrap();
        let pid: i32 = std::fs::read_to_string(file).unwrap().trim().parse().unwrap();
        let gone = || {
            let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            state.rsplit(')').next().is_none_or(|rest| rest.trim().is_empty() || rest.trim().starts_with('Z'))
        };
        let deadline = Instant::now() + Duration::from_secs(20);
        while !gone() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(gone());
    }

    #[test]
    fn metrics_survive_printing_and_mistakes_show_the_form() {
        for text in ["([0-9]+) ms:better=lower", "a:better=b ([0-9]+):better=higher"] {
            assert_eq!(metric(text).to_string(), text);
        }
        for bad in
            ["", "x", "(a)", "(a):better=more", "a:better=lower", "(a)(b):better=lower", "(:better=lower"]
        {
            let error = bad.parse::<Printed>().unwrap_err();
            assert!(!error.is_empty() && !error.contains('\n'), "{bad}: {error}");
        }
    }
}
