//! The workers of a storm.

use crate::shared::SharedZero;
use crate::spec::Kind;
use crate::task::spawn;
use crate::work::{self, Step};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::sys::wait::{WaitStatus, waitpid};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Duration;

/// What a worker does all its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Computes without ever sleeping.
    Spinner,
    /// Sleeps a millisecond, computes a little.
    Sleeper,
    /// Forks children that compute a little and end with an unusual exit code; every fourth runs a program instead.
    Forker,
    /// Plays ping-pong with its partner, the next or previous worker, by futex.
    Futex,
}

impl Role {
    /// Name in reports.
    pub(super) fn name(self) -> &'static str {
        match self {
            Role::Spinner => "spinner",
            Role::Sleeper => "sleeper",
            Role::Forker => "forker",
            Role::Futex => "futex player",
        }
    }
}

/// Workers for a machine of this many CPUs: enough that all queues are used and nobody is ever alone. Futex players
/// come first, so that partners sit at indices 2k and 2k+1.
pub(super) fn roles(cpus: usize) -> Vec<Role> {
    let n = cpus.clamp(2, 32);
    let groups = [(Role::Futex, n / 2 * 2), (Role::Spinner, n), (Role::Sleeper, n / 2), (Role::Forker, 2)];
    groups.iter().flat_map(|&(role, n)| std::iter::repeat_n(role, n)).collect()
}

/// Tells all workers to end.
#[derive(Default)]
#[repr(C)]
pub(super) struct Control {
    pub(super) stop: AtomicU64,
}

/// What a worker publishes.
#[derive(Default)]
#[repr(C, align(64))]
pub(super) struct WorkerSlot {
    pub(super) progress: AtomicU64,
    pub(super) forks: AtomicU64,
    pub(super) execs: AtomicU64,
    pub(super) wakes: AtomicU64,
    pub(super) signals: AtomicU64,
    pub(super) errors: AtomicU64,
    /// Whose turn it is, in the slot of a futex pair's even player: 0 the even one's, 1 the odd one's.
    turn: AtomicU32,
}

// SAFETY: atomics only, valid when zero.
unsafe impl SharedZero for Control {}
// SAFETY: atomics only, valid when zero.
unsafe impl SharedZero for WorkerSlot {}

/// Signals that this process has handled.
static HANDLED: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_signal(_: nix::libc::c_int) {
    HANDLED.fetch_add(1, Relaxed);
}

/// Makes this process, and those it forks, survive the storm's signals. To be called before any worker is born: a signal
/// may reach it in its first instant.
pub(super) fn handle_signals() -> nix::Result<()> {
    let action = SigAction::new(SigHandler::Handler(on_signal), SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler only adds to an atomic.
    unsafe { sigaction(Signal::SIGUSR1, &action) }.map(drop)
}

/// A worker's life, until told to stop. Returns its exit code.
pub(super) fn live(role: Role, index: usize, control: &Control, slots: &[WorkerSlot]) -> u8 {
    let slot = &slots[index];
    let mut work = work::build(&Kind::Compute);
    let mut round = 0u64;
    while control.stop.load(Relaxed) == 0 {
        round += 1;
        let worked = match role {
            Role::Spinner => work.step() > 0,
            Role::Sleeper => {
                std::thread::sleep(Duration::from_millis(1));
                work.step() > 0
            }
            Role::Forker => bear(slot, round, &mut *work),
            Role::Futex => play(slot, &slots[index & !1].turn, (index & 1) as u32),
        };
        slot.progress.fetch_add(u64::from(worked), Relaxed);
        slot.signals.store(HANDLED.load(Relaxed), Relaxed);
    }
    0
}

/// One child: born, worked, reaped with the exit code it chose. True unless it was lost.
fn bear(slot: &WorkerSlot, round: u64, work: &mut dyn Step) -> bool {
    let well = if round.is_multiple_of(4) {
        slot.execs.fetch_add(1, Relaxed);
        let quiet = || Stdio::null();
        let status = Command::new("/bin/true").stdin(quiet()).stdout(quiet()).stderr(quiet()).status();
        status.is_ok_and(|status| status.success())
    } else {
        slot.forks.fetch_add(1, Relaxed);
        let code = (round % 100) as u8 + 1;
        let child = spawn(|| {
            work.step();
            code
        });
        child.is_ok_and(|pid| reaped_with(pid, code))
    };
    slot.errors.fetch_add(u64::from(!well), Relaxed);
    well
}

fn reaped_with(pid: nix::unistd::Pid, code: u8) -> bool {
    loop {
        match waitpid(pid, None) {
            Err(nix::errno::Errno::EINTR) => {}
            Ok(WaitStatus::Exited(_, found)) => return found == i32::from(code),
            _ => return false,
        }
    }
}

/// One turn of futex ping-pong; true if it was this player's turn. Waits at most 100 ms, to see the stop.
fn play(slot: &WorkerSlot, turn: &AtomicU32, me: u32) -> bool {
    if turn.load(SeqCst) != me {
        futex_wait(turn, 1 - me, Duration::from_millis(100));
    }
    if turn.load(SeqCst) != me {
        return false;
    }
    turn.store(1 - me, SeqCst);
    futex_wake(turn);
    slot.wakes.fetch_add(1, Relaxed);
    true
}

/// Sleeps while `word` is `value`, until woken, a signal, or the timeout.
fn futex_wait(word: &AtomicU32, value: u32, timeout: Duration) {
    let spec = nix::sys::time::TimeSpec::from(timeout);
    let timeout: *const nix::libc::timespec = spec.as_ref();
    // SAFETY: both pointers are valid for the call, which writes through neither. Not the private kind: the word is
    // shared between processes.
    unsafe { nix::libc::syscall(nix::libc::SYS_futex, word.as_ptr(), nix::libc::FUTEX_WAIT, value, timeout) };
}

/// Wakes everyone who waits on `word`.
fn futex_wake(word: &AtomicU32) {
    // SAFETY: the pointer is valid and only names the word.
    unsafe { nix::libc::syscall(nix::libc::SYS_futex, word.as_ptr(), nix::libc::FUTEX_WAKE, i32::MAX) };
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
