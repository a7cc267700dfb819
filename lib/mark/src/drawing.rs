// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The control-flow graph as DOT, for graphviz, and as a picture in SVG.
//!
//! # Approach
//! The picture stacks the sections in the order of their CPU time. Arcs on the right lead down,
//! arcs on the left lead up. Width shows calls, colour the miss rate: the redder, the more misses.
//! The outline of a section shows its class.
//!
//! # Invariants
//! No name breaks either format, whatever its characters.
//!
//! # Limits
//! The picture shows the first [`MAX_DRAWN`] sections. DOT has all of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::graph::{Counts, Graph, SectionSum};
use crate::profile::Class;

/// Most sections of a picture.
const MAX_DRAWN: usize = 64;
/// Longest part of a name that the picture shows [characters].
const MAX_NAME: usize = 40;
/// Geometry of the picture [pixels].
const ROW: usize = 56;
const BOX: (usize, usize) = (360, 36);
const SIDE: usize = 220;

/// Return the graph in the DOT language.
pub fn dot(graph: &Graph) -> String {
    let escaped = |name: &str| name.replace('\\', "\\\\").replace('"', "\\\"");
    let mut text = String::from("digraph sections {\n\tnode [shape=box];\n");
    for (name, section) in graph.sections() {
        let name = escaped(name);
        let _ = writeln!(text, "\t\"{name}\" [label=\"{name}\\n{}\"];", summary(&section.counts));
    }
    for (from, to, counts) in graph.edges() {
        let (from, to, label) = (escaped(from), escaped(to), summary(counts).replace(", ", "\\n"));
        let _ = writeln!(text, "\t\"{from}\" -> \"{to}\" [label=\"{label}\", color=\"{}\"];", colour(counts));
    }
    text + "}\n"
}

/// Return the counts in words.
fn summary(counts: &Counts) -> String {
    let mut text = format!("{} calls, {:.1} us", counts.calls, mean(counts.time_ns, counts.calls) / 1000.0);
    if let (Some(cpi), Some(rate)) = (counts.cpi(), counts.miss_rate()) {
        let _ = write!(text, ", {:.0} instructions", mean(counts.instructions, counts.calls));
        let _ = write!(text, ", CPI {cpi:.2}, {:.2} misses per 1000", rate * 1000.0);
    }
    text
}

fn mean(sum: u64, calls: u64) -> f64 {
    sum as f64 / calls.max(1) as f64
}

/// Return the colour of a miss rate: grey without misses, red from 3 % on.
fn colour(counts: &Counts) -> String {
    let part = (counts.miss_rate().unwrap_or(0.0) / 0.03).clamp(0.0, 1.0);
    format!(
        "#{:02x}{:02x}{:02x}",
        144 + (56.0 * part) as u8,
        144 - (124.0 * part) as u8,
        144 - (124.0 * part) as u8
    )
}

/// Return the graph as a picture, with the class of each section.
pub fn svg(graph: &Graph, class: impl Fn(&str) -> Class) -> String {
    let mut sections: Vec<(&str, SectionSum)> = graph.sections().into_iter().collect();
    sections.sort_by_key(|(_, section)| std::cmp::Reverse(section.counts.time_ns));
    sections.truncate(MAX_DRAWN);
    let rows: BTreeMap<&str, usize> =
        sections.iter().enumerate().map(|(at, (name, _))| (*name, at)).collect();
    let (width, height) = (BOX.0 + 2 * SIDE, sections.len() * ROW + 40);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (from, to, counts) in graph.edges() {
        if let (Some(from), Some(to)) = (rows.get(from), rows.get(to)) {
            arc(&mut text, *from, *to, counts);
        }
    }
    for (at, (name, section)) in sections.iter().enumerate() {
        section_box(&mut text, at, name, section, class(name));
    }
    let _ = writeln!(
        text,
        "<text x=\"8\" y=\"{}\" fill=\"#555\">outline: red waits for memory, blue executes; arcs: \
         right down, left up, width = calls</text>\n</svg>",
        height - 8
    );
    text
}

