// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `bias-replay papers`: the page that compares five papers with this project, item by item.
//!
//! # Problem
//! Readers of the papers ask which of their mechanisms, tables and figures the project has, and how
//! its figures compare. A page that is written by hand repeats figures, and its counts go stale.
//!
//! # Approach
//! One file, `papers.toml`, holds an entry for each item. It keeps two questions apart: does the
//! project have the mechanism, and what became of the published figures. A text shows a value
//! where its name stands in braces, and a figure of a record where `{CLAIM.FIGURE}` stands.
//!
//! # Invariants
//! A test compares `docs/papers.md` with the page. Each value is shown, and each name in braces has
//! a value. An item without its mechanism names what it needs. A figure counts as reproduced only
//! by a record with an interval ([`bias_bench::evidence`]).
//!
//! # Limits
//! Values without a record were typed. The sign of a published figure is compared by people.

use bias_bench::evidence::{Evidence, pages};
use bias_bench::options::Printable;
use bias_bench::{Error, Result, files};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Largest file that is read [bytes].
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Fewest blocks of a record that shows a published figure.
const ENOUGH_BLOCKS: usize = 6;

/// Options of `papers`.
#[derive(Debug, Clone, Args)]
pub struct PapersOptions {
    /// File with the items and their values
    #[arg(default_value = "userspace/replay/papers.toml")]
    file: PathBuf,
}

/// What the project has of an item's mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mechanism {
    /// A command or a test shows it.
    Works,
    /// A part works.
    Partly,
    /// Nothing of it exists.
    Missing,
    /// The design has something else in its place.
    Replaced,
}

/// What became of an item's published figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reproduction {
    /// A record has the figure, within its interval.
    Agrees,
    /// A record has an effect of the same sign.
    SameSign,
    /// The effect is absent, or has the other sign.
    Opposite,
    /// The emulated machine was given the paper's value, and shows it.
    ModelCheck,
    /// Something else was measured: other programs, loads or machines.
    StandIn,
    /// No recorded run shows it.
    NotRun,
}

impl Mechanism {
    const ALL: [Self; 4] = [Self::Works, Self::Partly, Self::Missing, Self::Replaced];

    /// Return the name on the page.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Works => "works",
            Self::Partly => "partly",
            Self::Missing => "missing",
            Self::Replaced => "replaced",
        }
    }
}

impl Reproduction {
    const ALL: [Self; 6] =
        [Self::Agrees, Self::SameSign, Self::Opposite, Self::ModelCheck, Self::StandIn, Self::NotRun];

    /// Return the name on the page.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::SameSign => "same sign",
            Self::Opposite => "opposite",
            Self::ModelCheck => "model check",
            Self::StandIn => "stand-in",
            Self::NotRun => "not run",
        }
    }

    /// Return true if only a record can show it.
    const fn needs_record(self) -> bool {
        matches!(self, Self::Agrees | Self::SameSign)
    }
}

/// Content of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PapersFile {
    /// The papers in their order on the page.
    pub paper: Vec<Paper>,
}

/// A paper.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Key in the list of references.
    pub key: String,
    /// Topic.
    pub title: String,
    /// Its items.
    pub row: Vec<PaperRow>,
}

/// A mechanism, table or figure of a paper.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperRow {
    /// Place in the paper, and topic.
    pub item: String,
    /// The paper's value or statement.
    #[serde(default)]
    pub published: String,
    /// The project's value or mechanism. `{NAME}` stands for a value, `{CLAIM.FIGURE}` for a figure
    /// of a record.
    #[serde(default)]
    pub ours: String,
    /// Values by name.
    #[serde(default)]
    pub values: BTreeMap<String, f64>,
    /// Command or test that shows it.
    #[serde(default)]
    pub command: String,
    /// Reason for a difference from the paper, or what the item needs to work.
    #[serde(default)]
    pub why: String,
    /// What the project has of the mechanism.
    pub mechanism: Mechanism,
    /// What became of the published figures. None if the paper has none for this item.
    pub replay: Option<Reproduction>,
    /// Claim whose record shows the figures (docs/claims.toml).
    #[serde(default)]
    pub record: String,
}

