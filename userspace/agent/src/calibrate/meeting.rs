// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A barrier for threads that run the same loops at the same time.
//!
//! # Problem
//! The effect of siblings on each other shows only while all of them run. A thread that begins late
//! or ends early leaves the others a whole core.
//!
//! # Approach
//! All threads wait for each other before a loop. After it, each continues the loop, untimed, until
//! all have finished. The first wait sleeps, so that a SCHED_FIFO thread does not keep another one
//! from getting to its CPU.
//!
//! # Invariants
//! A thread that cannot take part cancels the meeting, and then all others return at once. So no
//! thread waits for one that is absent.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Time between two checks whether all have arrived; short against a chunk.
const LOOK_EVERY: Duration = Duration::from_micros(20);

/// A group of threads that meet repeatedly.
#[derive(Debug)]
pub struct Meeting {
    parties: usize,
    /// Arrivals since the first meeting.
    arrived: AtomicUsize,
    cancelled: AtomicBool,
}

impl Meeting {
    /// Return a meeting of `parties` threads.
    #[must_use]
    pub fn of(parties: usize) -> Self {
        Self { parties: parties.max(1), arrived: AtomicUsize::new(0), cancelled: AtomicBool::new(false) }
    }

    /// End all present and future waits.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
    }

    /// Wait until all have arrived. Return false if the meeting is cancelled.
    pub fn wait(&self) -> bool {
        self.wait_doing(|| std::thread::sleep(LOOK_EVERY))
    }

    /// Like [`Self::wait`], but call `meanwhile` while a thread is missing.
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
