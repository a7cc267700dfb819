// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Documents with figures from records: docs/results.md and the picture of all headlines as a
//! whole, and marked figures elsewhere.
//!
//! A mark is `<!--=CLAIM.FIGURE-->text<!--/-->`, which readers see as the text alone.

use super::record::{RECORDS, Record};
use super::standing::{Backed, Evidence};
use crate::ab::metric::Direction;
use crate::ab::report::{Row, format, svg};
use crate::ab::stats::Verdict;
use crate::{Error, Result, plot};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The generated page, from the root of the repository.
const PAGE: &str = "docs/results.md";
/// The generated picture, which the README shows.
const PICTURE: &str = "docs/plots/claims.svg";
/// Directories whose documents may have marks.
const DOCUMENTS: [&str; 3] = ["", "docs", "docs/guides"];
/// Change below which schedulers count as alike in the picture.
const DEAD_ZONE: f64 = 0.01;
/// Parts of a mark.
const MARK: [&str; 3] = ["<!--=", "-->", "<!--/-->"];

/// A document as it should be.
#[derive(Debug)]
pub struct Page {
    /// Path from the root of the repository.
    pub path: PathBuf,
    /// Text as it should be.
    pub text: String,
    /// True if the file has another text.
    pub differs: bool,
}

/// Return docs/results.md, the picture of the headlines, and all documents with marks.
///
/// # Errors
/// A document is unreadable, or a mark names no figure. The message names the document.
pub fn render(evidence: &Evidence) -> Result<Vec<Page>> {
    let mut pages = vec![
        page(evidence, Path::new(PAGE), results(evidence)),
        page(evidence, Path::new(PICTURE), picture(evidence)),
    ];
    for directory in DOCUMENTS {
        let path = evidence.root.join(directory);
        let failed = |e| Error::failed(format!("cannot read {}", path.display()), e);
        for entry in fs::read_dir(&path).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let file = Path::new(directory).join(&name);
            if file.extension().is_none_or(|extension| extension != "md") || file == Path::new(PAGE) {
                continue;
            }
            let text = fs::read_to_string(evidence.root.join(&file)).map_err(failed)?;
            if text.contains(MARK[0]) {
                let filled = fill(&text, evidence);
                let filled = filled.map_err(|why| Error::Usage(format!("{}: {why}", file.display())))?;
                pages.push(page(evidence, &file, filled));
            }
        }
    }
    pages.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(pages)
}

fn page(evidence: &Evidence, path: &Path, text: String) -> Page {
    let differs = fs::read_to_string(evidence.root.join(path)).ok().as_deref() != Some(text.as_str());
    Page { path: path.to_owned(), text, differs }
}

/// Return a document with the present figures in its marks.
fn fill(text: &str, evidence: &Evidence) -> std::result::Result<String, String> {
    let mut parts = text.split(MARK[0]);
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once(MARK[1]).ok_or("a mark has no end")?;
        let (_, after) = rest.split_once(MARK[2]).ok_or_else(|| format!("the mark '{name}' has no end"))?;
        let (id, wanted) = name.split_once('.').ok_or_else(|| format!("the mark '{name}' has no figure"))?;
        let backed = evidence.claim(id).map_err(|e| e.to_string())?;
        let [begin, end, over] = MARK;
        let _ = write!(filled, "{begin}{name}{end}{}{over}{after}", figure(backed, wanted)?);
    }
    Ok(filled)
}

/// Return a figure of a claim, e.g. "interval", as documents show it.
///
/// # Errors
/// The name is none of a figure, or the record does not decide the claim.
pub fn figure(backed: &Backed, name: &str) -> std::result::Result<String, String> {
    let claim = &backed.claim;
    let Some(record) = &backed.record else { return Ok("not measured".into()) };
    let row = record.row(claim).map_err(|e| e.to_string())?;
    let run = &record.report.run;
    let percent = |ratio: Option<f64>| ratio.map_or_else(|| "?".into(), change);
    Ok(match name {
        "change" => percent(row.change.ratio),
        "interval" => format!("{} to {}", percent(row.change.low), percent(row.change.high)),
        "value" => with_unit(row.arm_median, &row.unit),
        "baseline" => with_unit(row.baseline_median, &row.unit),
        "against" => run.baseline.clone(),
        "machine" => run.machine.clone(),
        "kernel" => run.kernel.clone(),
        "date" => record.tree().map(|tree| tree.date.clone()).unwrap_or_default(),
        _ => return Err(format!("'{}.{name}' is not a figure of a record", claim.id)),
    })
}

fn change(ratio: f64) -> String {
    format::change(ratio).replace('%', " %")
}

