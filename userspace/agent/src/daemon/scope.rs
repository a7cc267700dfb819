// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Role of cgroups in a run: none, the scope of scheduling ([`PartialSwitch`]), or the scope of
//! bias ([`BiasFilter`]).

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use crossbeam::channel::{Receiver, never};

use crate::bpf::Attached;
use crate::control::Scope;
use crate::daemon::bias_filter::BiasFilter;
use crate::daemon::partial_switch::PartialSwitch;
use crate::failure::Failure;
use crate::optin::cgroup::Cgroup;
use crate::optin::system::Linux;
use crate::optin::{CgroupRequest, CgroupsReport, OptIn};
use crate::options::RunOptions;

/// Cgroups of a run.
pub(crate) enum CgroupScope<'a> {
    /// There are none: the whole system is scheduled alike.
    Nothing,
    /// Only the threads of these cgroups, and others that ask for SCHED_EXT, are scheduled.
    Scheduled(PartialSwitch<'a>),
    /// The whole system is scheduled, but only threads of these cgroups have a bias.
    Biased(BiasFilter),
}

impl<'a> CgroupScope<'a> {
    /// Start to follow the cgroups of `options`.
    ///
    /// # Errors
    /// Fail as [`BiasFilter::start`] does.
    pub(crate) fn start(
        optin: Option<&'a mut OptIn<Linux>>,
        options: &RunOptions,
        attached: &mut Attached<'_>,
    ) -> Result<Self> {
        Ok(match optin {
            Some(optin) => Self::Scheduled(PartialSwitch::start(optin, attached)),
            None if options.limits_bias() => Self::Biased(BiasFilter::start(&options.cgroups, attached)?),
            None => Self::Nothing,
        })
    }

    /// Return the channel that fires when an event has arrived.
    pub(crate) fn notify(&self) -> Receiver<()> {
        if let Self::Scheduled(follow) = self { follow.notify() } else { never() }
    }

    /// Handle a notification of that channel.
    pub(crate) fn notified(&mut self) {
        if let Self::Scheduled(follow) = self {
            follow.notified();
        }
    }

    /// Return the time until [`Self::tick`] has work.
    pub(crate) fn time_left(&self) -> Duration {
        match self {
            Self::Nothing => Duration::MAX,
            Self::Scheduled(follow) => follow.time_left(),
            Self::Biased(limit) => limit.time_left(),
        }
    }

    /// Scan or check the cgroups if it is time to.
    pub(crate) fn tick(&mut self, attached: &mut Attached<'_>) {
        match self {
            Self::Nothing => {}
            Self::Scheduled(follow) => follow.tick(),
            Self::Biased(limit) => limit.tick(attached),
        }
    }

    /// Carry out a user's request and return the resulting state.
    ///
    /// # Errors
    /// Fail as [`PartialSwitch::answer`] and [`BiasFilter::answer`] do. Fail with a usage failure
    /// in a run without cgroups.
    pub(crate) fn answer(
        &mut self,
        request: &CgroupRequest,
        attached: &mut Attached<'_>,
    ) -> Result<CgroupsReport, Failure> {
        match self {
            Self::Nothing => Err(Failure::usage(
                "this scx_bias schedules the whole system, every cgroup with it; start it with --cgroup PATH or --partial to limit it",
            )),
            Self::Scheduled(follow) => follow.answer(request),
            Self::Biased(limit) => limit.answer(request, attached),
        }
    }

    /// Select a cgroup of the configuration, at once or when it appears.
    ///
    /// # Errors
    /// Fail as [`PartialSwitch::opt_in_configured`] and [`BiasFilter::opt_in_configured`] do.
    pub(crate) fn opt_in_configured(
        &mut self,
        path: &Path,
        attached: &mut Attached<'_>,
    ) -> Result<(), Failure> {
        match self {
            Self::Nothing => Ok(()),
            Self::Scheduled(follow) => follow.opt_in_configured(path),
            Self::Biased(limit) => {
                limit.opt_in_configured(path)?;
                limit.answer(&CgroupRequest::List, attached).map(drop)
            }
        }
    }

    /// Return the scope of the run.
    pub(crate) fn scope(&self, attached: &Attached<'_>) -> Scope {
        match self {
            Self::Nothing => Scope::WholeSystem,
            Self::Biased(limit) => Scope::BiasInCgroups(limit.report()),
            Self::Scheduled(follow) => {
                let mut report = follow.report();
                let lost = attached.events_lost();
                if lost > 0 {
                    report.notes.push(format!(
                        "{lost} events in cgroups came too fast and were lost; threads that left then may keep SCHED_EXT"
                    ));
                }
                Scope::Cgroups(report)
            }
        }
    }

    /// Return the cgroups of the run that exist.
    pub(crate) fn cgroups(&self) -> &[Cgroup] {
        match self {
            Self::Nothing => &[],
            Self::Scheduled(follow) => follow.cgroups(),
            Self::Biased(limit) => limit.cgroups(),
        }
    }

    /// Return true if a step may scan the threads of cgroups. A scan can take long, so this thread
    /// must not be real-time meanwhile.
    pub(crate) const fn scans_threads(&self) -> bool {
        matches!(self, Self::Scheduled(_))
    }

    /// Restore the policy of every switched thread.
    pub(crate) fn finish(&mut self) {
        if let Self::Scheduled(follow) = self {
            follow.finish();
        }
    }
}
