// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A vCPU is throttled and released while tasks run. The capacity table follows the CPU, and the
//! tasks follow the table.
//!
//! The targets are a table within 5 % after 3 s, and the tasks within 1 s more.

use crate::common::{Expectations, Results, Scenario, from_environment};
use serde_json::Value;

/// Speed of the VM's fast CPUs, and of the throttled one [MIPS].
const FAST: f64 = 60.0;
const THROTTLED: f64 = 20.0;
/// Largest relative deviation of an entry that follows.
const TOLERANCE: f64 = 0.05;
/// Longest time until the table has followed [ms].
const TABLE_MS: f64 = 3000.0;

/// Return the entry of a CPU in the status recorded as `name`: execute cost relative to the best
/// CPU, and class.
fn entry(results: &Results, name: &str, cpu: usize) -> (f64, String) {
    let pointer = format!("/recalibration/cpus/{cpu}");
    let status = results.json(&format!("{name}.status"));
    let entry = status.pointer(&pointer).unwrap_or(&Value::Null);
    (
        entry["cost_permille"][0].as_f64().unwrap_or(0.0) / 1000.0,
        entry["class"].as_str().unwrap_or("?").to_owned(),
    )
}

fn changes(results: &Results, name: &str) -> Vec<Value> {
    let status = results.json(&format!("{name}.status"));
    status["recalibration"]["changes"].as_array().cloned().unwrap_or_default()
}

/// Return the time from the change of speed recorded as `name` until the entry of `cpu` had this
/// cost and class and kept both [ms]. A later change within the tolerance refines the entry.
fn delay_ms(results: &Results, name: &str, cpu: u32, (cost, class): (f64, &str)) -> f64 {
    let begin: f64 = results.text(&format!("{name}.at")).trim().parse().unwrap_or(f64::NAN);
    let at_ms = |change: &Value| change["at_ms"].as_f64().unwrap_or(f64::NAN);
    let own = |change: &&Value| change["cpu"] == cpu && change["cause"] != "others" && at_ms(change) >= begin;
    let follows = |change: &&Value| {
        let permille = change["new"]["cost_permille"][0].as_f64().unwrap_or(0.0);
        change["new"]["class"] == class && (permille / 1000.0 / cost - 1.0).abs() <= TOLERANCE
    };
    let changes = changes(results, name);
    changes
        .iter()
        .rev()
        .filter(own)
        .take_while(follows)
        .last()
        .map_or(f64::INFINITY, |change| at_ms(change) - begin)
}

/// Return the CPU time of these tasks on fast CPUs in the second recorded as `name`, in CPUs.
fn on_fast(results: &Results, name: &str, tasks: &[&str]) -> f64 {
    let top = results.json(&format!("{name}.top"));
    let pids: Vec<u64> =
        tasks.iter().filter_map(|task| results.text(&format!("{task}.pid")).trim().parse().ok()).collect();
    let rows = top["tasks"].as_array().cloned().unwrap_or_default();
    let of_tasks = rows.iter().filter(|row| row["tgid"].as_u64().is_some_and(|tgid| pids.contains(&tgid)));
    of_tasks
        .map(|row| {
            row["share_permille"].as_f64().unwrap_or(0.0) * row["on_fast_permille"].as_f64().unwrap_or(0.0)
                / 1e6
        })
        .sum()
}

/// Expect that the table followed `cpu` to `cost` and `class` in time.
fn expect_entry(
    expect: &mut Expectations,
    results: &Results,
    name: &str,
    cpu: u32,
    (cost, class): (f64, &str),
) {
    let (seen, its_class) = entry(results, name, cpu as usize);
    expect.within(&format!("{name}: execute cost of CPU {cpu}"), seen, cost, TOLERANCE);
    expect.holds(&format!("{name}: CPU {cpu} is {its_class}, expected {class}"), its_class == class);
    expect.at_most(
        &format!("{name}: ms until the table followed CPU {cpu}"),
        delay_ms(results, name, cpu, (cost, class)),
        TABLE_MS,
    );
}

fn expect_mix(expect: &mut Expectations, results: &Results) {
    let (slow, fast) = ((FAST / THROTTLED, "slow"), (1.0, "fast"));
    let computing = |name| on_fast(results, name, &["compute1", "compute2"]);
    // In the second that is looked at, tasks may still exchange CPUs.
    expect.at_least("mix.before: fast CPUs that compute", computing("mix.before"), 1.4);
    expect_entry(expect, results, "mix.down", 0, slow);
    // One fast CPU is left.
    expect.at_least("mix.down: fast CPUs that compute", computing("mix.down"), 0.75);
    expect_entry(expect, results, "mix.up", 0, fast);
    expect.at_least("mix.up: fast CPUs that compute", computing("mix.up"), 1.6);
    let number = |name: &str| results.text(name).trim().parse::<f64>().unwrap_or(f64::NAN);
    let (ticks, ms) =
        (number("cost.end") - number("cost.begin"), number("cost.end.at") - number("cost.begin.at"));
    // The share is of a CPU of 24 to 60 MIPS, and includes the answers to `top` and `status`.
    eprintln!("scx_bias took {:.2} % of a CPU of the VM", ticks * 10.0 / ms * 100.0);
}

