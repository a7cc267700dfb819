// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A running scheduler: the agent's work for it, and the answers to status requests and commands.
//!
//! The main thread sleeps until an event arrives or work is due, does that work, answers, and
//! sleeps again. [`Daemon`] holds all its state.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use bias_mark::wire::Status;
use bias_policy::table::{CapacityTable, Class};
use nix::time::{ClockId, clock_gettime};
use tracing::{info, warn};

use crate::boot_time;
use crate::bpf::Attached;
use crate::bpf::ExitReport;
use crate::bpf::Stats;
use crate::control::{Instance, Server};
use crate::control::{Machine, StatusReport, TasksReport, Thresholds};
use crate::costs::Live;
use crate::daemon::outputs::{Manager, Printing};
use crate::daemon::scope::CgroupScope;
use crate::daemon::sources::{POLL, Signal, Sources, Wakeup};
use crate::ejections;
use crate::failure::Failure;
use crate::housekeeping::Housekeeper;
use crate::marks::{self, MarkEvent};
use crate::optin::{CgroupRequest, CgroupsReport, journal};
use crate::options::RunOptions;
use crate::options::reload::{self, Config, ReloadReport};
use crate::options::values::StatsFormat;
use crate::recal::Recalibrator;
use crate::swaps::{RtGuard, Swaps, SwapsReport};

/// State of the main thread.
pub(crate) struct Daemon<'a, 'object, 'optin> {
    /// Dropped before `attached`, whose ring buffer it reads.
    pub(crate) chosen: CgroupScope<'optin>,
    pub(crate) attached: Attached<'object>,
    /// None without a housekeeping CPU.
    pub(crate) housekeeper: Option<Housekeeper>,
    pub(crate) options: &'a mut RunOptions,
    pub(crate) config: &'a Config<'a>,
    pub(crate) manager: Manager,
    pub(crate) live: Live,
    pub(crate) swaps: Swaps,
    pub(crate) rt_guard: RtGuard,
    pub(crate) recal: Recalibrator,
    /// Time of the start since boot [ms].
    pub(crate) started_ms: u64,
    /// Time until recalibration has work, at most [`POLL`].
    pub(crate) quiet: Duration,
    pub(crate) printing: Printing,
}

impl Daemon<'_, '_, '_> {
    /// Run until a signal asks to stop or the kernel has ended the scheduler.
    pub(crate) fn watch(mut self, sources: &mut Sources<'_>, server: Option<&Server>) -> Result<ExitReport> {
        let what = describe(self.options, self.live.table());
        self.manager.ready(&what);
        info!("scx_bias schedules: {what}");
        loop {
            self.rt_guard.raise();
            let pause = self.swaps.step(monotonic_ns(), &self.attached, &mut self.live);
            let event = sources.wait(self.time_left().min(pause));
            if event != Wakeup::Quiet || self.options.stats.is_some() || self.scans_threads() {
                self.rt_guard.lower();
            }
            if event == Wakeup::Signal(Signal::Stop) {
                self.manager.stopping();
                self.chosen.finish();
                self.housekeeper.iter_mut().for_each(Housekeeper::finish);
                return Ok(self.attached.detach());
            }
            if self.attached.has_ended() {
                let report = self.attached.detach();
                if report.is_ejection() {
                    self.ejected(&report.text());
                }
                return report.into_result();
            }
            self.keep_up(&event);
            match (event, server) {
                (Wakeup::Asked(request), Some(server)) => server.answer(request, &mut self),
                // The log shows the result of a reload by signal.
                (Wakeup::Signal(Signal::Reload), _) => drop(self.reload()),
                (Wakeup::Mark(event), _) => self.follow_marks(event),
                _ => {}
            }
            self.print_if_due();
        }
    }

    /// Report the reason to the service manager, and store it for `scx_bias status`.
    fn ejected(&self, reason: &str) {
        self.manager.ejected(reason);
        if let Err(error) = ejections::remember(Path::new(journal::DIRECTORY), reason) {
            warn!("`scx_bias status` will not show this: {}: {error}", journal::DIRECTORY);
        }
    }

    /// Return the time until work other than swaps can be due.
    fn time_left(&self) -> Duration {
        let now = Instant::now();
        let due = self.printing.due(self.options.stats_interval());
        let time_left = due.map_or(self.quiet, |at| at.saturating_duration_since(now).min(self.quiet));
        let sweep = self.housekeeper.as_ref().map_or(Duration::MAX, Housekeeper::time_left);
        time_left.min(self.chosen.time_left()).min(sweep)
    }

    /// Return true if a step may examine many threads, which can take long.
    const fn scans_threads(&self) -> bool {
        self.chosen.scans_threads() || self.housekeeper.is_some()
    }

    /// Follow hotplug, CPU speeds and opted-in cgroups, and feed the service manager's watchdog.
    fn keep_up(&mut self, event: &Wakeup) {
        self.manager.live(Instant::now());
        self.attached.follow_hotplug(self.options, self.live.table());
        if let Wakeup::Thermal(news) = event {
            self.recal.note_thermal(news, Instant::now());
        }
        self.quiet =
            self.recal.step(Instant::now(), &|| self.attached.readings(), &mut self.live.costs).min(POLL);
        self.swaps.follow_costs(&mut self.live.costs);
        if self.live.publish(|table| self.attached.publish(table)) {
            self.manager.status(&describe(self.options, self.live.table()));
        }
        if *event == Wakeup::CgroupEvent {
            self.chosen.notified();
            self.housekeeper.iter_mut().for_each(Housekeeper::notified);
        }
        self.chosen.tick(&mut self.attached);
        if let Some(housekeeper) = &mut self.housekeeper {
            housekeeper.tick(self.chosen.cgroups());
        }
    }

    /// Let the kernel side read the hints of a program, or forget them.
    fn follow_marks(&mut self, event: MarkEvent) {
        let (pid, table) = match &event {
            MarkEvent::Began { pid, table, .. } => (*pid, Some(*table)),
            MarkEvent::Ended { pid } => (*pid, None),
        };
        let result = self.attached.hint_table(pid, table);
        if let Err(error) = &result {
            warn!("marks of process {pid} have no effect: {error:#}");
        }
        if let MarkEvent::Began { connection, .. } = event {
            let cpus = &self.live.table().cpus;
            let slow = cpus.iter().filter(|cpu| cpu.class == Class::Slow).map(|cpu| cpu.cpu);
            marks::answer(&connection, if result.is_ok() { Status::Accepted } else { Status::Full }, slow);
        }
    }

    fn print_if_due(&mut self) {
        let now = Instant::now();
        if self.printing.due(self.options.stats_interval()).is_some_and(|at| now >= at) {
            let stats = self.top();
            self.printing.print(now, stats, self.options.stats_format == StatsFormat::Json);
        }
    }

    fn thresholds(&self) -> Thresholds {
        Thresholds::of(self.options.thresholds_permille, self.attached.band())
    }

    fn take_over(&mut self) -> Result<ReloadReport, Failure> {
        let new = (self.config.reread)()?;
        let report = reload::differences(self.options, &new);
        if reload::can_change_cgroups(self.options, &new) {
            self.change_cgroups(&new.cgroups)?;
        }
        reload::take_over(self.options, &new);
        self.attached.write_knobs(self.options);
        (self.config.applied)(self.options);
        Ok(report)
    }

    /// Opt in and release cgroups where the configuration has changed. Cgroups that were added or
    /// removed by command stay as they are.
    fn change_cgroups(&mut self, new: &[PathBuf]) -> Result<(), Failure> {
        let old = &self.options.cgroups;
        let mut added: Vec<&PathBuf> = Vec::new();
        for path in new.iter().filter(|path| !old.contains(path)) {
            if let Err(failure) = self.chosen.opt_in_configured(path, &mut self.attached) {
                // Undo the additions, so that a failed reload changes nothing.
                for path in added {
                    let _ = self.chosen.answer(&CgroupRequest::Remove(path.clone()), &mut self.attached);
                }
                return Err(failure);
            }
            added.push(path);
        }
        for path in old.iter().filter(|path| !new.contains(path)) {
            // A command may have removed it already.
            let _ = self.chosen.answer(&CgroupRequest::Remove(path.clone()), &mut self.attached);
        }
        Ok(())
    }
}

