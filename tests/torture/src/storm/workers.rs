// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The workers of a storm.

use super::slots::{Control, WorkerSlot};
use super::{children, futex, race};
use bias_bench::spec::WorkKind;
use bias_bench::work;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Duration;

/// Activity of a worker until it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Computes without ever sleeping.
    Spinner,
    /// Sleeps a millisecond, computes a little.
    Sleeper,
    /// Forks children that compute a little and end with an unusual exit code. Every fourth time it
    /// runs a program instead.
    Forker,
    /// Plays ping-pong with its partner, the next or previous worker, by futex.
    Futex,
    /// Has short-lived threads whose scheduling attributes other threads change, see [`race`].
    Racer,
}

impl Role {
    /// Return the name in reports.
    pub(super) fn name(self) -> &'static str {
        match self {
            Role::Spinner => "spinner",
            Role::Sleeper => "sleeper",
            Role::Forker => "forker",
            Role::Futex => "futex player",
            Role::Racer => "racer",
        }
    }
}

/// Return the workers for a machine of this many CPUs: enough that all DSQs are in use and no
/// worker is ever alone. Futex players come first, so that partners are at indices 2k and 2k+1.
pub(super) fn roles(cpus: usize) -> Vec<Role> {
    let n = cpus.clamp(2, 32);
    let groups = [
        (Role::Futex, n / 2 * 2),
        (Role::Spinner, n),
        (Role::Sleeper, n / 2),
        (Role::Forker, 2),
        (Role::Racer, n.div_ceil(4)),
    ];
    groups.iter().flat_map(|&(role, n)| std::iter::repeat_n(role, n)).collect()
}

/// Signals that this process has handled.
static HANDLED: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_signal(_: nix::libc::c_int) {
    HANDLED.fetch_add(1, Relaxed);
}

/// Make this process, and those that it forks, survive the storm's signals. Call it before the
/// first worker is forked, because a signal may reach a worker right after its fork.
pub(super) fn handle_signals() -> nix::Result<()> {
    let action = SigAction::new(SigHandler::Handler(on_signal), SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler only adds to an atomic.
    unsafe { sigaction(Signal::SIGUSR1, &action) }.map(drop)
}

/// Run a worker until the stop. Return its exit code.
pub(super) fn live(role: Role, index: usize, seed: u64, control: &Control, slots: &[WorkerSlot]) -> u8 {
    let slot = &slots[index];
    if role == Role::Racer {
        return race::run(seed ^ index as u64, slot, &|| {
            slot.signals.store(HANDLED.load(Relaxed), Relaxed);
            control.stop.load(Relaxed) != 0
        });
    }
    let mut work = work::build(&WorkKind::Compute);
    let mut round = 0u64;
    while control.stop.load(Relaxed) == 0 {
        round += 1;
        let worked = match role {
            Role::Spinner => work.step() > 0,
            Role::Sleeper => {
                std::thread::sleep(Duration::from_millis(1));
                work.step() > 0
            }
            Role::Forker => bear(slot, round),
            Role::Futex => play(slot, &slots[index & !1].turn, (index & 1) as u32),
            Role::Racer => false,
        };
        slot.progress.fetch_add(u64::from(worked), Relaxed);
        slot.signals.store(HANDLED.load(Relaxed), Relaxed);
    }
    0
}

/// Fork or run one child and reap it. Return true if it ended with the expected exit code.
fn bear(slot: &WorkerSlot, round: u64) -> bool {
    let well = if round.is_multiple_of(4) {
        slot.execs.fetch_add(1, Relaxed);
        let quiet = || Stdio::null();
        let status = Command::new("/bin/true").stdin(quiet()).stdout(quiet()).stderr(quiet()).status();
        status.is_ok_and(|status| status.success())
    } else {
        slot.forks.fetch_add(1, Relaxed);
        children::ends_with((round % 100) as u8 + 1)
    };
    slot.errors.fetch_add(u64::from(!well), Relaxed);
    well
}

/// Play one move of futex ping-pong. Return true if this player could move. It waits at most 100
/// ms, to notice the stop.
fn play(slot: &WorkerSlot, turn: &AtomicU32, me: u32) -> bool {
    if turn.load(SeqCst) != me {
        futex::wait(turn, 1 - me, Duration::from_millis(100));
    }
    if turn.load(SeqCst) != me {
        return false;
    }
    turn.store(1 - me, SeqCst);
    futex::wake(turn);
    slot.wakes.fetch_add(1, Relaxed);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn futex_partners_sit_side_by_side_on_every_machine() {
        for cpus in [1, 2, 3, 4, 7, 64, 1024] {
            let roles = roles(cpus);
            let players = roles.iter().take_while(|&&role| role == Role::Futex).count();
            assert!(players >= 2 && players % 2 == 0, "{cpus}");
            assert!(!roles[players..].contains(&Role::Futex));
        }
    }
}
