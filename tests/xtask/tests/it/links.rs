// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Relative links of all documents lead to files and headings that exist, and so do the names of
//! files and functions in ARCHITECTURE.md. The table of contents of the book has every page.

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

/// Return the names that `a/{b,c}.rs` stands for.
fn expanded(name: &str) -> Vec<String> {
    let Some((before, rest)) = name.split_once('{') else { return vec![name.to_owned()] };
    let (words, after) = rest.split_once('}').unwrap();
    words.split(',').flat_map(|word| expanded(&format!("{before}{word}{after}"))).collect()
}

#[test]
fn files_and_functions_in_the_architecture_exist() {
    const BASES: [&str; 5] =
        ["", "userspace/agent/src", "lib/include", "tests/ampvm/abi/src", "tests/ampvm/plugin/src"];
    let code: String = sources(&["*.rs", "*.h", "*.c"])
        .unwrap()
        .iter()
        .filter_map(|name| read(&root().join(name)))
        .collect();
    let text = read(&root().join("ARCHITECTURE.md")).unwrap();
    let (mut files, mut functions, mut missing) = (0, 0, Vec::new());
    for word in text.split('`').skip(1).step_by(2) {
        if let Some(function) = word.strip_suffix("()").and_then(|word| word.split("::").last()) {
            functions += 1;
            let there = [" ", "("].iter().any(|before| code.contains(&format!("{before}{function}(")));
            missing.extend((!there && !code.contains(&format!("({function},"))).then(|| word.to_owned()));
        } else if word.contains(['/', '.']) && !word.starts_with('/') && !word.contains([' ', '(']) {
            let is_file = [".rs", ".h", ".toml", "/"].iter().any(|end| word.ends_with(end));
            for name in expanded(word).into_iter().filter(|_| is_file) {
                files += 1;
                let there = BASES.iter().any(|base| root().join(base).join(&name).exists());
                missing.extend((!there).then_some(name));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(files > 80 && functions > 40, "names are no longer recognised: {files}, {functions}");
}
