// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The files of the source tree, without those that `.gitignore` names. This needs no git, because
//! a source archive and a container have none.

use anyhow::{Context as _, Result};
use ignore::WalkBuilder;
use ignore::overrides::OverrideBuilder;

use crate::build::workspace;

/// Return the files of the tree that match one of `patterns` (all, without patterns), sorted, as
/// paths relative to its root. Patterns have the form of `.gitignore`.
///
/// # Errors
/// A pattern is malformed, or a directory cannot be read.
pub fn sources(patterns: &[&str]) -> Result<Vec<String>> {
    let root = workspace();
    let mut wanted = OverrideBuilder::new(&root);
    for pattern in patterns {
        wanted.add(pattern).with_context(|| format!("the pattern {pattern:?} is malformed"))?;
    }
    let mut walk = WalkBuilder::new(&root);
    walk.overrides(wanted.build()?).hidden(false).require_git(false).git_global(false).parents(false);
    walk.filter_entry(|entry| entry.file_name() != ".git");
    let mut names = Vec::new();
    for entry in walk.build() {
        let entry = entry.context("cannot list the source tree")?;
        if entry.file_type().is_some_and(|kind| kind.is_file()) {
            let name = entry.path().strip_prefix(&root).unwrap_or(entry.path());
            names.push(name.to_string_lossy().into_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::sources;

    #[test]
    fn files_that_git_ignores_are_not_sources() {
        let all = sources(&[]).unwrap();
        assert!(all.iter().any(|name| name == ".ci/run"), "hidden files belong to the tree");
        let no_source = |name: &String| name.starts_with("target/") || name.starts_with(".git/");
        assert!(!all.iter().any(no_source));
        let documents = sources(&["*.md"]).unwrap();
        assert!(
            documents.contains(&"README.md".to_owned()) && documents.contains(&"docs/limits.md".to_owned())
        );
        assert!(documents.iter().all(|name| name.ends_with(".md")));
    }
}
