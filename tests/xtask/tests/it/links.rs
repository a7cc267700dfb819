// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Relative links of all documents lead to files and headings that exist, and the table of contents
//! of the book has every page.

use std::collections::BTreeSet;
use std::path::Path;

use bias_vm::build::workspace as root;
use bias_vm::sources::sources;

/// Return the targets of the inline links in `text`.
fn links(text: &str) -> Vec<&str> {
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target).collect()
}

/// Return the anchors of the headings in `text`, as forges and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#'));
    let anchor = |heading: &str| {
        let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.collect::<String>().to_lowercase().replace(' ', "-")
    };
    headings.map(anchor).collect()
}

fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

#[test]
fn links_lead_somewhere() {
    let (mut checked, mut broken) = (0, Vec::new());
    for name in sources(&["*.md"]).unwrap() {
        let path = root().join(&name);
        let text = read(&path).unwrap();
        for link in links(&text).into_iter().filter(|link| !link.contains("://")) {
            checked += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            let there = target.exists()
                && (anchor.is_empty() || read(&target).is_some_and(|text| anchors(&text).contains(anchor)));
            if !there {
                broken.push(format!("{name}: {link}"));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(checked > 60, "this test no longer recognises links: it saw {checked}");
}

#[test]
fn the_book_has_every_page() {
    let summary = read(&root().join("docs/SUMMARY.md")).unwrap();
    let listed: BTreeSet<String> = links(&summary).iter().map(|link| format!("docs/{link}")).collect();
    let pages = sources(&["*.md"])
        .unwrap()
        .into_iter()
        .filter(|name| name.starts_with("docs/") && !name.contains("SUMMARY"));
    assert_eq!(listed, pages.filter(|name| !name.starts_with("docs/results/")).collect());
}

#[test]
fn anchors_are_those_of_forges() {
    let anchors = anchors("# A `b`: c_d\n## E-f (g)\n");
    assert_eq!(anchors.into_iter().collect::<Vec<_>>(), ["a-b-c_d", "e-f-g"]);
    assert_eq!(links("[a](b.md#c) and [d](https://e)"), ["b.md#c", "https://e"]);
}