fn with_unit(value: Option<f64>, unit: &str) -> String {
    [format::sig_or_dash(value), unit.to_owned()].join(" ").trim_end().to_owned()
}

/// Return a plot of the headlines that have a record, losses first.
fn picture(evidence: &Evidence) -> String {
    let headlines = by_rank(evidence.claims.iter().filter(|backed| backed.claim.headline).collect());
    let rows = headlines.into_iter().filter_map(|backed| {
        let (_, row) = decided(backed)?;
        let better = if row.direction == Direction::Lower { " (less is better)" } else { "" };
        Some((format!("{}: {}{better}", backed.claim.id.replace('-', " "), row.metric), row))
    });
    let rows: Vec<(String, &Row)> = rows.collect();
    plot::picture(&svg::forest("Changes by scx_bias with 95 % intervals, losses first", &rows, DEAD_ZONE))
}

/// Return the text of docs/results.md.
fn results(evidence: &Evidence) -> String {
    let mut text = String::from(
        "# Results\n\n\
         `bias-bench results` writes this page from [claims.toml](claims.toml) and the records in\n\
         `docs/results/`. Do not edit it.\n\n\
         * **What is claimed**: each row compares scx_bias with another scheduler by a metric. The change\n  \
           is the median of all blocks, with its 95 % interval. Losses and missed targets come first.\n\
         * **How to distrust it**: a record has the run with every setting, the commit, and the raw\n  \
           samples. It is read only if the samples give its figures again. A claim is *stale* if the\n  \
           scheduler has changed since, and *void* if the emulated machine has. All figures are from\n  \
           that machine, none from silicon.\n\
         * **How to repeat it**: `cargo xtask remeasure CLAIM`, or the command below the row.\n\n\
         ## Headlines\n\n",
    );
    let headlines: Vec<&Backed> = evidence.claims.iter().filter(|backed| backed.claim.headline).collect();
    text += &table(headlines);
    let mut questions: Vec<&str> = Vec::new();
    for backed in &evidence.claims {
        if !questions.contains(&backed.claim.question.as_str()) {
            questions.push(&backed.claim.question);
        }
    }
    for question in questions {
        let of = evidence.claims.iter().filter(|backed| backed.claim.question == question);
        let of: Vec<&Backed> = of.collect();
        let _ = write!(text, "\n## {question}\n\n{}", table(of.clone()));
        for backed in of {
            let Backed { claim, record, .. } = backed;
            let _ = write!(text, "\n`{}`:\n\n    bias-bench ab {} --out DIR\n", claim.id, claim.ab);
            if let Some(record) = record {
                let run = &record.report.run;
                let tree = record.tree().cloned().unwrap_or_default();
                let _ = writeln!(
                    text,
                    "\n{} boots of {} blocks, seed {}, commit {}, QEMU {}: [record]({}/{}.json).",
                    run.boots,
                    run.blocks,
                    run.seed,
                    tree.commit,
                    tree.qemu,
                    RECORDS.trim_start_matches("docs/"),
                    claim.id
                );
            }
        }
    }
    text
}

/// Return claims in the order of documents: losses first, then missed targets, then the others.
fn by_rank(mut claims: Vec<&Backed>) -> Vec<&Backed> {
    claims.sort_by_key(|backed| rank(backed));
    claims
}

/// Return a table of claims.
fn table(claims: Vec<&Backed>) -> String {
    let mut text = String::from(
        "| claim | against | change, 95 % interval | target | machine, kernel | measured | standing |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for backed in by_rank(claims) {
        let claim = &backed.claim;
        let standing = backed.standing.word();
        let Some((record, row)) = decided(backed) else {
            let _ = writeln!(
                text,
                "| {}: {} | - | - | {} | - | - | {standing} |",
                claim.says,
                claim.metric,
                change(claim.target)
            );
            continue;
        };
        let run = &record.report.run;
        let met = if claim.is_met(row) { "" } else { ", **missed**" };
        let _ = writeln!(
            text,
            "| {}: {} {}, {} is better | {} | **{}**, {} to {} | {}{met} | {}, {} | {} | {standing} |",
            claim.says,
            claim.metric,
            with_unit(row.arm_median, &row.unit),
            row.direction,
            run.baseline,
            row.change.ratio.map_or_else(|| "?".into(), change),
            row.change.low.map_or_else(|| "?".into(), change),
            row.change.high.map_or_else(|| "?".into(), change),
            change(claim.target),
            run.machine,
            run.kernel,
            record.tree().map(|tree| tree.date.clone()).unwrap_or_default(),
        );
    }
    text
}

