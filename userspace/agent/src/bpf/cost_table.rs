// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Capacity table of the kernel side (`bpf/table.bpf.h`): how the agent writes its copies.

use bias_policy::ffi;
use bias_policy::slow_groups::{Group, Place, SlowGroups};
use bias_policy::table::{COST_BEST, CapacityTable, Class};
use bias_policy::tiers::Tiers;

use crate::skel::types;

/// Copies of the table, of which one is in force.
pub(crate) const COPIES: usize = ffi::BIAS_TABLE_COPIES as usize;

/// Fill both copies before the scheduler is attached. A CPU that is not in the table, because it
/// was offline, counts as fast with the lowest costs until it is measured. The LLCs must be
/// numbered before.
pub(crate) fn write_first(bss: &mut types::bss, table: &CapacityTable) {
    for speed in &mut bss.speeds {
        speed.cost.permille = [COST_BEST; 3];
        speed.shared.permille = [COST_BEST; 3];
    }
    for copy in 0..COPIES {
        write(bss, copy, table);
    }
}

/// Fill one copy.
pub(crate) fn write(bss: &mut types::bss, copy: usize, table: &CapacityTable) {
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
