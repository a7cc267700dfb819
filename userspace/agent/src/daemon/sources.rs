// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The sources of events that the main thread waits for.

use std::time::Duration;

use crossbeam::channel::{Receiver, RecvError, never, select};

use crate::control::Request;
use crate::daemon::signals::Signal;
use crate::marks::MarkEvent;
use crate::recal::thermal::ThermalEvent;

/// Longest time between two checks for the end of the scheduler. Each check wakes this process,
/// which preempts a task on a busy machine.
pub(crate) const POLL: Duration = Duration::from_millis(500);

/// Reason for which the main thread wakes up.
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

/// Return the event for what came from `source`, or end it if its sender has ended.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam::channel::{TryRecvError, unbounded};

    #[test]
    fn the_watching_thread_hears_everyone_and_outlives_them() {
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
}
