//! Role of cgroups in a run: none, the scope of scheduling ([`Follow`]), or the scope of bias
//! ([`Limit`]).

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use crossbeam::channel::{Receiver, never};

use super::follow::Follow;
use super::limit::Limit;
use super::load::Loaded;
use super::options::RunOptions;
use super::status::Scope;
use crate::failure::Failure;
use crate::optin::system::Linux;
use crate::optin::{CgroupRequest, CgroupsReport, OptIn};

/// Cgroups of a run.
pub(super) enum Chosen<'a> {
    /// There are none: the whole system is scheduled alike.
    Nothing,
    /// Only the threads of these cgroups are scheduled.
    Scheduled(Follow<'a>),
    /// The whole system is scheduled, but only threads of these cgroups have a bias.
    Biased(Limit),
}

impl<'a> Chosen<'a> {
    /// Start to follow the cgroups of `options`.
    ///
    /// # Errors
    /// Fail as [`Limit::start`] does.
    pub(super) fn start(
        optin: Option<&'a mut OptIn<Linux>>,
        options: &RunOptions,
        loaded: &mut Loaded<'_>,
    ) -> Result<Self> {
        Ok(match optin {
            Some(optin) => Self::Scheduled(Follow::start(optin, loaded)),
            None if options.limits_bias() => Self::Biased(Limit::start(&options.cgroups, loaded)?),
            None => Self::Nothing,
        })
    }

    /// Return the channel that fires when an event has arrived.
    pub(super) fn bell(&self) -> Receiver<()> {
        if let Self::Scheduled(follow) = self { follow.bell() } else { never() }
    }

    /// Handle a notification of that channel.
    pub(super) fn rang(&mut self) {
        if let Self::Scheduled(follow) = self {
            follow.rang();
        }
    }

    /// Return the time until [`Self::tick`] has work.
    pub(super) fn patience(&self) -> Duration {
        match self {
            Self::Nothing => Duration::MAX,
            Self::Scheduled(follow) => follow.patience(),
            Self::Biased(limit) => limit.patience(),
        }
    }

    /// Scan or check the cgroups if it is time to.
    pub(super) fn tick(&mut self, loaded: &mut Loaded<'_>) {
        match self {
            Self::Nothing => {}
            Self::Scheduled(follow) => follow.tick(),
            Self::Biased(limit) => limit.tick(loaded),
        }
    }

    /// Carry out a user's request and return the resulting state.
    ///
    /// # Errors
    /// Fail as [`Follow::answer`] and [`Limit::answer`] do. Fail with a usage failure in a run
    /// without cgroups.
    pub(super) fn answer(
        &mut self,
        request: &CgroupRequest,
        loaded: &mut Loaded<'_>,
    ) -> Result<CgroupsReport, Failure> {
        match self {
            Self::Nothing => Err(Failure::usage(
                "this scx_bias schedules the whole system, every cgroup with it; start it with --cgroup PATH to limit it",
            )),
            Self::Scheduled(follow) => follow.answer(request),
            Self::Biased(limit) => limit.answer(request, loaded),
        }
    }

    /// Select a cgroup of the configuration, at once or when it appears.
    ///
    /// # Errors
    /// Fail as [`Follow::opt_in_configured`] and [`Limit::opt_in_configured`] do.
    pub(super) fn opt_in_configured(&mut self, path: &Path, loaded: &mut Loaded<'_>) -> Result<(), Failure> {
        match self {
            Self::Nothing => Ok(()),
            Self::Scheduled(follow) => follow.opt_in_configured(path),
            Self::Biased(limit) => {
                limit.opt_in_configured(path)?;
                limit.answer(&CgroupRequest::List, loaded).map(drop)
            }
        }
    }

    /// Return the scope of the run.
    pub(super) fn scope(&self, loaded: &Loaded<'_>) -> Scope {
        match self {
            Self::Nothing => Scope::WholeSystem,
            Self::Biased(limit) => Scope::BiasInCgroups(limit.report()),
            Self::Scheduled(follow) => {
                let mut report = follow.report();
                let lost = loaded.hints_lost();
                if lost > 0 {
                    report.notes.push(format!(
                        "{lost} events in cgroups came too fast and were lost; threads that left then may keep SCHED_EXT"
                    ));
                }
                Scope::Cgroups(report)
            }
        }
    }

    /// Return true if a step may scan the threads of cgroups. A scan can take long, so this thread
    /// must not be real-time meanwhile.
    pub(super) const fn scans_threads(&self) -> bool {
        matches!(self, Self::Scheduled(_))
    }

    /// Restore the policy of every switched thread.
    pub(super) fn finish(&mut self) {
        if let Self::Scheduled(follow) = self {
            follow.finish();
        }
    }
}
