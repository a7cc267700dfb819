// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The profile of a program: the miss rate of each section, and the threshold between sections that
//! execute and sections that wait for memory. `measure` writes it as TOML, `hint` reads it. A user
//! may edit the threshold.
//!
//! # Problem
//! A miss rate alone does not tell which core suits a section: it depends on the machine and on the
//! other sections. [Werling18] looks for a gap in a plot by eye.
//!
//! # Approach
//! Sort the values. The threshold is the geometric mean of the two neighbours that differ by the
//! largest factor. Values below [`FLOOR`] count as [`FLOOR`].
//!
//! # Invariants
//! A written profile reads back unchanged. No text makes [`Profile::parse`] panic, and it refuses
//! the profile of another program. There are values on both sides of a threshold. It does not
//! depend on the order of the values. Sections of about equal values have none.
//!
//! # Limits
//! The gap shows where sections differ most, not where a fast core begins to pay.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::graph::{Graph, OUTSIDE};

/// Version of the format.
const VERSION: u32 = 1;
/// Longest profile that the library reads [bytes].
pub const MAX_BYTES: u64 = 4 << 20;

/// Misses per instruction below which a section executes: at 300 cycles for a miss, one in 1000
/// instructions costs less than a third of a cycle per instruction.
const FLOOR: f64 = 1e-3;
/// Least factor between two sections that differ.
const LEAST_FACTOR: f64 = 2.0;

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
    /// It is not a profile.
    #[error("it is damaged ({0}); measure again")]
    Damaged(String),
    /// Its version is unknown.
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
    pub fn new(graph: &Graph, build_id: &str) -> Self {
        let sections: Vec<Measured> = graph
            .sections()
            .into_iter()
            .filter(|(name, _)| *name != OUTSIDE)
            .map(|(name, section)| Measured {
                name: name.to_owned(),
                calls: section.counts.calls.min(i64::MAX as u64),
                time_ns: section.counts.time_ns.min(i64::MAX as u64),
                cpi: section.counts.cpi(),
                misses_per_instruction: section.value,
            })
            .collect();
        let threshold = gap(sections.iter().filter_map(|s| s.misses_per_instruction));
        Profile { version: VERSION, build_id: build_id.to_owned(), threshold, sections }
    }

    /// Return the profile as TOML.
    pub fn text(&self) -> String {
        // No profile fails to serialize.
        toml::to_string(self).unwrap_or_default()
    }

    /// Read a profile of the program with this build ID.
    ///
    /// # Errors
    /// Fail if the text is not a profile of this version and program.
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
            return Err(Refusal::Damaged("a rate is negative or not a number".into()));
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

