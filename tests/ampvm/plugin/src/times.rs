// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The guest's clocks as functions of virtual time or of the host's clocks, without a jump at the
//! switch from one to the other.
//!
//! # Invariants
//! Both are property-tested.
//!
//! * No sequence of switches makes the monotonic clock or the time stamp counter go back.
//! * The time stamp counter runs at one rate.
//!
//! # Limits
//! The guest's kernel expects that no CPU reads an earlier counter than another one has read. Hence
//! a vCPU that is behind another one reads the latest counter that any vCPU has read. An interval
//! that it measures is wrong by up to a quantum at either end.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU64};

/// The host's clocks at one moment.
#[derive(Debug, Default, Clone, Copy)]
pub struct Instant {
    /// CLOCK_MONOTONIC in ns.
    pub real_ns: i64,
    pub tsc: u64,
}

/// Start and rate of the guest's time stamp counter.
#[derive(Debug, Clone, Copy)]
struct Counter {
    start: Instant,
    hz: u64,
}

#[derive(Default)]
pub struct Times {
    /// The host's clocks when the plugin was installed.
    installed: Instant,
    /// Set when virtual time takes over for the first time.
    counter: OnceLock<Counter>,
    /// The monotonic clock at virtual time zero.
    on_base_ns: AtomicI64,
    /// The monotonic clock minus the host's, while virtual time is suspended.
    off_offset_ns: AtomicI64,
    /// The latest counter that a vCPU has read.
    latest_tsc: AtomicU64,
}

impl Times {
    /// Return clocks that follow the host's.
    pub fn new(installed: Instant) -> Self {
        Self { installed, ..Self::default() }
    }

    /// Return true once virtual time has been in force.
    pub fn is_set(&self) -> bool {
        self.counter.get().is_some()
    }

    /// Switch to virtual time at `virtual_ns`. The first switch measures the counter's rate.
    pub fn switch_on(&self, virtual_ns: i64, now: Instant) {
        let measure = || {
            let ns = (now.real_ns - self.installed.real_ns).max(1) as u128;
            let ticks = u128::from(now.tsc.saturating_sub(self.installed.tsc));
            Counter { start: now, hz: (ticks * 1_000_000_000 / ns) as u64 }
        };
        self.counter.get_or_init(measure);
        self.on_base_ns.store(self.off_ns(now.real_ns) - virtual_ns, Relaxed);
    }

    /// Switch back to the host's clock at `virtual_ns`, the latest time that any vCPU has read.
    pub fn switch_off(&self, virtual_ns: i64, now: Instant) {
        self.off_offset_ns.store(self.on_ns(virtual_ns) - now.real_ns, Relaxed);
    }

    /// Return the monotonic clock while virtual time is in force.
    pub fn on_ns(&self, virtual_ns: i64) -> i64 {
        self.on_base_ns.load(Relaxed) + virtual_ns
    }

    /// Return the monotonic clock while the host's clock is in force.
    pub fn off_ns(&self, real_ns: i64) -> i64 {
        self.off_offset_ns.load(Relaxed) + real_ns
    }

    /// Return the counter at this value of the monotonic clock, or 0 before virtual time was ever
    /// in force. It never falls below a counter that was returned before.
    pub fn tsc(&self, monotonic_ns: i64) -> u64 {
        let Some(counter) = self.counter.get() else { return 0 };
        let ns = i128::from(monotonic_ns - counter.start.real_ns);
        let ticks = ns * i128::from(counter.hz) / 1_000_000_000;
        let tsc = (i128::from(counter.start.tsc) + ticks) as u64;
        self.latest_tsc.fetch_max(tsc, Relaxed).max(tsc)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn clocks_advance_through_every_switch(steps in prop::collection::vec((any::<bool>(), 0_i64..1_000_000_000), 1..50)) {
            let host = |real_ns: i64| Instant { real_ns, tsc: 1 << 40 | (real_ns as u64 * 5 / 2) };
            let times = Times::new(host(1_000_000_000));
            let (mut real, mut virtual_ns, mut on) = (6_000_000_000_i64, 0, true);
            times.switch_on(0, host(real));
            let (mut mono, mut tsc) = (times.on_ns(0), times.tsc(times.on_ns(0)));
            prop_assert!(tsc.abs_diff(host(real).tsc) < 10);
            for (switch, ns) in steps {
                // Either clock may be the faster one.
                if on { virtual_ns += ns; real += ns / 3 } else { real += ns }
                if switch {
                    on = !on;
                    if on { times.switch_on(virtual_ns, host(real)) } else { times.switch_off(virtual_ns, host(real)) }
                }
                let now = if on { times.on_ns(virtual_ns) } else { times.off_ns(real) };
                let counter = times.tsc(now);
                prop_assert!(now >= mono && counter >= tsc);
                prop_assert!(((counter - tsc) as i64 - (now - mono) * 5 / 2).abs() <= 3);
                (mono, tsc) = (now, counter);
            }
        }
    }
}
