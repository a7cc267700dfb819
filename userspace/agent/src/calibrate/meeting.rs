//! Threads that run the same loops at the same time.
//!
//! Problem. What siblings take from each other shows only while all of them run: a thread that begins late or ends early leaves the others a whole
//! core.
//!
//! Approach. All wait for each other before a loop, and after it each goes on with it, untimed, until all have finished. The wait sleeps, so that a
//! thread ahead of ordinary tasks does not keep another from getting to its CPU.
//!
//! Invariants. A thread that cannot take part says so, and then all others return at once: nothing waits for a thread that is not there.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Time between two looks whether all have come; short against a chunk.
const LOOK_EVERY: Duration = Duration::from_micros(20);

/// A number of threads that meet again and again.
#[derive(Debug)]
pub struct Meeting {
    parties: usize,
    /// Arrivals since the first meeting.
    arrived: AtomicUsize,
    cancelled: AtomicBool,
}

impl Meeting {
    /// A meeting of so many threads.
    #[must_use]
    pub fn of(parties: usize) -> Self {
        Self { parties: parties.max(1), arrived: AtomicUsize::new(0), cancelled: AtomicBool::new(false) }
    }

    /// Ends all present and future waits.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
    }

    /// Waits until all have come; false if one cannot.
    pub fn wait(&self) -> bool {
        self.wait_doing(|| std::thread::sleep(LOOK_EVERY))
    }

    /// As [`Self::wait`], calling `meanwhile` as long as one is missing.
    pub fn wait_doing(&self, mut meanwhile: impl FnMut()) -> bool {
        let before = self.arrived.fetch_add(1, Ordering::AcqRel);
        let all = (before / self.parties + 1) * self.parties;
        while self.arrived.load(Ordering::Acquire) < all {
            if self.cancelled.load(Ordering::Acquire) {
                return false;
            }
            meanwhile();
        }
        !self.cancelled.load(Ordering::Acquire)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn all_begin_together_and_none_stops_before_the_last() {
        let (meeting, finished) = (Meeting::of(3), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for late in 0..3 {
                let (meeting, finished) = (&meeting, &finished);
                scope.spawn(move || {
                    for round in 0..20 {
                        assert!(meeting.wait());
                        assert!(finished.load(Ordering::SeqCst) <= round * 3 + 2);
                        std::thread::sleep(Duration::from_micros(100 * late));
                        finished.fetch_add(1, Ordering::SeqCst);
                        assert!(meeting.wait_doing(std::thread::yield_now));
                        assert!(finished.load(Ordering::SeqCst) >= round * 3 + 3);
                    }
                });
            }
        });
    }

    #[test]
    fn nothing_waits_for_a_thread_that_cannot_come() {
        let meeting = Meeting::of(2);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| meeting.wait());
            meeting.cancel();
            assert!(!waits.join().unwrap());
        });
        assert!(!meeting.wait());
    }
}