/// Return the middle of a row.
fn middle(row: usize) -> usize {
    row * ROW + 8 + BOX.1 / 2
}

fn arc(text: &mut String, from: usize, to: usize, counts: &Counts) {
    let (start, end) = (middle(from), middle(to));
    let reach = (20 + 14 * from.abs_diff(to)).min(SIDE - 8);
    let (x, out) = if to > from { (SIDE + BOX.0, SIDE + BOX.0 + reach) } else { (SIDE, SIDE - reach) };
    // The arc of a section that repeats is a loop.
    let (start, end) = if from == to { (start - 8, end + 8) } else { (start, end) };
    let stroke = 1.0 + (counts.calls.max(1) as f64).log10();
    let _ = writeln!(
        text,
        "<path d=\"M{x} {start} C{out} {start} {out} {end} {x} {end}\" fill=\"none\" stroke=\"{}\" \
         stroke-width=\"{stroke:.1}\"><title>{}</title></path>",
        colour(counts),
        summary(counts)
    );
}

fn section_box(text: &mut String, row: usize, name: &str, section: &SectionSum, class: Class) {
    let outline = match class {
        Class::Neutral => "#888",
        Class::Fast => "#1f5fbf",
        Class::Slow => "#c81414",
    };
    let (x, y) = (SIDE, middle(row) - BOX.1 / 2);
    let shown: String = name.chars().take(MAX_NAME).collect();
    let _ = writeln!(
        text,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" fill=\"#f8f8f8\" stroke=\"{outline}\" \
         stroke-width=\"2\"/><text x=\"{}\" y=\"{}\" font-weight=\"bold\">{}</text>\
         <text x=\"{}\" y=\"{}\">{}</text>",
        BOX.0,
        BOX.1,
        x + 8,
        y + 15,
        escape(&shown),
        x + 8,
        y + 30,
        summary(&section.counts),
    );
}

/// Escape the characters that mean something in XML, and replace those that XML forbids.
fn escape(text: &str) -> String {
    let escaped = |c: char| match c {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => "?".to_owned(),
        c => c.to_string(),
    };
    text.chars().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(calls: u64, misses: u64) -> Counts {
        Counts { calls, time_ns: 2000 * calls, cycles: 3000, instructions: 1000, misses }
    }

    #[test]
    fn both_pictures_have_every_section_and_edge() {
        let mut graph = Graph::default();
        graph.add("parse", "scan", &counts(10, 0));
        graph.add("scan", "parse", &counts(9, 50));
        graph.add("scan", "scan", &counts(1, 50));
        let dot = dot(&graph);
        assert!(dot.contains("\"scan\" -> \"parse\" [label=\"9 calls\\n2.0 us"), "{dot}");
        assert!(dot.contains("CPI 3.00") && dot.contains("50.00 misses per 1000"), "{dot}");
        assert!(dot.contains("#909090") && dot.contains("#c81414"), "{dot}");
        let svg = svg(&graph, |name| if name == "scan" { Class::Slow } else { Class::Fast });
        assert_eq!(svg.matches("<path").count(), 3);
        assert_eq!(svg.matches("stroke=\"#1f5fbf\"").count(), 1);
        assert!(svg.ends_with("</svg>\n"));
    }

    proptest! {
        #[test]
        fn no_name_breaks_a_picture(names in prop::collection::vec(any::<String>(), 1..5)) {
            let mut graph = Graph::default();
            for name in &names {
                graph.add(name, &names[0], &counts(1, 1));
            }
            let svg = svg(&graph, |_| Class::Neutral);
            let edges = graph.edges().count();
            // No name opens a tag.
            prop_assert_eq!(svg.matches('<').count(), 5 + 4 * edges + 5 * edges);
            // Quotes that are not escaped come in pairs.
            let dot = dot(&graph).replace("\\\\", "").replace("\\\"", "");
            prop_assert!(dot.matches('"').count().is_multiple_of(2));
        }
    }
}
