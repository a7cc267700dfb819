// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The performance counters of every CPU, opened for the kernel side to read.
//!
//! # Problem
//! A task's CPI stack comes from counters, and no two core types name them alike. One event code
//! means cycles of starvation on a large core and slots on the small core of the same machine. Some
//! cores count no stalls at all, and a virtual machine may count nothing or zeros. None of this may
//! end the scheduler or give a task a wrong bias.
//!
//! # Approach
//! For each CPU, find the PMU that serves it ([`sysfs`]), its core type ([`identity`]), and the
//! events to try, in this order ([`event_plan`]):
//!
//! 1. the user's events ([`events`]),
//! 2. the shipped table ([`event_table`], [`encode`]),
//! 3. the kernel's generic stall events,
//! 4. misses of the last-level cache.
//!
//! Open the first of these that works as one group of at most four events ([`open`]): cycles,
//! instructions, external, internal. The kernel side reads these slots and no others. Then run work
//! that must move the events ([`probe`]), and close those that stand still.
//!
//! Four slots leave one event for each kind of stall. The table says for each entry which stalls
//! this leaves out. In most cases it is the recovery after mispredicted branches, which then counts
//! as execution.
//!
//! The kernel closes a CPU's events when the CPU goes offline. [`Counters::open_anew`] opens them
//! when it comes back.
//!
//! # Invariants
//! [`Counters::open`] never fails: a CPU without counters is `Unknown`, with the reason and a
//! remedy. Misses are no time, so they are marked and make a CPU `Degraded`. Nothing stays open
//! that is not in use, and programs that the agent starts inherit nothing.
//!
//! # Limits
//! On some cores the external event of a `Full` CPU is a superset of memory stalls; the table says
//! which. A virtual machine may migrate between unlike cores of its host. Then its CPU model names
//! one core type, while the counts come from both.

pub mod encode;
pub mod event_plan;
pub mod event_table;
pub mod events;
#[cfg(test)]
pub(crate) mod fake;
mod group;
pub mod identity;
pub mod open;
mod opened;
pub mod probe;
pub mod read;
pub mod roles;
pub mod survey;
pub mod sysfs;
#[cfg(test)]
mod tests;

pub use events::Override;
pub use group::Group;
pub use opened::{Counters, Options};
pub use probe::Probed;
pub use read::{CounterReading, Delta};
pub use roles::{CounterState, CpuSummary, EventSummary, PerfEvent, Role, Unit};