impl Instance for Daemon<'_, '_, '_> {
    fn top(&mut self) -> Stats {
        self.attached.stats().with(&self.swaps.summary())
    }

    fn swaps(&mut self, from: Option<u64>) -> SwapsReport {
        self.swaps.report(monotonic_ns(), from.unwrap_or(0))
    }

    fn status(&mut self) -> StatusReport {
        let statistics = self.top();
        let (options, attached) = (&*self.options, &self.attached);
        let mut scope = self.chosen.scope(attached);
        if let Some(housekeeper) = &self.housekeeper {
            scope.note(housekeeper.note());
        }
        StatusReport {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_s: boot_time::now_ms().saturating_sub(self.started_ms) / 1000,
            scope,
            machine: Machine::of(self.live.table()),
            recalibration: self.recal.report(&self.live),
            thresholds: self.thresholds(),
            knobs: options.knobs(),
            counters: attached.counters(),
            swaps: self.swaps.summary(),
            statistics,
        }
    }

    fn cgroups(&mut self, request: CgroupRequest) -> Result<CgroupsReport, Failure> {
        self.chosen.answer(&request, &mut self.attached)
    }

    fn tasks(&mut self, since: Option<u32>) -> Result<TasksReport> {
        let (next, tasks) = self.attached.tasks(since)?;
        let average_permille = self.thresholds().average_permille;
        Ok(TasksReport { next, machine: Machine::of(self.live.table()), average_permille, tasks })
    }

    fn reload(&mut self) -> Result<ReloadReport, Failure> {
        self.manager.reloading();
        let result = self.take_over();
        match &result {
            Ok(report) => report.lines().iter().for_each(|line| info!("reloaded: {line}")),
            Err(failure) => warn!("reload failed, nothing has changed: {failure}"),
        }
        self.manager.ready(&describe(self.options, self.live.table()));
        result
    }
}

/// Return the time of the kernel side's clock [ns]. Return 0 if the clock is missing, which does
/// not occur on Linux.
fn monotonic_ns() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |now| Duration::from(now).as_nanos() as u64)
}

/// Describe the CPUs of `table` and the scope of the run.
pub(crate) fn describe(options: &RunOptions, table: &CapacityTable) -> String {
    let machine = Machine::of(table);
    let (fast, slow) = (machine.count(Class::Fast), machine.count(Class::Slow));
    let machine = match slow {
        0 => format!("{fast} CPUs of one class"),
        _ => format!("{fast} fast and {slow} slow CPUs"),
    };
    let scope = match (options.schedules_everything(), options.limits_bias()) {
        (false, _) if options.partial => ", for SCHED_EXT tasks",
        (false, _) => ", for opted-in cgroups",
        (true, true) => ", with bias in opted-in cgroups only",
        (true, false) => "",
    };
    machine + scope
}
