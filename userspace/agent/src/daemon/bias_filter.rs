// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Limit bias to some cgroups while the whole system is scheduled.
//!
//! # Approach
//!
//! The agent writes the ids of these cgroups into a map, and the kernel side finds their tasks by
//! itself (`bpf/limit.bpf.h`). No thread is touched. Every [`SWEEP`] the agent checks whether the
//! cgroups still exist.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bias_policy::ffi;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use tracing::{info, warn};

use crate::bpf::Attached;
use crate::failure::Failure;
use crate::optin::cgroup::{Cgroup, Found};
use crate::optin::reconcile::policy;
use crate::optin::system::{Linux, System};
use crate::optin::waiting::Waiting;
use crate::optin::{CgroupReport, CgroupRequest, CgroupsReport, chosen};

/// Time between two checks.
const SWEEP: Duration = Duration::from_secs(1);

/// Cgroups in which tasks have a bias.
pub(crate) struct BiasFilter {
    system: Linux,
    chosen: Vec<Cgroup>,
    /// Selected cgroups that do not exist at present.
    waiting: Waiting,
    map: MapHandle,
    /// Ids in the map.
    written: BTreeSet<u64>,
    due: Instant,
}

impl BiasFilter {
    /// Limit bias to these cgroups.
    ///
    /// # Errors
    /// Fail with a usage failure when a path cannot name a cgroup. Fail also when the kernel side's
    /// map cannot be opened or written.
    pub(crate) fn start(cgroups: &[PathBuf], attached: &mut Attached<'_>) -> Result<Self> {
        let map = attached.cgroups().context("cannot inform the kernel side which cgroups have a bias")?;
        let mut this = Self {
            system: Linux::new(PathBuf::from("/")),
            chosen: Vec::new(),
            waiting: Waiting::default(),
            map,
            written: BTreeSet::new(),
            due: Instant::now() + SWEEP,
        };
        for path in cgroups {
            this.opt_in_configured(path)?;
        }
        this.tell(attached)?;
        Ok(this)
    }

    /// Return the time until the next check.
    pub(crate) fn time_left(&self) -> Duration {
        self.due.saturating_duration_since(Instant::now())
    }

    /// Check for removed and for new cgroups if it is time to.
    pub(crate) fn tick(&mut self, attached: &mut Attached<'_>) {
        if Instant::now() < self.due {
            return;
        }
        self.due = Instant::now() + SWEEP;
        let (system, waiting) = (&self.system, &mut self.waiting);
        self.chosen.retain(|cgroup| {
            let is_there = system.threads(cgroup).is_some();
            if !is_there {
                info!("the cgroup {} was removed; it has a bias again when it is created again", cgroup.path);
                waiting.add(cgroup.path.clone());
            }
            is_there
        });
        for cgroup in self.waiting.arrived(&self.system) {
            let path = cgroup.path.clone();
            match self.choose(cgroup) {
                Ok(()) => info!("the cgroup {path} is there: it has a bias"),
                Err(failure) => {
                    warn!("{failure}");
                    self.waiting.add(path);
                }
            }
        }
        if let Err(failure) = self.tell(attached) {
            warn!("{failure}");
        }
    }

    /// Carry out a user's request and return the resulting state.
    ///
    /// # Errors
    /// Fail with a usage failure when the path is no cgroup or was not selected. Fail with a
    /// runtime failure when the map cannot be written.
    pub(crate) fn answer(
        &mut self,
        request: &CgroupRequest,
        attached: &mut Attached<'_>,
    ) -> Result<CgroupsReport, Failure> {
        match request {
            CgroupRequest::List => {}
            CgroupRequest::Add(path) => self.choose(self.system.resolve(path)?)?,
            CgroupRequest::Remove(path) => {
                chosen::take_out(&mut self.chosen, &mut self.waiting, path, &self.system)?;
            }
        }
        self.tell(attached)?;
        Ok(self.report())
    }

    /// Select a cgroup of the configuration, at once or when it appears.
    ///
    /// # Errors
    /// Fail with a usage failure when the path cannot name a cgroup.
    pub(crate) fn opt_in_configured(&mut self, path: &Path) -> Result<(), Failure> {
        let found = self.system.find(path)?;
        self.waiting.configure(found.path());
        match found {
            Found::Here(cgroup) => self.choose(cgroup),
            Found::Later(path) => {
                warn!("the cgroup {path} does not exist yet; it has a bias when it appears");
                self.waiting.add(path);
                Ok(())
            }
        }
    }

    /// Return the selected cgroups that exist.
    pub(crate) fn cgroups(&self) -> &[Cgroup] {
        &self.chosen
    }

    /// Return the state of the selected cgroups.
    pub(crate) fn report(&self) -> CgroupsReport {
        let ours = |of| of == policy::EXT || policy::is_switched(of);
        let cgroups = self.chosen.iter().map(|cgroup| CgroupReport::of(&self.system, cgroup, ours));
        CgroupsReport {
            cgroups: cgroups.collect(),
            waiting: self.waiting.paths().to_vec(),
            notes: Vec::new(),
        }
    }

    fn choose(&mut self, cgroup: Cgroup) -> Result<(), Failure> {
        if chosen::admits(&self.chosen, &cgroup)? {
            self.chosen.push(cgroup);
        }
        Ok(())
    }

    /// Update the map, and make the kernel side read it again.
    fn tell(&mut self, attached: &mut Attached<'_>) -> Result<(), Failure> {
        let wanted: BTreeSet<u64> = self.chosen.iter().map(|cgroup| cgroup.id).collect();
        if wanted == self.written {
            return Ok(());
        }
        let result = self.put(&wanted);
        attached.cgroups_changed();
        result.map_err(|error| {
            Failure::runtime(format!(
                "the kernel side cannot take the list of cgroups that have a bias ({error}); try again"
            ))
        })
    }

    fn put(&mut self, wanted: &BTreeSet<u64>) -> libbpf_rs::Result<()> {
        let inside = ffi::BIAS_FOLLOW_INSIDE.to_ne_bytes();
        let written = self.written.clone();
        for id in written.difference(wanted) {
            self.map.delete(&id.to_ne_bytes())?;
            self.written.remove(id);
        }
        for id in wanted.difference(&written) {
            self.map.update(&id.to_ne_bytes(), &inside, MapFlags::ANY)?;
            self.written.insert(*id);
        }
        Ok(())
    }
}
