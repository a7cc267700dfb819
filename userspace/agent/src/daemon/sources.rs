// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The sources of events that the main thread waits for, among them SIGINT, SIGTERM and SIGHUP.
//!
//! SIGHUP has two meanings: a service must reload its configuration, or a terminal has closed. The
//! controlling terminal at the start decides. With one, SIGHUP stops the scheduler, as a user
//! expects when the window closes. Without one, SIGHUP reloads. Under nohup, which ignores SIGHUP,
//! it has no effect.

use std::fs::File;
use std::time::Duration;

use anyhow::{Context, Result};
use crossbeam::channel::{Receiver, RecvError, Sender, never, select, unbounded};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::control::Request;
use crate::marks::MarkEvent;
use crate::recal::thermal::ThermalEvent;

/// Longest time between two checks for the end of the scheduler. Each check wakes this process,
/// which preempts a task on a busy machine.
pub(crate) const POLL: Duration = Duration::from_millis(500);

/// Reason why the main thread wakes up.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wakeup {
    Signal(Signal),
    Asked(Request),
    /// An event of an opted-in cgroup arrived.
    CgroupEvent,
    /// A thermal event arrived.
    Thermal(ThermalEvent),
    /// A marked program came or left.
    Mark(MarkEvent),
    /// No event arrived in time, or a sender has ended.
    Quiet,
}

/// Sources that wake the main thread.
pub(crate) struct Sources<'a> {
    pub(crate) signals: &'a mut Receiver<Signal>,
    pub(crate) requests: Receiver<Request>,
    pub(crate) notify: Receiver<()>,
    pub(crate) thermal: Receiver<ThermalEvent>,
    pub(crate) marks: Receiver<MarkEvent>,
}

impl Sources<'_> {
    /// Wait for an event, `time_left` at most. If the sender of a source has ended, replace that
    /// source by one that never fires.
    pub(crate) fn wait(&mut self, time_left: Duration) -> Wakeup {
        select! {
            recv(self.signals) -> got => wakeup(got, self.signals, Wakeup::Signal),
            recv(self.notify) -> got => wakeup(got, &mut self.notify, |()| Wakeup::CgroupEvent),
            recv(self.thermal) -> got => wakeup(got, &mut self.thermal, Wakeup::Thermal),
            recv(self.marks) -> got => wakeup(got, &mut self.marks, Wakeup::Mark),
            recv(self.requests) -> got => wakeup(got, &mut self.requests, Wakeup::Asked),
            default(time_left) => Wakeup::Quiet,
        }
    }
}

/// Return the event for a message of `source`, or disable `source` if its sender has ended.
fn wakeup<T>(
    got: Result<T, RecvError>,
    source: &mut Receiver<T>,
    wakeup: impl FnOnce(T) -> Wakeup,
) -> Wakeup {
    got.map(wakeup).unwrap_or_else(|RecvError| {
        *source = never();
        Wakeup::Quiet
    })
}

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
    use crossbeam::channel::TryRecvError;

    #[test]
    fn every_source_wakes_the_main_thread_until_its_sender_ends() {
        const SHORT: Duration = Duration::from_millis(5);
        let (stop, mut signals) = unbounded();
        let (ask, requests) = unbounded();
        let (sender, notify) = unbounded();
        let (announce, thermal) = unbounded();
        let (mark, marks) = unbounded();
        let mut sources = Sources { signals: &mut signals, requests, notify, thermal, marks };
        assert_eq!(sources.wait(SHORT), Wakeup::Quiet);
        assert!(ask.send(Request::Tasks(None)).is_ok());
        assert_eq!(sources.wait(SHORT), Wakeup::Asked(Request::Tasks(None)));
        assert!(sender.send(()).is_ok());
        assert_eq!(sources.wait(SHORT), Wakeup::CgroupEvent);
        assert!(announce.send(ThermalEvent::Somewhere).is_ok());
        assert_eq!(sources.wait(SHORT), Wakeup::Thermal(ThermalEvent::Somewhere));
        assert!(mark.send(MarkEvent::Ended { pid: 7 }).is_ok());
        assert_eq!(sources.wait(SHORT), Wakeup::Mark(MarkEvent::Ended { pid: 7 }));
        drop((ask, sender, announce, mark));
        for _ in 0..4 {
            assert_eq!(sources.wait(SHORT), Wakeup::Quiet);
        }
        // A source whose sender has ended would keep this thread busy if it still fired.
        assert_eq!(sources.requests.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(sources.notify.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(sources.thermal.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(sources.marks.try_recv(), Err(TryRecvError::Empty));
        assert!(stop.send(Signal::Stop).is_ok());
        assert_eq!(sources.wait(SHORT), Wakeup::Signal(Signal::Stop));
    }

    #[test]
    fn signals_ignored_before_the_start_are_detected() {
        let status = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\nSigCgt:\t00000000ffffffff\n";
        assert!(ignores(status, SIGHUP) && !ignores(status, SIGINT));
        assert!(!ignores("", SIGHUP) && !ignores("SigIgn:\tx\n", SIGHUP));
    }
}
