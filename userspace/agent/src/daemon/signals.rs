// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! SIGINT, SIGTERM and SIGHUP as messages.
//!
//! SIGHUP has two meanings: a service shall reload its configuration, or a terminal has gone. The
//! controlling terminal at the start decides. With one, SIGHUP stops the scheduler, as a user
//! expects when the window closes. Without one, SIGHUP reloads. Under nohup, which ignores SIGHUP,
//! it has no effect.

use std::fs::File;

use anyhow::{Context, Result};
use crossbeam::channel::{Receiver, Sender, unbounded};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Action that a signal requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    Stop,
    Reload,
}

/// Signals that no longer end the process. They are kept until [`Self::listen`] starts a thread for
/// them, and none is lost.
pub(crate) struct Signals {
    caught: Option<Caught>,
    messages: Receiver<Signal>,
}

struct Caught {
    signals: signal_hook::iterator::Signals,
    hangup: Signal,
    sender: Sender<Signal>,
}

impl Signals {
    pub(crate) fn catch() -> Result<Self> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mut wanted = vec![SIGINT, SIGTERM];
        if !ignores(&status, SIGHUP) {
            wanted.push(SIGHUP);
        }
        let signals = signal_hook::iterator::Signals::new(wanted).context("cannot handle signals")?;
        let hangup = if File::open("/dev/tty").is_ok() { Signal::Stop } else { Signal::Reload };
        let (sender, messages) = unbounded();
        Ok(Self { caught: Some(Caught { signals, hangup, sender }), messages })
    }

    /// Return the channel on which signals arrive. The first call starts the thread that forwards
    /// them, with the capabilities that the caller has then.
    pub(crate) fn listen(&mut self) -> Result<&mut Receiver<Signal>> {
        if let Some(mut caught) = self.caught.take() {
            let hand_on = move || {
                for signal in caught.signals.forever() {
                    let meant = if signal == SIGHUP { caught.hangup } else { Signal::Stop };
                    // The receiver is gone only when the process is about to end.
                    let _ = caught.sender.send(meant);
                }
            };
            let thread = std::thread::Builder::new().name("signals".into());
            thread.spawn(hand_on).context("cannot start a thread for signals")?;
        }
        Ok(&mut self.messages)
    }
}

/// Return true if a process with this `/proc/PID/status` ignores the signal.
fn ignores(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_ignored_before_the_start_is_seen() {
        let status = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\nSigCgt:\t00000000ffffffff\n";
        assert!(ignores(status, SIGHUP) && !ignores(status, SIGINT));
        assert!(!ignores("", SIGHUP) && !ignores("SigIgn:\tx\n", SIGHUP));
    }
}
