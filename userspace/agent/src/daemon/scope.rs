// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Role of cgroups in a run: none, the scope of scheduling, or the scope of bias.
//!
//! # Approach
//!
//! Both scopes follow a [`Selection`] of cgroups: they scan it, and write the ids of its cgroups
//! into a map of the kernel side.
//!
//! * Scope of scheduling: [`OptIn`] switches the threads of these cgroups to SCHED_EXT. The kernel
//!   side sends an event when a thread comes or leaves. The next scan follows after a short delay,
//!   because events come in bursts. A scan also runs every [`SWEEP`], and every [`POLL`] where the
//!   kernel side cannot send events, and while a leaving process or a released cgroup is watched.
//!   The main thread gets nice -20. It has to act in time on CPUs that are full of the busy threads
//!   which it is about to switch.
//! * Scope of bias: the kernel side finds the tasks of these cgroups by itself (`bpf/limit.bpf.h`).
//!   No thread is touched. A scan every [`SWEEP`] finds cgroups that appeared or are gone.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use crossbeam::channel::{Receiver, never};
use nix::libc;
use tracing::{info, warn};

use crate::bpf::{Attached, CgroupEvents, CgroupMap};
use crate::control::Scope;
use crate::failure::Failure;
use crate::optin::cgroup::Cgroup;
use crate::optin::reconcile::policy;
use crate::optin::selection::Selection;
use crate::optin::system::{Linux, System};
use crate::optin::{CgroupRequest, CgroupsReport, OptIn};
use crate::options::RunOptions;

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

/// Cgroups of a run.
pub(crate) struct CgroupScope<'a> {
    members: Members<'a>,
    /// Time of the next scan.
    due: Instant,
    /// Time of the last scan.
    last: Instant,
    /// Missing features of this kernel.
    notes: Vec<String>,
}

enum Members<'a> {
    /// The whole system is scheduled alike.
    Everything,
    /// Only the threads of these cgroups, and others that ask for SCHED_EXT, are scheduled.
    Scheduled(PartialSwitch<'a>),
    /// The whole system is scheduled, but only threads of these cgroups have a bias.
    Biased(BiasFilter),
}

impl<'a> CgroupScope<'a> {
    /// Start to follow the opted-in cgroups, or those of `options` that limit bias.
    ///
    /// # Errors
    /// Fail with a usage failure when a path cannot name a cgroup. Fail also when the kernel side's
    /// map cannot be opened or written.
    pub(crate) fn start(
        optin: Option<&'a mut OptIn<Linux>>,
        options: &RunOptions,
        attached: &mut Attached<'_>,
    ) -> Result<Self> {
        let now = Instant::now();
        let mut this = Self { members: Members::Everything, due: now, last: now, notes: Vec::new() };
        if let Some(optin) = optin {
            raise_priority();
            if !matches!(scx_utils::compat::struct_has_field("rq", "ext_server"), Ok(true)) {
                warn!("{NO_SERVER}");
                this.notes.push(NO_SERVER.to_owned());
            }
            let events = attached.events().map_err(|error| {
                info!("polling opted-in cgroups every {} ms: {error:#}", POLL.as_millis());
            });
            this.members = Members::Scheduled(PartialSwitch { optin, events: events.ok() });
        } else if options.limits_bias() {
            let map =
                attached.cgroups().context("cannot inform the kernel side which cgroups have a bias")?;
            let mut filter = BiasFilter { system: Linux::default(), selection: Selection::default(), map };
            for path in &options.cgroups {
                filter.configure(path)?;
            }
            this.members = Members::Biased(filter);
        }
        this.scan(attached)?;
        Ok(this)
    }

    /// Return the channel that fires when an event has arrived.
    pub(crate) fn notify(&self) -> Receiver<()> {
        let Members::Scheduled(switch) = &self.members else { return never() };
        switch.events.as_ref().map_or_else(never, |events| events.notify().clone())
    }

    /// Record the events after a notification of that channel, and schedule the next scan soon.
    pub(crate) fn notified(&mut self) {
        if let Members::Scheduled(switch) = &mut self.members {
            switch.receive();
            self.due = self.due.min((Instant::now() + BURST_DELAY).max(self.last + MIN_BETWEEN));
        }
    }

    /// Return the time until [`Self::tick`] has work.
    pub(crate) fn time_left(&self) -> Duration {
        match self.members {
            Members::Everything => Duration::MAX,
            _ => self.due.saturating_duration_since(Instant::now()),
        }
    }

    /// Scan the cgroups if it is time to.
    pub(crate) fn tick(&mut self, attached: &mut Attached<'_>) {
        if Instant::now() >= self.due
            && let Err(failure) = self.scan(attached)
        {
            warn!("{failure}");
        }
    }

    fn scan(&mut self, attached: &mut Attached<'_>) -> Result<(), Failure> {
        let mut pause = SWEEP;
        let result = match &mut self.members {
            Members::Everything => Ok(()),
            Members::Scheduled(switch) => {
                switch.scan();
                if switch.events.is_none() || switch.optin.is_watching() {
                    pause = POLL;
                }
                Ok(())
            }
            Members::Biased(filter) => filter.scan(attached),
        };
        self.last = Instant::now();
        self.due = self.last + pause;
        result
    }

