// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `bias-replay papers`: the page that compares five papers with this project, item by item.
//!
//! # Problem
//! Readers of the papers ask which of their mechanisms, tables and figures the project has, and how
//! its figures compare. A page that is written by hand repeats figures, and its counts go stale.
//!
//! # Approach
//! One file, `papers.toml`, holds an entry for each item, with the recorded values. A text
//! shows a value where its name stands in braces. The page is made from the file.
//!
//! # Invariants
//! A test compares `docs/papers.md` with the page. Each value is shown, and each name in braces has
//! a value. An item that does not work names what it needs.

use bias_bench::options::Printable;
use bias_bench::{Error, Result, files};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

/// Largest file that is read [bytes].
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Options of `papers`.
#[derive(Debug, Clone, Args)]
pub struct PapersOptions {
    /// File with the items and the recorded values
    #[arg(default_value = "userspace/replay/papers.toml")]
    file: PathBuf,
}

/// State of an item in the project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PaperState {
    /// A command or a test shows it.
    Works,
    /// A part works, or nothing measures it.
    Partly,
    /// Nothing of it exists.
    Missing,
    /// The emulated machine cannot show it.
    Hardware,
    /// The design has something else in its place.
    Replaced,
}

impl PaperState {
    /// All states.
    pub const ALL: [Self; 5] = [Self::Works, Self::Partly, Self::Missing, Self::Hardware, Self::Replaced];

    /// Return the name on the page.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Works => "works",
            Self::Partly => "partly",
            Self::Missing => "missing",
            Self::Hardware => "hardware",
            Self::Replaced => "replaced",
        }
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
    /// The project's value or mechanism. `{NAME}` stands for a recorded value.
    #[serde(default)]
    pub ours: String,
    /// Recorded values by name.
    #[serde(default)]
    pub values: BTreeMap<String, f64>,
    /// Command or test that shows it.
    #[serde(default)]
    pub command: String,
    /// Reason for a difference from the paper, or what the item needs to work.
    #[serde(default)]
    pub why: String,
    /// State of the item in the project.
    pub state: PaperState,
}

impl PapersFile {
    /// Check that the file has no contradictions.
    fn check(&self) -> std::result::Result<(), String> {
        self.paper.iter().flat_map(|paper| &paper.row).try_for_each(PaperRow::check)
    }
}

impl PaperRow {
    /// Return the project's value with the recorded values in place of their names.
    pub fn ours(&self) -> std::result::Result<String, String> {
        let mut parts = self.ours.split('{');
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (name, rest) =
                part.split_once('}').ok_or_else(|| format!("'{}': a brace has no end", self.item))?;
            let value =
                self.values.get(name).ok_or_else(|| format!("'{}': {name} has no value", self.item))?;
            out += &format!("{value}{rest}");
        }
        Ok(out)
    }

    fn check(&self) -> std::result::Result<(), String> {
        let item = &self.item;
        let texts = [item, &self.published, &self.ours, &self.command, &self.why];
        if texts.iter().any(|text| text.contains(['\n', '|'])) {
            return Err(format!("'{item}': a text has a line break or a bar"));
        }
        self.ours()?;
        if let Some(name) = self.values.keys().find(|name| !self.ours.contains(&format!("{{{name}}}"))) {
            return Err(format!("'{item}': the value {name} is not shown"));
        }
        match self.state {
            PaperState::Works if self.command.is_empty() => Err(format!("'{item}' works and has no command")),
            PaperState::Works | PaperState::Replaced => Ok(()),
            _ if self.why.is_empty() => Err(format!("'{item}' does not say what is needed")),
            _ => Ok(()),
        }
    }
}

/// The page and the items behind it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PapersPage {
    /// Format of this document.
    pub schema: &'static str,
    /// Number of items that work.
    pub working: usize,
    /// Number of all items.
    pub all: usize,
    /// Content of the file.
    #[serde(flatten)]
    pub content: PapersFile,
}

/// Read the file and check it.
pub fn run(options: &PapersOptions) -> Result<PapersPage> {
    let text = files::read_small_file(&options.file, MAX_FILE_BYTES)?;
    PapersPage::of(&text).map_err(|why| Error::Usage(format!("{}: {why}", options.file.display())))
}

