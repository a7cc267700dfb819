// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The report: times and energies of all settings, and their changes against SMP with all threads.

use super::amp_site::{DUTY_PARTS, share};
use crate::variation::Variation;
use bias_bench::ab::workload::openmp::{Benchmark, Family};
use bias_bench::options::Printable;
use comfy_table::{Table, presets};
use serde::Serialize;

/// A benchmark in one setting.
#[derive(Debug, Clone, Serialize)]
pub struct AmpCase {
    /// The setting: SMP or AMP, and the number of threads.
    pub setting: String,
    /// Duty cycle of the housekeeping CPU in eighths. 8 without one.
    pub duty: u32,
    /// The benchmark.
    pub benchmark: String,
    /// Kind of the benchmark: loops or arrays.
    pub family: &'static str,
    /// Time of each repetition of each run [ns].
    pub times_ns: Vec<Vec<u64>>,
    /// Mean power of the machine in each run, by the model [W].
    pub watts: Vec<f64>,
    /// Statistics of the times.
    pub variation: Option<Variation>,
    /// Time, energy and energy-delay of a repetition over those of SMP with all threads.
    pub over_smp: Option<AmpChange>,
}

/// Figures of a setting, each over that of SMP with all threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct AmpChange {
    /// Time.
    pub time: f64,
    /// Energy.
    pub energy: f64,
    /// Energy-delay.
    pub energy_delay: f64,
}

/// Means over the benchmarks of a family in one setting.
#[derive(Debug, Clone, Serialize)]
pub struct AmpMean {
    /// The setting.
    pub setting: String,
    /// Duty cycle in eighths.
    pub duty: u32,
    /// loops, arrays or all.
    pub family: &'static str,
    /// Mean of the CVs within runs [permille].
    pub cv_within_permille: f64,
    /// Means of the changes.
    pub over_smp: AmpChange,
}

/// The whole experiment.
#[derive(Debug, Clone, Serialize)]
pub struct AmpReport {
    /// Format of this report.
    pub schema: &'static str,
    /// The housekeeping CPU.
    pub housekeeping: usize,
    /// Part of a CPU that the noise needs [permille].
    pub noise_permille: u32,
    /// Benchmarks in the order of the settings.
    pub cases: Vec<AmpCase>,
    /// Means.
    pub means: Vec<AmpMean>,
}

impl AmpCase {
    pub(super) fn new(setting: String, duty: u32, benchmark: &Benchmark) -> Self {
        let family = if benchmark.family == Family::Sched { "loops" } else { "arrays" };
        let benchmark = benchmark.to_string();
        let (times_ns, watts) = (Vec::new(), Vec::new());
        AmpCase { setting, duty, benchmark, family, times_ns, watts, variation: None, over_smp: None }
    }

    /// Add a run.
    pub(super) fn add(&mut self, times_ns: Vec<u64>, watts: f64) {
        self.times_ns.push(times_ns);
        self.watts.push(watts);
        self.variation = Variation::of(&self.times_ns);
    }

    /// Return the mean time of a repetition [s], and the mean power [W].
    fn means(&self) -> (f64, f64) {
        let time = self.variation.as_ref().map_or(f64::NAN, |variation| variation.mean_ns / 1e9);
        (time, self.watts.iter().sum::<f64>() / self.watts.len() as f64)
    }

    /// Compare with the same benchmark under SMP with all threads.
    fn over(&self, smp: &AmpCase) -> AmpChange {
        let ((time, watts), (smp_time, smp_watts)) = (self.means(), smp.means());
        let (time, power) = (time / smp_time, watts / smp_watts);
        AmpChange { time, energy: power * time, energy_delay: power * time * time }
    }
}

impl AmpReport {
    /// Compare the cases with those of the first setting.
    pub(super) fn new(housekeeping: usize, noise_permille: u32, mut cases: Vec<AmpCase>) -> Self {
        let first = cases.first().map(|case| case.setting.clone()).unwrap_or_default();
        let smp: Vec<AmpCase> = cases.iter().filter(|case| case.setting == first).cloned().collect();
        for case in &mut cases {
            let same = smp.iter().find(|smp| smp.benchmark == case.benchmark);
            case.over_smp = same.map(|smp| case.over(smp));
        }
        let means = means(&cases);
        AmpReport { schema: "bias-bench.amp/1", housekeeping, noise_permille, cases, means }
    }
}

/// Return the means of each setting, by family and over all.
fn means(cases: &[AmpCase]) -> Vec<AmpMean> {
    let mut settings: Vec<(&str, u32)> =
        cases.iter().map(|case| (case.setting.as_str(), case.duty)).collect();
    settings.dedup();
    let of = |(setting, duty): (&str, u32), family| {
        let here = |case: &&AmpCase| (case.setting.as_str(), case.duty) == (setting, duty);
        let one = |case: &&AmpCase| family == "all" || case.family == family;
        let cases: Vec<&AmpCase> = cases.iter().filter(here).filter(one).collect();
        let mean = |of: &dyn Fn(&AmpCase) -> Option<f64>| {
            cases.iter().filter_map(|case| of(case)).sum::<f64>() / cases.len() as f64
        };
        (!cases.is_empty()).then(|| AmpMean {
            setting: setting.to_string(),
            duty,
            family,
            cv_within_permille: mean(&|case| Some(case.variation.as_ref()?.cv_within_permille)),
            over_smp: AmpChange {
                time: mean(&|case| Some(case.over_smp?.time)),
                energy: mean(&|case| Some(case.over_smp?.energy)),
                energy_delay: mean(&|case| Some(case.over_smp?.energy_delay)),
            },
        })
    };
    settings
        .into_iter()
        .flat_map(|setting| ["loops", "arrays", "all"].map(|family| of(setting, family)))
        .flatten()
        .collect()
}

/// Return a figure over that of SMP as a change in percent.
fn change(over: f64) -> String {
    format!("{:+.1} %", (over - 1.0) * 100.0)
}

/// Return the cells of three changes.
fn changes(over: Option<AmpChange>) -> [String; 3] {
    over.map_or(Default::default(), |over| [over.time, over.energy, over.energy_delay].map(change))
}

impl Printable for AmpReport {
    fn text(&self) -> String {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        table.set_header([
            "setting",
            "duty",
            "benchmark",
            "ms",
            "CV within",
            "W",
            "time",
            "energy",
            "energy-delay",
        ]);
        let cv = |permille: f64| format!("{:.2} %", permille / 10.0);
        let duty = |duty: u32| format!("{:.1} %", share(duty) * 100.0);
        for case in &self.cases {
            let (time_s, watts) = case.means();
            let within = case.variation.as_ref().map_or(f64::NAN, |variation| variation.cv_within_permille);
            let named = [case.setting.clone(), duty(case.duty), case.benchmark.clone()];
            let figures = [format!("{:.3}", time_s * 1e3), cv(within), format!("{watts:.1}")];
            table.add_row(named.into_iter().chain(figures).chain(changes(case.over_smp)));
        }
        for mean in &self.means {
            let named = [mean.setting.clone(), duty(mean.duty), format!("mean of {}", mean.family)];
            let figures = [String::new(), cv(mean.cv_within_permille), String::new()];
            table.add_row(named.into_iter().chain(figures).chain(changes(Some(mean.over_smp))));
        }
        format!(
            "CPU {} does the housekeeping in the AMP settings; the noise needs {} thousandths of a CPU\n{table}\n\
             time, energy (a model), energy-delay: of a repetition, against SMP with all threads\n\
             duty: {DUTY_PARTS} speeds of the housekeeping CPU\n",
            self.housekeeping, self.noise_permille
        )
    }
}
