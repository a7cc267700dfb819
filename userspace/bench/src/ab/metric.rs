// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Registry of metrics: names, units, and the direction in which each is better.
//!
//! # Problem
//! A verdict needs a direction, and a reader needs a unit and a meaning. Both must agree in the
//! workloads that produce a figure, the table that judges it and the list that explains it.
//!
//! # Approach
//! One table. A name that ends in `_` is a prefix: `fast_share_chase` belongs to `fast_share_`.
//!
//! # Invariants
//! Names are unique. No metric is negative, so that ratios are meaningful.
//!
//! # Limits
//! A metric that is not in the table is kept and treated as neutral, because its direction is
//! unknown.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Direction in which a metric is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Larger is better.
    Higher,
    /// Smaller is better.
    Lower,
    /// Neither is better: the metric explains others.
    Neutral,
}

impl fmt::Display for Direction {
    /// Write the word for "better if", nothing for a neutral metric.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Higher => "higher",
            Self::Lower => "lower",
            Self::Neutral => "",
        })
    }
}

/// One metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Metric {
    /// Name in samples and reports. A prefix if it ends in `_`.
    pub name: &'static str,
    /// Unit. Empty for a plain number.
    pub unit: &'static str,
    /// Direction in which the metric is better.
    pub direction: Direction,
    /// Description in one sentence.
    pub about: &'static str,
}

use Direction::{Higher, Lower, Neutral};

/// All metrics, in the order of reports.
#[rustfmt::skip]
pub const METRICS: &[Metric] = &[
    Metric { name: "stp", unit: "", direction: Higher, about: "System throughput: sum of the tasks' progress relative to running alone on a fast CPU." },
    Metric { name: "stp_worst_start", unit: "", direction: Neutral, about: "System throughput after the worst of the starts in a window: with one task, its progress after a start on the slowest CPU." },
    Metric { name: "antt", unit: "", direction: Lower, about: "Average normalised turnaround time: mean slowdown of the tasks." },
    Metric { name: "unfairness", unit: "", direction: Lower, about: "Largest slowdown over smallest slowdown; 1 when all suffer alike." },
    Metric { name: "throughput_per_s", unit: "1/s", direction: Higher, about: "Units of work done by all tasks per second." },
    Metric { name: "progress_min", unit: "", direction: Higher, about: "Progress of the task with the least progress." },
    Metric { name: "progress_", unit: "", direction: Neutral, about: "Mean progress of the tasks of one workload kind: which kind gains, and which one pays." },
    Metric { name: "latency_p50_us", unit: "µs", direction: Lower, about: "Median latency." },
    Metric { name: "latency_p99_us", unit: "µs", direction: Lower, about: "Latency that one of 100 exceeds." },
    Metric { name: "latency_p999_us", unit: "µs", direction: Lower, about: "Latency that one of 1000 exceeds." },
    Metric { name: "time_ms", unit: "ms", direction: Lower, about: "Wall time of one repetition, mean over the repetitions." },
    Metric { name: "cpu_ms", unit: "ms", direction: Neutral, about: "CPU time of one repetition, mean over the repetitions; more on slower CPUs." },
    Metric { name: "higher_", unit: "", direction: Higher, about: "Number that --metric finds in the output of a command, better if higher." },
    Metric { name: "lower_", unit: "", direction: Lower, about: "The same, better if lower." },
    Metric { name: "cv_permille", unit: "‰", direction: Lower, about: "Standard deviation of the repetitions over their mean." },
    Metric { name: "min_max_permille", unit: "‰", direction: Higher, about: "Fastest over slowest repetition; 1000 when all are alike." },
    Metric { name: "instructions_per_switch", unit: "", direction: Lower, about: "Guest instructions of a context switch." },
    Metric { name: "instructions_per_wakeup", unit: "", direction: Lower, about: "Guest instructions of a wakeup." },
    Metric { name: "agent_cpu_permille", unit: "‰", direction: Lower, about: "Share of all CPU time used by the scheduler's program in user space." },
    Metric { name: "bpf_permille", unit: "‰", direction: Lower, about: "Share of all CPU time used by the scheduler's BPF code." },
    Metric { name: "energy_j", unit: "J", direction: Lower, about: "Measured energy (RAPL) of a unit of work: for a mix a task's second alone on a fast CPU, else a repetition; of a second where the workload sets the pace. With --energy." },
    Metric { name: "energy_delay_js", unit: "Js", direction: Lower, about: "Measured energy of a unit of work times the time per unit of work. With --energy." },
    Metric { name: "energy_model_j", unit: "J", direction: Lower, about: "MODEL, not measured: as energy_j, with a busy CPU of relative speed s drawing 26.95 s² watts and an idle one 5.88 s². With --energy, where there is no RAPL." },
    Metric { name: "energy_delay_model_js", unit: "Js", direction: Lower, about: "MODEL, not measured: energy_model_j times the time per unit of work. With --energy, where there is no RAPL." },
    Metric { name: "migrations_per_s", unit: "1/s", direction: Neutral, about: "Changes of CPU per second." },
    Metric { name: "switches_per_s", unit: "1/s", direction: Neutral, about: "Context switches per second." },
    Metric { name: "fast_share", unit: "", direction: Neutral, about: "Share of the tasks' run time spent on fast CPUs." },
    Metric { name: "fast_share_", unit: "", direction: Neutral, about: "The same for the tasks of one workload kind." },
];

