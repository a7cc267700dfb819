// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Keep the kernel side in step with the opted-in cgroups of a run, and decide when to scan them.
//!
//! # Approach
//!
//! After an event the next scan follows soon but not at once, because events come in bursts.
//! Otherwise a scan runs every [`SWEEP`]. It runs every [`POLL`] where the kernel side cannot send
//! events, and while a leaving process or a released cgroup is watched.
//!
//! The main thread gets nice -20. It has to act in time on CPUs that are full of the busy threads
//! which it is about to switch.

use std::path::Path;
use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, never};
use nix::libc;
use tracing::{info, warn};

use crate::bpf::{Attached, CgroupEvents};
use crate::failure::Failure;
use crate::optin::cgroup::Cgroup;
use crate::optin::system::Linux;
use crate::optin::{CgroupRequest, CgroupsReport, OptIn};

/// Time between scans without events.
const SWEEP: Duration = Duration::from_secs(1);
/// Time between scans if the kernel side cannot send events, or if a change is imminent.
const POLL: Duration = Duration::from_millis(100);
/// Time between an event and the scan.
const BURST_DELAY: Duration = Duration::from_millis(20);
/// Shortest time between two scans.
const MIN_BETWEEN: Duration = Duration::from_millis(50);

/// Most rounds at the end of a run. Another round follows if events arrived in the last one.
const MAX_ENDS: usize = 32;

/// Warning about the ext deadline server, which kernels before about 7.2 lack.
const NO_SERVER: &str = "this kernel gives sched_ext no share of a CPU that the default scheduler's threads keep busy (it has no ext \
deadline server): opted-in threads can starve behind them, and after 30 s of that the kernel ends scx_bias. Leave CPUs to them, or \
add --limit-bias to schedule everything and limit only bias to these cgroups";

/// Follower of the opted-in cgroups.
pub(crate) struct PartialSwitch<'a> {
    optin: &'a mut OptIn<Linux>,
    events: Option<CgroupEvents>,
    due: Instant,
    last: Instant,
    notes: Vec<String>,
}

impl<'a> PartialSwitch<'a> {
    /// Switch the threads of the opted-in cgroups, and keep following these cgroups.
    pub(crate) fn start(optin: &'a mut OptIn<Linux>, attached: &mut Attached<'_>) -> Self {
        raise_priority();
        let mut notes = Vec::new();
        if !matches!(scx_utils::compat::struct_has_field("rq", "ext_server"), Ok(true)) {
            warn!("{NO_SERVER}");
            notes.push(NO_SERVER.to_owned());
        }
        let events = attached.events().map_err(|error| {
            info!("opted-in cgroups are looked at each {} ms, for {error:#}", POLL.as_millis());
        });
        let now = Instant::now();
        let mut this = Self { optin, events: events.ok(), due: now, last: now, notes };
        this.scan();
        this
    }

    /// Return the channel that fires when an event has arrived.
    pub(crate) fn notify(&self) -> Receiver<()> {
        self.events.as_ref().map_or_else(never, |events| events.notify().clone())
    }

    /// Record the events after a notification, and schedule the next scan soon.
    pub(crate) fn notified(&mut self) {
        self.receive();
        self.due = self.due.min((Instant::now() + BURST_DELAY).max(self.last + MIN_BETWEEN));
    }

    /// Return the time until the next scan.
    pub(crate) fn time_left(&self) -> Duration {
        self.due.saturating_duration_since(Instant::now())
    }

    /// Scan if it is time to.
    pub(crate) fn tick(&mut self) {
        if Instant::now() >= self.due {
            self.scan();
        }
    }

    /// Carry out a user's request and return the resulting state.
    ///
    /// # Errors
    /// Fail as [`OptIn::add`] and [`OptIn::remove`] do.
    pub(crate) fn answer(&mut self, request: &CgroupRequest) -> Result<CgroupsReport, Failure> {
        match request {
            CgroupRequest::List => {}
            CgroupRequest::Add(path) => self.optin.add(path)?,
            CgroupRequest::Remove(path) => self.optin.remove(path)?,
        }
        self.scan();
        Ok(self.report())
    }

    /// Return the opted-in cgroups that exist.
    pub(crate) fn cgroups(&self) -> &[Cgroup] {
        self.optin.cgroups()
    }

    /// Return the state of the opted-in cgroups.
    pub(crate) fn report(&self) -> CgroupsReport {
        let mut report = self.optin.report();
        report.notes.splice(0..0, self.notes.iter().cloned());
        report
    }

    /// Restore the policy of every switched thread.
    pub(crate) fn finish(&mut self) {
        self.optin.remove_all();
        self.follow();
        self.receive();
        for _ in 0..MAX_ENDS {
            self.optin.finish();
            if !self.receive() {
                break;
            }
        }
    }

    /// Record the pending events. Return true if there were any.
    fn receive(&mut self) -> bool {
        let now = Instant::now();
        let events: Vec<_> = self.events.iter().flat_map(CgroupEvents::receive).collect();
        events.iter().for_each(|event| self.optin.note_event(*event, now));
        !events.is_empty()
    }

    /// Opt in a cgroup of the configuration, at once or when it appears.
    ///
    /// # Errors
    /// Fail as [`OptIn::opt_in_configured`] does.
    pub(crate) fn opt_in_configured(&mut self, path: &Path) -> Result<(), Failure> {
        self.optin.opt_in_configured(path)?;
        self.scan();
        Ok(())
    }

    fn scan(&mut self) {
        self.optin.opt_in_arrived();
        self.pass();
        // A cgroup may have been removed and made again since the last scan. Only the pass above
        // has found that the old one is gone.
        if self.optin.opt_in_arrived() {
            self.pass();
        }
        self.last = Instant::now();
        self.due = self.last + if self.events.is_none() || self.optin.is_watching() { POLL } else { SWEEP };
    }

    fn pass(&mut self) {
        // First follow added and released cgroups, so that the kernel side sends events of them
        // from now on.
        self.follow();
        self.receive();
        self.optin.pass(Instant::now());
        // The pass may have found some cgroups gone.
        self.follow();
    }

    fn follow(&mut self) {
        let Some(events) = &mut self.events else { return };
        if let Err(error) = events.follow(self.optin.followed()) {
            warn!(
                "the kernel side cannot follow opted-in cgroups: {error:#}; they are looked at each {} ms",
                POLL.as_millis()
            );
            self.events = None;
        }
    }
}

/// Raise the priority of this thread. Without permission for it the agent works too, only later
/// when CPUs are busy.
fn raise_priority() {
    const HIGHEST: libc::c_int = -20;
    // SAFETY: the call takes numbers only. 0 is the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, HIGHEST) };
}
