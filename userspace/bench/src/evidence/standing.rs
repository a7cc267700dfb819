// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! All claims of a repository, and how each stands.

use super::claims::{self, CLAIMS_FILE, Claim};
use super::record::Record;
use crate::tree::{self, Digests, Tree};
use crate::{Error, Result, files};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Standing of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// No run is recorded.
    Unmeasured,
    /// The machine has changed since the run.
    Void,
    /// The scheduler has changed since the run.
    Stale,
    /// The recorded run measured this code.
    Current,
}

impl Standing {
    /// Return the standing of a record in a tree with these digests.
    pub fn of(record: &Record, now: &Digests) -> Self {
        match record.tree() {
            None => Self::Void,
            Some(tree) if tree.digests.machine != now.machine && record.report.run.emulated => Self::Void,
            Some(tree) if tree.digests.scheduler != now.scheduler => Self::Stale,
            Some(_) => Self::Current,
        }
    }

    /// Return its word in documents.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unmeasured => "not measured",
            Self::Void => "void",
            Self::Stale => "stale",
            Self::Current => "current",
        }
    }
}

/// A claim with its record.
#[derive(Debug, Clone)]
pub struct Backed {
    /// The claim.
    pub claim: Claim,
    /// Its record, if there is one.
    pub record: Option<Record>,
    /// Its standing.
    pub standing: Standing,
}

/// A repository and all its claims.
#[derive(Debug)]
pub struct Evidence {
    /// Root of the repository.
    pub root: PathBuf,
    /// Claims, in the order of the file: the most important first.
    pub claims: Vec<Backed>,
}

impl Evidence {
    /// Read the claims and records of the repository that `directory` belongs to.
    ///
    /// # Errors
    /// The directory belongs to no repository of scx_bias, or a file cannot be understood. The
    /// message names the file.
    pub fn read(directory: &Path) -> Result<Self> {
        let root = tree::root(directory)
            .ok_or_else(|| Error::Usage("this is not a repository of scx_bias; run it in one".into()))?;
        let now = Tree::digests(&root)?;
        let claims = claims::parse(&files::read_small_file(&root.join(CLAIMS_FILE), claims::MAX_BYTES)?)?;
        let back = |claim: Claim| {
            let record = Record::read(&root, &claim.id)?;
            let standing = record.as_ref().map_or(Standing::Unmeasured, |record| Standing::of(record, &now));
            if let Some(record) = &record {
                record.row(&claim)?;
            }
            Ok(Backed { claim, record, standing })
        };
        let claims = claims.into_iter().map(back).collect::<Result<_>>()?;
        Ok(Self { root, claims })
    }

    /// Return the claim with this name.
    ///
    /// # Errors
    /// No claim has this name. The message lists all names.
    pub fn claim(&self, id: &str) -> Result<&Backed> {
        self.claims.iter().find(|backed| backed.claim.id == id).ok_or_else(|| {
            let known: Vec<&str> = self.claims.iter().map(|backed| backed.claim.id.as_str()).collect();
            Error::Usage(format!("{CLAIMS_FILE} has no claim '{id}'; it has {}", known.join(", ")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::record::tests::example;

    #[test]
    fn a_record_stands_until_the_code_changes() {
        let root = tempfile::tempdir().unwrap();
        let run = root.path().join("run");
        let record = Record::make(root.path(), &example(&run), &run).unwrap();
        let digests =
            |scheduler: &str, machine: &str| Digests { scheduler: scheduler.into(), machine: machine.into() };
        let standings = [("", ""), ("x", ""), ("x", "y")].map(|(s, m)| Standing::of(&record, &digests(s, m)));
        assert_eq!(standings, [Standing::Current, Standing::Stale, Standing::Void]);
    }
}
