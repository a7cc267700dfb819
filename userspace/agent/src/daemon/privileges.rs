// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Drop the capabilities that the agent does not need after the attachment.
//!
//! # Problem
//!
//! Loading a scheduler needs root. If the process then runs as root for months, any fault in it can
//! use all capabilities.
//!
//! # Approach
//!
//! After the attachment, and before any other thread starts, the agent drops all capabilities but
//! [`KEPT`], also from the bounding set. It sets `no_new_privs`, so that no executed program gains
//! any.
//!
//! # Limits
//!
//! The user stays root: the process can still read and write root's files. Access to the files of
//! other users depends on their modes. An attacker that controls the process can still load BPF
//! programs.

use anyhow::{Context, Result};
use caps::{CapSet, Capability, CapsHashSet};

/// Capabilities that are kept, and their uses.
pub const KEPT: [Capability; 3] = [
    // Load the scheduler again when the kernel asks for it.
    Capability::CAP_BPF,
    // The same, and open the counters of CPUs that come online.
    Capability::CAP_PERFMON,
    // Set policies and nice values of opted-in threads.
    Capability::CAP_SYS_NICE,
];

/// Drop all capabilities but [`KEPT`] from this thread and from all that it starts later.
///
/// # Errors
/// Fail when the kernel refuses. Some capabilities may be gone then.
pub(crate) fn give_up() -> Result<()> {
    let has = caps::read(None, CapSet::Permitted).context("cannot read capabilities")?;
    let keeps: CapsHashSet = KEPT.into_iter().filter(|cap| has.contains(cap)).collect();
    if has.contains(&Capability::CAP_SETPCAP) {
        for cap in caps::read(None, CapSet::Bounding).context("cannot read capabilities")?.difference(&keeps)
        {
            // No thread can have a capability that this kernel does not know.
            let _ = caps::drop(None, CapSet::Bounding, *cap);
        }
    }
    nix::sys::prctl::set_no_new_privs().context("cannot set no_new_privs")?;
    for set in [CapSet::Ambient, CapSet::Inheritable] {
        caps::clear(None, set).context("cannot drop capabilities")?;
    }
    for set in [CapSet::Effective, CapSet::Permitted] {
        caps::set(None, set, &keeps).context("cannot drop capabilities")?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_and_its_children_have_only_the_kept_capabilities() {
        // Capabilities belong to threads, so the test's own thread keeps its own.
        let sets = std::thread::spawn(|| {
            give_up().unwrap();
            let child = std::thread::spawn(|| caps::read(None, CapSet::Permitted).unwrap()).join().unwrap();
            let read = |set| caps::read(None, set).unwrap();
            [child, read(CapSet::Permitted), read(CapSet::Effective), read(CapSet::Inheritable)]
        });
        for set in sets.join().unwrap() {
            assert!(set.iter().all(|cap| KEPT.contains(cap)), "{set:?}");
        }
    }
}
