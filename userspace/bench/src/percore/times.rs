// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The report of a comparison of CPUs, as it is printed and read again.

use serde::{Deserialize, Serialize};

/// Times of one CPU.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CpuTimes {
    /// The CPU.
    pub cpu: usize,
    /// Wall time of each run [ns], in the order of the runs.
    pub times_ns: Vec<f64>,
}

/// One kind of work on all CPUs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct KindTimes {
    /// Kind of work.
    pub kind: String,
    /// Units of work of a run.
    pub units: u64,
    /// Every CPU, in ascending order.
    pub cpus: Vec<CpuTimes>,
}

/// Cost of a CPU in the capacity table.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CpuCost {
    /// The CPU.
    pub cpu: usize,
    /// Cost of executing, of internal and of external stalls [permille of the cheapest].
    pub cost_permille: [u32; 3],
}

/// All kinds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PercoreReport {
    /// Format of this report.
    pub schema: String,
    /// Each kind, in the order of the options.
    pub kinds: Vec<KindTimes>,
    /// Costs of the CPUs. Empty without a table.
    #[serde(default)]
    pub costs: Vec<CpuCost>,
}
