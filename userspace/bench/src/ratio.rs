// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Ratio of the speeds of two CPUs, for each kind of work, and its prediction from the counters.
//!
//! Rounds are interleaved (A B, B A, A B, ...), so that drift of the machine affects both CPUs
//! alike. The prediction uses the model of the asymmetric VM: time = cycles / frequency. The
//! frequency of each CPU comes from its compute rounds, the cycles from the rounds of the work
//! itself.

use crate::measure::{self, Until, WorkSample};
use crate::options::{Printable, rounds, seconds};
use crate::spec::{CpuList, WorkKind};
use crate::{Error, Result, cpus, metrics};
use clap::Args;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// CPUs, kinds and rounds of a comparison.
#[derive(Debug, Clone, Args)]
pub struct RatioOptions {
    /// The two CPUs, e.g. 0,2. A ratio is the time on the second over the time on the first
    #[arg(long)]
    pub cpus: CpuPair,
    /// Kinds of work, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "compute,chase,stalled")]
    pub kinds: Vec<WorkKind>,
    /// Rounds of each kind on each CPU, interleaved. More rounds give steadier medians and take
    /// proportionally longer
    #[arg(long, default_value = "5", value_parser = rounds)]
    pub rounds: u16,
    /// Seconds of a round. Longer rounds average out interrupts better, shorter ones the machine's
    /// drift
    #[arg(long = "seconds", value_name = "SECONDS", value_parser = seconds, default_value = "0.4")]
    pub time: Duration,
}

/// Two different CPUs, in the order given. Written `0,2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuPair(pub usize, pub usize);

impl std::str::FromStr for CpuPair {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let one = |text: &str| match text.parse::<CpuList>() {
            Ok(CpuList(list)) if list.len() == 1 => Some(list[0]),
            _ => None,
        };
        let pair = text.split_once(',').and_then(|(a, b)| Some(CpuPair(one(a)?, one(b)?)));
        pair.filter(|pair| pair.0 != pair.1)
            .ok_or_else(|| format!("'{text}' is not two different CPUs; write 0,2"))
    }
}

/// One kind of work on one CPU.
#[derive(Debug, Clone, Serialize)]
pub struct CpuSide {
    /// The CPU.
    pub cpu: usize,
    /// Median over the rounds of CPU time per unit of work, nanoseconds.
    pub ns_per_unit: f64,
    /// Median over the rounds of CPU time per instruction (the kernel's included), nanoseconds.
    /// Null without counters.
    pub ns_per_instruction: Option<f64>,
    /// Cycles of this CPU per unit of work; null without counters.
    pub cycles_per_unit: Option<f64>,
    /// Share of cycles stalled outside the core; null without counters.
    pub stall_external: Option<f64>,
    /// Share of cycles stalled inside the core; null without counters.
    pub stall_internal: Option<f64>,
    /// Every round.
    pub samples: Vec<WorkSample>,
}

/// One kind of work on both CPUs.
#[derive(Debug, Clone, Serialize)]
pub struct KindRatio {
    /// Kind of work.
    pub kind: String,
    /// CPU time per unit of work, second CPU over first.
    pub ratio: f64,
    /// CPU time per instruction, second CPU over first: the value of `ratio` without interrupts,
    /// which make up more of the instructions on a slow CPU. Null without counters.
    pub instruction_ratio: Option<f64>,
    /// Prediction from the counters; null without counters.
    pub predicted_ratio: Option<f64>,
    /// The two CPUs.
    pub sides: [CpuSide; 2],
}

/// All kinds.
#[derive(Debug, Clone, Serialize)]
pub struct RatioReport {
    /// Format of this report.
    pub schema: &'static str,
    /// Each kind, in the order of the options.
    pub kinds: Vec<KindRatio>,
}

/// Run the rounds. Kind `compute` always runs, because it gives the frequencies.
pub fn run(options: &RatioOptions) -> Result<RatioReport> {
    let CpuPair(a, b) = options.cpus;
    cpus::require_online(&[a, b])?;
    let mut kinds = options.kinds.clone();
    if !kinds.contains(&WorkKind::Compute) {
        kinds.insert(0, WorkKind::Compute);
    }
    let mut samples: BTreeMap<(WorkKind, usize), Vec<WorkSample>> = BTreeMap::new();
    for round in 0..options.rounds {
        for &kind in &kinds {
            let order = if round % 2 == 0 { [a, b] } else { [b, a] };
            for cpu in order {
                let time = Until::Elapsed(options.time);
                let sample = measure::run(&kind, Some(cpu), time)?;
                samples.entry((kind, cpu)).or_default().push(sample);
            }
        }
    }
    let side = |kind, cpu| {
        let samples = samples.get(&(kind, cpu)).cloned().unwrap_or_default();
        CpuSide::of(cpu, samples).ok_or_else(|| Error::failed("ratio", "no samples"))
    };
    let frequencies =
        [side(WorkKind::Compute, a)?.cycles_per_ns(), side(WorkKind::Compute, b)?.cycles_per_ns()];
    let ratio = |&kind: &WorkKind| Ok(KindRatio::of(kind, [side(kind, a)?, side(kind, b)?], frequencies));
    let kinds = options.kinds.iter().map(ratio).collect::<Result<_>>()?;
    Ok(RatioReport { schema: "bias-bench.ratio/1", kinds })
}

