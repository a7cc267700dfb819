// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Claims: sentences with a figure, and the comparison that decides each.

use crate::ab::metric::{self, Direction};
use crate::ab::report::Row;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// File of the claims, from the root of the repository.
pub const CLAIMS_FILE: &str = "docs/claims.toml";
/// Maximum size of the file.
pub const MAX_BYTES: u64 = 1 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    claim: Vec<Claim>,
}

/// A claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Name of its record, and of its figures in documents: lower case, digits and dashes.
    pub id: String,
    /// Heading under which docs/results.md has it, e.g. "Placement".
    pub question: String,
    /// True for the first page and the README.
    #[serde(default)]
    pub headline: bool,
    /// What is compared, without figure and verdict.
    pub says: String,
    /// Options of `bias-bench ab` without --out.
    pub ab: String,
    /// The cell, as the report names it. May be missing if the run has one.
    #[serde(default)]
    pub cell: Option<String>,
    /// The metric.
    pub metric: String,
    /// The arm.
    #[serde(default = "ours")]
    pub arm: String,
    /// Ratio to the baseline that has to be reached: at least, or at most if the metric is better
    /// when it is lower.
    pub target: f64,
}

fn ours() -> String {
    "scx_bias".into()
}

impl Claim {
    /// Return true if this row belongs to the claim.
    pub fn is_about(&self, row: &Row) -> bool {
        let cell = self.cell.as_ref().is_none_or(|cell| *cell == row.cell);
        cell && row.arm == self.arm && row.metric == self.metric
    }

    /// Return true if a row reaches the target.
    pub fn is_met(&self, row: &Row) -> bool {
        row.change.ratio.is_some_and(|ratio| match row.direction {
            Direction::Lower => ratio <= self.target,
            Direction::Higher | Direction::Neutral => ratio >= self.target,
        })
    }

    fn check(&self) -> std::result::Result<(), String> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if self.id.is_empty() || !self.id.chars().all(plain) {
            return Err("its id may have lower-case letters, digits and dashes only".into());
        }
        let is_own = |name: &str| name == self.metric || name.ends_with('_') && self.metric.starts_with(name);
        if !metric::METRICS.iter().any(|metric| is_own(metric.name)) {
            return Err(format!("there is no metric '{}'; `bias-bench list` shows them", self.metric));
        }
        if !(self.target.is_finite() && self.target > 0.0) {
            return Err("its target is a ratio above 0".into());
        }
        Ok(())
    }
}

/// Read the text of the file.
///
/// # Errors
/// The text is no TOML, a claim is incomplete, or an id occurs twice. The message names the claim.
pub fn parse(text: &str) -> Result<Vec<Claim>> {
    let wrong = |why: String| Error::Usage(format!("{CLAIMS_FILE}: {why}"));
    let document: Document =
        toml::from_str(text).map_err(|e| wrong(e.message().trim().replace('\n', "; ")))?;
    let claims = document.claim;
    for (at, claim) in claims.iter().enumerate() {
        claim.check().map_err(|why| wrong(format!("claim '{}': {why}", claim.id)))?;
        if claims[..at].iter().any(|other| other.id == claim.id) {
            return Err(wrong(format!("claim '{}' occurs twice; rename one of them", claim.id)));
        }
    }
    Ok(claims)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[[claim]]\nid = 'a-1'\nquestion = 'Q'\nsays = 's'\nab = '--cells 2compute'\n\
                        metric = 'stp'\ntarget = 1.05\n";

    #[test]
    fn mistakes_are_found_and_named() {
        assert_eq!(parse(GOOD).unwrap()[0].arm, "scx_bias");
        for (from, to, said) in [
            ("a-1", "A 1", "lower-case"),
            ("stp", "stq", "no metric 'stq'"),
            ("1.05", "-1.0", "above 0"),
            ("says", "said", "unknown field"),
        ] {
            let error = parse(&GOOD.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains("claims.toml"), "{error}");
        }
        assert!(parse(&GOOD.repeat(2)).unwrap_err().to_string().contains("twice"));
    }
}
