//! Chosen cgroups that are not there: not yet, or not at the moment.
//!
//! Problem. A service's cgroup is removed when it stops and another of the same path is made when it starts; a slice does not exist before
//! its first unit. What is chosen is a path, but threads are in an instance.
//!
//! Approach. A chosen cgroup that is not there, or not any more, has its path kept. Each look asks which of them are there now.
//!
//! Invariants. Paths of the configuration are kept as long as they stand there. Of those that were added by command the last [`MOST`] are:
//! scopes that are opted in one after the other must not add up.

use std::collections::BTreeSet;
use std::path::Path;

use tracing::{info, warn};

use super::OptIn;
use super::cgroup::{Cgroup, Found};
use super::system::System;
use crate::failure::Failure;

/// Paths kept at most that are not of the configuration.
const MOST: usize = 64;

/// Paths to be chosen when they appear.
#[derive(Debug, Default)]
pub struct Waiting {
    /// In the order in which they came to wait.
    paths: Vec<String>,
    /// Paths of the configuration, whether they wait or not.
    configured: BTreeSet<String>,
}

impl Waiting {
    /// This one is of the configuration.
    pub fn configure(&mut self, path: &str) {
        self.configured.insert(path.to_owned());
    }

    /// It is to be chosen when it appears.
    pub fn add(&mut self, path: String) {
        if self.paths.contains(&path) {
            return;
        }
        self.paths.push(path);
        let by_command = |path: &&String| !self.configured.contains(*path);
        if self.paths.iter().filter(by_command).count() > MOST
            && let Some(oldest) = self.paths.iter().position(|path| !self.configured.contains(path))
        {
            self.paths.remove(oldest);
        }
    }

    /// It is not chosen any more. Was it waited for?
    pub fn forget(&mut self, path: &str) -> bool {
        self.configured.remove(path);
        let before = self.paths.len();
        self.paths.retain(|other| other != path);
        self.paths.len() < before
    }

    /// Those that are there now; they are not waited for any more.
    pub fn arrived(&mut self, system: &impl System) -> Vec<Cgroup> {
        let mut arrived = Vec::new();
        self.paths.retain(|path| {
            let found = if system.is_there(path) { system.find(path.as_ref()).ok() } else { None };
            match found {
                Some(Found::Here(cgroup)) => arrived.push(cgroup),
                Some(Found::Later(_)) | None => return true,
            }
            false
        });
        arrived
    }

    /// The paths, in the order in which they came to wait.
    #[must_use]
    pub fn paths(&self) -> &[String] {
        &self.paths
    }
}

impl<S: System> OptIn<S> {
    /// Opts in what the configuration names, now or when it appears.
    pub(super) fn take(&mut self, found: Found) -> Result<(), Failure> {
        self.waiting.configure(found.path());
        match found {
            Found::Here(cgroup) => self.opt_in(cgroup),
            Found::Later(path) => {
                warn!("the cgroup {path} does not exist yet; it is opted in when it appears");
                self.waiting.add(path);
                Ok(())
            }
        }
    }

    /// Opts in a cgroup that the configuration names, which may not exist yet.
    ///
    /// # Errors
    /// As [`Self::add`]; but not when the path names none yet.
    pub fn want(&mut self, path: &Path) -> Result<(), Failure> {
        let found = self.system.find(path)?;
        self.take(found)
    }

    /// Opts in those that have appeared; were there any? Their threads are switched by the next [`Self::pass`].
    pub fn welcome(&mut self) -> bool {
        let before = self.inside.len();
        for cgroup in self.waiting.arrived(&self.system) {
            let path = cgroup.path.clone();
            match self.opt_in(cgroup) {
                Ok(()) => info!("the cgroup {path} is there: it is opted in"),
                Err(failure) => {
                    self.complain(failure.message);
                    self.waiting.add(path);
                }
            }
        }
        self.inside.len() > before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn those_of_the_configuration_are_kept_and_of_others_the_last(
            adds in prop::collection::vec((0u32..200, prop::bool::weighted(0.2)), 0..400),
        ) {
            let mut waiting = Waiting::default();
            let mut configured = BTreeSet::new();
            for (number, of_file) in adds {
                let path = format!("/{number}");
                if of_file {
                    waiting.configure(&path);
                    configured.insert(path.clone());
                }
                waiting.add(path.clone());
                prop_assert_eq!(waiting.paths().iter().filter(|other| **other == path).count(), 1);
                prop_assert!(configured.iter().all(|path| waiting.paths().contains(path)));
                prop_assert!(waiting.paths().iter().filter(|path| !configured.contains(*path)).count() <= MOST);
            }
        }
    }

    #[test]
    fn what_is_forgotten_is_neither_waited_for_nor_kept() {
        let mut waiting = Waiting::default();
        waiting.configure("/a");
        waiting.add("/a".to_owned());
        assert!(waiting.forget("/a") && !waiting.forget("/a"));
        assert_eq!(waiting.paths(), <[String; 0]>::default());
        assert!(waiting.configured.is_empty());
    }
}
