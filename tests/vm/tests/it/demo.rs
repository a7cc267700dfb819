// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `cargo xtask demo`, the first command of a new user: it shows the CPUs, the measured table, and
//! the speedup of the same work.

use bias_vm::build;
use serde_json::Value;
use std::process::Command;

#[test]
fn the_demo_shows_the_table_and_a_gain() {
    let mut demo = Command::new(build::xtask().unwrap());
    demo.current_dir(build::workspace());
    // The default kernel has 250 ticks per second. These alone take more from slow CPUs than the
    // bound.
    demo.args(["demo", "--kernel", "6.12", "--", "--mixes", "2compute", "--json"]);
    let output = demo.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n-- stdout\n{text}\n-- stderr\n{stderr}", output.status);
    let table = text.split("== The default scheduler").next().unwrap();
    for (cpu, class, cost) in [(0, "fast", 1.0), (1, "fast", 1.0), (2, "slow", 2.5), (3, "slow", 2.5)] {
        let (got_class, got_cost): (&str, f64) =
            row(table, cpu).unwrap_or_else(|| panic!("no CPU {cpu} in\n{table}"));
        assert!(got_class == class && (got_cost / cost - 1.0).abs() < 0.03, "CPU {cpu} in\n{table}");
    }
    let json = &text[text.find("\n{").unwrap_or_else(|| panic!("no report in\n{text}"))..];
    let report: Value = serde_json::from_str(json).unwrap();
    let name = report["scheduler"].as_str().unwrap_or_default();
    assert!(report["complete"] == true && name.starts_with("bias"), "{json}");
    let stp = |side: &str| report[side][0]["stp"].as_f64().unwrap();
    // Two tasks that execute have 2.00 on the fast CPUs. Under the default scheduler they have 0.80
    // to 2.00, by chance.
    assert!(stp("other") > 1.9, "STP {} with scx_bias, {} without", stp("other"), stp("default"));
}

/// Return the class and the execute cost of a CPU in the printed table.
fn row(table: &str, cpu: u32) -> Option<(&str, f64)> {
    table.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let (number, class, cost) = (words.next()?, words.next()?, words.next()?);
        (number == cpu.to_string()).then(|| cost.parse().ok().map(|cost| (class, cost)))?
    })
}
