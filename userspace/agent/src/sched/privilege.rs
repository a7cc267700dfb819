//! Rights that are not needed once the scheduler is attached are given up.
//!
//! Problem. Loading a scheduler takes root; a process that runs for months as root turns any mistake in it into one with all rights.
//!
//! Approach. After the attachment, and before any other thread is started, all capabilities but [`KEPT`] are dropped, also from the bounding
//! set, and nothing executed may gain any (`no_new_privs`).
//!
//! Limits. The user stays root: files of root's remain readable and writable to it, those of other users become as closed as their modes
//! say. Who has taken over this process can still load BPF programs.

use anyhow::{Context, Result};
use caps::{CapSet, Capability, CapsHashSet};

/// What is kept, and for what.
pub const KEPT: [Capability; 3] = [
    // Loading the scheduler anew when the kernel asks for it.
    Capability::CAP_BPF,
    // The same, and opening the counters of CPUs that come online.
    Capability::CAP_PERFMON,
    // Policies and nice values of opted-in threads.
    Capability::CAP_SYS_NICE,
];

/// Gives up all capabilities of this thread, and of those it starts from now on, but [`KEPT`].
///
/// # Errors
/// When the kernel refuses; then some may have been given up.
pub(super) fn give_up() -> Result<()> {
    let has = caps::read(None, CapSet::Permitted).context("cannot read capabilities")?;
    let keeps: CapsHashSet = KEPT.into_iter().filter(|cap| has.contains(cap)).collect();
    if has.contains(&Capability::CAP_SETPCAP) {
        for cap in caps::read(None, CapSet::Bounding).context("cannot read capabilities")?.difference(&keeps)
        {
            // A capability that this kernel does not know cannot be had either.
            let _ = caps::drop(None, CapSet::Bounding, *cap);
        }
    }
    nix::sys::prctl::set_no_new_privs().context("cannot refuse new privileges")?;
    for set in [CapSet::Ambient, CapSet::Inheritable] {
        caps::clear(None, set).context("cannot give up capabilities")?;
    }
    for set in [CapSet::Effective, CapSet::Permitted] {
        caps::set(None, set, &keeps).context("cannot give up capabilities")?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_what_is_kept_remains_in_the_thread_and_its_children() {
        // Capabilities belong to threads: this test's own is not touched.
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
