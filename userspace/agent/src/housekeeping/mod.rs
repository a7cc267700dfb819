// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Housekeeping CPU: all threads outside the selected cgroups run there, and those inside never do.
//!
//! # Problem
//!
//! Daemons and kernel threads delay the threads of a parallel program, which then wait for the
//! delayed one. [Grant06] keeps them on one slow core. With opted-in cgroups the other threads
//! belong to the default scheduler, so that the kernel side cannot place them.
//!
//! # Approach
//!
//! The agent sets affinities, which hold under every scheduler. A sweep looks at all threads each
//! [`SWEEP`], and after an event at those inside. Kernel threads count unless the kernel pins them.
//! Workers of unbound workqueues follow the mask in sysfs. [`homes`] decides, and
//! [`homes_file`] keeps what a later start needs to restore affinities after a crash.
//!
//! # Invariants
//!
//! A thread outside whose own affinity excludes the housekeeping CPU is left alone. At the
//! end, and while the housekeeping CPU is offline, each thread has the affinity that it had before,
//! or that it inherited or requested since.
//!
//! # Limits
//!
//! A new thread outside that starts with all CPUs, as kernel threads do, is found within
//! [`SWEEP`]. A thread that limits itself to exactly the housekeeping CPU meanwhile, or to all
//! others, is taken for one that inherited this. Interrupts are not moved.

mod affinity_calls;
mod choice;
mod follower;
mod homes;
mod homes_file;

pub use choice::HousekeepingCpu;
pub(crate) use follower::Housekeeper;

use std::path::Path;

use crate::failure::Failure;
use crate::optin::journal::DIRECTORY;
use affinity_calls::LinuxAffinity;
use follower::Confinement;
use homes_file::HomesFile;

/// Restore the affinities that a killed scx_bias has recorded. Do nothing if there is no record.
///
/// # Errors
/// * [`crate::failure::Exit::OtherScheduler`]: a running scx_bias holds the record.
/// * [`crate::failure::Exit::Kernel`]: the record cannot be read.
/// * [`crate::failure::Exit::Runtime`]: some affinity cannot be restored, and the record stays.
pub fn restore() -> Result<(), Failure> {
    let directory = Path::new(DIRECTORY);
    if !HomesFile::exists(directory) {
        return Ok(());
    }
    let system = LinuxAffinity::default();
    let file = HomesFile::open(directory, &system.boot())?;
    let Some(remembered) = file.read()? else { return Ok(()) };
    Confinement::resume(system, file, remembered).end()
}