impl PaperRow {
    /// Put the values, and figures of records, in place of their names.
    fn fill(&mut self, evidence: &Evidence) -> std::result::Result<(), String> {
        let mut parts = self.ours.split('{');
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (name, rest) =
                part.split_once('}').ok_or_else(|| format!("'{}': a brace has no end", self.item))?;
            out += &match (name.split_once('.'), self.values.get(name)) {
                (Some((claim, wanted)), _) => {
                    pages::figure(evidence.claim(claim).map_err(|e| e.to_string())?, wanted)?
                }
                (None, Some(value)) => value.to_string(),
                (None, None) => return Err(format!("'{}': {name} has no value", self.item)),
            };
            out += rest;
        }
        self.ours = out;
        Ok(())
    }

    fn check(&self, evidence: &Evidence) -> std::result::Result<(), String> {
        let item = &self.item;
        let texts = [item, &self.published, &self.ours, &self.command, &self.why];
        if texts.iter().any(|text| text.contains(['\n', '|'])) {
            return Err(format!("'{item}': a text has a line break or a bar"));
        }
        if let Some(name) = self.values.keys().find(|name| !self.ours.contains(&format!("{{{name}}}"))) {
            return Err(format!("'{item}': the value {name} is not shown"));
        }
        match self.mechanism {
            Mechanism::Works if self.command.is_empty() => {
                return Err(format!("'{item}' works and has no command"));
            }
            Mechanism::Works if self.why.contains("not measured") => {
                return Err(format!("'{item}' works and was not measured"));
            }
            Mechanism::Partly | Mechanism::Missing if self.why.is_empty() => {
                return Err(format!("'{item}' does not say what is needed"));
            }
            _ => {}
        }
        match self.replay {
            Some(Reproduction::Opposite) if self.why.is_empty() => Err(format!("'{item}' does not say why")),
            Some(replay) if replay.needs_record() => self.check_record(evidence, replay),
            _ => Ok(()),
        }
    }

    /// Return an error unless a record of enough blocks shows the figures.
    fn check_record(&self, evidence: &Evidence, replay: Reproduction) -> std::result::Result<(), String> {
        let fails = |why: &str| Err(format!("'{}' needs a record for '{}': {why}", self.item, replay.name()));
        if self.record.is_empty() {
            return fails("it names no claim");
        }
        let backed = evidence.claim(&self.record).map_err(|e| e.to_string())?;
        let Some(record) = &backed.record else { return fails("the claim is not measured") };
        let row = record.row(&backed.claim).map_err(|e| e.to_string())?;
        match (row.change.low, row.blocks) {
            (None, _) => fails("it has no interval"),
            (_, blocks) if blocks < ENOUGH_BLOCKS => fails("it has too few blocks"),
            _ => Ok(()),
        }
    }
}

/// The page and the items behind it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PapersPage {
    /// Format of this document.
    pub schema: &'static str,
    /// The papers in their order on the page, with figures in place of their names.
    pub paper: Vec<Paper>,
}

/// Read the file and check it.
pub fn run(options: &PapersOptions) -> Result<PapersPage> {
    let text = files::read_small_file(&options.file, MAX_FILE_BYTES)?;
    let evidence = Evidence::read(Path::new("."))?;
    PapersPage::of(&text, &evidence).map_err(|why| Error::Usage(format!("{}: {why}", options.file.display())))
}

impl PapersPage {
    /// Make the page from the text of the file.
    pub fn of(text: &str, evidence: &Evidence) -> std::result::Result<Self, String> {
        let mut content: PapersFile =
            toml::from_str(text).map_err(|error| error.to_string().trim().replace('\n', "; "))?;
        for row in content.paper.iter_mut().flat_map(|paper| &mut paper.row) {
            row.check(evidence)?;
            row.fill(evidence)?;
        }
        Ok(Self { schema: "bias-replay.papers/2", paper: content.paper })
    }

    fn rows(&self) -> impl Iterator<Item = &PaperRow> {
        self.paper.iter().flat_map(|paper| &paper.row)
    }

    /// Return how many items have each mechanism and each end of their figures, in two sentences.
    fn counts(&self) -> String {
        let figures = self.rows().filter(|row| row.replay.is_some()).count();
        let mechanism = |state: Mechanism| {
            format!("{} {}", self.rows().filter(|row| row.mechanism == state).count(), state.name())
        };
        let replay = |state: Reproduction| {
            format!("{} {}", self.rows().filter(|row| row.replay == Some(state)).count(), state.name())
        };
        format!(
            "**Mechanisms, {} items**: {}.\n\n**Replay, {figures} items with published figures**:\n{}.\n",
            self.rows().count(),
            Mechanism::ALL.map(mechanism).join(", "),
            Reproduction::ALL.map(replay).join(", ")
        )
    }
}

const HEAD: &str = "\
# The five papers, item by item

scx_bias takes in five works ([references](references.md)). This page lists their mechanisms, tables
and figures, and what the project has of each. `bias-replay papers` writes it from
[papers.toml](../userspace/replay/papers.toml), which holds the values. Figures of the project come
from the emulated machine, and no record backs them unless the row says so.

