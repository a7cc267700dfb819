// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `scx_bias cgroup`: opts cgroups in and out, and lists them.

use std::path::{Path, PathBuf};

use anyhow::Result;
use bias_agent::failure::{Exit, Failure};
use bias_agent::figures::{self, count};
use bias_agent::housekeeping;
use bias_agent::optin::{self, CgroupReport, CgroupRequest, CgroupsReport};
use clap::{Args, Subcommand};
use tracing::Level;

use crate::cli::SocketArg;
use crate::help;
use crate::output::{log, print};

const HELP: &str = "\
Each command prints the resulting list of opted-in cgroups. Real-time threads
keep their policy. Threads get their earlier policy back when their cgroup is
removed, when they leave it, when scx_bias ends, and when it starts again after
it was killed; `scx_bias cgroup restore` does the same without starting it.
cpu.weight counts among opted-in threads only.";

/// Opt cgroups in to a running scx_bias that was started with --cgroup or --partial, or remove them
#[derive(Debug, Args)]
#[command(after_help = help::exit_codes(), after_long_help = help::long(HELP))]
pub struct CgroupArgs {
    #[command(subcommand)]
    action: CgroupAction,

    /// Print JSON for machines
    #[arg(long, global = true)]
    json: bool,

    #[command(flatten)]
    socket: SocketArg,
}

#[derive(Debug, Subcommand)]
enum CgroupAction {
    /// Opt a cgroup in: its threads and those of cgroups below it run under scx_bias
    Add {
        /// Directory of the cgroup, such as /sys/fs/cgroup/work.slice
        path: PathBuf,
    },
    /// Remove a cgroup: its threads get back their earlier policy
    Remove {
        /// Directory of the cgroup
        path: PathBuf,
    },
    /// Show the opted-in cgroups, each with the count of its threads under scx_bias
    List,
    /// Restore the policies and affinities of threads after scx_bias was killed. No instance needs
    /// to run. Prints nothing if there is nothing to do
    Restore,
}

impl CgroupArgs {
    pub fn run(self) -> Result<Exit> {
        let request = match &self.action {
            CgroupAction::Add { path } => CgroupRequest::Add(absolute(path)?),
            CgroupAction::Remove { path } => CgroupRequest::Remove(absolute(path)?),
            CgroupAction::List => CgroupRequest::List,
            CgroupAction::Restore => {
                let _ = log(Level::WARN);
                housekeeping::restore()?;
                return print(&restored(optin::restore()?, self.json)?);
            }
        };
        let report = self.socket.connect()?.cgroups(&request)?;
        if self.json {
            return print(&figures::json(&report, "cgroup")?);
        }
        print(&lines(&report).into_iter().map(|line| line + "\n").collect::<String>())
    }
}

/// Return the path from the root. The instance has another working directory.
fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|error| {
        Failure::usage(format!("cgroup {}: is not a path ({error}); name a directory", path.display()))
    })
}

/// Return the text to print after the policies of `threads` threads were restored: none if there
/// were none, unless JSON is requested.
fn restored(threads: usize, json: bool) -> Result<String, Failure> {
    if json {
        return figures::json(&serde_json::json!({ "restored": threads }), "restored");
    }
    Ok(match threads {
        0 => String::new(),
        _ => format!(
            "restored the policies of {} that a killed scx_bias had switched\n",
            count(threads, "thread")
        ),
    })
}

/// Return a line for each cgroup and each note.
pub(super) fn lines(report: &CgroupsReport) -> Vec<String> {
    let mut lines: Vec<String> = report.cgroups.iter().map(line).collect();
    lines.extend(
        report.waiting.iter().map(|path| format!("{path}: does not exist; it is opted in when it appears")),
    );
    if lines.is_empty() {
        lines.push("none; `scx_bias cgroup add PATH` adds one".to_owned());
    }
    lines.extend(report.notes.iter().cloned());
    lines
}

fn line(cgroup: &CgroupReport) -> String {
    let mut line = format!("{}: {}", cgroup.path, count(cgroup.threads, "thread"));
    if cgroup.real_time > 0 {
        let keep = if cgroup.real_time == 1 { "keeps its" } else { "keep their" };
        line += &format!("; {} {keep} policy", count(cgroup.real_time, "real-time thread"));
    }
    line
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn nothing_to_restore_is_reported_only_in_json() {
        assert_eq!(restored(0, false).unwrap(), "");
        assert!(restored(0, true).unwrap().ends_with("\"restored\": 0\n}\n"));
        assert!(restored(1, false).unwrap().contains("of 1 thread that"));
    }

    #[test]
    fn an_empty_list_names_the_command_that_adds_a_cgroup() {
        assert_eq!(lines(&CgroupsReport::default()), ["none; `scx_bias cgroup add PATH` adds one"]);
    }

    #[test]
    fn one_thread_is_singular() {
        let cgroup = CgroupReport { path: "/a".into(), threads: 1, real_time: 1 };
        assert_eq!(line(&cgroup), "/a: 1 thread; 1 real-time thread keeps its policy");
    }
}
