// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The profile of a program: the miss rate of each section, and the threshold.
//!
//! `measure` writes it as TOML, `hint` reads it. A user may edit the threshold.
//!
//! # Invariants
//! What is written reads back as the same profile. No text makes [`Profile::parse`] panic. A
//! profile that was written by another program is refused.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::graph::{Graph, OUTSIDE};
use crate::threshold;

/// Version of the format.
const VERSION: u32 = 1;
/// Longest profile that is read [bytes].
pub const MAX_BYTES: u64 = 4 << 20;

/// Class of CPUs that suits a section. The numbers are those of the kernel side (`bias/hint.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// None in particular: the counters decide.
    Neutral = 0,
    /// The section executes.
    Fast = 1,
    /// The section waits for memory.
    Slow = 2,
}

/// Reason to refuse a profile.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// It is no profile.
    #[error("it is damaged ({0}); measure again")]
    Damaged(String),
    /// Its version is not known.
    #[error("it has version {0}, this library reads version {VERSION}; measure again")]
    Version(u32),
    /// It belongs to another program.
    #[error("it belongs to another build of the program ({0}); measure again")]
    Foreign(String),
}

/// A profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    version: u32,
    /// Build ID of the program, in hexadecimal digits. Empty if it has none.
    pub build_id: String,
    /// Misses per instruction above which a section belongs on a slow CPU. None if the sections are
    /// alike, or without counters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// The sections.
    #[serde(default, rename = "section", skip_serializing_if = "Vec::is_empty")]
    pub sections: Vec<Measured>,
}

/// A section of a profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Name of its marks.
    pub name: String,
    /// Times that it ran.
    pub calls: u64,
    /// CPU time of all calls [ns].
    pub time_ns: u64,
    /// Cycles per instruction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpi: Option<f64>,
    /// Misses of the last-level cache per instruction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub misses_per_instruction: Option<f64>,
}

impl Profile {
    /// Return the profile of a measured graph.
    pub fn new<Name: Ord + Clone + AsRef<str>>(graph: &Graph<Name>, build_id: &str) -> Self {
        let sections: Vec<Measured> = graph
            .sections()
            .into_iter()
            .filter(|(name, _)| name.as_ref() != OUTSIDE)
            .map(|(name, section)| Measured {
                name: name.as_ref().to_owned(),
                calls: section.counts.calls.min(i64::MAX as u64),
                time_ns: section.counts.time_ns.min(i64::MAX as u64),
                cpi: section.counts.cpi(),
                misses_per_instruction: section.value,
            })
            .collect();
        let threshold = threshold::choose(sections.iter().filter_map(|s| s.misses_per_instruction));
        Profile { version: VERSION, build_id: build_id.to_owned(), threshold, sections }
    }

    /// Return the profile as TOML.
    pub fn text(&self) -> String {
        // Neither the types nor the values of a profile can fail.
        toml::to_string(self).unwrap_or_default()
    }

    /// Read a profile of the program with this build ID.
    ///
    /// # Errors
    /// Fail if the text is no profile, of another version or of another program.
    pub fn parse(text: &str, build_id: &str) -> Result<Self, Refusal> {
        let damaged = |error: toml::de::Error| Refusal::Damaged(error.message().replace('\n', " "));
        let profile: Profile = toml::from_str(text).map_err(damaged)?;
        if profile.version != VERSION {
            return Err(Refusal::Version(profile.version));
        }
        if profile.build_id != build_id {
            return Err(Refusal::Foreign(profile.build_id.chars().take(40).collect()));
        }
        let mut numbers = profile.sections.iter().filter_map(|s| s.misses_per_instruction);
        if !numbers.all(is_rate) || !profile.threshold.is_none_or(is_rate) {
            return Err(Refusal::Damaged("a rate is no number from 0 on".into()));
        }
        Ok(profile)
    }

    /// Return the class of each section.
    pub fn classes(&self) -> HashMap<String, Class> {
        let class = |section: &Measured| match (section.misses_per_instruction, self.threshold) {
            (Some(value), Some(threshold)) if value > threshold => Class::Slow,
            (Some(_), Some(_)) => Class::Fast,
            _ => Class::Neutral,
        };
        self.sections.iter().map(|section| (section.name.clone(), class(section))).collect()
    }
}

fn is_rate(value: f64) -> bool {
    value.is_finite() && value >= 0.0
}

#[cfg(test)]
#[path = "profile_tests.rs"]
mod tests;
