//! What is stored of a run, and which of it counts.
//!
//! Problem: raw figures must outlive the program that judged them, and a block that was broken off
//! must neither be judged nor vanish.
//! Approach: one [`Sample`] a cell and visit, one [`Run`] that says how they were made. A block
//! that was broken off is repeated as a whole with the next `attempt`; [`valid_blocks`] takes the
//! last attempt of each block if all of it is there, and [`Tally`] counts the rest.
//! Invariants: a valid block has every cell of its boot in exactly two visits of each of its arms, two arms at least, so its
//! pairs are complete.
//! Limits: which cells a block should have is read off the samples. An arm that a block has nothing of is not missed: it
//! failed and was dropped, and the others' pairs count all the same.

use serde::{Deserialize, Deserializer, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Format of a line of `samples.jsonl`. In format 1 samples could be void.
pub const SAMPLE_SCHEMA: &str = "bias-bench.sample/2";
/// Format of `run.json`.
pub const RUN_SCHEMA: &str = "bias-bench.run/2";
/// A block visits each arm on the way there and on the way back.
const VISITS_PER_ARM: usize = 2;

/// One cell in one visit: a line of `samples.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// [`SAMPLE_SCHEMA`].
    pub schema: String,
    /// Boot of the machine, from 0.
    pub boot: u32,
    /// Block within the boot, from 0.
    pub block: u32,
    /// Visit within the block, from 0.
    pub visit: u32,
    /// Which try of the block this is, from 1.
    #[serde(default = "one")]
    pub attempt: u32,
    /// Arm that was active.
    pub arm: String,
    /// Cell that was run.
    pub cell: String,
    /// Figures by metric, at least 0. Infinite (null in JSON) is the worst there is: nothing got done.
    #[serde(default, deserialize_with = "null_is_infinite")]
    pub metrics: BTreeMap<String, f64>,
    /// Raw figures behind the metrics, in the workload's own form.
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

/// How a run was made: `run.json`. Missing fields have defaults, unknown ones are ignored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Run {
    /// [`RUN_SCHEMA`].
    pub schema: String,
    /// Suite, or the name of the plan.
    pub suite: String,
    /// Seed of the order of visits, and of the resampling when judged.
    pub seed: u64,
    /// Names of the arms.
    pub arms: Vec<String>,
    /// The arm that the others are judged against.
    pub baseline: String,
    /// The cells.
    pub cells: Vec<Cell>,
    /// Boots planned.
    pub boots: u32,
    /// Blocks planned per boot.
    pub blocks: u32,
    /// Factor on the time constants of the arms and on workloads' periods; 1 leaves them as on hardware.
    pub stretch: f64,
    /// Arms whose time constants could not be stretched.
    pub unstretched_arms: Vec<String>,
    /// Differences up to this share do not matter, e.g. 0.01.
    pub dead_zone: f64,
    /// What it ran on: speeds of the CPUs of a VM, or the name of a host.
    pub machine: String,
    /// True if the machine was emulated.
    pub emulated: bool,
    /// Release of the kernel.
    pub kernel: String,
    /// The host underneath.
    pub host: Host,
    /// Command line that repeats the run.
    pub command: String,
    /// Gate asked for.
    pub gate: Option<String>,
    /// True once all blocks are done.
    pub complete: bool,
    /// Why it is not.
    pub incomplete_why: Option<String>,
    /// Blocks done so far.
    pub blocks_done: u32,
    /// Arms that failed and were dropped, with the reason.
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
pub struct Cell {
    /// Name in the samples.
    pub name: String,
    /// Workload it runs.
    pub workload: String,
    /// Machine it runs on, if the run has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// How differently its tasks profit from a fast CPU; 0 is all alike.
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

/// A block that may be judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Block<'a> {
    /// Boot it belongs to.
    pub boot: u32,
    /// Its number within the boot.
    pub block: u32,
    /// Its samples, by visit.
    pub samples: Vec<&'a Sample>,
}

/// What became of the blocks of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Blocks that may be judged.
    pub used: usize,
    /// Blocks whose last attempt is not all there.
    pub incomplete: usize,
    /// Boots with a block that may be judged.
    pub boots: usize,
}

/// Samples of one attempt by (visit, arm, cell); of equal ones the later counts.
type Attempt<'a> = BTreeMap<(u32, &'a str, &'a str), &'a Sample>;

fn attempts(samples: &[Sample]) -> BTreeMap<(u32, u32), BTreeMap<u32, Attempt<'_>>> {
    let mut blocks: BTreeMap<(u32, u32), BTreeMap<u32, Attempt<'_>>> = BTreeMap::new();
    for s in samples {
        let attempt = blocks.entry((s.boot, s.block)).or_default().entry(s.attempt).or_default();
        attempt.insert((s.visit, s.arm.as_str(), s.cell.as_str()), s);
    }
    blocks
}

/// True if every arm that is there has two visits of every cell expected, and there are arms to compare.
fn is_complete(attempt: &Attempt<'_>, cells: &BTreeSet<&str>) -> bool {
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

/// The blocks that may be judged: the last attempt of each, if it is complete.
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
    /// Counts what became of the blocks of these samples.
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

    /// A sample with one metric.
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
    fn a_run_needs_no_field() {
        let run: Run = serde_json::from_str(r#"{"unheard_of":1}"#).unwrap();
        assert_eq!(run, Run::default());
    }
}
