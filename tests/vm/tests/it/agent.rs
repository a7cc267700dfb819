// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The agent as a service: stopped, killed, flooded, reconfigured, and with no more capabilities
//! than it needs.

use std::collections::BTreeSet;

use crate::common::{Expectations, FOR_SERVICES, Scenario, from_environment};
use serde_json::Value;

fn scenario() -> Scenario {
    Scenario::emulated("6.12", FOR_SERVICES, 5)
}

#[test]
fn scheduling_continues_without_the_agent_and_under_a_flood_and_ends_with_it() {
    let results = scenario().run("agent_control", &[&from_environment("BIAS_VM_STOP_S", 3).to_string()]);
    eprintln!("{:#}", results.json("control"));
    let mut expect = Expectations::default();
    let told = results.json("control")["told"].as_str().unwrap().to_owned();
    expect.holds(
        &format!("first notification: {told:?}"),
        told.starts_with("READY=1\n") && told.contains("STATUS=2 fast and 2 slow"),
    );
    let number = |name: &str| results.number("control", &format!("/{name}"));
    expect.at_most("longest wait for progress while the agent is stopped [s]", number("stopped_gap_s"), 0.2);
    expect.at_most("longest wait for progress during the flood [s]", number("flooded_gap_s"), 0.2);
    expect.at_least("connections", number("connections"), 1000.0);
    expect.at_least("questions answered during the flood", number("answered"), 2.0);
    expect.at_most("descriptors more than before", number("descriptors/1") - number("descriptors/0"), 0.0);
    expect.at_most("memory more than before [kB]", number("memory_kb/1") - number("memory_kb/0"), 32_768.0);
    expect.at_most("default scheduler after SIGKILL [s]", number("returned_s"), 1.0);
    expect.at_most("the rest taken down [s]", number("kill_s"), 2.0);
    expect.holds("sched_ext is disabled afterwards", results.text("state").trim() == "disabled");
    expect.judge();
}

#[test]
fn reloads_take_over_what_is_right_and_nothing_of_what_is_wrong() {
    let results = scenario().run("agent_reload", &[]);
    let mut expect = Expectations::default();
    let text = |name: &str| results.text(name).trim().to_owned();
    let slices = [text("first"), text("second"), text("third")];
    expect
        .holds(&format!("slices are 20000, 5000 and 7000: {slices:?}"), slices == ["20000", "5000", "7000"]);
    let report = results.json("reload");
    expect.holds(
        &format!("one option changes, one needs a restart: {report}"),
        report["changed"][0]["key"] == "slice_us"
            && report["changed"].as_array().unwrap().len() == 1
            && report["needs_restart"][0]["key"] == "no_bias"
            && text("reload.code") == "0",
    );
    let broken = text("broken");
    let said: Vec<&str> = broken.lines().filter(|line| line.starts_with("err ")).collect();
    expect.holds(
        &format!("four broken files are refused in a line each: {broken}"),
        said.len() == 4 && said.iter().all(|line| line.contains("/run/scx_bias.toml")),
    );
    expect.holds("they change nothing", broken.matches("code 2 5000").count() == 4);
    let open = text("open");
    expect.holds(
        &format!("a file that others can write is refused: {open}"),
        open.contains("chmod go-w") && open.ends_with('2'),
    );
    expect.holds("directory and socket are private", text("modes") == "700\n600");
    expect.holds(
        &format!("other users are refused: {} {}", text("other.code"), text("other.err")),
        text("other.code") == "3\n3"
            && text("other.err").lines().count() == 2
            && text("other.out").is_empty(),
    );
    expect_few_rights(&mut expect, &text("rights"));
    expect.at_least("threads", text("threads").parse().unwrap(), 3.0);
    expect.holds(&format!("SIGTERM ends it with {}", text("end.code")), text("end.code") == "0");
    expect.holds("sched_ext is disabled afterwards", text("state") == "disabled");
    eprintln!("{}", text("log"));
    expect.judge();
}

