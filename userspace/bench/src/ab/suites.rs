// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Built-in plans.
//!
//! Each plan answers one question and states its duration. The windows suit the asymmetric VM: they
//! hold at least twenty slices of the stretched default, so that fairness has time to show.
//!
//! *Diversity* of a mix of n tasks is 1 - |c - s| / n, with c compute and s chase tasks. It is 0
//! when all tasks are alike, and 1 when half are compute-bound and half are stalled. The gain of
//! bias scheduling grows with diversity [Koufaty10].

use super::plan::{Cell, Plan};
use super::workload::packaged::{PROGRAMS, Packaged};

/// Programs of the suite `foreign-quick`.
const QUICK_PROGRAMS: usize = 5;

/// Machine of the suites `foreign`: two fast cores with two threads each, and four slow ones.
const FOREIGN_MACHINE: &str = "600x4:240:-:240:-:240:-:240:-,threads=2";

/// A built-in plan.
pub struct Suite {
    /// Name on the command line.
    pub name: &'static str,
    /// The question that the plan answers.
    pub about: &'static str,
    /// Approximate duration for two arms, in minutes of the VM's own time.
    pub minutes: u32,
    /// Machines that the suite is meant for. Cells without a machine run on the first, unless the
    /// command line names another.
    pub machines: &'static [&'static str],
    /// Function that returns the plan.
    pub plan: fn() -> Plan,
}

/// All built-in plans.
pub const SUITES: [Suite; 11] = [
    Suite {
        name: "quick",
        about: "Is anything broken, or clearly better? Throughput and fairness of two mixes, one from every start",
        minutes: 5,
        machines: &["2F2S"],
        plan: quick,
    },
    Suite {
        name: "diversity",
        about: "How does the gain grow with the difference between tasks? Mixes from all alike to half and half (seed 001)",
        minutes: 30,
        machines: &["2F2S", "1F2S", "1F3S"],
        plan: diversity,
    },
    Suite {
        name: "koufaty",
        about: "How does the gain of two kinds of programs grow with the difference of their speedups? (seed 001)",
        minutes: 90,
        machines: &["1F3S", "1F2S"],
        plan: koufaty,
    },
    Suite {
        name: "phases",
        about: "Does scx_bias beat the best fixed placement of tasks that alternate between computing and memory stalls? Two machines, three lengths of phases (seed 001)",
        minutes: 40,
        machines: &["2F2S", "1F3S"],
        plan: phases,
    },
    Suite {
        name: "windows",
        about: "Which window length of the profile suits tasks in phases, and steady mixes? Four lengths (seed 001)",
        minutes: 60,
        machines: &["2F2S"],
        plan: windows,
    },
    Suite {
        name: "homogeneous",
        about: "Is nothing lost where there is nothing to gain? Equal tasks, as many as CPUs, fewer and more",
        minutes: 12,
        machines: &["2F2S"],
        plan: homogeneous,
    },
    Suite {
        name: "latency",
        about: "How long until a woken task runs? Request and response, message passing, a person next to a batch",
        minutes: 12,
        machines: &["2F2S"],
        plan: latency,
    },
    Suite {
        name: "overhead",
        about: "What do a switch and a wakeup cost, in guest instructions?",
        minutes: 6,
        machines: &["2F2S"],
        plan: overhead,
    },
    Suite {
        name: "openmp",
        about: "Do parallel loops with barriers suffer from unequal cores, and how much do runs vary? (seed 004)",
        minutes: 15,
        machines: &["2F2S"],
        plan: openmp,
    },
    Suite {
        name: "foreign",
        about: "Are programs of Debian faster or slower? Compilers, servers, compression, locks, against the default that knows the cores",
        minutes: 5,
        machines: &[FOREIGN_MACHINE],
        plan: foreign,
    },
    Suite {
        name: "foreign-quick",
        about: "The same with five programs: a web server, a store, locks, messages, compression",
        minutes: 1,
        machines: &[FOREIGN_MACHINE],
        plan: foreign_quick,
    },
];

