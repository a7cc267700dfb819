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

use super::load::Loaded;
use crate::failure::Failure;
use crate::optin::cgroup::{Cgroup, Found};
use crate::optin::reconcile::policy;
use crate::optin::system::{Linux, System};
use crate::optin::waiting::Waiting;
use crate::optin::{CgroupReport, CgroupRequest, CgroupsReport, chosen};

/// Time between two checks.
const SWEEP: Duration = Duration::from_secs(1);

/// Cgroups in which tasks have a bias.
pub(super) struct Limit {
    system: Linux,
    chosen: Vec<Cgroup>,
    /// Selected cgroups that do not exist at present.
    waiting: Waiting,
    map: MapHandle,
    /// Ids in the map.
    told: BTreeSet<u64>,
    due: Instant,
}

impl Limit {
    /// Limit bias to these cgroups.
    ///
    /// # Errors
    /// Fail with a usage failure when a path cannot name a cgroup. Fail also when the kernel side's
    /// map cannot be opened or written.
    pub(super) fn start(cgroups: &[PathBuf], loaded: &mut Loaded<'_>) -> Result<Self> {
        let map = loaded.cgroups().context("cannot inform the kernel side which cgroups have a bias")?;
        let mut this = Self {
            system: Linux::new(PathBuf::from("/")),
            chosen: Vec::new(),
            waiting: Waiting::default(),
            map,
            told: BTreeSet::new(),
            due: Instant::now() + SWEEP,
        };
        for path in cgroups {
            this.opt_in_configured(path)?;
        }
        this.tell(loaded)?;
        Ok(this)
    }

    /// Return the time until the next check.
    pub(super) fn patience(&self) -> Duration {
        self.due.saturating_duration_since(Instant::now())
    }

    /// Check for removed and for new cgroups if it is time to.
    pub(super) fn tick(&mut self, loaded: &mut Loaded<'_>) {
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
        if let Err(failure) = self.tell(loaded) {
            warn!("{failure}");
        }
    }

    /// Carry out a user's request and return the resulting state.
    ///
    /// # Errors
    /// Fail with a usage failure when the path is no cgroup or was not selected. Fail with a
    /// runtime failure when the map cannot be written.
    pub(super) fn answer(
        &mut self,
        request: &CgroupRequest,
        loaded: &mut Loaded<'_>,
    ) -> Result<CgroupsReport, Failure> {
        match request {
            CgroupRequest::List => {}
            CgroupRequest::Add(path) => self.choose(self.system.resolve(path)?)?,
            CgroupRequest::Remove(path) => {
                let now = self.system.find(path).ok();
                let waited = self.waiting.forget(now.as_ref().map_or(&path.to_string_lossy(), Found::path));
                match chosen::position(&self.chosen, path, now) {
                    Ok(at) => drop(self.chosen.remove(at)),
                    Err(failure) if !waited => return Err(failure),
                    Err(_) => {}
                }
            }
        }
        self.tell(loaded)?;
        Ok(self.report())
    }

    /// Select a cgroup of the configuration, at once or when it appears.
    ///
    /// # Errors
    /// Fail with a usage failure when the path cannot name a cgroup.
    pub(super) fn opt_in_configured(&mut self, path: &Path) -> Result<(), Failure> {
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

    /// Return the state of the selected cgroups.
    pub(super) fn report(&self) -> CgroupsReport {
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
    fn tell(&mut self, loaded: &mut Loaded<'_>) -> Result<(), Failure> {
        let wanted: BTreeSet<u64> = self.chosen.iter().map(|cgroup| cgroup.id).collect();
        if wanted == self.told {
            return Ok(());
        }
        let result = self.put(&wanted);
        loaded.cgroups_changed();
        result.map_err(|error| {
            Failure::runtime(format!(
                "the kernel side cannot take the list of cgroups that have a bias ({error}); try again"
            ))
        })
    }

    fn put(&mut self, wanted: &BTreeSet<u64>) -> libbpf_rs::Result<()> {
        let inside = ffi::BIAS_FOLLOW_INSIDE.to_ne_bytes();
        let told = self.told.clone();
        for id in told.difference(wanted) {
            self.map.delete(&id.to_ne_bytes())?;
            self.told.remove(id);
        }
        for id in wanted.difference(&told) {
            self.map.update(&id.to_ne_bytes(), &inside, MapFlags::ANY)?;
            self.told.insert(*id);
        }
        Ok(())
    }
}
