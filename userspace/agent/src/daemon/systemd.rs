// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Notifications to the service manager, sd_notify(3). Without a service manager they have no
//! effect.

use std::time::{Duration, Instant};

use sd_notify::NotifyState;
use tracing::debug;

/// Notifier of the service manager.
pub(crate) struct Manager {
    /// Interval of watchdog messages, and time of the last one.
    watchdog: Option<(Duration, Instant)>,
}

impl Manager {
    pub(crate) fn new() -> Self {
        let interval = sd_notify::watchdog_enabled().map(|limit| limit / 3);
        Self { watchdog: interval.map(|interval| (interval, Instant::now())) }
    }

    /// Report that the scheduler runs, with this status text.
    pub(crate) fn ready(&self, status: &str) {
        tell(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    /// Replace the status text.
    pub(crate) fn status(&self, status: &str) {
        tell(&[NotifyState::Status(status)]);
    }

    /// Report that the configuration is being reloaded. A call of [`Self::ready`] must follow.
    pub(crate) fn reloading(&self) {
        let now = NotifyState::monotonic_usec_now().ok();
        tell(&[NotifyState::Reloading].into_iter().chain(now).collect::<Vec<_>>());
    }

    /// Report that the scheduler is about to restore all policies and end.
    pub(crate) fn stopping(&self) {
        tell(&[NotifyState::Stopping, NotifyState::Status("giving the CPUs back")]);
    }

    /// Report that the kernel has ended the scheduler, with the reason.
    pub(crate) fn ejected(&self, reason: &str) {
        tell(&[NotifyState::Status(&format!("ended by the kernel: {reason}"))]);
    }

    /// Send a watchdog message if one is due.
    pub(crate) fn live(&mut self, now: Instant) {
        if let Some((interval, last)) = &mut self.watchdog
            && now.saturating_duration_since(*last) >= *interval
        {
            *last = now;
            tell(&[NotifyState::Watchdog]);
        }
    }
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        debug!("the service manager was not notified: {error}");
    }
}
