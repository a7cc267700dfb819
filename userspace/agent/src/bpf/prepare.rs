// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Data that the agent writes into the BPF object before the kernel loads it: knobs, counting,
//! scope, machine, and the copies of the capacity table (`bpf/table.bpf.h`). During a run the agent
//! writes knobs and a copy of the table in the same way.

use std::path::Path;

use anyhow::{Result, anyhow};
use bias_policy::domains::{Domains, rings};
use bias_policy::ffi;
use bias_policy::slow_groups::{Group, Place, SlowGroups};
use bias_policy::table::{COST_BEST, CapacityTable, Class};
use bias_policy::tiers::Tiers;
use scx_utils::compat::read_enum;

use crate::bpf::skel::{OpenBpfSkel, types};
use crate::bpf::{cgroup_events, counting};
use crate::failure::Failure;
use crate::kernel;
use crate::options::RunOptions;
use crate::topology;

/// Copies of the table. One of them is in force.
pub(super) const COPIES: usize = ffi::BIAS_TABLE_COPIES as usize;

/// Write all of it. `counting` is true if any counter is read.
///
/// # Errors
/// Fail if the machine is larger, or the kernel older, than the options need.
pub(super) fn all(
    open: &mut OpenBpfSkel<'_>,
    options: &RunOptions,
    table: &CapacityTable,
    counting: bool,
    nr_cpus: usize,
) -> Result<()> {
    write_knobs(open.maps.data_knobs_data.as_deref_mut().ok_or_else(no_section)?, options);
    open.maps.rodata_data.as_deref_mut().ok_or_else(no_section)?.moving = !options.no_moves;
    if let (Some((low, high)), Some(bss), Some(data)) =
        (options.thresholds_permille, open.maps.bss_data.as_deref_mut(), open.maps.data_data.as_deref_mut())
    {
        // From then on ticks maintain the band.
        (bss.band_low, data.band_high) = (low, high);
    }
    describe_machine(open, options, table, nr_cpus)?;
    prepare_counting(open, counting, nr_cpus)?;
    prepare_release(open);
    prepare_scope(open, options)
}

/// Write every knob in the kernel side's unit.
pub(super) fn write_knobs(data: &mut types::data_knobs, options: &RunOptions) {
    let ns = |us: u64| us.saturating_mul(1000);
    let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    data.slice_ns = ns(*options.slice_us);
    data.slice_min_ns = ns(*options.slice_min_us);
    data.rotate_gap_ns = ns(*options.rotate_gap_us);
    data.sync_burst_ns = ns(*options.sync_burst_us);
    data.window_instructions = *options.window_instructions;
    data.steal_lag_ns = ns(*options.steal_lag_us);
    data.unfair_gap_ns = ns(*options.unfair_gap_us);
    data.max_unfairness_permille = small(*options.max_unfairness_permille);
    data.sample_every = small(*options.sample_every);
    data.gain_permille = small(*options.gain_permille);
    (data.fixed_low, data.fixed_high) = options.thresholds_permille.unwrap_or_default();
}

/// Size the map of events. Leave out counting programs that have nothing to count or no function to
/// attach to.
fn prepare_counting(open: &mut OpenBpfSkel<'_>, any: bool, nr_cpus: usize) -> Result<()> {
    counting::size(&mut open.maps.events, nr_cpus)?;
    open.progs.bias_count_switch.set_autoload(any);
    open.progs.bias_count_tick.set_autoload(any && counting::has_tick());
    open.progs.bias_report_tasks.set_autoattach(false);
    let ro = open.maps.rodata_data.as_deref_mut().ok_or_else(no_section)?;
    ro.counting = any;
    Ok(())
}

/// Leave out one of the programs that notice when another scheduling class takes a CPU. Kernels
/// with the better one (from 6.19 on) warn about the other.
fn prepare_release(open: &mut OpenBpfSkel<'_>) {
    let at_switch = kernel::has_function(&["scx_bpf_dsq_reenq", "scx_bpf_reenqueue_local___v2"]);
    open.progs.bias_release.set_autoload(at_switch);
    if at_switch {
        open.progs.bias_cpu_release.set_autoload(false);
        open.struct_ops.bias_ops_mut().cpu_release = std::ptr::null_mut();
    }
}

/// Set the scope: only SCHED_EXT tasks, the whole system, or the whole system with bias limited to
/// some cgroups. Leave out the programs and maps that the scope does not need.
fn prepare_scope(open: &mut OpenBpfSkel<'_>, options: &RunOptions) -> Result<()> {
    let (partial, limited) = (!options.schedules_everything(), options.limits_bias());
    let events = partial && cgroup_events::require().is_ok();
    for program in [&mut open.progs.bias_optin_move, &mut open.progs.bias_optin_fork] {
        program.set_autoload(events);
        program.set_autoattach(false);
    }
    open.maps.optin_cgroups.set_autocreate(events || limited)?;
    open.maps.optin_events.set_autocreate(events)?;
    let ro = open.maps.rodata_data.as_deref_mut().ok_or_else(no_section)?;
    (ro.partial, ro.limited) = (partial, limited);
    ro.agent_tgid = std::process::id();
    let ops = open.struct_ops.bias_ops_mut();
    ops.exit_dump_len = u32::try_from(*options.exit_dump_len).unwrap_or(u32::MAX);
    // A flag that the kernel does not know is 0 here. A kernel that knows a flag keeps such tasks
    // from the scheduler unless the flag is set.
    ops.flags |= *scx_utils::compat::SCX_OPS_ENQ_EXITING | *scx_utils::compat::SCX_OPS_ENQ_MIGRATION_DISABLED;
    // Before 6.15 the kernel warns that cpu.weight has no effect, unless this flag is set. Later
    // kernels warn that the flag is obsolete.
    if kernel::release(Path::new("/")).is_some_and(|release| kernel::is_before(&release, (6, 15))) {
        ops.flags |= read_enum("scx_ops_flags", "SCX_OPS_HAS_CGROUP_WEIGHT").unwrap_or(0);
    }
    if !partial {
        return Ok(());
    }
    let flag = *scx_utils::compat::SCX_OPS_SWITCH_PARTIAL;
    if flag == 0 {
        return Err(Failure::kernel(
            "this kernel's sched_ext schedules the whole system or nothing; start scx_bias without --cgroup and --partial, or with --limit-bias",
        )
        .into());
    }
    ops.flags |= flag;
    Ok(())
}

