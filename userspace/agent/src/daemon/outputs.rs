// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Output of a run: notifications to the service manager, sd_notify(3), and periodic statistics on
//! standard output, until its reader has gone.
//!
//! # Invariants
//!
//! A failed write never ends the run. A closed pipe ends the printing, and any other error costs
//! one line. Without a service manager notifications have no effect.

use std::io::{ErrorKind, Stdout, Write, stdout};
use std::time::{Duration, Instant};

use sd_notify::NotifyState;
use tracing::{debug, warn};

use crate::bpf::Stats;

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
        tell(&[NotifyState::Stopping, NotifyState::Status("restoring policies")]);
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

/// Printer of the statistics since the last line.
pub(crate) struct Printing<W = Stdout> {
    out: W,
    at: Instant,
    printed: Stats,
    closed: bool,
}

impl Printing {
    /// Print on standard output, starting now.
    pub(crate) fn new() -> Self {
        Self::on(stdout())
    }
}

impl<W: Write> Printing<W> {
    fn on(out: W) -> Self {
        Self { out, at: Instant::now(), printed: Stats::default(), closed: false }
    }

    /// Return the time at which the next line is due, None if none is.
    pub(crate) fn due(&self, interval: Option<Duration>) -> Option<Instant> {
        interval.filter(|_| !self.closed).map(|interval| self.at + interval)
    }

    /// Print one line, as text or as JSON.
    pub(crate) fn print(&mut self, now: Instant, stats: Stats, json: bool) {
        let line = stats.since(&self.printed).shown(json);
        if let Err(error) = writeln!(self.out, "{line}").and_then(|()| self.out.flush())
            && error.kind() == ErrorKind::BrokenPipe
        {
            warn!("standard output is closed: no more statistics are printed");
            self.closed = true;
        }
        (self.at, self.printed) = (now, stats);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Option<Duration> = Some(Duration::from_secs(2));

    #[test]
    fn a_closed_pipe_ends_only_the_printing() {
        let Ok((reader, writer)) = std::io::pipe() else { return };
        let mut printing = Printing::on(writer);
        let now = Instant::now();
        printing.print(now, Stats::default(), false);
        assert_eq!(printing.due(INTERVAL), Some(now + Duration::from_secs(2)));
        assert_eq!(printing.due(None), None);
        drop(reader);
        printing.print(now, Stats::default(), true);
        assert_eq!(printing.due(INTERVAL), None);
    }

    #[test]
    fn a_full_disk_costs_a_line() {
        let Ok(full) = std::fs::File::options().write(true).open("/dev/full") else { return };
        let mut printing = Printing::on(full);
        printing.print(Instant::now(), Stats::default(), false);
        assert!(printing.due(INTERVAL).is_some());
    }

    #[test]
    fn each_line_counts_since_the_previous_one() {
        let mut printing = Printing::on(Vec::new());
        for moved in [3, 5] {
            printing.print(Instant::now(), Stats { moved, ..Stats::default() }, false);
        }
        printing.print(Instant::now(), Stats { moved: 6, ..Stats::default() }, true);
        let first = Stats { moved: 3, ..Stats::default() }.line();
        let second = Stats { moved: 2, ..Stats::default() }.line();
        let third = Stats { moved: 1, ..Stats::default() }.shown(true);
        assert!(third.starts_with("{\"schema\":\"scx_bias.stats/1\",") && third.contains("\"moved\":1,"));
        assert_eq!(String::from_utf8_lossy(&printing.out), format!("{first}\n{second}\n{third}\n"));
    }
}
