// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Settlement of a quantum: the time and transfers that vCPUs charge to themselves because they
//! shared cores, memory nodes and cache lines.
//!
//! The order in which the host runs vCPUs must not decide which of them waits. Each vCPU therefore
//! records its actions, and [`Settlement::settle`] charges all vCPUs when the quantum has ended.

use crate::lines::{Lines, Use};
use crate::numa::Nodes;

/// A vCPU's actions in a quantum that affect the other vCPUs.
#[derive(Debug, Default)]
pub struct Deeds {
    /// Lines requested from memory; see [`Nodes::request`].
    pub requests: u64,
    pub uses: Vec<(u64, Use)>,
}

/// Time and transfers that a vCPU must charge to itself because of the other vCPUs.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Owed {
    /// Time that it waited for memory [ns].
    pub wait_ns: u64,
    /// Lines that it took from other CPUs, in thousandths.
    pub transfers_milli: u64,
}

/// Actions of the current quantum, and the charges that each vCPU still owes.
pub struct Settlement {
    threads_per_core: usize,
    nodes: Nodes,
    owed: Vec<Owed>,
    /// Accesses to shared lines in this quantum.
    uses: Vec<(usize, Vec<(u64, Use)>)>,
}

impl Settlement {
    pub fn new(vcpus: usize, threads_per_core: usize, nodes: Nodes) -> Self {
        let threads_per_core = threads_per_core.max(1);
        Self { threads_per_core, nodes, owed: vec![Owed::default(); vcpus], uses: Vec::new() }
    }

    /// Record a vCPU's actions in this quantum.
    pub fn record(&mut self, cpu: usize, deeds: Deeds) {
        self.nodes.request(cpu, deeds.requests);
        if !deeds.uses.is_empty() {
            self.uses.push((cpu, deeds.uses));
        }
    }

    /// Take the charges that a vCPU owes, or None if there are none.
    pub fn take(&mut self, cpu: usize) -> Option<Owed> {
        let owed = self.owed.get_mut(cpu).filter(|owed| **owed != Owed::default())?;
        Some(std::mem::take(owed))
    }

    /// Charge the vCPUs of a core or a node for the resources that they shared in the quantum that
    /// ended. `busy_permille` holds the share of the quantum in which each vCPU ran. Return the sum
    /// of its siblings' shares for each vCPU.
    pub fn settle(&mut self, busy_permille: &[u32], elapsed_ns: i64, lines: Option<&Lines>) -> Vec<u32> {
        for (cpu, delay) in self.nodes.settle(elapsed_ns) {
            if let Some(owed) = self.owed.get_mut(cpu) {
                owed.wait_ns += delay as u64;
            }
        }
        if let Some(lines) = lines.filter(|_| !self.uses.is_empty()) {
            let milli = lines.settle(std::mem::take(&mut self.uses), self.owed.len());
            self.owed.iter_mut().zip(milli).for_each(|(owed, milli)| owed.transfers_milli += milli);
        }
        rivals(busy_permille, self.threads_per_core)
    }
}

/// Return for each vCPU the sum of the running shares of the other vCPUs on its core.
fn rivals(busy_permille: &[u32], threads_per_core: usize) -> Vec<u32> {
    let cores = busy_permille.chunks(threads_per_core);
    cores.flat_map(|core| core.iter().map(|own| core.iter().sum::<u32>() - own)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_are_rivals_and_others_are_not() {
        assert_eq!(rivals(&[1000, 500, 0, 700], 2), [500, 1000, 700, 0]);
        assert_eq!(rivals(&[1000, 500], 1), [0, 0]);
    }
}