/// Return the suite of this name.
pub fn find(name: &str) -> Result<&'static Suite, String> {
    SUITES.iter().find(|suite| suite.name == name).ok_or_else(|| {
        let names: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
        format!("unknown suite '{name}'; known are {}", names.join(", "))
    })
}

/// Stretch factor. Slices five times as long as on hardware are long compared with a switch at 60
/// MIPS, and short compared with a window.
const STRETCH: f64 = 5.0;

fn cells(list: &[&str]) -> Vec<Cell> {
    list.iter().map(|text| Cell { diversity: diversity_of(text), ..Cell::of(text) }).collect()
}

/// Return the diversity of a mix of compute and chase tasks. None for other workloads.
fn diversity_of(text: &str) -> Option<f64> {
    let mix: crate::spec::Mix = text.parse().ok()?;
    let tasks = mix.tasks();
    let named = |name: &str| tasks.iter().filter(|kind| kind.to_string() == name).count();
    let (compute, chase) = (named("compute"), named("chase"));
    (compute + chase == tasks.len()).then(|| 1.0 - compute.abs_diff(chase) as f64 / tasks.len() as f64)
}

fn base(name: &str, list: &[&str]) -> Plan {
    Plan { name: name.into(), cells: cells(list), stretch: STRETCH, ..Plan::default() }
}

fn quick() -> Plan {
    Plan { boots: 1, blocks: 12, ..base("quick", &["shuffled+2compute+2chase", "4compute"]) }
}

fn diversity() -> Plan {
    let four = ["4compute", "3compute+1chase", "2compute+2chase", "1compute+3chase", "4chase"];
    let three = ["3compute", "2compute+1chase", "1compute+2chase", "3chase"];
    let on = |machine: &str, mixes: &[&str]| {
        let own = |cell| Cell { machine: Some(machine.into()), ..cell };
        cells(mixes).into_iter().map(own).collect::<Vec<_>>()
    };
    let all = [on("2F2S", &four), on("1F2S", &three), on("1F3S", &four)].concat();
    // Eight pairs are the fewest that can be significant among five judged metrics.
    Plan { boots: 2, blocks: 4, window_s: 1.5, cells: all, ..base("diversity", &[]) }
}

/// The eleven pairs of [Koufaty10], slide 14, in its order: the programs' published speedups, and
/// kinds of about these speedups on a fast CPU of 60 MIPS over a slow one of 24. One task of the
/// first kind runs beside copies of the second. Programs below 1.12 are `chase`, which has 1.07.
const PAIRS: [(f64, f64, &str, &str); 11] = [
    (2.47, 1.07, "mixed:98", "chase"),    // hmmer, soplex
    (1.87, 1.21, "mixed:59", "mixed:8"),  // gromacs, GemsFDTD
    (2.36, 1.06, "mixed:91", "chase"),    // libquantum, mcf
    (2.14, 1.09, "mixed:77", "chase"),    // calculix, astar
    (1.70, 1.14, "mixed:47", "mixed:2"),  // xalancbmk, omnetpp
    (1.71, 1.39, "mixed:47", "mixed:23"), // dealII, leslie3d
    (1.92, 1.43, "mixed:62", "mixed:26"), // perlbench, gcc
    (1.86, 1.42, "mixed:58", "mixed:25"), // lbm, sjeng
    (1.57, 1.17, "mixed:37", "mixed:5"),  // wrf, gobmk
    (1.58, 1.46, "mixed:38", "mixed:28"), // zeusmp, cactusADM
    (1.65, 1.57, "mixed:43", "mixed:37"), // bwaves, milc
];

/// Return the pairs from every start, because the default leaves tasks where they start. Diversity
/// is the difference of the published speedups over the largest that the machine has, 1.5.
fn koufaty() -> Plan {
    let on = |machine: &'static str, copies: u32| {
        PAIRS.map(|(big, small, one, other)| Cell {
            machine: Some(machine.into()),
            diversity: Some(((big - small) / 0.015_f64).round() / 100.0),
            ..Cell::of(&format!("shuffled+1{one}+{copies}{other}"))
        })
    };
    let all = [on("1F3S", 3), on("1F2S", 2)].concat();
    Plan { boots: 1, blocks: 4, window_s: 1.0, cells: all, ..base("koufaty", &[]) }
}

