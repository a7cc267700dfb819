// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A fake instance on a socket.

use bias_agent::bpf::{Bias, Stats, TaskReport};
use bias_agent::control::{Reply, Scope, StatusReport, TasksReport, Thresholds};
use bias_agent::optin::{CgroupReport, CgroupsReport};
use bias_agent::options::ReloadReport;
use bias_agent::swaps::{SwapRecord, SwapSummary, SwapsReport};
use bias_policy::audit::{Ending, Record, Unjudged};
use bias_policy::swap::{Move, Swap};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;

/// Serve a socket like an instance with two tasks. Each task runs 1 ms between questions. Answer at
/// most `asked` questions.
pub fn instance(path: &Path, asked: usize) -> std::thread::JoinHandle<()> {
    let listener = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        // From the end of this connection on, no instance runs: the client connects again.
        drop(listener);
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        for at in 0..asked {
            let Some(Ok(question)) = lines.next() else { return };
            let answer = if question.contains("\"tasks\"") {
                let tasks = vec![task(1, "loop", 2400, at), task(2, "chase", 1050, at)];
                serde_json::to_value(TasksReport { next: at as u32 + 1, tasks, ..TasksReport::default() })
            } else if question.contains("\"cgroups\"") {
                serde_json::to_value(opted_in(&question))
            } else if question.contains("\"swaps\"") {
                serde_json::to_value(swapped(at as u64, question.contains(&format!("\"from\":\"{at}\""))))
            } else if question.contains("\"top\"") {
                serde_json::to_value(Stats { moved: at as u64, ..Stats::default() })
            } else if question.contains("\"reload\"") {
                serde_json::to_value(Reply::Done(ReloadReport::default()))
            } else {
                serde_json::to_value(running())
            };
            let answer = serde_json::json!({ "errno": 0, "args": { "resp": answer.unwrap() } });
            // A client may have closed the connection.
            let _ = writeln!(&stream, "{answer}");
        }
    })
}

fn task(pid: u32, name: &str, speedup: u32, at: usize) -> TaskReport {
    let bias = if speedup > 2000 { Bias::FastBiased } else { Bias::SlowBiased };
    TaskReport {
        pid,
        name: name.to_owned(),
        bias,
        speedup_permille: Some(speedup),
        fast_ms: at as f64,
        ..TaskReport::default()
    }
}

fn running() -> StatusReport {
    let thresholds = Thresholds {
        adaptive: false,
        low_permille: Some(1200),
        high_permille: Some(1800),
        average_permille: None,
    };
    StatusReport {
        version: "7.7.7".to_owned(),
        uptime_s: 7,
        scope: Scope::WholeSystem,
        machine: serde_json::from_str("{\"classes\":[]}").unwrap(),
        recalibration: bias_agent::recal::RecalReport::default(),
        thresholds,
        knobs: std::collections::BTreeMap::new(),
        counters: Vec::new(),
        swaps: SwapSummary::default(),
        statistics: Stats::default(),
    }
}

/// Return a report with swap `number` if `asked` is true, else without swaps.
fn swapped(number: u64, asked: bool) -> SwapsReport {
    let ending = Ending::Unjudged(Unjudged::TooShort);
    let end = |pid, from, to| Move {
        pid,
        from,
        to,
        stack_permille: [1000, 0, 0],
        before_ppm: 400_000,
        after_ppm: 1_000_000,
    };
    let swap = Swap { up: end(1, 2, 0), down: end(2, 0, 2), gain_permille: 370, net_ns: 1 };
    let record = SwapRecord {
        record: Record { number, at_ns: 5, swap, lost_ns: 0, ending },
        asked_ns: 4,
        up_name: "loop".to_owned(),
        down_name: "chase".to_owned(),
    };
    let swaps = if asked { vec![record] } else { Vec::new() };
    SwapsReport { now_ns: 9, next: number + 1, swaps, ..SwapsReport::default() }
}

/// Refuse requests to remove a cgroup. For any other request, return a report with one cgroup that
/// has the text of the request as its path.
fn opted_in(question: &str) -> Reply<CgroupsReport> {
    let question: serde_json::Value = serde_json::from_str(question).unwrap();
    let path = question["args"]["request"].as_str().unwrap().to_owned();
    if path.contains("remove") {
        return Reply::Refused { exit: 2, message: format!("{path} is not opted in; list them") };
    }
    let cgroup = CgroupReport { path, threads: 3, ..CgroupReport::default() };
    Reply::Done(CgroupsReport { cgroups: vec![cgroup], ..CgroupsReport::default() })
}
