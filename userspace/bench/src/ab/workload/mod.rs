// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Workloads: the programs that a cell of a comparison runs under each arm.
//!
//! # Problem
//! Schedulers differ in many ways (placement, latency, cost of a switch, fairness), and no single
//! program shows them all. But plan, runner and statistics should not depend on the workload.
//!
//! # Approach
//! One trait, [`Workload`], covers everything that can be run. A workload has a text form. It names
//! the solo rates that it needs and the parts that this machine lacks. It turns one run into
//! metrics by registry name. [`parse`] makes a workload from its text form, and [`list`] describes
//! all of them. The workloads are written here, so that their work is known. `program` runs Debian
//! programs, and `command` any command.
//!
//! # Invariants
//! * `parse(w.name())` is the same workload.
//! * A run always yields every metric that its [`Description`] lists, those of `with_pmu` where the
//!   amp PMU exists, and no others.
//! * Nothing that a run has started outlives it, whether it succeeds or fails.
//!
//! # Limits
//! Only one run at a time. The caller has one thread. Workloads that need threads fork first, see
//! `child`.

mod barrier;
mod child;
pub mod command;
mod forks;
mod groups;
mod interactive;
mod mix;
pub mod openmp;
pub mod packaged;
mod pingpong;
mod series;
mod team;
mod triad;
mod types;
mod wakeup;

pub use types::{Description, Env, Workload};

use super::sample::Measured;
use types::{count, measured, optional_count};

/// Return the descriptions of all workloads.
pub fn list() -> Vec<Description> {
    let own = [
        mix::DESCRIPTION,
        mix::SHUFFLED,
        mix::INTERLEAVED,
        interactive::DESCRIPTION,
        wakeup::DESCRIPTION,
        pingpong::DESCRIPTION,
        groups::DESCRIPTION,
        forks::DESCRIPTION,
        barrier::DESCRIPTION,
        triad::DESCRIPTION,
        openmp::DESCRIPTION,
        command::DESCRIPTION,
        packaged::DESCRIPTION,
    ];
    own.to_vec()
}

/// Make a workload from its text form.
pub fn parse(text: &str) -> std::result::Result<Box<dyn Workload>, String> {
    let end = text.find([':', '@', '+']).unwrap_or(text.len());
    let (head, rest) = text.split_at(end);
    let parsed: Option<Box<dyn Workload>> = match head {
        "shuffled" => return Ok(Box::new(mix::Shuffled::parse(rest)?)),
        "interleaved" => return mix::Interleaved::parse(rest).map(boxed),
        "interactive" => return Ok(Box::new(interactive::Interactive::parse(rest)?)),
        "wakeup" => wakeup::Wakeup::parse(rest).map(boxed),
        "pingpong" => pingpong::Pingpong::parse(rest).map(boxed),
        "groups" => groups::Groups::parse(rest).map(boxed),
        "forks" => forks::Forks::parse(rest).map(boxed),
        "barrier" => barrier::Barrier::parse(rest).map(boxed),
        "triad" => triad::Triad::parse(rest).map(boxed),
        "command" => command::AnyCommand::parse(rest).map(boxed),
        "omp" => openmp::Omp::parse(rest).map(boxed),
        "program" => packaged::parse(text).map(boxed),
        _ => return mix::MixCell::parse(text).map(boxed).map_err(|why| unknown(text, &why)),
    };
    let syntax = || {
        let known = list().into_iter().filter(|known| known.name.split(':').next() == Some(head));
        known.map(|known| known.syntax).collect::<Vec<_>>().join(", ")
    };
    parsed.ok_or_else(|| format!("'{text}' is not a workload; write {}", syntax()))
}

fn boxed(workload: impl Workload + 'static) -> Box<dyn Workload> {
    Box::new(workload)
}

/// Return the error for a text that is neither a workload nor a mix. `why` is the error as a mix,
/// which lists the kinds.
fn unknown(text: &str, why: &str) -> String {
    let known: Vec<&str> = list().iter().skip(1).map(|known| known.name).collect();
    format!("'{text}' is neither a workload ({}) nor a mix of tasks: {why}", known.join(", "))
}

#[cfg(test)]
mod tests;
