//! Tests of the command line. Bad input must give one line with cause and remedy, and the
//! documented exit code. The tests need no privilege.

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

fn scx_bias(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scx_bias"));
    // A program that hangs on a FIFO or on a gigabyte of zeros must fail the test, not block it.
    command.args(args).timeout(Duration::from_secs(60));
    command
}

/// Run the program, check the exit code, and return standard error, which must be one line.
fn refused(args: &[&str], code: i32) -> String {
    let output = scx_bias(args).assert().code(code).get_output().clone();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text.trim_end().lines().count(), 1, "{text}");
    assert!(output.stdout.is_empty());
    text
}

fn table_of(path: &Path) -> String {
    refused(&["table", "--capacity-file", path.to_str().unwrap()], 2)
}

#[test]
fn unknown_flags_are_usage_errors() {
    scx_bias(&["--no-such-flag"]).assert().code(2);
    scx_bias(&["table", "--matrix", "speed"]).assert().code(2);
    scx_bias(&["calibrate", "--rounds", "0"]).assert().code(2);
    scx_bias(&["calibrate", "--visit-ms", "-1"]).assert().code(2);
}

#[test]
fn options_out_of_range_are_refused_with_the_range() {
    assert!(refused(&["--slice-us", "1"], 2).contains("give a value from 100 to 100000"));
    assert!(refused(&["--stats", "0"], 2).contains("from 0.1 to 86400"));
    assert!(refused(&["--monitor", "inf"], 2).contains("from 0.1 to 86400"));
}

#[test]
fn events_that_do_not_exist_are_refused_before_anything_is_measured() {
    assert!(refused(&["--events", "stalls=cpu/event=1/"], 2).contains("for example"));
    for start in [&[][..], &["calibrate"]] {
        let args = [start, &["--events", "external=no_such_pmu/event=1/"]].concat();
        assert!(refused(&args, 2).contains("there is no PMU no_such_pmu"));
    }
}

#[test]
fn paths_that_are_no_cgroup_are_refused_before_anything_is_measured() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("config.toml");
    std::fs::write(&config, "cgroups = ['none']").unwrap();
    // A machine without cgroup v2 refuses all of them, with another exit code.
    let v2 = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default().contains(" - cgroup2 ");
    let code = if v2 { 2 } else { 3 };
    for args in [
        &["--cgroup", "/nonexistent"][..],
        &["--cgroup", "/tmp"],
        &["--cgroup", "/dev/null"],
        &["--config", config.to_str().unwrap()],
    ] {
        let text = refused(args, code);
        assert!(text.contains("cgroup") && (text.contains("; name a directory below") || !v2), "{text}");
        assert_eq!(text.contains("config.toml, line 1: "), args[0] == "--config", "{text}");
    }
    scx_bias(&["cgroup"]).assert().code(2);
    scx_bias(&["cgroup", "add"]).assert().code(2);
}

#[test]
fn capacity_files_that_are_none_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    assert!(table_of(&path("absent")).contains("check the path"));
    assert!(table_of(directory.path()).contains("is a directory"));
    assert!(table_of(Path::new("/dev/zero")).contains("is a device"));
    nix::unistd::mkfifo(&path("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(table_of(&path("fifo")).contains("is a FIFO"));
    std::fs::File::create(path("large")).unwrap().set_len(1 << 30).unwrap();
    assert!(table_of(&path("large")).contains("1073741824 bytes"));
    for text in ["", "{", "[]", "{\"version\": 1}", "{\"version\": 1, \"cpus\": [{\"cpu\": 0}]}"] {
        std::fs::write(path("malformed"), text).unwrap();
        assert!(table_of(&path("malformed")).contains("calibrate --output"), "{text}");
    }
    std::fs::write(
        path("foreign"),
        "{\"version\":1,\"cpus\":[{\"cpu\":1023,\"cost_permille\":[1000,1000,1000]}]}",
    )
    .unwrap();
    let foreign = path("foreign");
    // Scheduling refuses the table too, also on a machine that has other problems.
    assert!(
        refused(&["--capacity-file", foreign.to_str().unwrap()], 2)
            .contains("CPU 0 is online but not listed")
    );
    assert!(table_of(&path("foreign")).contains("CPU 0 is online but not listed"));
}

#[test]
fn configuration_files_are_read_with_the_same_care() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.toml");
    let refusal = |text: &str| {
        std::fs::write(&path, text).unwrap();
        refused(&["--config", path.to_str().unwrap()], 2)
    };
    assert!(refusal("slise_us = 1").contains("slise_us"));
    assert!(refusal("\nslice_us = 'x'").contains("line 2"));
    assert!(refusal("slice_us = 3").contains("from 100 to 100000"));
    assert!(refused(&["--config", directory.path().to_str().unwrap()], 2).contains("is a directory"));
}

#[test]
fn a_table_that_was_never_made_is_explained() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state");
    let output = scx_bias(&["table"]).env("XDG_STATE_HOME", &state).output().unwrap();
    // Root reads /var/lib, where this machine may have a table.
    if output.status.code() != Some(0) {
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains("scx_bias calibrate"));
    }
    assert!(!state.exists());
}

