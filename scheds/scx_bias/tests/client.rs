//! Tests of the commands that ask a running instance, with a made-up instance on a socket.

#![allow(clippy::unwrap_used)]

use assert_cmd::Command;
use bias_agent::bpf::{Bias, Stats, TaskReport};
use bias_agent::control::{Reply, Scope, StatusReport, Thresholds};
use bias_agent::failure::Failure;
use bias_agent::optin::{CgroupReport, CgroupsReport};
use bias_agent::options::ReloadReport;
use bias_agent::options::reload::Change;
use bias_agent::swaps::{SwapRecord, SwapSummary, SwapsReport};
use bias_policy::audit::{Ending, Record, Unjudged};
use bias_policy::swap::{Move, Swap};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

/// Run the program with the instance at `socket`, check the exit code, and return the output.
fn printed(args: &[&str], socket: &Path, code: i32) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scx_bias"));
    // A program that hangs must fail the test, not block it.
    command.args(args).arg("--socket").arg(socket).timeout(Duration::from_secs(60));
    let output = command.assert().code(code).get_output().clone();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

/// Serve a socket like an instance with two tasks. Each task runs 1 ms between questions. Answer at
/// most `asked` questions.
fn instance(path: &Path, asked: usize) -> std::thread::JoinHandle<()> {
    let listener = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        for at in 0..asked {
            let Some(Ok(question)) = lines.next() else { return };
            let answer = if question.contains("\"tasks\"") {
                serde_json::to_value([task(1, "loop", 2400, at), task(2, "chase", 1050, at)])
            } else if question.contains("\"cgroups\"") {
                serde_json::to_value(opted_in(&question))
            } else if question.contains("\"swaps\"") {
                serde_json::to_value(swapped(at as u64, question.contains(&format!("\"from\":\"{at}\""))))
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

#[test]
fn metrics_of_an_instance_are_printed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let instance = instance(&path, 2);
    let text = printed(&["metrics"], &path, 0);
    instance.join().unwrap();
    assert!(text.contains("scx_bias_build_info{version=\"7.7.7\"} 1"), "{text}");
    assert!(text.contains("scx_bias_tasks{bias=\"slow_biased\"} 1.0"), "{text}");
    assert!(text.ends_with("# EOF\n"), "{text}");
}

#[test]
fn the_running_instance_is_asked() {
    let directory = tempfile::tempdir().unwrap();
    let ask = |name: &str, asked: usize, args: &[&str], code: i32| {
        let path = directory.path().join(name);
        let server = instance(&path, asked);
        let text = printed(args, &path, code);
        server.join().unwrap();
        text
    };
    let text = ask("status", 2, &["status"], 0);
    assert!(
        text.contains("scx_bias 7.7.7") && text.contains("2 tasks: 1 fast-biased, 1 slow-biased"),
        "{text}"
    );
    let value: serde_json::Value = serde_json::from_str(&ask("json", 2, &["status", "--json"], 0)).unwrap();
    assert_eq!(
        (&value["thresholds"]["high_permille"], &value["tasks"]["slow_biased"]),
        (&1800.into(), &1.into())
    );
    let text = ask("top", 9, &["top", "--interval", "0.1", "--count", "2"], 0);
    assert_eq!((text.matches("PID").count(), text.matches(" loop ").count()), (2, 2), "{text}");
    let text = ask("lines", 9, &["top", "-i", "0.1", "-n", "3", "--json"], 0);
    assert_eq!(text.lines().count(), 3);
    for line in text.lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(value["tasks"][0]["name"], "loop");
    }
    assert!(ask("list", 1, &["cgroup", "list"], 0).contains("\"list\": 3 threads"));
    let text = ask("add", 1, &["cgroup", "add", "relative", "--json"], 0);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let path = value["cgroups"][0]["path"].as_str().unwrap();
    assert!(path.starts_with("{\"add\":\"/") && path.ends_with("/relative\"}"), "{text}");
    assert!(ask("remove", 1, &["cgroup", "remove", "/a"], 2).contains("is not opted in; list them"));
    let text = ask("swaps", 1, &["swaps"], 0);
    assert!(text.contains("swaps by the agent: 0 asked for") && text.contains("1 loop "), "{text}");
    let value: serde_json::Value =
        serde_json::from_str(&ask("swaps.json", 1, &["swaps", "--json"], 0)).unwrap();
    assert_eq!(value["swaps"][0]["up_name"], "loop");
    // Each question asks for later swaps, until the instance ends.
    let text = ask("swaps.follow", 2, &["swaps", "--follow", "--json"], 3);
    let numbers: Vec<_> =
        text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok()).collect();
    assert_eq!((numbers.len(), &numbers[1]["number"]), (2, &1.into()), "{text}");
    assert!(text.contains("scx_bias is not running"), "{text}");
    // The instance ends meanwhile.
    let text = ask("ends", 4, &["top", "-i", "0.1"], 3);
    assert!(text.contains("scx_bias is not running; start it with"), "{text}");
}

#[test]
fn reload_tells_what_changed_and_what_was_refused() {
    let directory = tempfile::tempdir().unwrap();
    let change = |key: &str| Change { key: key.into(), from: "1".into(), to: "2".into() };
    let report = ReloadReport { changed: vec![change("slice_us")], needs_restart: vec![change("no_bias")] };
    let refused = Failure::usage("configuration file f, line 1: wrong; mend it");
    for (name, reply, code, says) in [
        ("done", Ok(report), 0, "slice_us: 1 -> 2\nno_bias: stays 1; for 2 restart"),
        ("refused", Err(refused), 2, "scx_bias: configuration file f, line 1: wrong; mend it\n"),
    ] {
        let path = directory.path().join(name);
        let reply: Reply<ReloadReport> = reply.into();
        let server = answering(&path, serde_json::to_value(reply).unwrap());
        let text = printed(&["reload"], &path, code);
        server.join().unwrap();
        assert!(text.starts_with(says), "{text}");
    }
}

/// Serve a socket that gives `answer` to one question.
fn answering(path: &Path, answer: serde_json::Value) -> std::thread::JoinHandle<()> {
    let listener = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        BufReader::new(stream.try_clone().unwrap()).lines().next();
        let answer = serde_json::json!({ "errno": 0, "args": { "resp": answer } });
        writeln!(&stream, "{answer}").unwrap();
    })
}
