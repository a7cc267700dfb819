// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The agent's part: knobs, the description of the machine, and the capacity table.
//!
//! The real agent measures the table and writes it through the BPF skeleton
//! (`userspace/agent/src/bpf/`). Here the table comes from the machine's costs, and the agent's
//! policy crate does the rest. The knobs are at the agent's defaults.

use anyhow::{Result, ensure};
use bias_agent::options::RunOptions;
use bias_policy::domains::{Domains, rings};
use bias_policy::slow_groups::{Group, Place, SlowGroups};
use bias_policy::table::{CapacityTable, Class};
use bias_policy::tiers::Tiers;

use crate::case::CountersOf;
use crate::ffi;
use crate::kernel::Kernel;
use crate::load::Op;

/// Return the slice while many tasks wait [ns].
#[must_use]
pub fn slice_min_ns() -> u64 {
    *RunOptions::default().slice_min_us * 1000
}

/// Copies of the capacity table.
const COPIES: usize = ffi::BIAS_TABLE_COPIES as usize;

/// Write everything that the agent writes before it attaches the scheduler.
///
/// # Errors
/// Fail if the machine's costs are not a valid table.
pub fn start(kernel: &Kernel) -> Result<()> {
    let unit = kernel.unit();
    let knobs = RunOptions::default();
    let table = kernel.machine.table()?;
    let domains = Domains::new(&table);
    ensure!(
        domains.count() <= ffi::BIAS_MAX_LLCS,
        "{} caches are more than the scheduler handles",
        domains.count()
    );
    // SAFETY: the pointers are to globals of the loaded scheduler, of these types and lengths, and
    // no BPF code runs yet.
    unsafe {
        *unit.nr_cpus = kernel.cpus.len() as u32;
        *unit.nr_llcs = domains.count();
        *unit.nr_nodes = table.nr_nodes();
        *unit.agent_tgid = 1;
        *unit.smt_active = kernel.machine.smt();
        *unit.nohz_full = !kernel.case.nohz_full.is_empty();
        // Recalibration is on, so that the table may get a slow class later.
        *unit.two_classes = table.cpus.len() > 1;
        *unit.counting = kernel.case.counters != CountersOf::None;
        *unit.moving = kernel.case.moving;
        *unit.hints_epoch = kernel.case.hints.into();
        *unit.slice_ns = *knobs.slice_us * 1000;
        *unit.slice_min_ns = slice_min_ns();
        *unit.rotate_gap_ns = *knobs.rotate_gap_us * 1000;
        *unit.sync_burst_ns = *knobs.sync_burst_us * 1000;
        *unit.window_instructions = *knobs.window_instructions;
        *unit.steal_lag_ns = *knobs.steal_lag_us * 1000;
        *unit.unfair_gap_ns = *knobs.unfair_gap_us * 1000;
        *unit.max_unfairness_permille = kernel.case.max_unfairness_permille;
        *unit.sample_every = *knobs.sample_every as u32;
        *unit.gain_permille = *knobs.gain_permille as u32;
        *unit.linux_version = kernel.case.release.code();
        *unit.preempt_rcu = false;
        *unit.prolog_disables_migration = kernel.case.release.programs_disable_migration();
        for entry in &table.cpus {
            let info = &mut *unit.cpu_info.add(entry.cpu as usize);
            info.llc = domains.of(entry.llc);
            info.node = entry.node;
            info.known = 1;
            info.counters = if kernel.case.counters == CountersOf::None { 0 } else { 0b1111 };
            (info.external_permille, info.internal_permille) = (1000, 1000);
            info.sibling = table.next_sibling(entry);
            info.nohz_full = kernel.case.nohz_full.contains(&(entry.cpu as usize)).into();
            (*unit.llc_ctxs.add(info.llc as usize)).node = entry.node;
        }
        let cpus = 0..kernel.cpus.len();
        let of_cpus: Vec<u32> = cpus.map(|cpu| (*unit.cpu_info.add(cpu)).llc).collect();
        for (cpu, next) in rings(&of_cpus).into_iter().enumerate() {
            (*unit.cpu_info.add(cpu)).next = next;
        }
    }
    for copy in 0..COPIES {
        write(unit, copy, &table);
    }
    let busy = kernel.case.tasks.iter().flat_map(|task| &task.program.ops);
    ensure!(
        kernel.case.tasks.is_empty() || busy.into_iter().any(|op| matches!(op, Op::Run { .. })),
        "no task of the case does any work"
    );
    Ok(())
}

/// Fill one copy of the capacity table.
fn write(unit: &ffi::sim_unit, copy: usize, table: &CapacityTable) {
    let mut places = Vec::new();
    // SAFETY: as in start(); the copy is not in force, or nothing runs yet.
    unsafe {
        let tiers = Tiers::new(table);
        for (entry, tier) in table.cpus.iter().zip(tiers.of) {
            let speed = &mut *unit.speeds.add(entry.cpu as usize * COPIES + copy);
            speed.cost.permille = entry.cost_permille;
            speed.shared.permille = entry.shared_cost_permille();
            speed.cpu_class = u32::from(entry.class == Class::Slow);
            speed.tier = tier;
            let info = &*unit.cpu_info.add(entry.cpu as usize);
            places.push(Place { cpu: entry.cpu, llc: info.llc, node: info.node, tier });
        }
        let slow = SlowGroups::new(places);
        let list = &mut *unit.slow_lists.add(copy);
        list.cpus[..slow.cpus.len()].copy_from_slice(&slow.cpus);
        for (into, Group { first, start, worse, home }) in list.groups.iter_mut().zip(slow.groups) {
            (into.first, into.start, into.worse, into.home) = (first, start, worse, home);
        }
        let costs = &mut *unit.class_costs.add(copy);
        for (cost, class) in costs.iter_mut().zip([Class::Fast, Class::Slow]) {
            cost.permille = table.class_cost_permille(class);
        }
        *unit.tiers_used.add(copy) = tiers.used;
        *unit.near_tiers.add(copy) = tiers.near;
        *unit.fast_sibling_first.add(copy) = u32::from(table.fast_sibling_first());
    }
}

impl Kernel {
    /// Change the speed of `cpu`. If `told`, the agent publishes a new table.
    pub(crate) fn set_speed(&self, cpu: usize, permille: u32, told: bool) {
        self.sync(cpu);
        self.machine.cpus[cpu].factor_permille.set(permille.max(1));
        self.plan(cpu);
        if !told {
            return;
        }
        match self.machine.table() {
            Ok(table) => {
                // SAFETY: the global is a u32; no BPF code runs meanwhile.
                let seq = unsafe { *self.unit().table_seq };
                write(self.unit(), (seq as usize + 1) % COPIES, &table);
                self.watch.table_ns.set(self.now());
                self.replace_table();
            }
            Err(error) => self.broken("table", format!("{error:#}")),
        }
    }
}
