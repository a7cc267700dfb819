// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Stored samples of a run, and the rule that decides which of them count.
//!
//! # Problem
//! Raw figures must outlive the program that judged them. An aborted block must not be judged, but
//! must not vanish either.
//!
//! # Approach
//! One [`Sample`] records one cell in one visit. One [`Run`] records how the samples were made. An
//! aborted block is repeated completely under the next `attempt`. [`valid_blocks`] takes the last
//! attempt of each block if that attempt is complete, and [`Tally`] counts the other blocks.
//!
//! # Invariants
//! A valid block has at least two arms. It has every cell of its boot in exactly two visits of each
//! of its arms, so its pairs are complete.
//!
//! # Limits
//! The cells that a block must have are derived from the samples. A block without any sample of an
//! arm is still valid. That arm has failed and was dropped, but the pairs of the other arms count.

use crate::tree::Tree;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Format of a line of `samples.jsonl`. In format 1, samples could be void.
pub const SAMPLE_SCHEMA: &str = "bias-bench.sample/2";
/// Format of `run.json`.
pub const RUN_SCHEMA: &str = "bias-bench.run/2";
/// Visits of each arm in a block: one in the forward order, one in the reverse order.
const VISITS_PER_ARM: usize = 2;

/// Result of one run of a cell.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Measured {
    /// Metrics by registry name.
    pub metrics: BTreeMap<String, f64>,
    /// Raw figures that help to explain the metrics.
    pub detail: serde_json::Value,
}

/// Result of one cell in one visit: a line of `samples.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Format, see [`SAMPLE_SCHEMA`].
    pub schema: String,
    /// Index of the boot of the machine.
    pub boot: u32,
    /// Index of the block within the boot.
    pub block: u32,
    /// Index of the visit within the block.
    pub visit: u32,
    /// Attempt at the block, from 1.
    #[serde(default = "one")]
    pub attempt: u32,
    /// Arm that was active.
    pub arm: String,
    /// Cell that was run.
    pub cell: String,
    /// Figures by metric, at least 0. Infinite (null in JSON) is the worst value: no work got done.
    #[serde(default, deserialize_with = "null_is_infinite")]
    pub metrics: BTreeMap<String, f64>,
    /// Raw figures behind the metrics, in the format of the workload.
    #[serde(default)]
    pub detail: serde_json::Value,
}

fn one() -> u32 {
    1
}

fn null_is_infinite<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, f64>, D::Error> {
    let metrics = BTreeMap::<String, Option<f64>>::deserialize(from)?;
    let value = |(name, value): (String, Option<f64>)| match value.unwrap_or(f64::INFINITY) {
        value if value >= 0.0 => Ok((name, value)),
        value => Err(serde::de::Error::custom(format!("metric {name} is {value}; metrics are at least 0"))),
    };
    metrics.into_iter().map(value).collect()
}

/// Description of a run: `run.json`. Missing fields get defaults, unknown fields are ignored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Run {
    /// Format, see [`RUN_SCHEMA`].
    pub schema: String,
    /// Name of the suite or plan.
    pub suite: String,
    /// Seed of the orders of visits, and of the resampling in the statistics.
    pub seed: u64,
    /// Names of the arms.
    pub arms: Vec<String>,
    /// Name of the arm that the others are judged against.
    pub baseline: String,
    /// The cells.
    pub cells: Vec<RunCell>,
    /// Planned boots, of all machines together.
    pub boots: u32,
    /// Planned blocks per boot.
    pub blocks: u32,
    /// Factor on the time constants of the arms and on the workloads' periods. 1 on hardware.
    pub stretch: f64,
    /// Arms whose time constants could not be stretched.
    pub unstretched_arms: Vec<String>,
    /// Dead zone: differences up to this share do not matter, e.g. 0.01.
    pub dead_zone: f64,
    /// Machine of the run: the speeds of a VM's CPUs, or the name of a host.
    pub machine: String,
    /// True if the machine was emulated.
    pub emulated: bool,
    /// Kernel release.
    pub kernel: String,
    /// Host of the run.
    pub host: Host,
    /// Tree that was measured. None outside of a git repository of scx_bias.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<Tree>,
    /// Command line that repeats the run.
    pub command: String,
    /// Gate of the run, if it has one.
    pub gate: Option<String>,
    /// True if all blocks are complete.
    pub complete: bool,
    /// Reason why the run is incomplete.
    pub incomplete_why: Option<String>,
    /// Complete blocks so far.
    pub blocks_done: u32,
    /// Arms that failed and were dropped, each with the reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub failed_arms: BTreeMap<String, String>,
}

