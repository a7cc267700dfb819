//! Programs inside the VM see the machine that was asked for: speed ratios, stalls, and what calibration makes of them.
#![allow(missing_docs)]

mod common;

use common::{Expectations, Scenario};
use serde_json::Value;

#[test]
#[ignore = "minutes more: cargo xtask test --full"]
fn speed_ratios_are_those_of_the_model() {
    // One boot for three ratios: each CPU against the first.
    let results = Scenario::emulated("6.12", "60:54:36:24", 4).run(
        r#"
for cpu in 1 2 3; do
  keep ratio$cpu $BENCH ratio --cpus 0,$cpu --kinds compute,chase,stalled
done
"#,
    );
    let mut expect = Expectations::default();
    for (cpu, ratio) in [(1, 60.0 / 54.0), (2, 60.0 / 36.0), (3, 60.0 / 24.0)] {
        let number = |pointer: &str| results.number(&format!("ratio{cpu}"), pointer);
        expect.within(&format!("compute, CPU {cpu}"), number("/kinds/0/ratio"), ratio, 0.02);
        for (i, kind) in [(1, "chase"), (2, "stalled")] {
            let (measured, model) = (number(&format!("/kinds/{i}/ratio")), stacked(&number, i, ratio));
            expect.within(&format!("{kind}, CPU {cpu}"), measured, model, 0.05);
        }
    }
    let external = results.number("ratio3", "/kinds/1/sides/0/stall_external");
    expect.at_least("chase: share of stalls outside the core", external, 0.9);
    expect.within(
        "stalled: half of the cycles",
        results.number("ratio3", "/kinds/2/sides/0/stall_external"),
        0.5,
        0.1,
    );
    expect.judge();
}

/// Ratio of a kind by its stalls on the fast CPU alone: external stalls take the same time everywhere, internal ones grow
/// with the square root of the speed ratio, everything else in full.
fn stacked(number: &dyn Fn(&str) -> f64, kind: usize, ratio: f64) -> f64 {
    let external = number(&format!("/kinds/{kind}/sides/0/stall_external"));
    let internal = number(&format!("/kinds/{kind}/sides/0/stall_internal"));
    (1.0 - external - internal) * ratio + internal * ratio.sqrt() + external
}

/// Classes that `scx_bias calibrate` found, by CPU; and execute costs in thousandths of the best CPU's.
fn classes_and_costs(table: &Value) -> (Vec<String>, Vec<u64>) {
    let cpus = table.pointer("/cpus").and_then(Value::as_array).cloned().unwrap_or_default();
    let class = |cpu: &Value| cpu["class"].as_str().unwrap_or("none").to_lowercase();
    let cost = |cpu: &Value| cpu["cost_permille"][0].as_u64().unwrap_or(0);
    (cpus.iter().map(class).collect(), cpus.iter().map(cost).collect())
}

const CALIBRATE: &str = "keep table $BIAS calibrate --force\n";

/// The demo's scenario judges the same table in fewer runs.
#[test]
#[ignore = "minutes more: cargo xtask test --full"]
fn calibration_finds_two_classes() {
    let results = Scenario::emulated("6.12", "2F2S", 3).run(CALIBRATE);
    let mut expect = Expectations::default();
    let (classes, costs) = classes_and_costs(&results.json("table"));
    expect.holds(&format!("classes {classes:?}"), classes == ["fast", "fast", "slow", "slow"]);
    for cpu in [2, 3] {
        expect.within(&format!("execute cost of CPU {cpu}"), costs[cpu] as f64, 2500.0, 0.03);
    }
    expect.judge();
}

#[test]
#[ignore = "minutes more: cargo xtask test --full"]
fn calibration_orders_cpus_that_are_nearly_alike() {
    let results = Scenario::emulated("6.12", "NEAR", 3).run(CALIBRATE);
    let mut expect = Expectations::default();
    let (_, costs) = classes_and_costs(&results.json("table"));
    expect.holds(&format!("costs {costs:?} rise"), costs.is_sorted_by(|a, b| a < b) && costs.len() == 4);
    expect.judge();
}

#[test]
#[ignore = "minutes more: cargo xtask test --full"]
fn calibration_finds_one_class_where_all_are_alike() {
    let results = Scenario::emulated("6.12", "SYM", 3).run(CALIBRATE);
    let mut expect = Expectations::default();
    let (classes, _) = classes_and_costs(&results.json("table"));
    expect.holds(
        &format!("one class: {classes:?}"),
        classes.len() == 4 && classes.iter().all(|c| *c == classes[0]),
    );
    expect.judge();
}
