// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Selected cgroups that do not exist, not yet or not at present.
//!
//! # Problem
//!
//! A service's cgroup is removed when the service stops, and another one with the same path is made
//! when it starts. A slice does not exist before its first unit. The user selects a path, but
//! threads are in an instance.
//!
//! # Approach
//!
//! The agent keeps the path of a selected cgroup that does not exist. Each scan checks which of
//! these cgroups exist now.
//!
//! # Invariants
//!
//! Paths of the configuration are kept as long as it names them. Of those added by command the last
//! [`MAX_PATHS`] are kept, because scopes that are opted in one after the other must not
//! accumulate.

use std::collections::BTreeSet;

use super::cgroup::{Cgroup, Found};
use super::system::System;

/// Most paths that are kept and are not of the configuration.
const MAX_PATHS: usize = 64;

/// Paths to be selected when they appear.
#[derive(Debug, Default)]
pub struct Waiting {
    /// Paths in the order in which they were added.
    paths: Vec<String>,
    /// Paths of the configuration, waiting or not.
    configured: BTreeSet<String>,
}

impl Waiting {
    /// Mark a path as one of the configuration.
    pub fn configure(&mut self, path: &str) {
        self.configured.insert(path.to_owned());
    }

    /// Select this path when it appears.
    pub fn add(&mut self, path: String) {
        if self.paths.contains(&path) {
            return;
        }
        self.paths.push(path);
        let by_command = |path: &&String| !self.configured.contains(*path);
        if self.paths.iter().filter(by_command).count() > MAX_PATHS
            && let Some(oldest) = self.paths.iter().position(|path| !self.configured.contains(path))
        {
            self.paths.remove(oldest);
        }
    }

    /// Deselect a path. Return true if it was waiting.
    pub fn forget(&mut self, path: &str) -> bool {
        self.configured.remove(path);
        let before = self.paths.len();
        self.paths.retain(|other| other != path);
        self.paths.len() < before
    }

    /// Return the cgroups that exist now, and remove them from the waiting ones.
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

    /// Return the waiting paths in the order in which they were added.
    #[must_use]
    pub fn paths(&self) -> &[String] {
        &self.paths
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
                prop_assert!(waiting.paths().iter().filter(|path| !configured.contains(*path)).count() <= MAX_PATHS);
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