/// Equal tasks that compute and wait for memory in turn. A fixed placement is right half of the
/// time, or never more often than chance on one fast CPU.
fn phases() -> Plan {
    let on = |machine: &str, list: &[&str]| {
        let own = |text: &&str| Cell { machine: Some(machine.into()), ..Cell::of(text) };
        list.iter().map(own).collect::<Vec<_>>()
    };
    let all = [on("2F2S", &["4phases:4000", "4phases:1000", "4phases:500"]), on("1F3S", &["4phases:4000"])];
    let arms = ["default", "best-static", "scx_bias"].map(String::from).to_vec();
    Plan { arms, boots: 1, blocks: 8, window_s: 8.0, cells: all.concat(), ..base("phases", &[]) }
}

/// Lengths of the window [instructions]: the shortest that can be set, the default, and those of
/// [Koufaty10], slide 17, which last as long at 60 MIPS as 256 million and 4 billion instructions
/// on hardware that is fifty times as fast.
const WINDOWS: [u32; 4] = [10_000, 500_000, 5_100_000, 80_000_000];

fn windows() -> Plan {
    let arm = |length: u32| format!("w{length}=scx_bias --no-config --window-instructions {length}");
    let arms = [vec!["default".into()], WINDOWS.map(arm).to_vec()].concat();
    let cells = ["4phases:500", "4phases:2000", "4phases:5000", "2compute+2chase", "2mixed:50+2branchy"];
    Plan { arms, boots: 1, blocks: 4, window_s: 5.0, ..base("windows", &cells) }
}

fn homogeneous() -> Plan {
    let mixes = ["1compute", "2compute", "4compute", "8compute", "4chase", "4branchy"];
    Plan { boots: 1, blocks: 8, window_s: 1.5, ..base("homogeneous", &mixes) }
}

fn latency() -> Plan {
    Plan {
        boots: 1,
        blocks: 8,
        window_s: 2.0,
        ..base("latency", &["wakeup", "interactive+4compute", "groups:2"])
    }
}

fn overhead() -> Plan {
    Plan { boots: 1, blocks: 6, ..base("overhead", &["pingpong@0", "pingpong", "pingpong:4", "forks"]) }
}

fn openmp() -> Plan {
    Plan {
        boots: 1,
        blocks: 8,
        window_s: 2.0,
        ..base("openmp", &["barrier:4:static", "barrier:4:dynamic", "triad:4"])
    }
}

/// Return a plan of Debian programs against the default that knows the cores.
fn programs(name: &str, of: &[Packaged], boots: u32) -> Plan {
    Plan {
        name: name.into(),
        arms: ["default-hybrid", "scx_bias"].map(String::from).to_vec(),
        cells: of.iter().map(|program| Cell::of(&format!("program:{}", program.name))).collect(),
        boots,
        blocks: 2,
        warmup_s: 0.0,
        window_s: 0.1,
        dead_zone: 0.02,
        ..Plan::default()
    }
}

/// Return the suite of all programs, with an interval over boots.
fn foreign() -> Plan {
    programs("foreign", PROGRAMS, 3)
}

/// Return the suite of the first five programs, in one boot.
fn foreign_quick() -> Plan {
    programs("foreign-quick", &PROGRAMS[..QUICK_PROGRAMS], 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_suite_is_a_valid_plan() {
        for suite in &SUITES {
            let plan = (suite.plan)();
            assert_eq!(plan.check(), Ok(()), "{}", suite.name);
            assert_eq!(plan.name, suite.name);
        }
        assert!(find("nothing").err().unwrap().contains("known are quick"));
    }

    #[test]
    fn diversity_is_0_for_equal_tasks_and_1_for_half_and_half() {
        let of: Vec<_> = ["4compute", "3compute+1chase", "2compute+2chase", "4chase", "4branchy", "pingpong"]
            .map(diversity_of)
            .into();
        assert_eq!(of, [Some(0.0), Some(0.5), Some(1.0), Some(0.0), None, None]);
    }
}