/// Return the threshold [misses per instruction]. None if all `values` are alike.
fn gap(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> =
        values.into_iter().filter(|value| value.is_finite()).map(|value| value.max(FLOOR)).collect();
    sorted.sort_by(f64::total_cmp);
    let factor = |pair: &[f64]| pair[1] / pair[0];
    let widest = sorted.windows(2).max_by(|a, b| factor(a).total_cmp(&factor(b)))?;
    (factor(widest) >= LEAST_FACTOR).then(|| (widest[0] * widest[1]).sqrt())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::graph::Counts;

    fn graph(rates: &[(&'static str, u64)]) -> Graph<'static> {
        let mut graph = Graph::default();
        for &(name, misses) in rates {
            let counts = Counts { calls: 3, time_ns: 9, cycles: 1500, instructions: 1000, misses };
            graph.add(name, OUTSIDE, &counts);
            graph.add(OUTSIDE, name, &counts);
        }
        graph
    }

    #[test]
    fn sections_are_divided_by_the_threshold() {
        let profile = Profile::new(&graph(&[("scan", 40), ("join", 50), ("parse", 1), ("plan", 0)]), "ab");
        let classes = profile.classes();
        assert_eq!(classes["scan"], Class::Slow);
        assert_eq!(classes["join"], Class::Slow);
        assert_eq!(classes["parse"], Class::Fast);
        assert_eq!(classes["plan"], Class::Fast);
        assert!(!classes.contains_key(OUTSIDE));
        assert_eq!(profile.sections[0].cpi, Some(1.5));
    }

    #[test]
    fn sections_that_are_alike_are_neutral() {
        let profile = Profile::new(&graph(&[("a", 40), ("b", 41)]), "");
        assert_eq!(profile.threshold, None);
        assert!(profile.classes().values().all(|class| *class == Class::Neutral));
        let mut blind = Graph::default();
        blind.add("a", "b", &Counts { calls: 1, time_ns: 5, ..Counts::default() });
        assert_eq!(Profile::new(&blind, "").sections[0].cpi, None);
    }

    #[test]
    fn an_edited_threshold_counts() {
        let text = Profile::new(&graph(&[("a", 40), ("b", 20), ("c", 1)]), "ab").text();
        let edited: String = text
            .lines()
            .map(|line| if line.starts_with("threshold") { "threshold = 0.03" } else { line })
            .map(|line| format!("{line}\n"))
            .collect();
        let classes = Profile::parse(&edited, "ab").unwrap().classes();
        assert_eq!((classes["a"], classes["b"]), (Class::Slow, Class::Fast));
    }

    #[test]
    fn refusals_are_one_line_with_a_remedy() {
        let text = Profile::new(&graph(&[("a", 40), ("b", 1)]), "ab").text();
        let refused = |text: &str, build_id: &str| Profile::parse(text, build_id).unwrap_err().to_string();
        assert!(refused(&text, "cd").contains("another build of the program (ab)"));
        assert!(refused(&text.replace("version = 1", "version = 7"), "ab").contains("version 7"));
        assert!(refused(&text.replace("0.04", "nan"), "ab").contains("not a number"));
        assert!(refused(&text.replace("0.04", "-1.0"), "ab").contains("not a number"));
        for cut in [0, 5, text.rfind('=').unwrap_or(0)] {
            let refusal = refused(&text[..cut], "ab");
            assert!(refusal.contains("measure again") && !refusal.contains('\n'), "{refusal}");
        }
    }

    /// Listing 5.2 of the thesis, which sets the threshold to 0.01: three sections exceed it.
    const MYSQL: [f64; 7] = [0.0226868, 0.02721, 0.004393, 0.005928, 0.00366238, 0.018912, 0.004121];

    #[test]
    fn the_threshold_of_the_thesis_is_found() {
        let threshold = gap(MYSQL).unwrap();
        assert!((threshold - 0.01).abs() < 0.001, "{threshold}");
        assert_eq!(MYSQL.iter().filter(|value| **value > threshold).count(), 3);
    }

    #[test]
    fn sections_that_are_alike_have_no_threshold() {
        assert_eq!(gap([]), None);
        assert_eq!(gap([0.5]), None);
        assert_eq!(gap([0.02, 0.03, 0.025]), None);
        assert_eq!(gap([0.0, 1e-9, f64::NAN]), None);
    }

    proptest! {
        #[test]
        fn a_threshold_has_values_on_both_sides(mut values in prop::collection::vec(0.0..0.1f64, 0..12)) {
            let threshold = gap(values.iter().copied());
            values.reverse();
            prop_assert_eq!(threshold, gap(values.iter().copied()));
            if let Some(threshold) = threshold {
                let above = values.iter().filter(|value| **value > threshold).count();
                prop_assert!(above > 0 && above < values.len());
                // No value is close to it.
                let near = values.iter().map(|value| value.max(FLOOR) / threshold)
                    .filter(|factor| *factor > 0.72 && *factor < 1.4).count();
                prop_assert_eq!(near, 0);
            }
        }

        #[test]
        fn a_written_profile_reads_back_unchanged(
            sections in prop::collection::vec((".*", any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>()), 0..8)
        ) {
            let mut graph = Graph::default();
            for (name, calls, cycles, instructions, misses) in &sections {
                let (calls, cycles, instructions, misses) = (*calls, *cycles, *instructions, *misses);
                let counts = Counts { calls, time_ns: cycles, cycles, instructions, misses };
                graph.add(name, "next", &counts);
            }
            let profile = Profile::new(&graph, "0123");
            prop_assert_eq!(Profile::parse(&profile.text(), "0123").unwrap(), profile);
        }

        #[test]
        fn no_text_makes_parsing_panic(text in ".*", build_id in "[0-9a-f]*") {
            let _ = Profile::parse(&text, &build_id);
        }
    }
}
