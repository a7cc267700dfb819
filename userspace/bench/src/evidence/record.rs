// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Records: a run of `bias-bench ab` that backs a claim, with its samples.

use super::claims::{CLAIMS_FILE, Claim};
use crate::ab::plan::Plan;
use crate::ab::report::{Report, Row};
use crate::ab::sample::Sample;
use crate::ab::store::{self, SAMPLES_FILE};
use crate::tree::Tree;
use crate::{Error, Result, files};
use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Format of a record.
pub const RECORD_SCHEMA: &str = "bias-bench.record/1";
/// Directory of the records, from the root of the repository.
pub const RECORDS: &str = "docs/results";
/// Maximum size of a record, and of its samples when they are unpacked.
const MAX_BYTES: u64 = 16 << 20;

/// A recorded run. Its samples are beside it, in a file of their own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Format, see [`RECORD_SCHEMA`].
    pub schema: String,
    /// Name of the claim.
    pub claim: String,
    /// Every setting of the run.
    pub plan: Plan,
    /// The run, judged.
    pub report: Report,
}

/// Return the paths of a claim's record and of its samples.
fn paths(root: &Path, id: &str) -> (PathBuf, PathBuf) {
    let beside = |ending: &str| root.join(RECORDS).join(format!("{id}.{ending}"));
    (beside("json"), beside("samples.zst"))
}

impl Record {
    /// Record the run in `directory` for a claim, in place of an earlier record.
    ///
    /// # Errors
    /// The run is incomplete, not the claim's, or of a changed tree, or it cannot be written.
    pub fn make(root: &Path, claim: &Claim, directory: &Path) -> Result<Self> {
        let plan = Plan::read(&directory.join(store::PLAN_FILE))?;
        let mut report = Report { series: Vec::new(), ..Report::from_dir(directory)? };
        report.run.command = without_directory(&report.run.command);
        let record = Self { schema: RECORD_SCHEMA.into(), claim: claim.id.clone(), plan, report };
        let refused = |why: String| Error::Usage(format!("{}: {why}", directory.display()));
        record.check().map_err(refused)?;
        record.row(claim)?;
        let (json, packed) = paths(root, &claim.id);
        let samples = directory.join(SAMPLES_FILE);
        let samples =
            fs::read(&samples).map_err(|e| Error::failed(format!("cannot read {}", samples.display()), e))?;
        fs::create_dir_all(root.join(RECORDS))
            .map_err(|e| Error::failed(format!("cannot make {RECORDS}"), e))?;
        store::write_whole(&packed, &compress_to_vec(samples.as_slice(), CompressionLevel::Fastest))?;
        let text =
            serde_json::to_string_pretty(&record).map_err(|e| Error::failed("writing the record", e))?;
        store::write_whole(&json, (text + "\n").as_bytes())?;
        Ok(record)
    }

    /// Read the record of a claim, and verify it by its samples. Return None if there is no record.
    ///
    /// # Errors
    /// The record was edited, has another schema, has no samples, or comes from an incomplete run
    /// or a changed tree. The message names the file.
    pub fn read(root: &Path, id: &str) -> Result<Option<Self>> {
        let (json, packed) = paths(root, id);
        if !json.exists() {
            return Ok(None);
        }
        let wrong = |path: &Path, why: String| {
            Error::Usage(format!(
                "{}: {why}; measure again with `cargo xtask remeasure {id}`",
                path.display()
            ))
        };
        let record: Self = serde_json::from_str(&files::read_small_file(&json, MAX_BYTES)?)
            .map_err(|e| wrong(&json, format!("not a record ({e})")))?;
        if record.schema != RECORD_SCHEMA || record.claim != id {
            return Err(wrong(&json, format!("not a {RECORD_SCHEMA} of '{id}'")));
        }
        record.check().map_err(|why| wrong(&json, why))?;
        let samples = unpack(&packed).map_err(|why| wrong(&packed, format!("no samples ({why})")))?;
        let again = Report::new(record.report.run.clone(), &samples).json()?;
        if again != record.report.json()? {
            return Err(wrong(
                &json,
                "the samples give other figures, so one of the files was edited".into(),
            ));
        }
        Ok(Some(record))
    }

    /// Return the tree that was measured.
    pub fn tree(&self) -> Option<&Tree> {
        self.report.run.tree.as_ref()
    }

    /// Return the reason why this run backs no claim.
    fn check(&self) -> std::result::Result<(), String> {
        match self.tree() {
            _ if !self.report.run.complete => {
                Err("the run is not complete; continue it with --resume".into())
            }
            None => Err("the run has no commit; measure in a git repository of scx_bias".into()),
            Some(tree) if tree.dirty => Err(format!(
                "the tree differed from commit {}; commit the changes and measure again",
                tree.commit
            )),
            Some(_) => Ok(()),
        }
    }

    /// Return the row that decides the claim.
    ///
    /// # Errors
    /// The run has no such row, or several.
    pub fn row(&self, claim: &Claim) -> Result<&Row> {
        let all = self.report.rows.iter().chain(&self.report.means);
        let rows: Vec<&Row> = all.filter(|row| claim.is_about(row)).collect();
        match rows.as_slice() {
            [row] => Ok(row),
            rows => Err(Error::Usage(format!(
                "claim '{}': the run has {} rows with its arm, metric and cell; correct them in {CLAIMS_FILE}",
                claim.id,
                rows.len()
            ))),
        }
    }
}

