//! What cgroups mean for a run: nothing, whose threads are scheduled ([`Follow`]), or whose threads have a bias ([`Limit`]).

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
use crate::optin::{OptIn, Report, Request};

/// The cgroups of a run.
pub(super) enum Chosen<'a> {
    /// None: everything is scheduled alike.
    Nothing,
    /// Their threads are scheduled, and no others.
    Scheduled(Follow<'a>),
    /// Everything is scheduled, and their threads are judged by what they stall on.
    Biased(Limit),
}

impl<'a> Chosen<'a> {
    /// Begins to follow the cgroups of `options`.
    ///
    /// # Errors
    /// As [`Limit::start`].
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

    /// Rings when there is a hint.
    pub(super) fn bell(&self) -> Receiver<()> {
        if let Self::Scheduled(follow) = self { follow.bell() } else { never() }
    }

    /// The bell rang.
    pub(super) fn rang(&mut self) {
        if let Self::Scheduled(follow) = self {
            follow.rang();
        }
    }

    /// How long nothing is to be done.
    pub(super) fn patience(&self) -> Duration {
        match self {
            Self::Nothing => Duration::MAX,
            Self::Scheduled(follow) => follow.patience(),
            Self::Biased(limit) => limit.patience(),
        }
    }

    /// Looks if it is time to.
    pub(super) fn tick(&mut self, loaded: &mut Loaded<'_>) {
        match self {
            Self::Nothing => {}
            Self::Scheduled(follow) => follow.tick(),
            Self::Biased(limit) => limit.tick(loaded),
        }
    }

    /// Does what is asked.
    ///
    /// # Errors
    /// As [`Follow::answer`] and [`Limit::answer`]; usage failure where there is nothing to choose.
    pub(super) fn answer(&mut self, request: &Request, loaded: &mut Loaded<'_>) -> Result<Report, Failure> {
        match self {
            Self::Nothing => Err(Failure::usage(
                "this scx_bias schedules the whole system, every cgroup with it; start it with --cgroup PATH to limit it",
            )),
            Self::Scheduled(follow) => follow.answer(request),
            Self::Biased(limit) => limit.answer(request, loaded),
        }
    }

    /// Chooses a cgroup that the configuration names, now or when it appears.
    ///
    /// # Errors
    /// As [`Follow::want`] and [`Limit::want`].
    pub(super) fn want(&mut self, path: &Path, loaded: &mut Loaded<'_>) -> Result<(), Failure> {
        match self {
            Self::Nothing => Ok(()),
            Self::Scheduled(follow) => follow.want(path),
            Self::Biased(limit) => {
                limit.want(path)?;
                limit.answer(&Request::List, loaded).map(drop)
            }
        }
    }

    /// What is so now.
    pub(super) fn scope(&self, loaded: &Loaded<'_>) -> Scope {
        match self {
            Self::Nothing => Scope::WholeSystem,
            Self::Biased(limit) => Scope::BiasInCgroups(limit.report()),
            Self::Scheduled(follow) => {
                let mut report = follow.report();
                let lost = loaded.hints_lost();
                if lost > 0 {
                    report.notes.push(format!(
                        "{lost} events in cgroups came too fast to be told; threads that left then may keep SCHED_EXT"
                    ));
                }
                Scope::Cgroups(report)
            }
        }
    }

    /// Is this thread needed in time, beside busy threads that it does not schedule?
    pub(super) const fn is_urgent(&self) -> bool {
        matches!(self, Self::Scheduled(_))
    }

    /// Gives every thread back what it had.
    pub(super) fn finish(&mut self) {
        if let Self::Scheduled(follow) = self {
            follow.finish();
        }
    }
}
