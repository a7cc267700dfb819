//! What the running scheduler knows and does, for people: `scx_bias status`, `scx_bias top`, `scx_bias swaps`.
//!
//! Problem. A scheduler that judges tasks must be able to say why a task is where it is: what it stalls on, what that makes of it, who moved
//! it; and when it cannot judge, why not and what to do about it.
//!
//! Approach. The running instance answers questions on its socket ([`crate::sched`]); [`client`] asks them and turns every way in which that
//! can fail into a line with a remedy. [`shares`] makes rates of two successive answers. [`status`] and [`table`] are functions from
//! answers to text, without a terminal or a clock; [`live`] repeats them, on a terminal in place.
//!
//! The terminal is driven by crossterm, which is linked for its styles anyway. A toolkit on top would lay out the same lines a second time:
//! they are needed as text, for pipes and tests.
//!
//! Limits. One instance can run, and all sched_ext schedulers share the path of the socket: whoever answers is asked for what only scx_bias
//! knows.

mod cgroups;
mod client;
mod live;
mod recal;
mod shares;
mod status;
mod swaps;
mod table;
#[cfg(test)]
mod tests;
mod words;

use std::path::Path;

use crate::failure::Failure;

pub use cgroups::cgroups;
pub use client::Client;
pub use live::{TopOptions, top};
pub use shares::{Kinds, Row, Snapshot};
pub use status::{json as status_json, text as status_text};
pub use swaps::{SwapsOptions, swaps, text as swaps_text};

/// The status of the instance on the usual socket, or on `socket`, as text or JSON.
///
/// # Errors
/// As [`Client::status`]. Tasks that cannot be listed are no failure: the status says so.
pub fn status(socket: Option<&Path>, json: bool) -> Result<String, Failure> {
    let mut client = Client::connect(socket)?;
    let report = client.status()?;
    let tasks = client.tasks().map(|tasks| Kinds::of(&tasks));
    if json { status_json(&report, &tasks) } else { Ok(status_text(&report, &tasks)) }
}

/// Makes the instance on the usual socket, or on `socket`, read its configuration again; what to print, for people or as JSON.
///
/// # Errors
/// As [`Client::reload`].
pub fn reload(socket: Option<&Path>, json: bool) -> Result<String, Failure> {
    let report = Client::connect(socket)?.reload()?;
    if json {
        return serde_json::to_string_pretty(&report)
            .map(|text| text + "\n")
            .map_err(|error| Failure::runtime(format!("cannot write the changes as JSON ({error})")));
    }
    Ok(report.lines().into_iter().map(|line| line + "\n").collect())
}
