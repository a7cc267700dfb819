// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Predictions of `bias-bench sim` for ten mixes, compared with the VM.
//!
//! The simulator gets the table that was calibrated in the VM. tests/sim/README.md has the figures,
//! and the reason of each difference.

use crate::common::{Expectations, Results, Scenario};
use bias_vm::{build, inputs};
use serde_json::Value;

/// Figures of a mix.
struct Figures {
    /// Share of the run time of the compute tasks, which each mix names first, on fast CPUs.
    fast_share: f64,
    stp: f64,
    most_over_least: f64,
    migrations_per_s: f64,
    switches_per_s: f64,
}

/// Return the numbers at `key` of a document's tasks.
fn of_tasks(tasks: &Value, key: &str) -> Vec<f64> {
    tasks.as_array().into_iter().flatten().filter_map(|task| task[key].as_f64()).collect()
}

/// Return the VM's figures.
fn measured(results: &Results, name: &str) -> Figures {
    let mut tasks = results.json(name)["rounds"][0]["tasks"].clone();
    let switches = ["voluntary_switches", "involuntary_switches"].map(|key| of_tasks(&tasks, key)).concat();
    let migrations = of_tasks(&tasks, "cpu_changes");
    let wall_s = results.number(name, "/rounds/0/wall_s");
    if let Some(all) = tasks.as_array_mut() {
        all.retain(|task| task["kind"] == "compute");
    }
    let (cpu_s, shares) = (of_tasks(&tasks, "cpu_s"), of_tasks(&tasks, "fast_share"));
    let on_fast: f64 = cpu_s.iter().zip(&shares).map(|(s, share)| s * share).sum();
    Figures {
        fast_share: on_fast / cpu_s.iter().sum::<f64>(),
        stp: results.number(name, "/stp"),
        most_over_least: results.number(name, "/unfairness"),
        migrations_per_s: migrations.iter().sum::<f64>() / wall_s,
        switches_per_s: switches.iter().sum::<f64>() / wall_s,
    }
}

/// Return the simulator's figures.
fn predicted(results: &Results, name: &str) -> Figures {
    let progress = of_tasks(&results.json(name)["tasks"], "progress");
    let most = progress.iter().copied().fold(0.0, f64::max);
    let least = progress.iter().copied().fold(f64::INFINITY, f64::min);
    Figures {
        fast_share: results.number(name, "/kinds/0/fast_percent") / 100.0,
        stp: results.number(name, "/stp"),
        most_over_least: most / least,
        migrations_per_s: of_tasks(&results.json(name)["kinds"], "migrations_per_s").iter().sum(),
        switches_per_s: results.number(name, "/switches_per_s"),
    }
}

fn agree(machine: &str, mixes: &[&str]) {
    inputs::record([build::simulator().unwrap().join("bias-bench-sim")]).unwrap();
    let results = Scenario::emulated("6.12", machine, 8).run("simulator", mixes);
    let mut expect = Expectations::default();
    for mix in mixes {
        let vm = measured(&results, &format!("vm.{mix}"));
        let sim = predicted(&results, &format!("sim.{mix}"));
        expect.within(&format!("{mix}: share on fast CPUs"), sim.fast_share, vm.fast_share, 0.03);
        expect.within(&format!("{mix}: STP"), sim.stp, vm.stp, 0.03);
        let (simulated, seen) = (sim.most_over_least, vm.most_over_least);
        let what =
            format!("{mix}: difference of most over least progress | {simulated:.3}, in the VM {seen:.3}");
        expect.at_most(&what, (simulated - seen).abs(), 0.05);
        // The VM's kernel threads and its agent run, too. They add an unknown number.
        println!(
            "{mix}: a second {:.1} migrations and {:.1} switches, in the VM {:.1} and {:.1}",
            sim.migrations_per_s, sim.switches_per_s, vm.migrations_per_s, vm.switches_per_s
        );
    }
    expect.judge();
}

/// Scenarios of `cargo xtask test --full`.
mod full {
    use super::*;

    #[test]
    fn predictions_agree_on_two_fast_and_two_slow_cpus() {
        agree(
            "240:240:96:96",
            &["4compute", "2compute+2chase", "4compute+4chase", "1compute+3chase", "3compute"],
        );
    }

    #[test]
    fn predictions_agree_on_threads() {
        agree("240x4:96:-:96:-:96:-:96:-,threads=2", &["5compute", "3compute+3chase"]);
    }

    #[test]
    fn predictions_agree_on_two_caches() {
        agree("240x4:96x4,llcs=2", &["8compute", "12compute"]);
    }

    #[test]
    fn predictions_agree_on_one_fast_cpu() {
        agree("240:96x3", &["2compute+2chase"]);
    }
}