#[test]
fn check_examines_a_machine_and_sets_the_exit_code() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(root.path().join("sys/kernel")).unwrap();
    let args = ["check", "--root", root.path().to_str().unwrap(), "--json"];
    let output = scx_bias(&args).assert().code(3).get_output().clone();
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["exit_code"], 3);
    for finding in value["findings"].as_array().unwrap() {
        assert_eq!(finding["status"] == "ok", finding["remedy"] == "", "{finding}");
    }
}

#[test]
fn a_machine_that_cannot_run_it_is_refused_before_anything_is_measured() {
    let fit = scx_bias(&["check"]).output().unwrap().status.code() == Some(0);
    if fit {
        // Running would load the scheduler on this machine. The VM tests that.
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state");
    let output = scx_bias(&[]).env("XDG_STATE_HOME", &state).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(matches!(output.status.code(), Some(3 | 4)), "{text}");
    assert!(text.lines().count() == 1 && text.contains(';') && !state.exists(), "{text}");
}

#[test]
fn calibrating_writes_a_table_that_can_be_shown_and_used() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("deep/capacity.json");
    let file = path.to_str().unwrap();
    let quick = [
        "calibrate",
        "--output",
        file,
        "--rounds",
        "1",
        "--visit-ms",
        "5",
        "--external-kib",
        "256",
        "--json",
    ];
    scx_bias(&quick).assert().code(0);
    let shown = scx_bias(&["table", "--capacity-file", file]).assert().code(0).get_output().clone();
    assert!(String::from_utf8(shown.stdout).unwrap().contains("Alike in execute"));
    scx_bias(&["table", "--capacity-file", file, "--matrix", "external"]).assert().code(0);
    assert!(
        refused(&["calibrate", "--output", "/proc/no/table.json", "--rounds", "1", "--visit-ms", "5"], 1)
            .contains("--output")
    );
}

/// Return the standard output, with a space for each break and indent.
fn printed(args: &[&str]) -> String {
    let output = scx_bias(args).assert().code(0).get_output().clone();
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn help_and_man_page_name_the_exit_codes() {
    for args in [
        &["--help"][..],
        &["man"],
        &["check", "--help"],
        &["status", "-h"],
        &["top", "--help"],
        &["cgroup", "--help"],
        &["swaps", "--help"],
    ] {
        assert!(printed(args).contains("3 kernel or permission"), "{args:?}");
    }
    assert!(printed(&["--help"]).contains("5 the kernel ended the scheduler"));
    assert!(printed(&["exec", "--help"]).contains("127 CMD is not found"));
    scx_bias(&["completions", "bash"]).assert().code(0);
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
fn the_running_instance_is_asked() {
    let directory = tempfile::tempdir().unwrap();
    let ask = |name: &str, asked: usize, args: &[&str], code: i32| {
        let path = directory.path().join(name);
        let server = instance(&path, asked);
        let args = [args, &["--socket", path.to_str().unwrap()]].concat();
        let output = scx_bias(&args).assert().code(code).get_output().clone();
        server.join().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
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
fn without_a_running_instance_there_is_one_line() {
    for command in
        [&["status"][..], &["top"], &["reload"], &["swaps"], &["cgroup", "list"], &["cgroup", "add", "/a"]]
    {
        let text = refused(&[command, &["--socket", "/nonexistent/socket"]].concat(), 3);
        assert!(text.contains("scx_bias is not running; start it with `sudo scx_bias`"), "{text}");
    }
    assert!(refused(&["top", "--interval", "0"], 2).contains("from 0.1 to 86400"));
    scx_bias(&["top", "--count", "0"]).assert().code(2);
}

#[test]
fn options_in_effect_are_printed_as_a_configuration_file_that_gives_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.toml");
    let file = path.to_str().unwrap();
    let print = |args: &[&str]| {
        let output = scx_bias(&[&["config"], args].concat()).assert().code(0).get_output().clone();
        String::from_utf8(output.stdout).unwrap()
    };
    let text = print(&["--no-config", "--slice-us", "5000", "--events", "external=software/config=1/"]);
    assert!(text.contains("\nslice_us = 5000\n") && text.contains("\n# gain_permille = 100\n"), "{text}");
    std::fs::write(&path, &text).unwrap();
    // The file gives the same options, and flags take precedence over it.
    assert_eq!(print(&["--config", file]), text);
    assert!(print(&["--config", file, "--slice-us", "6000"]).contains("\nslice_us = 6000\n"));
    assert!(
        refused(&["config", "--config", file, "--slice-min-us", "9000"], 2).contains("slice_min_us is 9000")
    );
    scx_bias(&["config", "--config", file, "--no-config"]).assert().code(2);
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
        let output = scx_bias(&["reload", "--socket", path.to_str().unwrap()])
            .assert()
            .code(code)
            .get_output()
            .clone();
        server.join().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
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
