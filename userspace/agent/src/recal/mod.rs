// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Recalibration while scheduling: keeps the clocks in the costs of CPUs true.
//!
//! # Problem
//! CPUs get hot, are capped, and go offline and online. Their present speed has to follow from work
//! that runs anyway, at almost no cost.
//!
//! # Approach
//! [`bias_policy::recal`] decides what readings mean. This module takes the readings and passes
//! them on. A step each [`EVERY`] uses three sources:
//!
//! * The kernel side adds up cycles and time per CPU while tasks run. Their ratio is the clock of
//!   the CPUs that count.
//! * A spot check measures idle CPUs of which the cycles say too little ([`spot`]). It runs the
//!   calibration's execute loop for a moment on a thread of the lowest priority, for a few CPUs at
//!   a time. It runs only while something runs on some CPU, because on an idle machine the table
//!   decides nothing. A CPU that seems to have changed is checked again each [`AGAIN`] until the
//!   change is certain.
//! * sysfs shows limits of the clock and counts of thermal throttling ([`limits`]). They are read
//!   every two seconds, and soon after the kernel announces that a part got hot ([`thermal`]).
//!   Where they change, the CPU needs less evidence.
//!
//! The owner of the costs publishes the result ([`crate::costs`]). Each change of an entry is
//! logged with old value, new value and cause. `scx_bias status` shows the last [`KEPT`] of them.
//! Nothing is stored: the next start spot-checks the stored table as usual.
//!
//! CPUs that come online later and are not in the table are measured and added to it ([`late`]).
//!
//! # Invariants
//! Without readings nothing changes, and the status says so. The watching thread never waits for a
//! measurement. Each step begins at most [`SPOTS`] checks. On hardware a check takes some hundred
//! microseconds, or 40 ms and more where a CPU seems to have changed.
//!
//! # Limits
//! With opted-in cgroups, an idle CPU may be busy for the default scheduler. Its check then takes
//! too long and is dropped.

#[cfg(test)]
mod beside_tests;
mod checks;
mod late;
pub mod limits;
mod recalibrator;
mod report;
pub mod spot;
#[cfg(test)]
mod testkit;
#[cfg(test)]
mod tests;
pub mod thermal;

pub use recalibrator::{CpuReading, EVERY, KEPT, Recalibrator, line, references};
pub use report::{CpuRecal, Follows, RecalReport};
