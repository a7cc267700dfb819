// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The commands that back the documents by runs: record, results.

use crate::evidence::record::Record;
use crate::evidence::{Evidence, Standing, pages};
use crate::options::Output;
use crate::{Error, Result};
use clap::Args;
use serde_json::json;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Back a claim of the documents by a run of `ab`
///
/// Write docs/results/CLAIM.json with the run, all its settings and figures, and the samples beside
/// it, in place of an earlier record. The run must be complete, and from a commit without changes
/// of the scheduler or the machine. Then write the documents as `results` does.
#[derive(Debug, Args)]
pub(super) struct RecordArgs {
    /// The run's directory
    dir: PathBuf,
    /// The claim; docs/claims.toml has them
    #[arg(long, value_name = "CLAIM")]
    claim: String,
}

impl RecordArgs {
    pub(super) fn run(&self) -> Result<()> {
        let here = Path::new(".");
        let evidence = Evidence::read(here)?;
        Record::make(&evidence.root, &evidence.claim(&self.claim)?.claim, &self.dir)?;
        for path in pages::write(&Evidence::read(here)?)? {
            eprintln!("bias-bench: wrote {}", path.display());
        }
        Ok(())
    }
}

/// Write docs/results.md and the figures in other documents, from the records, and list all claims
#[derive(Debug, Args)]
pub(super) struct ResultsArgs {
    /// Write nothing. Fail if a document differs from the records
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    output: Output,
}

impl ResultsArgs {
    pub(super) fn run(&self) -> Result<()> {
        let evidence = Evidence::read(Path::new("."))?;
        let claims = evidence.claims.iter().map(|backed| {
            let of = &backed.claim;
            json!({"id": of.id, "headline": of.headline, "standing": backed.standing, "ab": of.ab})
        });
        let document = json!({"schema": "bias-bench.results/1", "claims": claims.collect::<Vec<_>>()});
        self.output.print_as(&document, || list(&evidence))?;
        if !self.check {
            return pages::write(&evidence).map(drop);
        }
        let pages = pages::render(&evidence)?.into_iter().filter(|page| page.differs);
        let differing: Vec<String> = pages.map(|page| page.path.display().to_string()).collect();
        if differing.is_empty() {
            return Ok(());
        }
        Err(Error::Runtime(format!(
            "other figures than in the records: {}; run `bias-bench results`",
            differing.join(", ")
        )))
    }
}

/// Return the claims as text, those to measure first.
fn list(evidence: &Evidence) -> String {
    let mut out = String::new();
    for standing in [Standing::Unmeasured, Standing::Void, Standing::Stale, Standing::Current] {
        for backed in evidence.claims.iter().filter(|backed| backed.standing == standing) {
            let _ = writeln!(out, "{:13} {:22} {}", standing.word(), backed.claim.id, backed.claim.says);
        }
    }
    out
}
