// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The file of items and recorded values, and its checks.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the project has of an item.
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
    /// What the project has of it.
    pub state: PaperState,
}

impl PapersFile {
    /// Check that the file contradicts itself nowhere.
    pub(super) fn check(&self) -> Result<(), String> {
        self.paper.iter().flat_map(|paper| &paper.row).try_for_each(PaperRow::check)
    }
}

impl PaperRow {
    /// Return the project's value with the recorded values in place of their names.
    pub fn ours(&self) -> Result<String, String> {
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

    fn check(&self) -> Result<(), String> {
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
