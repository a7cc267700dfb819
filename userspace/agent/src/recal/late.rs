//! CPUs that come online after the table was measured.
//!
//! Problem. The kernel side takes a CPU without an entry for a fast one with the best costs. Where that is wrong, tasks are drawn to it.
//!
//! Approach. Each look compares the online CPUs with the table. One that is missing is measured like by a spot check, but ahead of what runs
//! there, for it may never idle; what came of it makes its entry ([`bias_policy::recal::Recal::join`]), and from then on it is followed like
//! any other. Where the table does not tell what a calibrated CPU did, one of each class is measured besides.
//!
//! Limits. It stays in the last-level cache that the kernel side has for unknown CPUs until the next start, and its clock's limits are not read.

use super::{Kernel, Recalibrator};
use crate::cpulist;
use crate::topology::Topology;
use bias_policy::recal::{Newcomer, Reference};
use bias_policy::table::Class;
use std::path::PathBuf;
use std::time::Instant;
use tracing::{info, warn};

/// CPUs measured at a time.
const AT_A_TIME: usize = 4;

/// CPUs that the table does not have.
#[derive(Debug, Default)]
pub(super) struct Late {
    /// Where the online CPUs are told.
    pub(super) sysfs: PathBuf,
    /// Those that are online and not measured.
    pub(super) cpus: Vec<u32>,
}

impl Recalibrator {
    /// Finds out which CPUs are online and not in the table, says so, and has them measured.
    pub(super) fn look_for_late(&mut self) {
        let online = std::fs::read_to_string(self.late.sysfs.join("devices/system/cpu/online"));
        let online = online.ok().and_then(|list| cpulist::parse(&list)).unwrap_or_default();
        let late: Vec<u32> = online.into_iter().filter(|cpu| self.table().get(*cpu).is_none()).collect();
        let new: Vec<u32> = late.iter().copied().filter(|cpu| !self.late.cpus.contains(cpu)).collect();
        if !new.is_empty() {
            let until = if self.on { "until they are measured" } else { "until scx_bias is started anew" };
            warn!(
                "CPU {} came online and is not in the table: counts as fast {until}",
                cpulist::format(&new)
            );
        }
        self.late.cpus = late;
        if !self.on || self.late.cpus.is_empty() {
            return;
        }
        let missing = self.late.cpus.iter().copied().take(AT_A_TIME);
        let wanted: Vec<u32> = missing.chain(self.yardsticks()).collect();
        for cpu in wanted {
            self.spot_checks += u64::from(self.spots.measure(cpu));
        }
    }

    /// A calibrated CPU of each class, if it is not known what any of them did.
    fn yardsticks(&self) -> Vec<u32> {
        if self.references.iter().any(|reference| reference.step_ns.is_some()) {
            return Vec::new();
        }
        let first = |class| self.table().cpus.iter().find(|entry| entry.class == class);
        [Class::Fast, Class::Slow].into_iter().filter_map(first).map(|entry| entry.cpu).collect()
    }

    /// Takes what was measured of CPUs that are not in the table, and of those that they are compared with.
    pub(super) fn take_in_late(&mut self, now: Instant, found: &[(u32, f64)], kernel: &mut dyn Kernel) {
        if self.late.cpus.is_empty() {
            return;
        }
        for (cpu, step_ns) in found {
            if let Some(speed_permille) = self.recal.speed_permille(*cpu) {
                // As it was when its entry was true.
                self.know(*cpu, step_ns * f64::from(speed_permille) / 1000.0);
            }
        }
        for (cpu, step_ns) in found {
            if self.late.cpus.contains(cpu) {
                self.join(now, *cpu, *step_ns, kernel);
            }
        }
    }

    /// What a CPU did when its entry was true, unless that is known.
    fn know(&mut self, cpu: u32, step_ns: f64) {
        match self.references.iter_mut().find(|reference| reference.cpu == cpu) {
            Some(reference) => reference.step_ns = reference.step_ns.or(Some(step_ns)),
            None => self.references.push(Reference { cpu, khz: None, step_ns: Some(step_ns) }),
        }
    }

    fn join(&mut self, now: Instant, cpu: u32, step_ns: f64, kernel: &mut dyn Kernel) {
        // It may have gone again.
        let place = Topology::read_from(&self.late.sysfs).ok();
        let Some(place) = place.and_then(|topology| topology.cpus.into_iter().find(|at| at.cpu == cpu))
        else {
            return;
        };
        let new = Newcomer { cpu, core: place.core, llc: place.llc, node: place.node, step_ns };
        let Some(changes) = self.recal.join(self.clock_ms(now), new, &self.references) else { return };
        info!("CPU {cpu}, which came online later, is measured: it is in the table now");
        self.late.cpus.retain(|other| *other != cpu);
        self.cores.push((cpu, place.core));
        self.know(cpu, step_ns);
        self.apply(changes, kernel);
    }
}
