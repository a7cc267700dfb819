// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! State of the running scheduler for users: `scx_bias status`, `scx_bias top`, `scx_bias swaps`.
//!
//! # Problem
//! A scheduler that judges tasks must be able to explain a task's place: its stalls, its bias, and
//! the cause of its last migration. Where it cannot judge, it must give the reason and a remedy.
//!
//! # Approach
//! The running instance answers requests on its socket ([`bias_agent::control`]).
//! [`bias_agent::control::Client`] sends them and maps every failure to a line with a remedy.
//! [`shares`] computes rates from two successive answers. [`status`] and [`top_table`] are
//! functions from answers to text, without a terminal or a clock. [`live`] repeats them for pipes
//! and files. On a terminal, [`screen`] shows the same columns with ratatui.
//!
//! # Limits
//! Only one instance can run, and all sched_ext schedulers share the path of the socket. So a
//! client asks for data that only scx_bias has, to recognise another scheduler.

mod cgroups;
mod confined;
mod exporter;
mod feed;
mod live;
mod metrics;
mod monitor;
mod recal;
mod screen;
mod shares;
mod status;
mod swaps;
#[cfg(test)]
mod tests;
mod top_table;
mod trace;
pub mod words;

use std::path::Path;

use bias_agent::boot_time;
use bias_agent::ejections::{self, Ejection};
use bias_agent::failure::Failure;
use bias_agent::figures;
use bias_agent::optin::journal;

use bias_agent::control::{Client, Machine};
pub use cgroups::{cgroups, restored};
pub use exporter::Exporter;
pub use feed::TopOptions;
pub use live::top;
pub use monitor::monitor;
use shares::{BiasCounts, TaskSummary};
pub use status::{json as status_json, text as status_text};
pub use swaps::swaps;
pub use trace::trace;

/// Return the status of the instance on the usual socket, or on `socket`, as text or JSON.
///
/// # Errors
/// As [`Client::status`]. Tasks that cannot be listed are no failure: the status says so.
pub fn status(socket: Option<&Path>, json: bool) -> Result<String, Failure> {
    let ejections = ejections::last(Path::new(journal::DIRECTORY));
    let mut client = Client::connect(socket).map_err(|failure| with_last(failure, &ejections))?;
    let report = client.status()?;
    let tasks = summary(&mut client, &report.machine);
    if json { status_json(&report, &tasks, &ejections) } else { Ok(status_text(&report, &tasks, &ejections)) }
}

/// Summarise the tasks. Ask again if the start of this program may have disturbed them.
fn summary(client: &mut Client, machine: &Machine) -> Result<TaskSummary, Failure> {
    let mut tasks = client.tasks(None)?.tasks;
    if confined::are_doubtful(&tasks, machine) {
        std::thread::sleep(confined::SETTLE);
        tasks = client.tasks(None)?.tasks;
    }
    Ok(TaskSummary::of(&tasks, machine))
}

/// Return the state of the instance on the usual socket, or on `socket`, in the OpenMetrics format.
///
/// # Errors
/// As [`status`].
pub fn metrics(socket: Option<&Path>) -> anyhow::Result<String> {
    let mut client = Client::connect(socket)?;
    let report = client.status()?;
    let tasks = client.tasks(None).ok().map(|report| BiasCounts::of(&report.tasks));
    metrics::text(&report, tasks.as_ref(), &ejections::last(Path::new(journal::DIRECTORY)))
}

/// Extend the failure to reach an instance by the reason why the kernel ended the last one.
fn with_last(failure: Failure, ejections: &[Ejection]) -> Failure {
    let last = ejections.last().map(std::slice::from_ref).unwrap_or_default();
    match ejections::lines(last, boot_time::wall_ms()).first() {
        Some(line) => Failure::new(failure.exit, format!("{}; the kernel ended it {line}", failure.message)),
        None => failure,
    }
}

/// Make the instance on the usual socket, or on `socket`, read its configuration again. Return the
/// text to print, as lines or as JSON.
///
/// # Errors
/// As [`Client::reload`].
pub fn reload(socket: Option<&Path>, json: bool) -> Result<String, Failure> {
    let report = Client::connect(socket)?.reload()?;
    if json {
        return figures::json(&report, "reload");
    }
    Ok(report.lines().into_iter().map(|line| line + "\n").collect())
}
