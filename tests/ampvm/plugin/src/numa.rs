// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! NUMA nodes: the node of an address, and the queue of requests at each node.
//!
//! # Problem
//! A node serves a limited number of bytes per second to all CPUs together. The host decides in
//! which order the vCPUs of a quantum execute. A queue that is updated at each request would favour
//! the vCPUs that the host runs first.
//!
//! # Approach
//! Requests are counted per quantum and vCPU. At the end of the quantum, a node's backlog is the
//! work that it could not serve in that time. The vCPU with the most requests waits until the
//! backlog is served, the others in proportion to their requests. Waiting vCPUs make no requests,
//! so the backlog drains.
//!
//! # Invariants
//! * Over many quanta no node serves more than its bandwidth (property-tested).
//! * A node with less demand than bandwidth delays no vCPU by more than a quantum.
//! * The result does not depend on the order of requests.
//!
//! # Limits
//! A request waits from the end of the quantum on, not from the moment at which it was made.

use ampvm_abi::LINE_BYTES;

/// The assignment of physical addresses to nodes.
///
/// QEMU gives the nodes equal parts of the memory, in order. Below 4 GiB that is the order of
/// addresses.
pub struct Map {
    nodes: usize,
    node_bytes: u64,
}

impl Map {
    /// Return a map for this many nodes of this size. The size does not matter for a single node.
    pub fn new(nodes: usize, node_bytes: u64) -> Self {
        Self { nodes: nodes.max(1), node_bytes }
    }

    /// Return the node of an address.
    pub fn node_of(&self, physical: u64) -> usize {
        physical.checked_div(self.node_bytes).map_or(0, |node| (node as usize).min(self.nodes - 1))
    }
}

/// The queue of one node.
#[derive(Debug, Clone)]
struct Node {
    /// Time to serve one line [ps], or 0 for unlimited bandwidth.
    line_ps: u64,
    backlog_ns: i64,
}

/// The queues of all nodes of a machine.
#[derive(Debug, Clone)]
pub struct Nodes {
    nodes: Vec<Node>,
    /// Requests in this quantum, one entry per vCPU and node: the index is `cpu * nodes + node`.
    requests: Vec<u64>,
    vcpus_per_node: usize,
}

impl Nodes {
    /// Return `nodes` nodes that share `vcpus` evenly. Each serves `mb_per_s` million bytes per
    /// second; 0 is unlimited.
    pub fn new(nodes: usize, vcpus: usize, mb_per_s: u64) -> Self {
        let nodes = nodes.max(1);
        let line_ps = (LINE_BYTES as u64 * 1_000_000).checked_div(mb_per_s).unwrap_or(0);
        Self {
            nodes: vec![Node { line_ps, backlog_ns: 0 }; nodes],
            requests: vec![0; vcpus * nodes],
            vcpus_per_node: vcpus.div_ceil(nodes).max(1),
        }
    }

    /// Return the node of a vCPU.
    pub fn of_cpu(&self, cpu: usize) -> usize {
        cpu / self.vcpus_per_node
    }

    /// Count a vCPU's requests for lines. The upper half of `lines` counts those of other nodes.
    pub fn request(&mut self, cpu: usize, lines: u64) {
        let node = self.of_cpu(cpu);
        let (local, remote) = (lines & u64::from(u32::MAX), lines >> 32);
        let nodes = self.nodes.len();
        for k in 0..nodes {
            // Remote requests are divided equally among the other nodes.
            let share = if k == node { local } else { remote / (nodes as u64 - 1).max(1) };
            if let Some(count) = self.requests.get_mut(cpu * nodes + k) {
                *count += share;
            }
        }
    }