impl PapersPage {
    /// Make the page from the text of the file.
    pub fn of(text: &str) -> std::result::Result<Self, String> {
        let content: PapersFile =
            toml::from_str(text).map_err(|error| error.to_string().trim().replace('\n', "; "))?;
        content.check()?;
        let rows = || content.paper.iter().flat_map(|paper| &paper.row);
        let working = rows().filter(|row| row.state == PaperState::Works).count();
        Ok(PapersPage { schema: "bias-bench.papers/1", working, all: rows().count(), content })
    }
}

const HEAD: &str = "\
# The five papers, item by item

scx_bias takes in five works ([references](references.md)). This page lists their mechanisms, tables
and figures, and what the project has of each. `bias-replay papers` writes it from
[papers.toml](../userspace/replay/papers.toml), which holds the recorded values. Figures of the
project come from the emulated machine; [evaluation.md](evaluation.md) has their targets, machines
and commits.

* **works**: a command or a test shows it. That does not mean that the figures are equal.
* **partly**: a part works, or nothing measures it.
* **missing**: nothing of it exists.
* **hardware**: the emulated machine cannot show it.
* **replaced**: the design has something else in its place.

`ab` stands for `bias-bench ab --out DIR`, `vm M` for `cargo xtask vm --machine M --`, and
`scenario NAME` for `cargo xtask test -- -E 'test(NAME::)'`.
";

impl Printable for PapersPage {
    /// Return the page as Markdown.
    fn text(&self) -> String {
        let mut out = format!("{HEAD}\n**{} of {} items work.**", self.working, self.all);
        for state in PaperState::ALL.into_iter().filter(|state| *state != PaperState::Works) {
            let rows = self.content.paper.iter().flat_map(|paper| &paper.row);
            let count = rows.filter(|row| row.state == state).count();
            // Writing to a String cannot fail, here and below.
            let _ = write!(out, " {}: {count}.", state.name());
        }
        out.push('\n');
        for paper in &self.content.paper {
            let _ = write!(
                out,
                "\n## [{}], {}\n\n| item | paper | scx_bias | command | difference, or what is needed | state |\n|---|---|---|---|---|---|\n",
                paper.key, paper.title
            );
            for row in &paper.row {
                let ours = row.ours().unwrap_or_default();
                let cell = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
                let _ = writeln!(
                    out,
                    "| {} | {} | {} | {} | {} | {} |",
                    row.item,
                    cell(&row.published),
                    cell(&ours),
                    cell(&row.command),
                    cell(&row.why),
                    row.state.name()
                );
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

    #[test]
    fn the_page_in_the_tree_is_up_to_date() {
        let page = PapersPage::of(&tree("papers.toml")).unwrap();
        assert_eq!(page.all, 82, "each item has one entry");
        let (made, shown) = (page.text(), tree("../../docs/papers.md"));
        let differs = made.lines().zip(shown.lines()).find(|(made, shown)| made != shown);
        assert_eq!(differs, None, "run: bias-replay papers > docs/papers.md");
        assert_eq!(made.trim_end(), shown.trim_end());
    }

    const GOOD: &str = "[[paper]]\nkey = 'A'\ntitle = 't'\n[[paper.row]]\nitem = 'i'\nstate = 'works'\n\
        command = 'c'\nours = '{gain} % more'\nvalues = { gain = 7.4 }\n";

    #[test]
    fn values_appear_where_their_names_stand() {
        let page = PapersPage::of(GOOD).unwrap();
        assert_eq!((page.working, page.all), (1, 1));
        assert!(page.text().contains("| i | - | 7.4 % more | c | - | works |"), "{}", page.text());
    }

    #[test]
    fn contradictions_are_named_in_one_line() {
        for (from, to, why) in [
            ("gain = 7.4", "other = 7.4", "gain"),
            ("{gain} % more", "more", "is not shown"),
            ("'works'", "'missing'", "what is needed"),
            ("command = 'c'\n", "", "no command"),
            ("'works'", "'great'", "unknown variant"),
            ("'i'", "'a | b'", "has a line break or a bar"),
        ] {
            let error = PapersPage::of(&GOOD.replace(from, to)).unwrap_err();
            assert!(error.contains(why) && !error.contains('\n'), "{to}: {error}");
        }
    }
}
