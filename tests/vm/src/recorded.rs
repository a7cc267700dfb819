// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Recorded figures of the scenarios, and the bounds that they allow.
//!
//! # Problem
//! A bound far from the measured values finds nothing: a figure can get ten times worse unnoticed.
//! A bound in a test is what users are promised, so it stays where it is when figures get better.
//!
//! # Approach
//! `recorded.toml` holds the last values of each figure of each scenario. They tighten its bound to
//! [`LOOSEST`] times their spread. A run with `BIAS_VM_RECORD=1` adds its own values.
//!
//! # Invariants
//! Fewer than [`ENOUGH`] values tighten no bound. A run that misses an expectation records nothing.
//!
//! # Limits
//! Values of a busy host belong in the record only if the figure is in virtual time. A figure that
//! gets worse on purpose needs a new record: remove its values.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use nix::fcntl::{Flock, FlockArg};
use serde::Serialize;

/// Values from which on a record tightens a bound.
pub const ENOUGH: usize = 5;
/// Largest distance of a bound, in spreads of the recorded values.
pub const LOOSEST: f64 = 3.0;
/// Values kept of each figure, the last ones.
const KEPT: usize = 10;
/// Smallest spread that counts, as a part of the figure.
const GRAIN: f64 = 0.01;

/// Bound of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The figure is at least this.
    AtLeast(f64),
    /// The figure is at most this.
    AtMost(f64),
    /// The figure is within this share of that value.
    Within(f64, f64),
}

/// A figure of one run with its bound.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Expected {
    /// Name, the same in all runs.
    pub what: String,
    /// Measured value.
    pub value: f64,
    /// Its bound.
    #[serde(flatten)]
    pub bound: Bound,
}

impl Bound {
    /// Return true if `value` keeps the bound.
    #[must_use]
    pub fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(bound) => value >= bound,
            Self::AtMost(bound) => value <= bound,
            Self::Within(due, share) => (value / due - 1.0).abs() <= share,
        }
    }

    /// Return the tightest bound that the recorded values demand, if this one is looser.
    ///
    /// The spread is the difference of the largest and the smallest value; for [`Self::Within`],
    /// the largest deviation from the due value. It is at least a hundredth of the figure, and one
    /// for whole numbers.
    #[must_use]
    pub fn tightened(self, recorded: &[f64]) -> Option<Self> {
        let mut sorted = recorded.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&least, &most) = (sorted.first()?, sorted.last()?);
        let median = *sorted.get(sorted.len() / 2)?;
        if sorted.len() < ENOUGH {
            return None;
        }
        let grain = f64::from(u8::from(sorted.iter().all(|value| value.fract() == 0.0)));
        let reach = LOOSEST * (most - least).max(grain).max(GRAIN * median.abs());
        match self {
            Self::AtLeast(bound) => (bound < median - reach).then_some(Self::AtLeast(median - reach)),
            Self::AtMost(bound) => (bound > median + reach).then_some(Self::AtMost(median + reach)),
            Self::Within(due, share) => {
                let off = |value: &f64| (value / due - 1.0).abs();
                let widest = LOOSEST * sorted.iter().map(off).fold(GRAIN, f64::max);
                (share > widest).then_some(Self::Within(due, widest))
            }
        }
    }
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtLeast(bound) => write!(f, "at least {bound:.3}"),
            Self::AtMost(bound) => write!(f, "at most {bound:.3}"),
            Self::Within(due, share) => write!(f, "within {:.1} % of {due:.3}", share * 100.0),
        }
    }
}

/// Recorded values by scenario and figure.
#[derive(Debug, Default, PartialEq)]
pub struct Record(BTreeMap<String, BTreeMap<String, Vec<f64>>>);