    /// Settle a quantum of `elapsed_ns`. Return the vCPUs that have to wait, each with its delay
    /// [ns].
    pub fn settle(&mut self, elapsed_ns: i64) -> Vec<(usize, i64)> {
        let nodes = self.nodes.len();
        let cpus = self.requests.len() / nodes;
        let mut delays = vec![0; cpus];
        for (k, node) in self.nodes.iter_mut().enumerate().filter(|(_, node)| node.line_ps > 0) {
            let asked = |cpu: usize| self.requests.get(cpu * nodes + k).copied().unwrap_or(0);
            let total: u64 = (0..cpus).map(asked).sum();
            let most = (0..cpus).map(asked).max().unwrap_or(0);
            let work_ns = (total * node.line_ps / 1000) as i64;
            node.backlog_ns = node.backlog_ns.saturating_add(work_ns).saturating_sub(elapsed_ns).max(0);
            for (cpu, delay) in delays.iter_mut().enumerate().filter(|_| most > 0) {
                let share = node.backlog_ns as i128 * i128::from(asked(cpu)) / i128::from(most);
                *delay = share.max(i128::from(*delay)) as i64;
            }
        }
        self.requests.fill(0);
        delays.into_iter().enumerate().filter(|(_, delay)| *delay > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Return the lines served after `quanta` quanta to vCPUs that stream as fast as possible.
    fn stream(nodes: &mut Nodes, wants: &[u64], quantum_ns: i64, quanta: i64) -> Vec<u64> {
        let mut served = vec![0; wants.len()];
        let mut ready = vec![0_i64; wants.len()];
        for quantum in 0..quanta {
            let now = quantum * quantum_ns;
            for (cpu, want) in wants.iter().enumerate() {
                let share = (now + quantum_ns - ready[cpu].max(now)).max(0) as u64;
                let lines = want * share / quantum_ns as u64;
                served[cpu] += lines;
                nodes.request(cpu, lines);
            }
            for (cpu, delay) in nodes.settle(quantum_ns) {
                ready[cpu] = now + quantum_ns + delay;
            }
        }
        served
    }

    proptest! {
        #[test]
        fn a_node_serves_its_bandwidth_and_no_more(wants in prop::collection::vec(1_u64..4000, 1..8), mb in 50_u64..5000) {
            let mut nodes = Nodes::new(1, wants.len(), mb);
            let served: u64 = stream(&mut nodes, &wants, 100_000, 2000).iter().sum();
            let most = 2000.0 * 100_000.0 * mb as f64 / 1000.0 / LINE_BYTES as f64;
            let asked = 2000.0 * wants.iter().sum::<u64>() as f64;
            let due = most.min(asked);
            prop_assert!((served as f64) < due * 1.02 + 4000.0 * 8.0, "{} of {}", served, due);
            // The queue of the other vCPUs delays a vCPU with few requests, so some bandwidth may
            // stay unused.
            prop_assert!(served as f64 > due * 0.5, "{} of {}", served, due);
        }
    }

    #[test]
    fn equal_streams_get_equal_shares_of_the_whole_bandwidth() {
        for cpus in 1..=4 {
            let mut nodes = Nodes::new(1, cpus, 640);
            let served = stream(&mut nodes, &vec![10_000; cpus], 100_000, 1000);
            let total: u64 = served.iter().sum();
            // 640 MB/s are 10 lines per us.
            assert!((990_000..=1_020_000).contains(&total), "{total}");
            assert!(served.iter().all(|s| s.abs_diff(total / cpus as u64) <= 10_000), "{served:?}");
        }
    }

    #[test]
    fn an_unlimited_node_delays_no_vcpu_and_nodes_share_no_queue() {
        let mut free = Nodes::new(1, 2, 0);
        free.request(0, 1 << 30);
        assert!(free.settle(1).is_empty());
        let mut two = Nodes::new(2, 4, 64);
        two.request(0, 1000);
        two.request(3, 1);
        // The node serves 1000 lines at one per us. After a quantum of 100 us, 900 us are left.
        assert_eq!(two.settle(100_000), [(0, 900_000)]);
        two.request(3, 1000 << 32);
        assert_eq!(two.settle(100_000), [(3, 1_800_000)], "a remote request queues at the other node");
    }
}
