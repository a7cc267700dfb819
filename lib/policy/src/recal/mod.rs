// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Recalibration: keeps the capacity table true while the speed of CPUs changes.
//!
//! # Problem
//!
//! The table is measured once. Later a CPU gets hot, a governor or a user caps its clock, or a
//! hypervisor takes its time away. Its costs are then wrong for seconds or permanently, and so is
//! the charge rate of every task there. A table that follows each reading follows noise instead,
//! and each change of the table migrates tasks.
//!
//! # Approach
//!
//! A reading counts only as a ratio to the CPU's reading at the time when its entry was true
//! ([`Reference`]). So different types of readings are comparable:
//!
//! | evidence | reading | believed when |
//! |---|---|---|
//! | [`Evidence::Cycles`] | cycles per time counted while tasks ran | faster, or the CPU was busy |
//! | [`Evidence::Spot`] | time of a step of the execute loop | cycles are not counted, or off |
//! | [`Evidence::Limit`] | share of the clock that a policy leaves | there is no other evidence |
//!
//! Fewer cycles count only for a busy CPU, because a governor slows other CPUs by choice.
//!
//! * A filter: a ratio counts after several consecutive readings that were off by more than 4 % in
//!   the same direction. Their median becomes the new ratio. A CPU that changes too often needs
//!   more readings.
//! * [`scaled`](crate::costs::scaled): the clock scales execution and stalls inside the core, which
//!   are cycles. Stalls outside the core take the same time at any clock. The asymmetric VM
//!   (`tests/ampvm`) does the same: a throttled vCPU keeps internal stalls in cycles and external
//!   ones in ns.
//! * A CPU without a recent reading follows the others of its class. The number of busy cores
//!   changes all clocks of a package, and idle cores must not appear faster because of that. A CPU
//!   follows upwards only if its last reading agreed with its class. It follows downwards only two
//!   or more other CPUs, because a single one may be hot by itself.
//! * [`Recal::join`]: a spot check supplies the entry of a CPU that comes online later.
//! * [`reclassify`](crate::costs::reclassify): when speeds have crossed, CPUs get new classes, with
//!   hysteresis.
//!
//! The reference is the count or time of the CPU at calibration. Without one, the first readings
//! that agree with each other become the reference. Such a learned reference rises to the fastest
//! reading, so the table describes each CPU at its best.
//!
//! # Invariants
//!
//! Tests check all of these:
//! * Each table passes [`CapacityTable::check`]: it is normalised to the best CPU, and at least one
//!   CPU is fast.
//! * Without a reading nothing changes. Neither readings within the tolerance of the entry nor
//!   outliers change it.
//! * After a step of the speed, the entry is correct within as many readings as the filter
//!   requires.
//! * A CPU whose speed returns gets exactly its old entry back.
//! * The number of changes of a CPU per minute by its own readings is bounded for all readings.
//! * Each change of an entry is reported with old entry, new entry and cause.
//! * A CPU that joins leaves all other CPUs in the table, and their costs keep their ratios. An
//!   invalid time, or no reference to compare it with, changes nothing.
//! * No input panics.
//!
//! # Limits
//!
//! * Recalibration does not follow external stalls, so it misses a memory clock that drops.
//! * A learned reference is wrong if the CPU was throttled at that time, until the CPU shows a
//!   higher speed.
//! * A CPU that holds a speed for less time than the filter requires keeps its old costs.

mod clocks;
mod state;
#[cfg(test)]
mod tests;

pub use clocks::{Change, Entry, Newcomer, Recal, Reference, Sample, Want};
pub use state::{Cause, Evidence, FRESH_MS, Trigger};