impl Record {
    /// Read a record. A file that does not exist is an empty one.
    ///
    /// # Errors
    /// The file cannot be read, or is not a record.
    pub fn read(path: &Path) -> Result<Self> {
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            text => text.with_context(|| format!("cannot read {}", path.display()))?,
        };
        Ok(Self(toml::from_str(&text).with_context(|| format!("{} is not a record", path.display()))?))
    }

    /// Return the recorded values of a figure.
    #[must_use]
    pub fn of(&self, scenario: &str, what: &str) -> &[f64] {
        self.0.get(scenario).and_then(|figures| figures.get(what)).map_or(&[], Vec::as_slice)
    }

    /// Return a line for each figure that meets its own bound, but not the tightened one.
    #[must_use]
    pub fn worse(&self, scenario: &str, figures: &[Expected]) -> Vec<String> {
        let lines = figures.iter().filter_map(|Expected { what, value, bound }| {
            let recorded = self.of(scenario, what);
            let tightened = bound.tightened(recorded)?;
            let is_worse = bound.is_met(*value) && !tightened.is_met(*value);
            is_worse.then(|| format!("{what}: {value:.3}, {tightened} after {recorded:?}"))
        });
        lines.collect()
    }

    /// Add the figures of a run to the record in `path`.
    ///
    /// # Errors
    /// The file cannot be read, locked or written.
    pub fn add(path: &Path, scenario: &str, figures: &[Expected]) -> Result<()> {
        let cannot = || format!("cannot write {}", path.display());
        // Scenarios that end at the same time wait for each other.
        let file = fs::File::options().create(true).append(true).open(path).with_context(cannot)?;
        let mut file = Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, error)| error)?;
        let mut record = Self::read(path)?;
        let own = record.0.entry(scenario.to_owned()).or_default();
        // One value of each run, though a figure may have two bounds.
        let mut added = BTreeSet::new();
        for figure in figures.iter().filter(|one| one.value.is_finite() && added.insert(&one.what)) {
            let values = own.entry(figure.what.clone()).or_default();
            // Six digits are more than any spread.
            values.push((figure.value * 1e6).round() / 1e6);
            values.drain(..values.len().saturating_sub(KEPT));
        }
        let text = toml::to_string(&record.0).with_context(cannot)?;
        file.set_len(0).with_context(cannot)?;
        file.write_all(text.as_bytes()).with_context(cannot)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn figure(what: &str, value: f64, bound: Bound) -> Expected {
        Expected { what: what.to_owned(), value, bound }
    }

    #[test]
    fn a_bound_is_at_most_three_spreads_away() {
        use Bound::{AtLeast, AtMost, Within};
        let stp = [3.80, 3.82, 3.81, 3.79, 3.80];
        assert_eq!(AtLeast(3.75).tightened(&stp), None);
        assert!(matches!(AtLeast(3.6).tightened(&stp), Some(AtLeast(bound)) if (bound - 3.686).abs() < 1e-3));
        assert!(AtMost(4.0).tightened(&stp).is_some() && AtMost(3.9).tightened(&stp).is_none());
        // Weights of 3 to 1.
        let ratio = [3.00, 3.05, 3.02, 3.01, 3.03];
        assert!(
            Within(3.0, 0.2).tightened(&ratio).is_some() && Within(3.0, 0.04).tightened(&ratio).is_none()
        );
        // Whole numbers, such as frames missed, or many.
        assert!(matches!(AtMost(11.0).tightened(&[0.0; ENOUGH]), Some(AtMost(bound)) if bound == 3.0));
        assert!(matches!(AtLeast(1.0).tightened(&[1000.0; ENOUGH]), Some(AtLeast(bound)) if bound == 970.0));
    }

    #[test]
    fn few_values_tighten_no_bound() {
        assert_eq!(Bound::AtLeast(0.0).tightened(&[5.0; ENOUGH - 1]), None);
        assert!(Bound::AtLeast(0.0).tightened(&[5.0; ENOUGH]).is_some());
        assert_eq!(Bound::AtLeast(0.0).tightened(&[]), None);
    }

    #[test]
    fn a_record_grows_by_runs_and_keeps_the_last_ones() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("recorded.toml");
        assert_eq!(Record::read(&path).unwrap(), Record::default());
        for run in 0..12 {
            let figures = [
                figure("a: 1/2 \"quoted\"", f64::from(run) / 8.0, Bound::AtLeast(-100.0)),
                figure("a: 1/2 \"quoted\"", f64::from(run) / 8.0, Bound::AtMost(100.0)),
                figure("b", f64::NAN, Bound::AtMost(1.0)),
            ];
            Record::add(&path, if run % 2 == 0 { "one" } else { "other" }, &figures).unwrap();
        }
        let record = Record::read(&path).unwrap();
        assert_eq!(record.of("one", "a: 1/2 \"quoted\""), [0.0, 0.25, 0.5, 0.75, 1.0, 1.25]);
        assert_eq!(record.of("one", "b"), [0.0; 0]);
        let run = |value| [figure("a: 1/2 \"quoted\"", value, Bound::AtLeast(-100.0))];
        assert!(record.worse("one", &run(0.5)).is_empty());
        let worse = record.worse("one", &run(-50.0));
        assert!(worse.len() == 1 && worse[0].contains("-50.000, at least"), "{worse:?}");
        assert!(record.worse("one", &run(-200.0)).is_empty(), "its own bound is missed");
        assert!(record.worse("third", &run(-50.0)).is_empty());
        fs::write(&path, "nothing").unwrap();
        assert!(Record::read(&path).is_err());
    }

    proptest! {
        /// No recorded value misses the bound that the record demands.
        #[test]
        fn the_record_itself_is_never_worse(
            values in prop::collection::vec(-1e6f64..1e6, ENOUGH..20), due in 1.0f64..1e6,
        ) {
            for bound in [Bound::AtLeast(-1e9), Bound::AtMost(1e9), Bound::Within(due, 1e9)] {
                let tightened = bound.tightened(&values);
                prop_assert!(tightened.is_some_and(|bound| values.iter().all(|value| bound.is_met(*value))));
            }
        }

        /// A tightened bound cannot be tightened again, and a bound is never loosened.
        #[test]
        fn a_tightened_bound_stays(
            values in prop::collection::vec(1.0f64..1e6, ENOUGH..20), far in 1e7f64..1e9,
        ) {
            for bound in [Bound::AtLeast(-far), Bound::AtMost(far), Bound::Within(1.0, far)] {
                let tightened = bound.tightened(&values);
                prop_assert!(tightened.is_some_and(|tightened| tightened.tightened(&values).is_none()));
            }
        }
    }
}
