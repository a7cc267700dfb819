// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The machine that tests of this crate and of the agent share: two fast CPUs and two slow ones, as
//! in the asymmetric VM. Only tests use it, so no program contains it.

use crate::table::{COMPONENTS, CapacityTable, Class, CpuCapacity};

/// Costs of a fast CPU [permille].
pub const FAST: [u32; COMPONENTS] = [1000, 1000, 1000];
/// Costs of a slow CPU [permille].
pub const SLOW: [u32; COMPONENTS] = [2500, 1580, 1000];
/// CPI stack of a loop that executes.
pub const LOOP: [u32; COMPONENTS] = [1000, 0, 0];
/// CPI stack of a loop that chases pointers.
pub const CHASE: [u32; COMPONENTS] = [70, 0, 930];

/// Return a CPU of a class, alone on its core.
#[must_use]
pub fn cpu(number: u32, class: Class) -> CpuCapacity {
    CpuCapacity::alone(number, class, if class == Class::Fast { FAST } else { SLOW })
}

/// Return the table of fast CPUs 0 and 1, and slow CPUs 2 and 3.
#[must_use]
pub fn table() -> CapacityTable {
    let class = |number| if number < 2 { Class::Fast } else { Class::Slow };
    CapacityTable { cpus: (0..4).map(|number| cpu(number, class(number))).collect() }
}

/// Return the table with both fast CPUs on one core. `shared_permille` is the factor of its work in
/// registers.
#[must_use]
pub fn one_fast_core(shared_permille: u32) -> CapacityTable {
    let mut table = table();
    for cpu in table.cpus.iter_mut().filter(|cpu| cpu.class == Class::Fast) {
        (cpu.core, cpu.shared_permille) = (0, [shared_permille, 1000, 1000]);
    }
    table
}

/// Generate CPI stacks [permille].
#[cfg(test)]
pub(crate) fn any_stack() -> impl proptest::strategy::Strategy<Value = [u32; COMPONENTS]> {
    use proptest::strategy::Strategy;
    (0u32..=1000, 0u32..=1000).prop_map(|(a, b)| {
        let (low, high) = (a.min(b), a.max(b));
        [low, high - low, 1000 - high]
    })
}
