// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! CPUs that come online after the table was measured.
//!
//! # Problem
//! The kernel side treats a CPU without an entry as a fast one with the best costs. Where that is
//! wrong, it attracts tasks.
//!
//! # Approach
//! A periodic check compares the online CPUs with the table. A missing CPU is measured as by a spot
//! check, but ahead of other tasks, because it may never idle. The result makes its entry
//! ([`bias_policy::recal::Recal::join`]), and from then on it is followed like any other CPU. If
//! the table has no reference of a calibrated CPU, one CPU of each class is measured as well.
//!
//! # Limits
//! Until the next start, the CPU stays in the last-level cache that the kernel side uses for
//! unknown CPUs. Limits of its clock are not read.

use super::recalibrator::Recalibrator;
use crate::cpulist;
use crate::topology::Topology;
use bias_policy::costs::Costs;
use bias_policy::recal::{Newcomer, Reference};
use bias_policy::table::Class;
use std::time::Instant;
use tracing::{info, warn};

/// CPUs measured at a time.
const AT_A_TIME: usize = 4;

impl Recalibrator {
    /// Find online CPUs that are not in the table, log them, and have them measured.
    pub(super) fn find_late(&mut self, costs: &Costs) {
        let online = std::fs::read_to_string(self.late.sysfs.join("devices/system/cpu/online"));
        let online = online.ok().and_then(|list| cpulist::parse(&list)).unwrap_or_default();
        let late: Vec<u32> =
            online.into_iter().filter(|cpu| costs.calibrated().get(*cpu).is_none()).collect();
        let new: Vec<u32> = late.iter().copied().filter(|cpu| !self.late.cpus.contains(cpu)).collect();
        if !new.is_empty() {
            let until = if self.on { "until they are measured" } else { "until scx_bias is restarted" };
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
        let wanted: Vec<u32> = missing.chain(self.yardsticks(costs)).collect();
        for cpu in wanted {
            self.spot_checks += u64::from(self.spots.measure(cpu));
        }
    }

    /// Return a calibrated CPU of each class if no CPU has a reference, else none.
    fn yardsticks(&self, costs: &Costs) -> Vec<u32> {
        if self.references.iter().any(|reference| reference.step_ns.is_some()) {
            return Vec::new();
        }
        let first = |class| costs.clocked().cpus.iter().find(|entry| entry.class == class);
        [Class::Fast, Class::Slow].into_iter().filter_map(first).map(|entry| entry.cpu).collect()
    }

    /// Process measurements of CPUs that are not in the table, and of the CPUs to compare them
    /// with.
    pub(super) fn take_in_late(&mut self, now: Instant, found: &[(u32, f64)], costs: &mut Costs) {
        if self.late.cpus.is_empty() {
            return;
        }
        for (cpu, step_ns) in found {
            if let Some(speed_permille) = self.recal.speed_permille(*cpu) {
                // Scaled back to the time when its entry was measured.
                self.know(*cpu, step_ns * f64::from(speed_permille) / 1000.0);
            }
        }
        for (cpu, step_ns) in found {
            if self.late.cpus.contains(cpu) {
                self.join(now, *cpu, *step_ns, costs);
            }
        }
    }

    /// Store the reference of a CPU unless it has one.
    fn know(&mut self, cpu: u32, step_ns: f64) {
        match self.references.iter_mut().find(|reference| reference.cpu == cpu) {
            Some(reference) => reference.step_ns = reference.step_ns.or(Some(step_ns)),
            None => self.references.push(Reference { cpu, khz: None, step_ns: Some(step_ns) }),
        }
    }

    fn join(&mut self, now: Instant, cpu: u32, step_ns: f64, costs: &mut Costs) {
        // The CPU may be offline again.
        let place = Topology::read_from(&self.late.sysfs).ok();
        let Some(place) = place.and_then(|topology| topology.cpus.into_iter().find(|at| at.cpu == cpu))
        else {
            return;
        };
        let new = Newcomer { cpu, core: place.core, llc: place.llc, node: place.node, step_ns };
        let changes = self.recal.join(self.clock_ms(now), new, &self.references, costs);
        let Some(changes) = changes else { return };
        info!("CPU {cpu}, which came online later, is measured: it is in the table now");
        self.late.cpus.retain(|other| *other != cpu);
        self.know(cpu, step_ns);
        self.log(changes);
    }
}
