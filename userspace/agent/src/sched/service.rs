//! What a service manager is told: sd_notify(3). Without one nothing happens.

use std::time::{Duration, Instant};

use sd_notify::NotifyState;
use tracing::debug;

/// The service manager's side of a run.
pub(super) struct Manager {
    /// How often it wants a sign of life, and when it got the last.
    watchdog: Option<(Duration, Instant)>,
}

impl Manager {
    pub(super) fn new() -> Self {
        let interval = sd_notify::watchdog_enabled().map(|limit| limit / 3);
        Self { watchdog: interval.map(|interval| (interval, Instant::now())) }
    }

    /// It schedules now, in this way.
    pub(super) fn ready(&self, status: &str) {
        tell(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    /// The configuration is being read again; [`Self::ready`] follows.
    pub(super) fn reloading(&self) {
        let now = NotifyState::monotonic_usec_now().ok();
        tell(&[NotifyState::Reloading].into_iter().chain(now).collect::<Vec<_>>());
    }

    /// It ends, after giving everything back.
    pub(super) fn stopping(&self) {
        tell(&[NotifyState::Stopping, NotifyState::Status("giving the CPUs back")]);
    }

    /// The kernel has ended the scheduler, for this reason.
    pub(super) fn ejected(&self, reason: &str) {
        tell(&[NotifyState::Status(&format!("ended by the kernel: {reason}"))]);
    }

    /// A sign of life, if it is time for one.
    pub(super) fn live(&mut self, now: Instant) {
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
        debug!("the service manager was not told: {error}");
    }
}