fn decided(backed: &Backed) -> Option<(&Record, &Row)> {
    let record = backed.record.as_ref()?;
    Some((record, record.row(&backed.claim).ok()?))
}

/// Return the place of a claim in a table.
fn rank(backed: &Backed) -> u8 {
    match decided(backed) {
        Some((_, row)) if row.verdict == Verdict::Worse => 0,
        Some((_, row)) if !backed.claim.is_met(row) => 1,
        None => 2,
        Some(_) => 3,
    }
}

/// Write the pages that differ. Return their paths.
///
/// # Errors
/// As [`render`], or a page cannot be written.
pub fn write(evidence: &Evidence) -> Result<Vec<PathBuf>> {
    let mut written = Vec::new();
    for page in render(evidence)?.into_iter().filter(|page| page.differs) {
        let path = evidence.root.join(&page.path);
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)
                .map_err(|e| Error::failed(format!("cannot make {}", directory.display()), e))?;
        }
        crate::ab::store::write_whole(&path, page.text.as_bytes())?;
        written.push(page.path);
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::claims::Claim;
    use crate::evidence::record::tests::example;
    use crate::evidence::standing::Standing;

    fn evidence(root: &Path) -> Evidence {
        let run = root.join("run");
        let claim = example(&run);
        let record = Record::make(root, &claim, &run).unwrap();
        let missing = Claim { id: "later".into(), ..claim.clone() };
        let claims = vec![
            Backed { claim: missing, record: None, standing: Standing::Unmeasured },
            Backed { claim, record: Some(record), standing: Standing::Stale },
        ];
        Evidence { root: root.to_owned(), claims }
    }

    #[test]
    fn marks_get_the_present_figures_and_nothing_else_changes() {
        let root = tempfile::tempdir().unwrap();
        let evidence = evidence(root.path());
        let text = "a <!--=mix.change-->old<!--/--> b <!--=later.change--><!--/-->\n<!-- c -->\n";
        let filled = fill(text, &evidence).unwrap();
        assert_eq!(
            filled,
            "a <!--=mix.change-->+10.0 %<!--/--> b <!--=later.change-->not measured<!--/-->\n<!-- c -->\n"
        );
        assert_eq!(fill(&filled, &evidence).unwrap(), filled);
        for (wrong, said) in [
            ("<!--=mix.change-->x", "no end"),
            ("<!--=mix-->x<!--/-->", "no figure"),
            ("<!--=mix.size-->x<!--/-->", "not a figure of a record"),
            ("<!--=mux.change-->x<!--/-->", "no claim 'mux'"),
        ] {
            assert!(fill(wrong, &evidence).unwrap_err().contains(said), "{wrong}");
        }
    }

    #[test]
    fn a_page_differs_until_it_is_written() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("docs/guides")).unwrap();
        fs::write(root.path().join("README.md"), "<!--=mix.interval-->?<!--/-->").unwrap();
        fs::write(root.path().join("docs/plain.md"), "text").unwrap();
        let evidence = evidence(root.path());
        assert_eq!(write(&evidence).unwrap(), ["README.md", PICTURE, PAGE].map(Path::new));
        assert_eq!(write(&evidence).unwrap(), [] as [PathBuf; 0]);
        let picture = fs::read_to_string(root.path().join(PICTURE)).unwrap();
        assert!(picture.contains("mix: stp") && picture.contains("xmlns") && !picture.contains("later"));
        let page = fs::read_to_string(root.path().join(PAGE)).unwrap();
        let row = page.lines().find(|line| line.contains("+10.0 %")).unwrap();
        assert!(row.contains("stale") && row.contains("2F2S") && row.contains("2026-01-02"), "{row}");
        assert!(!row.contains("missed") && page.contains("commit abcdef012"), "{page}");
    }

    /// The documents must show what was recorded, and no headline may be void.
    #[test]
    fn the_documents_show_the_recorded_figures() {
        let evidence = Evidence::read(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
        let pages = render(&evidence).unwrap().into_iter().filter(|page| page.differs);
        let differing: Vec<PathBuf> = pages.map(|page| page.path).collect();
        assert!(differing.is_empty(), "run `bias-bench results`: {differing:?}");
        let is_void = |backed: &&Backed| backed.claim.headline && backed.standing == Standing::Void;
        let void: Vec<&str> =
            evidence.claims.iter().filter(is_void).map(|backed| backed.claim.id.as_str()).collect();
        assert!(
            void.is_empty(),
            "the machine changed since this was measured; run `cargo xtask remeasure`: {void:?}"
        );
    }
}
