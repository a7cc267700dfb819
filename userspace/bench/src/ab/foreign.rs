// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Suites `foreign` and `foreign-quick`: programs of Debian against the default that knows the cores.

use super::plan::{Cell, Plan};
use super::workload::packaged::{PROGRAMS, Packaged};

/// Programs of the quick suite.
const QUICK: usize = 5;

/// Machine of the suites: two fast cores with two threads each, and four slow ones.
pub const MACHINE: &str = "600x4:240:-:240:-:240:-:240:-,threads=2";

fn plan(name: &str, programs: &[Packaged], boots: u32) -> Plan {
    Plan {
        name: name.into(),
        arms: ["default-hybrid", "scx_bias"].map(String::from).to_vec(),
        cells: programs.iter().map(|program| Cell::of(&format!("program:{}", program.name))).collect(),
        boots,
        blocks: 2,
        warmup_s: 0.0,
        window_s: 0.1,
        dead_zone: 0.02,
        ..Plan::default()
    }
}

/// Return the suite of all programs, with an interval over boots.
pub fn all() -> Plan {
    plan("foreign", PROGRAMS, 3)
}

/// Return the suite of the first five programs, in one boot.
pub fn quick() -> Plan {
    plan("foreign-quick", &PROGRAMS[..QUICK], 1)
}