/// CAP_SYS_NICE, CAP_PERFMON and CAP_BPF: bits 23, 38 and 39.
const KEPT: u64 = 1 << 23 | 1 << 38 | 1 << 39;

/// Expect the minimal capabilities. `rights` has each distinct line of the status of all threads.
fn expect_few_rights(expect: &mut Expectations, rights: &str) {
    let mut seen = 0;
    for line in rights.lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        let value = u64::from_str_radix(value.trim(), 16).unwrap();
        let right = match name {
            "NoNewPrivs" => 1,
            "CapInh" => 0,
            _ => KEPT,
        };
        seen += 1;
        expect.holds(&format!("{name} of every thread is {value:x}, {right:x} is right"), value == right);
    }
    expect.at_least("different rights", f64::from(seen), 5.0);
}

#[test]
fn a_closed_output_ends_nothing() {
    let results = scenario().run("agent_alone", &[]);
    let mut expect = Expectations::default();
    let text = |name: &str| results.text(name).trim().to_owned();
    expect.holds(&format!("a line was read: {}", text("line")), !text("line").is_empty());
    expect.holds("it keeps scheduling", text("state") == "enabled");
    expect.holds("and ends with 0", text("code") == "0");
    let log = text("log");
    expect.holds(&format!("the event is logged: {log}"), log.contains("standard output is closed"));
    expect.judge();
}

#[test]
fn a_trace_shows_the_tasks_that_run() {
    let results = scenario().run("agent_trace", &[]);
    let mut expect = Expectations::default();
    let trace = results.json("trace");
    let events = trace["traceEvents"].as_array().unwrap();
    let of = |phase: &str| -> Vec<&Value> { events.iter().filter(|event| event["ph"] == phase).collect() };
    let number = |event: &Value, key: &str| event[key].as_u64().unwrap();
    let busy: Vec<&Value> = of("X").into_iter().filter(|event| event["name"] == "busy").collect();
    let pids: BTreeSet<u64> = busy.iter().map(|event| event["args"]["pid"].as_u64().unwrap()).collect();
    let tracks: BTreeSet<(u64, u64)> =
        busy.iter().map(|event| (number(event, "pid"), number(event, "tid"))).collect();
    expect.holds(&format!("schema: {}", trace["schema"]), trace["schema"] == "scx_bias.trace/1");
    expect.holds(&format!("all busy tasks: {pids:?}"), pids.len() == 6);
    expect.holds(&format!("on all four CPUs, of two classes: {tracks:?}"), tracks.len() == 4);
    let last_us = busy.iter().map(|event| number(event, "ts")).max().unwrap_or(0);
    expect.at_least("last slice begins [s]", last_us as f64 / 1e6, 2.0);
    expect.at_least("values of counters", of("C").len() as f64, 10.0);
    let moved = of("i").iter().all(|event| event["args"]["from_cpu"] != event["args"]["to_cpu"]);
    expect.holds(&format!("{} migrations, each to another CPU", of("i").len()), moved);
    let codes = [results.text("trace.code"), results.text("metrics.code")];
    expect.holds(&format!("codes 0: {codes:?}"), codes == ["0\n", "0\n"]);
    let metrics = results.text("metrics");
    expect.holds("metrics end with # EOF", metrics.ends_with("# EOF\n"));
    expect.holds("and count tasks", metrics.lines().any(|line| line.starts_with("scx_bias_tasks{")));
    expect.judge();
}

/// Scenarios of `cargo xtask test --full`.
mod full {
    use super::*;

    #[test]
    fn the_rights_that_the_unit_leaves_are_enough() {
        let results = scenario().run("agent_confined", &[]);
        let mut expect = Expectations::default();
        expect.holds(&format!("loads: {}", results.text("log")), results.text("state").trim() == "enabled");
        let status = results.text("status");
        expect.holds(&format!("has tasks: {status}"), status.contains("tasks:") || status.contains("task:"));
        expect.holds("ends well", results.text("code").trim() == "0");
        expect.judge();
    }
}
