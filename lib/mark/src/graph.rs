// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The control-flow graph of sections: how often a thread went from one section to another, and
//! what it counted in between.
//!
//! # Problem
//! Only its first mark identifies a section. Its end depends on the path that the program takes,
//! and so do its stalls [Werling18].
//!
//! # Approach
//! An edge sums up the counts from one mark to the next. A section is the sum of its outgoing
//! edges. Its *value* is the mean of the miss rates of those edges, weighted by their calls.
//!
//! # Invariants
//! The order in which edges are added does not matter. A value lies between the lowest and the
//! highest rate of its edges. No counts cause a division by zero or an overflow.
//!
//! # Limits
//! At most [`MAX_EDGES`] edges are kept. Further ones are counted in [`Graph::lost`].

use std::collections::BTreeMap;

/// Most edges of a graph. A program that generates names would otherwise fill the memory.
pub const MAX_EDGES: usize = 10_000;

/// Name of the section before a thread's first mark, and of the one after its last section.
pub const OUTSIDE: &str = "(outside)";

/// Counts of an edge or a section.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Times that the edge was taken.
    pub calls: u64,
    /// CPU time of the thread [ns].
    pub time_ns: u64,
    /// Cycles, 0 without counters.
    pub cycles: u64,
    /// Instructions, 0 without counters.
    pub instructions: u64,
    /// Misses of the last-level cache, 0 without counters.
    pub misses: u64,
}

impl Counts {
    /// Add `other`.
    pub fn add(&mut self, other: &Counts) {
        self.calls = self.calls.saturating_add(other.calls);
        self.time_ns = self.time_ns.saturating_add(other.time_ns);
        self.cycles = self.cycles.saturating_add(other.cycles);
        self.instructions = self.instructions.saturating_add(other.instructions);
        self.misses = self.misses.saturating_add(other.misses);
    }

    /// Return the cycles per instruction. None if no instruction was counted.
    pub fn cpi(&self) -> Option<f64> {
        (self.instructions > 0).then(|| self.cycles as f64 / self.instructions as f64)
    }

    /// Return the misses per instruction. None if no instruction was counted.
    pub fn miss_rate(&self) -> Option<f64> {
        (self.instructions > 0).then(|| self.misses as f64 / self.instructions as f64)
    }
}

/// A section: the sum of its outgoing edges.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SectionSum {
    /// Sum over the edges.
    pub counts: Counts,
    /// Misses per instruction, the mean over the edges by calls. None without counters.
    pub value: Option<f64>,
}

/// Edges between sections.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Graph<'a> {
    edges: BTreeMap<(&'a str, &'a str), Counts>,
    /// Calls of edges beyond [`MAX_EDGES`].
    pub lost: u64,
}

impl<'a> Graph<'a> {
    /// Add `counts` to the edge between two sections.
    pub fn add(&mut self, from: &'a str, to: &'a str, counts: &Counts) {
        let full = self.edges.len() >= MAX_EDGES;
        let key = (from, to);
        if full && !self.edges.contains_key(&key) {
            self.lost = self.lost.saturating_add(counts.calls);
            return;
        }
        self.edges.entry(key).or_default().add(counts);
    }

    /// Return the edges in the order of their names.
    pub fn edges(&self) -> impl Iterator<Item = (&'a str, &'a str, &Counts)> {
        self.edges.iter().map(|((from, to), counts)| (*from, *to, counts))
    }

    /// Return the sections that a thread has left, in the order of their names.
    pub fn sections(&self) -> BTreeMap<&'a str, SectionSum> {
        let mut sections = BTreeMap::<&str, SectionSum>::new();
        let mut weights = BTreeMap::<&str, f64>::new();
        for (from, _, counts) in self.edges() {
            let section = sections.entry(from).or_default();
            section.counts.add(counts);
            if let Some(rate) = counts.miss_rate() {
                let weight = weights.entry(from).or_default();
                *weight += counts.calls as f64;
                // The mean moves by the edge's part of all calls so far.
                let mean = section.value.unwrap_or(rate);
                section.value = Some(mean + (rate - mean) * counts.calls as f64 / weight.max(1.0));
            }
        }
        sections
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(calls: u64, instructions: u64, misses: u64) -> Counts {
        Counts { calls, time_ns: 5, cycles: 2 * instructions, instructions, misses }
    }

    #[test]
    fn the_value_of_a_section_is_the_mean_by_calls() {
        let mut graph = Graph::default();
        graph.add("a", "b", &counts(3, 1000, 10));
        graph.add("a", "c", &counts(1, 1000, 50));
        graph.add("b", "a", &counts(4, 0, 0));
        let sections = graph.sections();
        assert_eq!(sections["a"].counts, Counts { time_ns: 10, ..counts(4, 2000, 60) });
        assert!((sections["a"].value.unwrap() - 0.02).abs() < 1e-12);
        assert_eq!(sections["b"].value, None);
        assert!(!sections.contains_key("c"));
    }

    #[test]
    fn a_full_graph_counts_dropped_calls() {
        let mut graph = Graph::default();
        let names: Vec<String> = (0..MAX_EDGES + 5).map(|at| format!("{at:05}")).collect();
        for name in &names {
            graph.add(name, "a", &counts(2, 1, 0));
        }
        graph.add(&names[0], "a", &counts(7, 1, 0));
        assert_eq!((graph.edges().count(), graph.lost), (MAX_EDGES, 10));
        assert_eq!(graph.sections()[&*names[0]].counts.calls, 9);
    }

    proptest! {
        #[test]
        fn values_stay_within_the_rates_of_their_edges_in_any_order(
            edges in prop::collection::vec(("[a-c]", "[a-c]", any::<u64>(), any::<u64>(), any::<u64>()), 1..20)
        ) {
            let (mut forward, mut backward) = (Graph::default(), Graph::default());
            for (from, to, calls, instructions, misses) in &edges {
                forward.add(from, to, &counts(*calls, instructions / 2, *misses));
            }
            for (from, to, calls, instructions, misses) in edges.iter().rev() {
                backward.add(from, to, &counts(*calls, instructions / 2, *misses));
            }
            prop_assert_eq!(&forward, &backward);
            for (name, section) in forward.sections() {
                let rates: Vec<f64> = forward.edges().filter(|edge| edge.0 == name)
                    .filter_map(|edge| edge.2.miss_rate()).collect();
                prop_assert_eq!(section.value.is_some(), !rates.is_empty());
                let Some(value) = section.value else { continue };
                let low = rates.iter().copied().fold(f64::INFINITY, f64::min);
                let high = rates.iter().copied().fold(0.0, f64::max);
                prop_assert!(value >= low * (1.0 - 1e-9) && value <= high * (1.0 + 1e-9) + 1e-300);
            }
        }
    }
}