impl Default for Run {
    fn default() -> Self {
        Run {
            schema: RUN_SCHEMA.into(),
            suite: String::new(),
            seed: 0,
            arms: Vec::new(),
            baseline: "default".into(),
            cells: Vec::new(),
            boots: 1,
            blocks: 1,
            stretch: 1.0,
            unstretched_arms: Vec::new(),
            dead_zone: 0.01,
            machine: String::new(),
            emulated: false,
            kernel: String::new(),
            host: Host::default(),
            tree: None,
            command: String::new(),
            gate: None,
            complete: false,
            incomplete_why: None,
            blocks_done: 0,
            failed_arms: BTreeMap::new(),
        }
    }
}

/// A cell of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunCell {
    /// Name in the samples.
    pub name: String,
    /// Name of the workload.
    pub workload: String,
    /// Machine of the cell, if the run has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Diversity of the tasks in their gain from a fast CPU. 0 if all are alike.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diversity: Option<f64>,
}

/// The host of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    /// Model of the CPU.
    pub cpu: String,
    /// Number of CPUs.
    pub cores: u32,
}

/// A complete block, which the statistics can judge.
#[derive(Debug, Clone, PartialEq)]
pub struct Block<'a> {
    /// Index of its boot.
    pub boot: u32,
    /// Index of the block within the boot.
    pub block: u32,
    /// Samples of the block, ordered by visit.
    pub samples: Vec<&'a Sample>,
}

/// Counts of complete and incomplete blocks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Blocks that can be judged.
    pub used: usize,
    /// Blocks whose last attempt is not complete.
    pub incomplete: usize,
    /// Boots with at least one block that can be judged.
    pub boots: usize,
}

/// Samples of one attempt by (visit, arm, cell). Of samples with equal keys, the last one counts.
type Visits<'a> = BTreeMap<(u32, &'a str, &'a str), &'a Sample>;

fn attempts(samples: &[Sample]) -> BTreeMap<(u32, u32), BTreeMap<u32, Visits<'_>>> {
    let mut blocks: BTreeMap<(u32, u32), BTreeMap<u32, Visits<'_>>> = BTreeMap::new();
    for s in samples {
        let attempt = blocks.entry((s.boot, s.block)).or_default().entry(s.attempt).or_default();
        attempt.insert((s.visit, s.arm.as_str(), s.cell.as_str()), s);
    }
    blocks
}

/// Return true if the attempt has two arms or more, and every arm has two visits of every expected
/// cell.
fn is_complete(attempt: &Visits<'_>, cells: &BTreeSet<&str>) -> bool {
    let mut visits: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut arms = BTreeSet::new();
    for &(_, arm, cell) in attempt.keys() {
        arms.insert(arm);
        *visits.entry((arm, cell)).or_default() += 1;
    }
    arms.len() > 1
        && visits.len() == arms.len() * cells.len()
        && visits.values().all(|&n| n == VISITS_PER_ARM)
}

