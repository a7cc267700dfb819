//! The sources of events that the main thread waits for.

use std::time::Duration;

use crossbeam::channel::{Receiver, never, select};

use super::protocol::Question;
use super::signals::Signal;
use crate::recal::thermal::ThermalEvent;

/// Longest time between two checks for the end of the scheduler. Each check wakes this process,
/// which preempts a task on a busy machine.
pub(super) const POLL: Duration = Duration::from_millis(500);

/// Reason for which the main thread wakes up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wakeup {
    Signal(Signal),
    Asked(Question),
    /// An event of an opted-in cgroup arrived.
    Hinted,
    /// A thermal event arrived.
    Thermal(ThermalEvent),
    /// No event arrived in time, or a sender has ended.
    Quiet,
}

/// Sources that wake the main thread.
pub(super) struct Inputs<'a> {
    pub(super) signals: &'a mut Receiver<Signal>,
    pub(super) questions: Receiver<Question>,
    pub(super) bell: Receiver<()>,
    pub(super) thermal: Receiver<ThermalEvent>,
}

impl Inputs<'_> {
    /// Wait for an event, `patience` at most. If the sender of a source has ended, replace that
    /// source by one that never fires.
    pub(super) fn wait(&mut self, patience: Duration) -> Wakeup {
        select! {
            recv(self.signals) -> signal => signal.map_or_else(|_| {
                *self.signals = never();
                Wakeup::Quiet
            }, Wakeup::Signal),
            recv(self.bell) -> rang => rang.map_or_else(|_| {
                self.bell = never();
                Wakeup::Quiet
            }, |()| Wakeup::Hinted),
            recv(self.thermal) -> thermal => thermal.map_or_else(|_| {
                self.thermal = never();
                Wakeup::Quiet
            }, Wakeup::Thermal),
            recv(self.questions) -> asked => asked.map_or_else(|_| {
                self.questions = never();
                Wakeup::Quiet
            }, Wakeup::Asked),
            default(patience) => Wakeup::Quiet,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam::channel::unbounded;
    use std::time::Instant;

    #[test]
    fn the_watching_thread_hears_everyone_and_outlives_them() {
        const SHORT: Duration = Duration::from_millis(5);
        let (stop, mut signals) = unbounded();
        let (ask, questions) = unbounded();
        let (rope, bell) = unbounded();
        let (announce, thermal) = unbounded();
        let mut inputs = Inputs { signals: &mut signals, questions, bell, thermal };
        assert_eq!(inputs.wait(SHORT), Wakeup::Quiet);
        assert!(ask.send(Question::Tasks).is_ok());
        assert_eq!(inputs.wait(SHORT), Wakeup::Asked(Question::Tasks));
        assert!(rope.send(()).is_ok());
        assert_eq!(inputs.wait(SHORT), Wakeup::Hinted);
        assert!(announce.send(ThermalEvent::Somewhere).is_ok());
        assert_eq!(inputs.wait(SHORT), Wakeup::Thermal(ThermalEvent::Somewhere));
        drop((ask, rope, announce));
        for _ in 0..3 {
            assert_eq!(inputs.wait(SHORT), Wakeup::Quiet);
        }
        let quiet = Instant::now();
        assert_eq!(inputs.wait(SHORT), Wakeup::Quiet);
        assert!(quiet.elapsed() >= SHORT / 2, "what has ended must not keep this thread busy");
        assert!(stop.send(Signal::Stop).is_ok());
        assert_eq!(inputs.wait(SHORT), Wakeup::Signal(Signal::Stop));
    }
}