fn expect_alone(expect: &mut Expectations, results: &Results) {
    let (slow, fast) = ((FAST / THROTTLED, "slow"), (1.0, "fast"));
    let home: u32 = results.text("home").trim().parse().unwrap_or(9);
    expect.holds(&format!("a task alone starts on a fast CPU: {home}"), home < 2);
    expect_entry(expect, results, "alone.down", home, slow);
    expect.at_least("alone.down: it left for the fast CPU", on_fast(results, "alone.down", &["alone"]), 0.75);
    // No task ran there since, so spot checks found the change.
    expect_entry(expect, results, "alone.up", home, fast);
    expect_entry(expect, results, "alone.back", 1 - home.min(1), slow);
    expect.at_least("alone.back: it came back", on_fast(results, "alone.back", &["alone"]), 0.75);
}

fn expect_blind(expect: &mut Expectations, results: &Results) {
    expect_entry(expect, results, "blind.down", 1, (FAST / THROTTLED, "slow"));
    let by_spot = changes(results, "blind.down").iter().any(|change| change["cause"] == "spot-check");
    expect.holds("blind.down: a spot check found it", by_spot);
    // The task may run anywhere, but it is not attracted to the CPU that was fast.
    expect.at_most(
        "blind.freed: second task on fast CPUs",
        on_fast(results, "blind.freed", &["second"]),
        0.2,
    );
    expect_entry(expect, results, "blind.up", 1, (1.0, "fast"));
    expect.at_least("blind.up: second task on fast CPUs", on_fast(results, "blind.up", &["second"]), 0.75);
}

#[test]
fn the_table_follows_a_throttled_cpu_and_the_tasks_follow_the_table() {
    let results = Scenario::emulated("6.12", "2F2S", 6).run("recal", &[]);
    let mut expect = Expectations::default();
    expect_mix(&mut expect, &results);
    expect_alone(&mut expect, &results);
    expect_blind(&mut expect, &results);
    let (codes, complaints) = (results.text("codes"), results.text("complaints"));
    expect.holds(&format!("it ends well each time: {codes:?}"), codes.is_empty());
    expect.holds(&format!("the kernel does not complain: {complaints:?}"), complaints.is_empty());
    expect.judge();
}

#[test]
fn slow_cpus_that_come_online_later_are_measured() {
    let results = Scenario::emulated("6.12", "2F2S", 4).run("recal_late", &[]);
    let mut expect = Expectations::default();
    let log = results.text("bias.log");
    expect.holds(&format!("the log names them: {log}"), log.contains("came online and is not in the table"));
    let told = results.text("told");
    expect.holds(&format!("in the end all are measured: {told}"), told.trim().ends_with("\"unmeasured\":[]"));
    for cpu in [2, 3] {
        let (cost, class) = entry(&results, "followed", cpu);
        expect.within(&format!("execute cost of CPU {cpu}"), cost, FAST / 24.0, 0.08);
        expect.holds(&format!("CPU {cpu} is {class}, expected slow"), class == "slow");
    }
    expect.holds("it ends well", results.text("code").trim() == "0");
    let complaints = results.text("complaints");
    expect.holds(&format!("the kernel does not complain: {complaints:?}"), complaints.is_empty());
    expect.judge();
}

/// Scenarios of `cargo xtask test --full`.
mod full {
    use super::*;

    /// A task keeps one thread of each fast core busy. The other threads and the slow cores have
    /// spot checks, begun twice a second, for 4 minutes of the guest's time.
    #[test]
    fn checks_beside_busy_siblings_leave_the_table_right() {
        // On slower CPUs a tick weighs more than the promise.
        let looks = 3 * from_environment("BIAS_VM_MINUTES", 4);
        let results = Scenario::emulated("6.12", "P2E4", 15).shell(&format!(
            "calibrate; load $SCHED; wait_answer
             for cpu in 1 3; do taskset -c $cpu sh -c 'while :; do :; done' & busy=\"$busy $!\"; done
             for look in $(seq {looks}); do sleep 20; $BIAS status --json >$OUT/$look.status.json; done
             end_tasks; unload"
        ));
        let mut expect = Expectations::default();
        for (cpu, cost) in [1.0, 1.0, 1.0, 1.0, 2.5, 2.5, 2.5, 2.5].into_iter().enumerate() {
            let seen = (1..=looks).map(|look| entry(&results, &look.to_string(), cpu).0);
            let worst = seen.max_by(|a, b| (a / cost - 1.0).abs().total_cmp(&(b / cost - 1.0).abs()));
            let what = format!("CPU {cpu}: the worst execute cost | of {looks} looks");
            expect.within(&what, worst.unwrap_or(f64::NAN), cost, TOLERANCE);
        }
        expect.judge();
    }
}