*Mechanism* says what the project has of an item:

* **works**: a command or a test shows it. **partly**: a part works. **missing**: nothing exists.
  **replaced**: the design has something else in its place.

*Replay* says what became of the published figures, if the item has any:

* **agrees**, **same sign**: a record with an interval ([results.md](results.md)) shows it.
* **opposite**: the effect is absent, or has the other sign. The row says why.
* **model check**: the emulated machine was given the paper's value, and shows it. That tests the
  machine, not the paper.
* **stand-in**: other programs, loads or machines were measured.
* **not run**: no *recorded* run shows it. Figures in such a row come from single runs.

`ab` stands for `bias-bench ab --out DIR`, `vm M` for `cargo xtask vm --machine M --`, and
`scenario NAME` for `cargo xtask test -- -E 'test(NAME::)'`.
";

impl Printable for PapersPage {
    /// Return the page as Markdown.
    fn text(&self) -> String {
        let mut out = format!("{HEAD}\n{}", self.counts());
        for paper in &self.paper {
            // Writing to a String cannot fail, here and below.
            let _ = write!(
                out,
                "\n## [{}], {}\n\n| item | paper | scx_bias | command | difference, or what is needed | mechanism | replay |\n|---|---|---|---|---|---|---|\n",
                paper.key, paper.title
            );
            for row in &paper.row {
                let replay = row.replay.map_or("", Reproduction::name);
                let texts = [&row.item, &row.published, &row.ours, &row.command, &row.why];
                let cells = texts.map(String::as_str).into_iter().chain([row.mechanism.name(), replay]);
                for text in cells {
                    let _ = write!(out, "| {} ", if text.is_empty() { "-" } else { text });
                }
                out.push_str("|\n");
            }
        }
        // The caller ends the last line.
        out.truncate(out.trim_end().len());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(name: &str) -> String {
        let path = format!("{}/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(path).unwrap()
    }

    fn evidence() -> Evidence {
        Evidence::read(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap()
    }

    #[test]
    fn the_page_in_the_tree_is_up_to_date() {
        let page = PapersPage::of(&tree("papers.toml"), &evidence()).unwrap();
        assert_eq!(page.rows().count(), 82, "each item has one entry");
        let (made, shown) = (page.text(), tree("../../docs/papers.md"));
        let differs = made.lines().zip(shown.lines()).find(|(made, shown)| made != shown);
        assert_eq!(differs, None, "run: bias-replay papers > docs/papers.md");
        assert_eq!(made.trim_end(), shown.trim_end());
    }

    const GOOD: &str = "[[paper]]\nkey = 'A'\ntitle = 't'\n[[paper.row]]\nitem = 'i'\n\
        mechanism = 'works'\nreplay = 'agrees'\nrecord = 'equal-tasks'\n\
        command = 'c'\nours = '{gain} % more on {equal-tasks.machine}'\nvalues = { gain = 7.4 }\n";

    #[test]
    fn values_and_figures_of_records_appear_where_their_names_stand() {
        let text = PapersPage::of(GOOD, &evidence()).unwrap().text();
        assert!(text.contains("| i | - | 7.4 % more on 2F2S | c | - | works | agrees |"), "{text}");
        assert!(
            text.contains("1 items**: 1 works, 0 partly") && text.contains("\n1 agrees, 0 same"),
            "{text}"
        );
    }

    #[test]
    fn contradictions_are_named_in_one_line() {
        let mut evidence = evidence();
        for (from, to, why) in [
            ("gain = 7.4", "gain = 7.4, other = 1", "other is not shown"),
            ("gain = 7.4", "", "gain has no value"),
            ("{equal-tasks.machine}", "{equal-tasks.size}", "not a figure"),
            ("'works'", "'missing'", "what is needed"),
            ("'agrees'", "'opposite'", "does not say why"),
            ("command = 'c'\n", "", "no command"),
            ("command = 'c'", "command = 'c'\nwhy = 'not measured'", "was not measured"),
            ("'works'", "'great'", "unknown variant"),
            ("'i'", "'a | b'", "has a line break or a bar"),
            ("record = 'equal-tasks'\n", "", "names no claim"),
            ("record = 'equal-tasks'", "record = 'unequal'", "no claim 'unequal'"),
        ] {
            let error = PapersPage::of(&GOOD.replace(from, to), &evidence).unwrap_err();
            assert!(error.contains(why) && !error.contains('\n'), "{to}: {error}");
        }
        evidence.claims.iter_mut().for_each(|backed| backed.record = None);
        assert!(PapersPage::of(GOOD, &evidence).unwrap_err().contains("claim is not measured"));
    }
}