/// Stand-in for a metric that is not registered.
const UNKNOWN: Metric =
    Metric { name: "", unit: "", direction: Neutral, about: "Not in the list of metrics; not judged." };

impl Metric {
    /// Return true for a name such as `fast_share_`, which stands for many metrics.
    pub fn is_prefix(&self) -> bool {
        self.name.ends_with('_')
    }
}

/// Return the position of a metric in [`METRICS`], by exact name or else by prefix.
fn position(name: &str) -> Option<usize> {
    let prefix = |m: &Metric| m.is_prefix() && name.len() > m.name.len() && name.starts_with(m.name);
    let exact = METRICS.iter().position(|m| m.name == name && !m.is_prefix());
    exact.or_else(|| METRICS.iter().position(prefix))
}

/// Return the registered metric of this name, or None.
pub fn lookup(name: &str) -> Option<&'static Metric> {
    position(name).map(|i| &METRICS[i])
}

/// Return the registered metric of this name, or a neutral stand-in.
pub fn of(name: &str) -> &'static Metric {
    lookup(name).unwrap_or(&UNKNOWN)
}

/// Return the key that sorts metrics for a report: the order of the registry, unknown metrics last,
/// then the name.
pub fn order(name: &str) -> (usize, &str) {
    (position(name).unwrap_or(METRICS.len()), name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_explained() {
        for (i, m) in METRICS.iter().enumerate() {
            assert!(METRICS[i + 1..].iter().all(|other| other.name != m.name), "{}", m.name);
            assert!(m.about.ends_with('.') && m.about.len() > 10, "{}", m.name);
        }
    }

    #[test]
    fn prefixes_stand_for_the_names_they_begin() {
        assert_eq!(lookup("fast_share").map(|m| m.name), Some("fast_share"));
        assert_eq!(lookup("fast_share_chase").map(|m| m.name), Some("fast_share_"));
        assert_eq!(lookup("fast_share_"), None);
        assert_eq!(lookup("progress_chase").map(|m| m.name), Some("progress_"));
        assert_eq!(lookup("progress_min").map(|m| m.name), Some("progress_min"));
        assert_eq!(lookup("stpx"), None);
        assert_eq!(of("stpx").direction, Direction::Neutral);
        assert!(order("stp") < order("antt") && order("antt") < order("aaa"));
    }
}
