//! The CPUs in the planner's form: calibrated costs, and the costs corrected by the results of
//! swaps.

use bias_policy::audit::Correction;
use bias_policy::swap::Cpu;
use bias_policy::table::{COMPONENTS, CapacityTable, Class};

/// Smallest change of a factor that is reported [permille].
const WORTH_TELLING_PERMILLE: u32 = 10;
/// Samples before a correction is used. Each moves the factors by an eighth of its error.
const LEAST_SAMPLES: u64 = 8;

/// The CPUs of a table.
#[derive(Debug, Clone, Default)]
pub(super) struct Machine {
    /// In ascending order, with corrected costs.
    pub cpus: Vec<Cpu>,
    /// Calibrated costs, in the same order [permille].
    calibrated: Vec<[u32; COMPONENTS]>,
    /// The factors in `cpus` [permille].
    factors_permille: [u32; COMPONENTS],
}

impl Machine {
    pub(super) fn new(table: &CapacityTable) -> Self {
        let cpu = |entry: &bias_policy::table::CpuCapacity| Cpu {
            cpu: entry.cpu,
            class: entry.class,
            node: entry.node,
            cost_permille: entry.cost_permille,
            online: true,
        };
        Self {
            cpus: table.cpus.iter().map(cpu).collect(),
            calibrated: table.cpus.iter().map(|entry| entry.cost_permille).collect(),
            factors_permille: [1000; COMPONENTS],
        }
    }

    /// Return true if there are two classes.
    pub(super) fn is_uneven(&self) -> bool {
        let has = |class| self.cpus.iter().any(|cpu| cpu.class == class);
        has(Class::Fast) && has(Class::Slow)
    }

    fn place(&self, cpu: u32) -> Option<usize> {
        self.cpus.binary_search_by_key(&cpu, |entry| entry.cpu).ok()
    }

    pub(super) fn cpu(&self, cpu: u32) -> Option<&Cpu> {
        self.cpus.get(self.place(cpu)?)
    }

    /// Return the cost of a CPU without correction [permille].
    pub(super) fn calibrated_permille(&self, cpu: u32) -> Option<[u32; COMPONENTS]> {
        self.calibrated.get(self.place(cpu)?).copied()
    }

    /// Apply a correction. If it differs enough from the last one, return the slow CPUs and their
    /// costs [permille].
    pub(super) fn correct(&mut self, correction: &Correction) -> Option<Vec<(u32, [u32; COMPONENTS])>> {
        let factors = correction.factors_permille();
        let differs = factors
            .iter()
            .zip(self.factors_permille)
            .any(|(new, old)| new.abs_diff(old) >= WORTH_TELLING_PERMILLE);
        if correction.samples() < LEAST_SAMPLES || !differs {
            return None;
        }
        self.factors_permille = factors;
        let mut cpus = Vec::new();
        for (cpu, calibrated) in
            self.cpus.iter_mut().zip(&self.calibrated).filter(|(cpu, _)| cpu.class == Class::Slow)
        {
            cpu.cost_permille = correction.apply(*calibrated);
            cpus.push((cpu.cpu, cpu.cost_permille));
        }
        Some(cpus)
    }
}