impl CpuSide {
    fn of(cpu: usize, samples: Vec<WorkSample>) -> Option<Self> {
        let median = |of: &dyn Fn(&WorkSample) -> Option<f64>| {
            let values: Option<Vec<f64>> = samples.iter().map(of).collect();
            metrics::median(&values?)
        };
        let counted = |of: fn(&crate::counters::Counts) -> f64| {
            move |s: &WorkSample| s.counters.as_ref().map(|c| metrics::share(of(c), c.cycles as f64))
        };
        Some(CpuSide {
            cpu,
            ns_per_unit: median(&|s| Some(s.ns_per_unit()))?,
            ns_per_instruction: median(&|s| {
                s.counters.map(|c| metrics::share(s.cpu_ns as f64, c.instructions as f64))
            }),
            cycles_per_unit: median(&|s| s.counters.map(|c| metrics::share(c.cycles as f64, s.units as f64))),
            stall_external: median(&counted(|c| c.stall_external as f64)),
            stall_internal: median(&counted(|c| c.stall_internal as f64)),
            samples,
        })
    }

    /// Return the frequency during the rounds, cycles per nanosecond.
    fn cycles_per_ns(&self) -> Option<f64> {
        self.cycles_per_unit.filter(|_| self.ns_per_unit > 0.0).map(|cycles| cycles / self.ns_per_unit)
    }
}

impl KindRatio {
    fn of(kind: WorkKind, sides: [CpuSide; 2], frequencies: [Option<f64>; 2]) -> Self {
        let over = |of: fn(&CpuSide) -> f64| metrics::share(of(&sides[1]), of(&sides[0]));
        let predicted = |i: usize| Some(sides[i].cycles_per_unit? / frequencies[i]?);
        KindRatio {
            kind: kind.to_string(),
            ratio: over(|s| s.ns_per_unit),
            instruction_ratio: sides[1]
                .ns_per_instruction
                .zip(sides[0].ns_per_instruction)
                .map(|(b, a)| metrics::share(b, a)),
            predicted_ratio: predicted(1).zip(predicted(0)).map(|(b, a)| metrics::share(b, a)),
            sides,
        }
    }
}

impl Printable for RatioReport {
    fn text(&self) -> String {
        let mut out = String::from("kind          ratio  per insn  predicted  external  internal\n");
        let number = |x: Option<f64>| x.map_or("-".into(), |x| format!("{x:.3}"));
        let percent = |x: Option<f64>| x.map_or("-".into(), |x| format!("{:.1}%", x * 100.0));
        for k in &self.kinds {
            let first = &k.sides[0];
            let _ = writeln!(
                out,
                "{:12} {:6.3} {:>9} {:>10} {:>9} {:>9}",
                k.kind,
                k.ratio,
                number(k.instruction_ratio),
                number(k.predicted_ratio),
                percent(first.stall_external),
                percent(first.stall_internal)
            );
        }
        out + "ratio: CPU time per unit of work, second CPU over first; stalls: share of the first CPU's cycles\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Counts;

    fn sample(cpu: usize, units: u64, cpu_ns: u64, cycles: u64) -> WorkSample {
        let counters =
            Some(Counts { instructions: cycles, cycles, stall_external: cycles / 2, ..Counts::default() });
        WorkSample { cpu, steps: 1, units, wall_ns: cpu_ns, cpu_ns, counters }
    }

    #[test]
    fn prediction_is_cycles_over_frequency() {
        // The CPUs have 0.06 and 0.024 cycles per ns. The work takes 60 cycles per unit on the
        // first and 36 on the second.
        let sides = [
            CpuSide::of(0, vec![sample(0, 10, 10_000, 600)]),
            CpuSide::of(2, vec![sample(2, 10, 15_000, 360)]),
        ];
        let ratio = KindRatio::of(WorkKind::Branchy, sides.map(Option::unwrap), [Some(0.06), Some(0.024)]);
        assert!((ratio.ratio - 1.5).abs() < 1e-12);
        assert!((ratio.predicted_ratio.unwrap() - 1.5).abs() < 1e-12);
        assert_eq!(ratio.sides[0].stall_external, Some(0.5));
    }

    #[test]
    fn without_counters_there_is_no_prediction() {
        let bare = WorkSample { counters: None, ..sample(0, 10, 1000, 0) };
        let side = CpuSide::of(0, vec![bare]).unwrap();
        assert_eq!((side.cycles_per_unit, side.stall_external, side.cycles_per_ns()), (None, None, None));
    }

    #[test]
    fn pairs_of_cpus() {
        assert_eq!("0,2".parse(), Ok(CpuPair(0, 2)));
        assert_eq!("2,0".parse(), Ok(CpuPair(2, 0)));
        for bad in ["0", "1,1", "0,1,2", "a,b", "0-1,2", ""] {
            assert!(bad.parse::<CpuPair>().is_err(), "{bad}");
        }
    }
}
