// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Claims of the documents, and the recorded runs behind them.
//!
//! # Problem
//! A figure that is typed into a document outlives the code and the machine that gave it. Its
//! reader can neither distrust it nor repeat it.
//!
//! # Approach
//! `docs/claims.toml` lists the claims ([`claims`]), each with the comparison that decides it. A
//! run keeps what it measured ([`crate::source`]). `bias-bench record` turns it into a record in
//! `docs/results/`: the run, its plan, its rows, and the samples beside it ([`record`]).
//! `bias-bench results` writes docs/results.md, and the figures in all other documents, from the
//! records ([`pages`]).
//!
//! # Invariants
//! * A record is read only if its samples give its rows again.
//! * A record comes from a complete run of a tree without changes.
//! * A claim is *stale* if the scheduler's code differs from what was measured, and *void* if the
//!   machine's does. Comments and tests do not count.
//!
//! # Limits
//! A forged sample is not found. Figures outside of the marks in a document are not checked.

pub mod claims;
pub mod pages;
pub mod record;

use crate::source::{self, Source};
use crate::{Error, Result, files};
use claims::{CLAIMS_FILE, Claim};
use record::Record;
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

/// The repository with the claims, and all of them.
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
        let root = source::root(directory)
            .ok_or_else(|| Error::Usage("this is no repository of scx_bias; run it in one".into()))?;
        let now = Source::digests(&root)?;
        let claims = claims::parse(&files::read_small_file(&root.join(CLAIMS_FILE), claims::MAX_BYTES)?)?;
        let back = |claim: Claim| {
            let record = Record::read(&root, &claim.id)?;
            let standing = record.as_ref().map_or(Standing::Unmeasured, |record| record.standing(&now));
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
    /// There is none. The message lists all.
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

    /// The documents must show what was recorded, and no headline of the README may be void.
    #[test]
    fn the_documents_show_what_was_recorded() {
        let evidence = Evidence::read(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
        let differing: Vec<PathBuf> = pages::render(&evidence)
            .unwrap()
            .into_iter()
            .filter(|page| page.differs)
            .map(|page| page.path)
            .collect();
        assert!(differing.is_empty(), "run `bias-bench results`: {differing:?}");
        let void: Vec<&str> = (evidence.claims.iter())
            .filter(|backed| backed.claim.headline && backed.standing == Standing::Void)
            .map(|backed| backed.claim.id.as_str())
            .collect();
        assert!(
            void.is_empty(),
            "run `cargo xtask remeasure`: the machine changed since {void:?} was measured"
        );
    }
}