/// Return the blocks that can be judged: the last attempt of each block, if it is complete.
pub fn valid_blocks(samples: &[Sample]) -> Vec<Block<'_>> {
    let mut cells: BTreeMap<u32, BTreeSet<&str>> = BTreeMap::new();
    for s in samples {
        cells.entry(s.boot).or_default().insert(&s.cell);
    }
    let last = |(key, mut tries): (_, BTreeMap<u32, _>)| Some((key, tries.pop_last()?.1));
    let blocks = attempts(samples).into_iter().filter_map(last);
    let valid = blocks.filter(|((boot, _), attempt)| is_complete(attempt, &cells[boot]));
    valid
        .map(|((boot, block), attempt)| Block { boot, block, samples: attempt.into_values().collect() })
        .collect()
}

impl Tally {
    /// Count the complete and incomplete blocks of these samples.
    pub fn of(samples: &[Sample]) -> Tally {
        let valid = valid_blocks(samples);
        Tally {
            used: valid.len(),
            incomplete: attempts(samples).len() - valid.len(),
            boots: valid.iter().map(|b| b.boot).collect::<BTreeSet<_>>().len(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Return a sample at `[boot, block, visit, attempt]`.
    pub(crate) fn sample(at: [u32; 4], arm: &str, cell: &str, metrics: &[(&str, f64)]) -> Sample {
        let [boot, block, visit, attempt] = at;
        Sample {
            schema: SAMPLE_SCHEMA.into(),
            boot,
            block,
            visit,
            attempt,
            arm: arm.into(),
            cell: cell.into(),
            metrics: metrics.iter().map(|&(name, value)| (name.to_string(), value)).collect(),
            detail: serde_json::Value::Null,
        }
    }

    fn block(block: u32, attempt: u32) -> Vec<Sample> {
        let arms = ["a", "b", "b", "a"].iter().zip(0..);
        arms.map(|(arm, visit)| sample([0, block, visit, attempt], arm, "c", &[("stp", 1.0)])).collect()
    }

    #[test]
    fn only_the_last_attempt_of_a_block_counts_if_it_is_complete() {
        let mut samples = [block(0, 1), block(1, 1), block(1, 2), block(2, 1)].concat();
        samples.pop();
        let valid = valid_blocks(&samples);
        assert_eq!(valid.iter().map(|b| b.block).collect::<Vec<_>>(), [0, 1]);
        assert!(valid[1].samples.iter().all(|s| s.attempt == 2));
        let tally = Tally::of(&samples);
        assert_eq!((tally.used, tally.incomplete, tally.boots), (2, 1, 1));
    }

    #[test]
    fn a_block_needs_the_cells_of_its_own_boot_only() {
        let mut samples = [block(0, 1), block(0, 1)].concat();
        for sample in &mut samples[..4] {
            sample.boot = 1;
            sample.cell = "of another machine".into();
        }
        assert_eq!(valid_blocks(&samples).len(), 2);
    }

    #[test]
    fn an_earlier_attempt_does_not_stand_in_for_a_torn_one() {
        let mut samples = [block(0, 1), block(0, 2)].concat();
        samples.pop();
        assert!(valid_blocks(&samples).is_empty());
    }

    #[test]
    fn null_is_infinite_and_negative_is_refused() {
        let line = r#"{"schema":"bias-bench.sample/2","boot":0,"block":3,"visit":1,"arm":"a","cell":"c",
            "metrics":{"stp":3.5,"antt":null},"more":1}"#;
        let sample: Sample = serde_json::from_str(line).unwrap();
        assert_eq!((sample.metrics["antt"], sample.attempt), (f64::INFINITY, 1));
        let again: Sample = serde_json::from_str(&serde_json::to_string(&sample).unwrap()).unwrap();
        assert_eq!(again, sample);
        let error = serde_json::from_str::<Sample>(&line.replace("3.5", "-3.5")).unwrap_err();
        assert!(error.to_string().contains("metric stp is -3.5"), "{error}");
    }

    #[test]
    fn every_field_of_a_run_has_a_default() {
        let run: Run = serde_json::from_str(r#"{"unheard_of":1}"#).unwrap();
        assert_eq!(run, Run::default());
    }
}
