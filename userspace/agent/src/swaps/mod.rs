// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Planned swaps: the agent's part in placing tasks where they gain most.
//!
//! # Problem
//! On a balanced system, where every CPU is busy and no task waits, dispatch never corrects a bad
//! initial placement. The kernel side's own swaps (`bpf/move.bpf.h`) cover the part of the machine
//! that a tick can search. They act on predictions alone and never check the result.
//!
//! # Approach
//! Every interval:
//!
//! 1. Take a snapshot of each CPU's resident task from memory shared with the kernel side
//!    ([`bias_policy::swap::precheck`]). If no pair promises a gain, stop here.
//! 2. Query these tasks and make a plan ([`bias_policy::swap`]).
//! 3. Ask for each swap of the plan. The kernel side checks it once more (`bpf/swap.bpf.h`). The
//!    tasks of a refused swap wait, twice as long each time.
//! 4. Follow each swap that was carried out as a [`trial`]: compare instructions per time of both
//!    tasks before and after. [`bias_policy::audit`] judges it, delays tasks whose swaps do not
//!    pay, and learns.
//!
//! The learned factors go into the costs of slow CPUs ([`crate::costs`]). The measured time of
//! migrations goes into the planner's limits.
//!
//! The time until the next snapshot, in intervals:
//!
//! | intervals | state |
//! |---|---|
//! | 1 | a swap looks profitable, or a trial is open, or queueing began only recently |
//! | 2 | placement is good, or promising pairs repeatedly give an empty plan |
//! | 5 | tasks keep queueing on every node, so that each dispatch places them anyway |
//!
//! The loop also watches an idle machine, because a load may begin at any time. A queue in a single
//! snapshot, or a single lost or refused swap, costs one interval. Only repetition costs more.
//!
//! With the kernel side's swaps on, which is the default, this module handles only what they cannot
//! reach (large machines) and what they get wrong. Tasks of about equal gain are not swapped here.
//! The kernel side rotates them (`rotate_gap`), which is all that a homogeneous load can gain.
//!
//! # Invariants
//! Tests of this module check these:
//!
//! * A task that has ended is never swapped, and pid reuse does not confuse it with another task.
//! * Refusals and requests without effect become rare. Where nothing changes, swaps end.
//! * An interval has at most as many swaps as the planner's limit. Memory is bounded.
//! * No answer of the kernel side causes a panic. If its calls keep failing, swaps are off and
//!   `status` says so.
//!
//! # Limits
//! Swaps of the kernel side are not judged. Instructions count as work. Weights are ignored.

mod backend;
#[cfg(test)]
pub(crate) mod fake;
mod report;
mod rt_guard;
mod swap_loop;
#[cfg(test)]
mod tests;
mod trial;

pub use backend::{Refusal, Side, SwapBackend, SwapRequest, Task};
pub use report::{SwapRecord, SwapSummary, SwapsReport, Tally};
pub use rt_guard::RtGuard;
pub use swap_loop::{SwapOptions, Swaps};