    /// Carry out a user's request and return the resulting state.
    ///
    /// # Errors
    /// Fail with a usage failure when the path is not a cgroup, when the cgroup to release was not
    /// selected, and in a run without cgroups. Fail with a runtime failure when the cgroup cannot
    /// be recorded, or when the kernel side's map cannot be written.
    pub(crate) fn answer(
        &mut self,
        request: &CgroupRequest,
        attached: &mut Attached<'_>,
    ) -> Result<CgroupsReport, Failure> {
        match (&mut self.members, request) {
            (Members::Everything, _) => {
                return Err(Failure::usage(
                    "this scx_bias schedules the whole system with all cgroups; start it with --cgroup PATH or --partial to limit it",
                ));
            }
            (_, CgroupRequest::List) => {}
            (Members::Scheduled(switch), CgroupRequest::Add(path)) => switch.optin.add(path)?,
            (Members::Scheduled(switch), CgroupRequest::Remove(path)) => switch.optin.remove(path)?,
            (Members::Biased(filter), CgroupRequest::Add(path)) => {
                filter.selection.add(filter.system.resolve(path)?)?;
            }
            (Members::Biased(filter), CgroupRequest::Remove(path)) => {
                filter.selection.remove(path, &filter.system)?;
            }
        }
        self.scan(attached)?;
        Ok(self.report())
    }

    /// Select a cgroup of the configuration, now or when it appears.
    ///
    /// # Errors
    /// Fail as [`Self::answer`] does, except when the cgroup does not exist yet.
    pub(crate) fn opt_in_configured(
        &mut self,
        path: &Path,
        attached: &mut Attached<'_>,
    ) -> Result<(), Failure> {
        match &mut self.members {
            Members::Everything => {}
            Members::Scheduled(switch) => switch.optin.opt_in_configured(path)?,
            Members::Biased(filter) => filter.configure(path)?,
        }
        self.scan(attached)
    }

    fn report(&self) -> CgroupsReport {
        let mut report = match &self.members {
            Members::Everything => CgroupsReport::default(),
            Members::Scheduled(switch) => switch.optin.report(),
            Members::Biased(BiasFilter { system, selection, .. }) => {
                selection.report(system, |of| of == policy::EXT || policy::is_switched(of))
            }
        };
        report.notes.splice(0..0, self.notes.iter().cloned());
        report
    }

    /// Return the scope of the run.
    pub(crate) fn scope(&self, attached: &Attached<'_>) -> Scope {
        let mut report = self.report();
        match self.members {
            Members::Everything => Scope::WholeSystem,
            Members::Biased(_) => Scope::BiasInCgroups(report),
            Members::Scheduled(_) => {
                let lost = attached.events_lost();
                if lost > 0 {
                    report.notes.push(format!(
                        "{lost} events of cgroups arrived too fast and were lost; threads that left then may keep SCHED_EXT"
                    ));
                }
                Scope::Cgroups(report)
            }
        }
    }

    /// Return the cgroups of the run that exist.
    pub(crate) fn cgroups(&self) -> &[Cgroup] {
        match &self.members {
            Members::Everything => &[],
            Members::Scheduled(switch) => switch.optin.cgroups(),
            Members::Biased(filter) => filter.selection.cgroups(),
        }
    }

    /// Return true if a step may scan the threads of cgroups. A scan can take long, so this thread
    /// must not be real-time meanwhile.
    pub(crate) const fn scans_threads(&self) -> bool {
        matches!(self.members, Members::Scheduled(_))
    }

    /// Restore the policy of every switched thread.
    pub(crate) fn finish(&mut self) {
        if let Members::Scheduled(switch) = &mut self.members {
            switch.finish();
        }
    }
}

/// Opted-in cgroups, and the events about them.
struct PartialSwitch<'a> {
    optin: &'a mut OptIn<Linux>,
    events: Option<CgroupEvents>,
}

impl PartialSwitch<'_> {
    fn scan(&mut self) {
        self.optin.opt_in_arrived();
        self.pass();
        // A cgroup may have been removed and made again since the last scan. Only the pass above
        // has found that the old one is gone.
        if self.optin.opt_in_arrived() {
            self.pass();
        }
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
        if let Err(error) = events.follow(&self.optin.followed()) {
            warn!(
                "polling opted-in cgroups every {} ms: the kernel side cannot follow them: {error:#}",
                POLL.as_millis()
            );
            self.events = None;
        }
    }

    /// Record the pending events. Return true if there were any.
    fn receive(&mut self) -> bool {
        let now = Instant::now();
        let events: Vec<_> = self.events.iter().flat_map(CgroupEvents::receive).collect();
        events.iter().for_each(|event| self.optin.note_event(*event, now));
        !events.is_empty()
    }

    fn finish(&mut self) {
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
}

/// Cgroups in which tasks have a bias.
struct BiasFilter {
    system: Linux,
    selection: Selection,
    map: CgroupMap,
}

impl BiasFilter {
    fn configure(&mut self, path: &Path) -> Result<(), Failure> {
        let cgroup = self.selection.configure(self.system.find(path)?);
        cgroup.map_or(Ok(()), |cgroup| self.selection.add(cgroup).map(drop))
    }

    /// Check for removed and for new cgroups. After a change write the map, and make the kernel
    /// side read it again.
    fn scan(&mut self, attached: &mut Attached<'_>) -> Result<(), Failure> {
        self.selection.threads(&self.system);
        for cgroup in self.selection.arrived(&self.system) {
            self.selection.add(cgroup)?;
        }
        let wanted: BTreeMap<u64, bool> =
            self.selection.cgroups().iter().map(|cgroup| (cgroup.id, true)).collect();
        if self.map.holds(&wanted) {
            return Ok(());
        }
        let result = self.map.write(&wanted);
        attached.cgroups_changed();
        result.map_err(|error| {
            Failure::runtime(format!(
                "cannot pass the list of cgroups with a bias to the kernel side ({error}); try again"
            ))
        })
    }
}

/// Raise the priority of this thread. Without permission the agent still works, but acts later when
/// CPUs are busy.
fn raise_priority() {
    const HIGHEST: libc::c_int = -20;
    // SAFETY: the call takes numbers only. 0 is the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, HIGHEST) };
}