/// Describe every CPU. One that is not in the table, because it was offline, gets the first domain.
fn describe_machine(
    open: &mut OpenBpfSkel<'_>,
    options: &RunOptions,
    table: &CapacityTable,
    nr_cpus: usize,
) -> Result<()> {
    let domains = Domains::new(table);
    let bss = open.maps.bss_data.as_deref_mut().ok_or_else(no_section)?;
    if nr_cpus > bss.cpu_info.len() || domains.count() as usize > bss.llc_ctxs.len() {
        return Err(Failure::kernel(format!(
            "this machine has {nr_cpus} CPUs and {} last-level caches, scx_bias handles {} and {}; raise BIAS_MAX_CPUS and BIAS_MAX_LLCS and rebuild",
            domains.count(),
            bss.cpu_info.len(),
            bss.llc_ctxs.len()
        ))
        .into());
    }
    let nohz_full = topology::nohz_full(Path::new("/sys"));
    for (cpu, info) in (0u32..).zip(bss.cpu_info.iter_mut().take(nr_cpus)) {
        (info.external_permille, info.internal_permille) = (1000, 1000);
        info.sibling = cpu;
        info.nohz_full = nohz_full.contains(&cpu).into();
    }
    for cpu in &table.cpus {
        let Some(info) = bss.cpu_info.get_mut(cpu.cpu as usize) else { continue };
        info.llc = domains.of(cpu.llc);
        info.node = cpu.node;
        info.sibling = table.next_sibling(cpu);
        if let Some(llc) = bss.llc_ctxs.get_mut(info.llc as usize) {
            llc.node = cpu.node;
        }
        info.known = 1;
    }
    let of_cpus: Vec<u32> = bss.cpu_info.iter().take(nr_cpus).map(|info| info.llc).collect();
    for (info, next) in bss.cpu_info.iter_mut().zip(rings(&of_cpus)) {
        info.next = next;
    }
    write_first_costs(bss, table);
    // Recalibration may add a slow class to the table.
    let two_classes = table.nr_classes() > 1 || (!options.no_recalibrate && table.cpus.len() > 1);
    let smt = table.cpus.iter().any(|cpu| cpu.core != cpu.cpu);
    let ro = open.maps.rodata_data.as_deref_mut().ok_or_else(no_section)?;
    ro.nr_cpus = nr_cpus as u32;
    ro.nr_llcs = domains.count();
    ro.nr_nodes = table.nr_nodes();
    ro.two_classes = two_classes;
    ro.smt_active = smt;
    ro.nohz_full = !nohz_full.is_empty();
    Ok(())
}

/// Fill both copies before the scheduler is attached. A CPU that is not in the table, because it
/// was offline, counts as fast with the lowest costs until it is measured. The LLCs must be
/// numbered before.
fn write_first_costs(bss: &mut types::bss, table: &CapacityTable) {
    for speed in &mut bss.speeds {
        speed.cost.permille = [COST_BEST; 3];
        speed.shared.permille = [COST_BEST; 3];
    }
    for copy in 0..COPIES {
        write_costs(bss, copy, table);
    }
}

/// Fill one copy.
pub(super) fn write_costs(bss: &mut types::bss, copy: usize, table: &CapacityTable) {
    let mut places = Vec::new();
    let tiers = Tiers::new(table);
    for (entry, tier) in table.cpus.iter().zip(tiers.of) {
        let at = entry.cpu as usize;
        let (Some(speed), Some(info)) = (bss.speeds.get_mut(at * COPIES + copy), bss.cpu_info.get(at)) else {
            continue;
        };
        speed.cost.permille = entry.cost_permille;
        speed.shared.permille = entry.shared_cost_permille();
        speed.cpu_class = u32::from(entry.class == Class::Slow);
        speed.tier = tier;
        places.push(Place { cpu: entry.cpu, llc: info.llc, node: info.node, tier });
    }
    let slow = SlowGroups::new(places);
    if let Some(list) = bss.slow_lists.get_mut(copy) {
        list.cpus[..slow.cpus.len()].copy_from_slice(&slow.cpus);
        for (into, Group { first, start, worse, home }) in list.groups.iter_mut().zip(slow.groups) {
            (into.first, into.start, into.worse, into.home) = (first, start, worse, home);
        }
    }
    if let Some(costs) = bss.class_costs.get_mut(copy) {
        for (cost, class) in costs.iter_mut().zip([Class::Fast, Class::Slow]) {
            cost.permille = table.class_cost_permille(class);
        }
    }
    if let Some(used) = bss.tiers_used.get_mut(copy) {
        *used = tiers.used;
    }
    if let Some(near) = bss.near_tiers.get_mut(copy) {
        *near = tiers.near;
    }
    if let Some(first) = bss.fast_sibling_first.get_mut(copy) {
        *first = u32::from(table.fast_sibling_first());
    }
}

fn no_section() -> anyhow::Error {
    anyhow!("the BPF object lacks a data section; rebuild with clang 18 or later")
}
