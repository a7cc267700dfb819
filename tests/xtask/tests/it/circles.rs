// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Checks that no crate has a circle between its source files or its first-level modules.
//!
//! Every path in code that is not for tests is resolved to the file that defines the item. A file
//! also depends on its child modules, so a child must not use what its parent defines. An inline
//! module is a part of its parent. Methods, macros and re-exports by `*` are not resolved.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::read_to_string;

/// Circles that remain. Remove those that are gone, and never add one.
const KNOWN: &[&str] = &[];

#[derive(Default)]
struct Module {
    file: String,
    names: BTreeMap<String, Vec<String>>,
    used: Vec<Vec<String>>,
}
type Modules = BTreeMap<String, Module>;
type Graph = BTreeMap<String, BTreeSet<String>>;
type Read<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Return the number of lines of the item at the start of `lines`.
fn length(lines: &[&str]) -> usize {
    let end = lines[0].replace(lines[0].trim_start(), "}");
    let ends = |at: &usize| lines[*at].starts_with(&end) || (*at == 0 && lines[0].ends_with([';', '}', ',']));
    (0..lines.len()).find(ends).map_or(lines.len(), |at| at + 1)
}

fn add(all: &mut Modules, read: Read<'_>, file: &str, name: &str) {
    let text = read(file).unwrap_or_else(|| panic!("{name} has no file"));
    let (lines, mut at, mut code) = (text.lines().collect::<Vec<_>>(), 0, String::from(";"));
    while let Some(line) = lines.get(at).map(|line| line.trim()) {
        let words: Vec<&str> = line.split([' ', ';']).skip_while(|word| word.starts_with("pub")).collect();
        at += 1;
        if line == "#[cfg(test)]" {
            at += lines[at..].iter().take_while(|line| line.trim().starts_with("#[")).count();
            at += length(&lines[at..]);
        } else if line.starts_with("#[path") {
            // The module's file belongs to another crate, so it uses nothing of this one.
            at += 1;
        } else if let ["mod", child, ""] = words[..] {
            let directory = ["mod.rs", "lib.rs", "main.rs"].iter().find_map(|root| file.strip_suffix(root));
            let below = directory.map_or_else(|| file.replace(".rs", "/"), str::to_owned);
            let flat = format!("{below}{child}.rs");
            let file = if read(&flat).is_some() { flat } else { format!("{below}{child}/mod.rs") };
            add(all, read, &file, &format!("{name}::{child}"));
        } else if !line.starts_with("//") {
            code = code + line.split(" // ").next().unwrap() + "\n";
        }
    }
    all.insert(name.into(), Module { file: file.into(), ..parse(&tokens(&code)) });
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn tokens(code: &str) -> Vec<String> {
    let spaced = |c: char| if is_word(c) { c.to_string() } else { format!(" {c} ") };
    let code: String = code.replace("::", "§").chars().map(spaced).collect();
    code.split_whitespace().map(|token| token.replace('§', "::")).collect()
}

fn parse(code: &[String]) -> Module {
    const STARTS: [&str; 6] = [";", "{", "}", "]", ")", "pub"];
    let (mut module, mut at) = (Module::default(), 1);
    while at + 1 < code.len() {
        let (before, from) = (&code[at - 1], at);
        if code[at] == "use" && STARTS.contains(&before.as_str()) {
            at += 1;
            import(code, &mut at, Vec::new(), before == "pub" || before == ")", &mut module);
        } else if before == "mod" {
            module.names.insert(code[at].clone(), vec!["self".into(), "_".into()]);
        } else if code[at].starts_with(is_word) {
            while code[at + 1] == "::" && code[at + 2].starts_with(is_word) {
                at += 2;
            }
            module.used.push(code[from..=at].iter().step_by(2).cloned().collect());
        }
        at += 1;
    }
    module
}

/// Parse one branch of an import that begins with `path`. A re-export does not use the item.
fn import(code: &[String], at: &mut usize, mut path: Vec<String>, is_reexport: bool, module: &mut Module) {
    while ![";", ",", "}"].contains(&code[*at].as_str()) {
        match code[*at].as_str() {
            "{" => {
                while code[*at] != "}" {
                    *at += 1;
                    import(code, at, path.clone(), is_reexport, module);
                }
                path.clear();
            }
            token if token == "::" || (token == "self" && !path.is_empty()) => {}
            token => path.push(token.into()),
        }
        *at += 1;
    }
    // After the last comma of a list there is no branch.
    if let Some(name) = path.last().filter(|_| code[*at - 1] != ",") {
        module.names.insert(name.clone(), path.clone());
        module.used.extend((!is_reexport).then_some(path));
    }
}

/// Return the module that defines the item at `path`, or None if that is a module or external.
fn owner(all: &Modules, from: &str, path: &[String], left: u32) -> Option<String> {
    let mut here = from.to_owned();
    for (at, name) in path.iter().enumerate() {
        let (alias, child, rest) = (all[&here].names.get(name), format!("{here}::{name}"), &path[at + 1..]);
        match (name.as_str(), alias) {
            ("crate", _) => here.clear(),
            ("self", _) => {}
            ("super", _) => here.truncate(here.rfind("::").unwrap_or(0)),
            _ if all.contains_key(&child) && (alias.is_none() || !rest.is_empty()) => here = child,
            (_, Some(alias)) => return owner(all, &here, &[alias, rest].concat(), left.checked_sub(1)?),
            _ => return Some(here).filter(|_| at > 0),
        }
    }
    None
}

/// Return the dependences between files, or between first-level modules, without the root.
fn graph(all: &Modules, between_files: bool) -> Graph {
    let first = |name: &str| name.split("::").nth(1).map(str::to_owned);
    let node = |name: &str| if between_files { Some(all[name].file.clone()) } else { first(name) };
    let mut graph = Graph::new();
    for (name, module) in all {
        let owners = module.used.iter().filter_map(|path| owner(all, name, path, 8));
        let children = all.keys().filter(|child| child.rsplit_once("::").is_some_and(|(up, _)| up == name));
        let edges = owners.chain(children.cloned()).filter_map(|to| node(name).zip(node(&to)));
        for (from, to) in edges.filter(|(from, to)| from != to) {
            graph.entry(from).or_default().insert(to);
        }
    }
    graph
}

fn circles(mut graph: Graph) -> BTreeSet<String> {
    for (via, _) in graph.clone() {
        let beyond = graph[&via].clone();
        graph.values_mut().filter(|to| to.contains(&via)).for_each(|to| to.extend(beyond.clone()));
    }
    let back = |from: &String, to: &String| graph.get(to).is_some_and(|beyond| beyond.contains(from));
    let circle = |(from, to): (_, &BTreeSet<String>)| {
        to.iter().filter(|to| back(from, to)).cloned().collect::<Vec<_>>().join(" ")
    };
    graph.iter().map(circle).filter(|circle| !circle.is_empty()).collect()
}

fn found(read: Read<'_>, root: &str) -> BTreeSet<String> {
    let mut all = Modules::new();
    add(&mut all, read, root, "");
    &circles(graph(&all, true)) | &circles(graph(&all, false))
}

#[test]
fn no_crate_has_a_new_circle() {
    const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let workspace: toml::Table = read_to_string(format!("{ROOT}/Cargo.toml")).unwrap().parse().unwrap();
    let mut all = BTreeSet::new();
    for member in workspace["workspace"]["members"].as_array().unwrap() {
        let member = member.as_str().unwrap();
        let read = |file: &str| read_to_string(format!("{ROOT}/{member}/src/{file}")).ok();
        for root in ["lib.rs", "main.rs"].into_iter().filter(|root| read(root).is_some()) {
            all.extend(found(&read, root).into_iter().map(|circle| format!("{member}: {circle}")));
        }
    }
    assert_eq!(all, KNOWN.iter().map(|circle| circle.to_string()).collect(), "right: known circles");
}

#[test]
fn circles_are_found_and_reexports_do_not_count() {
    let tree = BTreeMap::from([
        ("lib.rs", "mod a;\nmod x;\nmod y;"),
        ("a.rs", "mod b;\nmod c;\npub use b::{B, D as E};\n#[cfg(test)]\nmod t {\n    use super::c;\n}"),
        ("a/b.rs", "pub struct B;\n#[cfg(test)]\nuse super::c;\n// crate::a::c::C"),
        ("a/c.rs", "use super::{\n    B,\n    E,\n};\nuse crate::a;\ntype F = a::E;"),
        ("x/mod.rs", "mod p;\nmod q;\npub const X: u32 = 1;"),
        ("x/p.rs", "use crate::y::r;\nfn p() { r::s::<u32>() }"),
        ("x/q.rs", "fn q() -> u32 { super::X }"),
        ("y.rs", "pub mod r;\npub mod t;"),
        ("y/r.rs", "mod i {\n    pub fn s<T>() {}\n}\npub use i::s;"),
        ("y/t.rs", "fn t() { crate::x::q::q() }"),
    ]);
    let circles = found(&|file| tree.get(file).map(|text| text.to_string()), "lib.rs");
    assert_eq!(circles, ["x y", "x/mod.rs x/q.rs"].map(str::to_owned).into());
}
