// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Times of events that stay right when the wall clock is set and when the machine sleeps.
//!
//! # Problem
//! The age of an event by the wall clock is wrong after a step of that clock, and by
//! CLOCK_MONOTONIC after a suspend.
//!
//! # Approach
//! Events are recorded by CLOCK_BOOTTIME. [`to_wall_ms`] converts such a time when it is shown.

use std::time::{SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};

/// Return the time since boot, suspends included [ms].
#[must_use]
pub fn now_ms() -> u64 {
    // Linux has had this clock since 2.6.39.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(0, |time| {
        u64::try_from(time.tv_sec() * 1000 + time.tv_nsec() / 1_000_000).unwrap_or_default()
    })
}

/// Return the wall time of a moment that was `boot_ms` after boot [ms since 1970], by the present
/// wall clock.
#[must_use]
pub fn to_wall_ms(boot_ms: u64) -> u64 {
    wall_ms().saturating_sub(now_ms().saturating_sub(boot_ms))
}

/// Return the present wall time [ms since 1970].
#[must_use]
pub fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_the_same_by_both_clocks() {
        let boot_ms = now_ms().saturating_sub(5000);
        let age_ms = wall_ms().abs_diff(to_wall_ms(boot_ms));
        assert!((5000..3_600_000).contains(&age_ms), "{age_ms}");
    }
}
