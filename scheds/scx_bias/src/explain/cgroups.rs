// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `scx_bias cgroup`: the opted-in cgroups as text.

use std::path::Path;

use bias_agent::control::Client;
use bias_agent::failure::Failure;
use bias_agent::figures::{self, count};
use bias_agent::optin::{CgroupReport, CgroupRequest, CgroupsReport};

/// Send a request to the instance on the usual socket, or on `socket`. Return the text to print, as
/// lines or as JSON.
///
/// # Errors
/// As [`Client::cgroups`]. Usage failure for an invalid path.
pub fn cgroups(socket: Option<&Path>, request: CgroupRequest, json: bool) -> Result<String, Failure> {
    // The instance has another working directory.
    let absolute = |path: &Path| {
        let usage = |error| {
            Failure::usage(format!("cgroup {}: is no path ({error}); name a directory", path.display()))
        };
        std::path::absolute(path).map_err(usage)
    };
    let request = match &request {
        CgroupRequest::List => CgroupRequest::List,
        CgroupRequest::Add(path) => CgroupRequest::Add(absolute(path)?),
        CgroupRequest::Remove(path) => CgroupRequest::Remove(absolute(path)?),
    };
    let report = Client::connect(socket)?.cgroups(&request)?;
    if json {
        return figures::json(&report, "cgroup");
    }
    Ok(lines(&report).into_iter().map(|line| line + "\n").collect())
}

/// Return the text to print after the policies of `threads` threads were restored: none if there
/// were none, unless JSON is requested.
///
/// # Errors
/// Runtime failure when it cannot be written as JSON.
pub fn restored(threads: usize, json: bool) -> Result<String, Failure> {
    if json {
        return figures::json(&serde_json::json!({ "restored": threads }), "restored");
    }
    Ok(match threads {
        0 => String::new(),
        _ => format!(
            "{} of a scx_bias that was killed: the policies from before are restored\n",
            count(threads, "thread")
        ),
    })
}

/// Return a line for each cgroup and each note.
pub(super) fn lines(report: &CgroupsReport) -> Vec<String> {
    let mut lines: Vec<String> = report.cgroups.iter().map(line).collect();
    lines.extend(
        report.waiting.iter().map(|path| format!("{path}: not there; it is opted in when it appears")),
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
    fn where_there_was_nothing_to_restore_only_machines_are_told() {
        assert_eq!(restored(0, false).unwrap(), "");
        assert!(restored(0, true).unwrap().ends_with("\"restored\": 0\n}\n"));
        assert!(restored(1, false).unwrap().starts_with("1 thread of a scx_bias"));
    }

    #[test]
    fn nothing_is_said_to_be_nothing() {
        assert_eq!(lines(&CgroupsReport::default()), ["none; `scx_bias cgroup add PATH` adds one"]);
    }

    #[test]
    fn one_is_not_many() {
        let cgroup = CgroupReport { path: "/a".into(), threads: 1, real_time: 1 };
        assert_eq!(line(&cgroup), "/a: 1 thread; 1 real-time thread keeps its policy");
    }
}
