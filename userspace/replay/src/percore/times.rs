// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The report of a comparison of CPUs, as printed and read again, and the similarity of the CPUs by
//! their execution times.

use bias_bench::metrics::median;
use bias_policy::classes::similarity;
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

/// The extremes of one kind of work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Compared {
    /// The CPU with the least median.
    pub fastest: usize,
    /// The CPU with the largest median.
    pub slowest: usize,
    /// The largest median over the least.
    pub ratio: f64,
}

impl Compared {
    /// Compare the CPUs of a kind. None if there is no CPU with times.
    pub fn of(kind: &KindTimes) -> Option<Self> {
        let medians = medians(kind);
        let (fastest, least) = medians.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
        let (slowest, largest) = medians.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(Self { fastest: *fastest, slowest: *slowest, ratio: largest / least })
    }
}

/// Return each CPU with the median of its times [ns].
pub(super) fn medians(kind: &KindTimes) -> Vec<(usize, f64)> {
    kind.cpus.iter().filter_map(|cpu| Some((cpu.cpu, median(&cpu.times_ns)?))).collect()
}

/// Return true if the times of two CPUs are of one distribution, as \[Reif20\] tests it, or differ
/// by less than a calibration resolves.
pub(super) fn alike(one: &CpuTimes, other: &CpuTimes) -> bool {
    similarity(&one.times_ns, &other.times_ns).is_some_and(|similarity| similarity.alike())
}

/// Return groups of CPUs. A CPU joins the first group whose first CPU is like it.
pub(super) fn groups(kind: &KindTimes) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<&CpuTimes>> = Vec::new();
    for cpu in &kind.cpus {
        match groups.iter_mut().find(|group| alike(group[0], cpu)) {
            Some(group) => group.push(cpu),
            None => groups.push(vec![cpu]),
        }
    }
    groups.iter().map(|group| group.iter().map(|cpu| cpu.cpu).collect()).collect()
}

/// Return pairs of the cost of executing [permille] and the median time [ns] of each CPU in both.
pub(super) fn costs_and_times(kind: &KindTimes, costs: &[CpuCost]) -> Vec<(f64, f64)> {
    let cost_of =
        |cpu| costs.iter().find(|cost| cost.cpu == cpu).map(|cost| f64::from(cost.cost_permille[0]));
    medians(kind).into_iter().filter_map(|(cpu, ns)| Some((cost_of(cpu)?, ns))).collect()
}

/// Return Spearman's rank correlation of cost and time over the CPUs. None for fewer than two CPUs,
/// or if all have one rank.
pub(super) fn cost_order(kind: &KindTimes, costs: &[CpuCost]) -> Option<f64> {
    let (costs, times): (Vec<f64>, Vec<f64>) = costs_and_times(kind, costs).into_iter().unzip();
    pearson(&ranks(&costs), &ranks(&times))
}

/// Return the rank of each value, the mean of the ranks for equal ones.
fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| *other < value).count();
        let equal = values.iter().filter(|other| *other == value).count();
        below as f64 + (equal as f64 + 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}

fn pearson(x: &[f64], y: &[f64]) -> Option<f64> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let (mean_x, mean_y) = (mean(x), mean(y));
    let sum =
        |of: &dyn Fn(f64, f64) -> f64| x.iter().zip(y).map(|(x, y)| of(x - mean_x, y - mean_y)).sum::<f64>();
    let spread = (sum(&|x, _| x * x) * sum(&|_, y| y * y)).sqrt();
    (spread > 0.0).then(|| sum(&|x, y| x * y) / spread)
}

/// Return `count` quantiles of the times, evenly spaced from the least to the largest.
pub(super) fn quantiles(cpu: &CpuTimes, count: usize) -> Vec<f64> {
    let mut sorted = cpu.times_ns.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    let last = sorted.len() - 1;
    (0..count).map(|i| sorted[last * i / (count - 1).max(1)]).collect()
}
