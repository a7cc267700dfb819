//! A running scheduler, for those who ask about it and command it.

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use tracing::{info, warn};

use super::follow::Follow;
use super::load::Loaded;
use super::options::RunOptions;
use super::reload::{self, Config, ReloadReport};
use super::report::TaskReport;
use super::server::Source;
use super::service::Manager;
use super::stats::Stats;
use super::status::{Machine, Scope, State, StatusReport};
use crate::failure::Failure;
use crate::optin::{Report, Request};
use crate::recal::Recalibrator;
use crate::swaps::{Swaps, SwapsReport};

/// What the watching thread has.
pub(super) struct Running<'a, 'object, 'optin> {
    pub(super) loaded: &'a mut Loaded<'object>,
    pub(super) options: &'a mut RunOptions,
    pub(super) config: &'a dyn Config,
    pub(super) manager: &'a Manager,
    pub(super) started: Instant,
    pub(super) follow: &'a RefCell<Option<Follow<'optin>>>,
    pub(super) swaps: &'a RefCell<Swaps>,
    pub(super) recal: &'a Recalibrator,
}

impl Running<'_, '_, '_> {
    fn scope(&self) -> Scope {
        self.follow.borrow().as_ref().map_or(Scope::WholeSystem, |follow| {
            let mut report = follow.report();
            let lost = self.loaded.hints_lost();
            if lost > 0 {
                report.notes.push(format!("{lost} events in cgroups came too fast to be told; threads that left then may keep SCHED_EXT"));
            }
            Scope::Cgroups(report)
        })
    }

    fn take_over(&mut self) -> Result<ReloadReport, Failure> {
        let new = self.config.reread()?;
        let report = reload::differences(self.options, &new);
        if reload::can_change_cgroups(self.options, &new) {
            self.change_cgroups(&new.cgroups)?;
        }
        reload::take_over(self.options, &new);
        self.loaded.turn(self.options);
        self.config.taken(self.options);
        Ok(report)
    }

    /// Opts in and lets go what differs from the configuration before; what was added or removed by command stays as it is.
    fn change_cgroups(&self, new: &[PathBuf]) -> Result<(), Failure> {
        let mut follow = self.follow.borrow_mut();
        let Some(follow) = follow.as_mut() else { return Ok(()) };
        let old = &self.options.cgroups;
        let mut added: Vec<&PathBuf> = Vec::new();
        for path in new.iter().filter(|path| !old.contains(path)) {
            if let Err(failure) = follow.answer(&Request::Add(path.clone())) {
                // As if nothing had been asked for.
                for path in added {
                    let _ = follow.answer(&Request::Remove(path.clone()));
                }
                return Err(failure);
            }
            added.push(path);
        }
        for path in old.iter().filter(|path| !new.contains(path)) {
            // It may have been let go by command.
            let _ = follow.answer(&Request::Remove(path.clone()));
        }
        Ok(())
    }
}

impl Source for Running<'_, '_, '_> {
    fn stats(&self) -> Stats {
        self.loaded.stats().with(&self.swaps.borrow().summary())
    }

    fn swaps(&self, first: u64) -> SwapsReport {
        self.swaps.borrow().report(super::monotonic_ns(), first)
    }

    fn status(&self) -> StatusReport {
        let loaded = &self.loaded;
        let uptime = self.started.elapsed();
        let machine = Machine::of(self.recal.table());
        let state = State { scope: self.scope(), machine, recalibration: self.recal.report() };
        let swaps = self.swaps.borrow().summary();
        StatusReport {
            swaps,
            ..StatusReport::new(self.options, state, uptime, loaded.band(), loaded.counters(), self.stats())
        }
    }

    fn cgroups(&self, request: &Request) -> Result<Report, Failure> {
        self.follow.borrow_mut().as_mut().map_or_else(
            || Err(Failure::usage("this scx_bias schedules the whole system, every cgroup with it; start it with --cgroup PATH to limit it")),
            |follow| follow.answer(request),
        )
    }

    fn tasks(&self) -> Result<Vec<TaskReport>> {
        self.loaded.tasks()
    }

    fn reload(&mut self) -> Result<ReloadReport, Failure> {
        self.manager.reloading();
        let result = self.take_over();
        match &result {
            Ok(report) => report.lines().iter().for_each(|line| info!("reloaded: {line}")),
            Err(failure) => warn!("not reloaded, everything stays as it is: {failure}"),
        }
        self.manager.ready(&super::describe(self.options));
        result
    }
}