/// Return a command without the directory of its output, which says nothing elsewhere.
fn without_directory(command: &str) -> String {
    let Some((before, after)) = command.split_once("--out ") else { return command.to_owned() };
    let rest = after.split_once(' ').map_or_else(String::new, |(_, rest)| format!(" {rest}"));
    format!("{before}--out DIR{rest}")
}

/// Read packed samples.
fn unpack(path: &Path) -> std::result::Result<Vec<Sample>, String> {
    let packed = fs::read(path).map_err(|e| e.to_string())?;
    let decoder = StreamingDecoder::new(packed.as_slice()).map_err(|e| e.to_string())?;
    let mut text = String::new();
    decoder.take(MAX_BYTES).read_to_string(&mut text).map_err(|e| e.to_string())?;
    text.lines().map(|line| serde_json::from_str(line).map_err(|e| e.to_string())).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::ab::sample::Run;
    use crate::ab::sample::tests::sample;
    use crate::evidence::claims;

    /// Return a claim, and the directory of a run that backs it.
    pub fn example(directory: &Path) -> Claim {
        let claim = claims::parse(
            "[[claim]]\nid = 'mix'\nquestion = 'Placement'\nheadline = true\nsays = 'a mix'\n\
             ab = '--cells 2compute'\nmetric = 'stp'\ntarget = 1.05\n",
        );
        let plan =
            Plan::parse("arms = ['default', 'scx_bias']\nblocks = 4\n[[cells]]\nworkload = '2compute'\n");
        fs::create_dir_all(directory).unwrap();
        plan.unwrap().write(&directory.join(store::PLAN_FILE)).unwrap();
        let tree = Tree { date: "2026-01-02".into(), commit: "abcdef012".into(), ..Tree::default() };
        let run = Run {
            arms: ["default", "scx_bias"].map(String::from).into(),
            boots: 3,
            blocks: 4,
            blocks_done: 12,
            complete: true,
            emulated: true,
            machine: "2F2S".into(),
            kernel: "6.12".into(),
            command: format!("bias-bench ab --out {} --seed 1", directory.display()),
            tree: Some(tree),
            ..Run::default()
        };
        let mut store = store::Store::create(directory, &run).unwrap();
        for block in 0..12_u32 {
            for (visit, arm) in ["default", "scx_bias", "scx_bias", "default"].into_iter().enumerate() {
                let stp = if arm == "default" { 2.0 } else { 2.2 } + f64::from(block) / 1000.0;
                let at = [block / 4, block % 4, visit as u32, 1];
                store.append(&sample(at, arm, "2compute", &[("stp", stp)])).unwrap();
            }
        }
        claim.unwrap().remove(0)
    }

    #[test]
    fn a_record_is_read_back() {
        let root = tempfile::tempdir().unwrap();
        let run = root.path().join("run");
        let claim = example(&run);
        assert_eq!(Record::read(root.path(), "mix").unwrap(), None);
        let record = Record::make(root.path(), &claim, &run).unwrap();
        assert_eq!(
            Record::read(root.path(), "mix").unwrap().unwrap().report.json().unwrap(),
            record.report.json().unwrap()
        );
        assert_eq!(record.report.run.command, "bias-bench ab --out DIR --seed 1");
        let row = record.row(&claim).unwrap();
        assert!(claim.is_met(row) && row.change.low.is_some(), "{row:?}");
    }

    #[test]
    fn untrustworthy_records_are_refused_by_name() {
        let root = tempfile::tempdir().unwrap();
        let run = root.path().join("run");
        let claim = example(&run);
        let described = fs::read_to_string(run.join(store::RUN_FILE)).unwrap();
        for (from, to, said) in [
            ("\"complete\": true", "\"complete\": false", "not complete"),
            ("\"dirty\": false", "\"dirty\": true", "differed from commit abcdef012"),
            ("\"tree\"", "\"other\"", "no commit"),
            ("2compute", "3compute", "0 rows"),
        ] {
            let text = if from == "2compute" { described.clone() } else { described.replace(from, to) };
            fs::write(run.join(store::RUN_FILE), text).unwrap();
            let claim = Claim { cell: (from == "2compute").then(|| to.into()), ..claim.clone() };
            let error = Record::make(root.path(), &claim, &run).unwrap_err().to_string();
            assert!(error.contains(said), "{said}: {error}");
        }
        fs::write(run.join(store::RUN_FILE), &described).unwrap();
        let (json, packed) = paths(root.path(), "mix");
        for (path, from, to, said) in [
            (&json, "bias-bench.record/1", "bias-bench.record/9", "not a bias-bench.record/1"),
            (&json, "\"ratio\": 1.0", "\"ratio\": 1.2", "was edited"),
            (&packed, "", "", "no samples"),
        ] {
            Record::make(root.path(), &claim, &run).unwrap();
            let text = fs::read(path).unwrap();
            let text = String::from_utf8_lossy(&text).replace(from, to);
            fs::write(path, if from.is_empty() { "" } else { &text }).unwrap();
            let error = Record::read(root.path(), "mix").unwrap_err().to_string();
            assert!(error.contains(said) && error.contains("docs/results/mix."), "{said}: {error}");
        }
    }
}
