// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of the commands that ask a running instance, with a fake instance on a socket, and of the
//! JSON keys of all commands against those that `docs/guides/json.md` publishes.

use crate::instance::instance;
use crate::{PROGRAM, scx_bias};
use bias_agent::bpf::Stats;
use bias_agent::control::Reply;
use bias_agent::failure::Failure;
use bias_agent::options::ReloadReport;
use bias_agent::options::reload::Change;
use bias_agent::topology::Topology;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Run the program with the instance at `socket`, check the exit code, and return the output.
fn printed(args: &[&str], socket: &Path, code: i32) -> String {
    let output = scx_bias(args).arg("--socket").arg(socket).assert().code(code).get_output().clone();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
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

/// An exporter that a test started; it ends with the test.
struct Exporter(Child);

impl Exporter {
    /// Start one for the instance at `socket`. Return it with its address.
    fn start(listen: &str, socket: &Path) -> (Self, String) {
        let mut command = Command::new(PROGRAM);
        command.args(["metrics", "--listen", listen, "--socket"]).arg(socket);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("scx_bias: metrics are at ").unwrap().to_owned();
        (Self(child), address)
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn fetched(mut stream: impl Read + Write) -> String {
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn scrapers_get_metrics_from_a_port_or_a_socket() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let instance = instance(&path, 2);
    let (_port, address) = Exporter::start("127.0.0.1:0", &path);
    let host = address.strip_prefix("http://").unwrap().strip_suffix("/metrics").unwrap();
    let text = fetched(TcpStream::connect(host).unwrap());
    assert!(text.starts_with("HTTP/1.1 200 OK") && text.ends_with("# EOF\n"), "{text}");
    instance.join().unwrap();
    let text = fetched(TcpStream::connect(host).unwrap());
    assert!(text.starts_with("HTTP/1.1 503") && text.contains("scx_bias: not running"), "{text}");

    let socket = directory.path().join("metrics");
    let listen = socket.to_str().unwrap();
    for _ in 0..2 {
        // The second one replaces the socket that the first one left.
        let (_socket, address) = Exporter::start(listen, &path);
        assert_eq!(address, listen);
        assert_eq!(socket.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let text = fetched(UnixStream::connect(&socket).unwrap());
        assert!(text.starts_with("HTTP/1.1 503"), "{text}");
    }
}

#[test]
fn an_exporter_that_cannot_listen_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().to_string();
    let text = printed(&["metrics", "--listen", &port], &path, 1);
    assert!(text.contains("another program uses it; give --listen another one"), "{text}");
    let text = printed(&["metrics", "--listen", "nowhere"], &path, 2);
    assert!(text.contains("give --listen HOST:PORT or the path of a socket"), "{text}");
    let text = printed(&["metrics", "--listen", &port, "--group", "users"], &path, 2);
    assert!(text.contains("not the path of a socket that a group could own"), "{text}");
    let socket = directory.path().join("metrics");
    let text =
        printed(&["metrics", "--listen", socket.to_str().unwrap(), "--group", "no such group"], &path, 2);
    assert!(text.contains("there is no group no such group"), "{text}");
    let file = directory.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    printed(&["metrics", "--listen", file.to_str().unwrap()], &path, 1);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn commands_print_the_answers_of_the_running_instance() {
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
    let value: Value = serde_json::from_str(&ask("json", 2, &["status", "--json"], 0)).unwrap();
    assert_eq!(
        (&value["thresholds"]["high_permille"], &value["tasks"]["slow_biased"]),
        (&1800.into(), &1.into())
    );
    let text = ask("top", 3, &["top", "--interval", "0.1", "--count", "2"], 0);
    assert_eq!((text.matches("PID").count(), text.matches(" loop ").count()), (2, 2), "{text}");
    let text = ask("lines", 4, &["top", "-i", "0.1", "-n", "3", "--json"], 0);
    assert_eq!(text.lines().count(), 3);
    for line in text.lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        assert_eq!(value["tasks"][0]["name"], "loop");
    }
    assert!(ask("list", 1, &["cgroup", "list"], 0).contains("\"list\": 3 threads"));
    let text = ask("add", 1, &["cgroup", "add", "relative", "--json"], 0);
    let value: Value = serde_json::from_str(&text).unwrap();
    let path = value["cgroups"][0]["path"].as_str().unwrap();
    assert!(path.starts_with("{\"add\":\"/") && path.ends_with("/relative\"}"), "{text}");
    assert!(ask("remove", 1, &["cgroup", "remove", "/a"], 2).contains("is not opted in; list them"));
    let text = ask("swaps", 1, &["swaps"], 0);
    assert!(text.contains("swaps by the agent: 0 requested") && text.contains("1 loop "), "{text}");
    let value: Value = serde_json::from_str(&ask("swaps.json", 1, &["swaps", "--json"], 0)).unwrap();
    assert_eq!(value["swaps"][0]["up_name"], "loop");
    // Each request asks for later swaps, until the instance ends.
    let text = ask("swaps.follow", 2, &["swaps", "--follow", "--json"], 3);
    let numbers: Vec<_> = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).collect();
    assert_eq!((numbers.len(), &numbers[1]["number"]), (2, &1.into()), "{text}");
    assert!(text.contains("scx_bias: not running"), "{text}");
    // The instance ends meanwhile.
    let text = ask("ends", 4, &["top", "-i", "0.1"], 3);
    assert!(text.contains("scx_bias: not running; start it with"), "{text}");
}

#[test]
fn a_trace_that_cannot_be_written_or_ends_early_is_explained() {
    let directory = tempfile::tempdir().unwrap();
    let to = |name: &str, file: &Path, asked: usize, code: i32| {
        let path = directory.path().join(name);
        let server = instance(&path, asked);
        let text = printed(&["trace", "--perfetto", file.to_str().unwrap(), "--seconds", "0.3"], &path, code);
        server.join().unwrap();
        text
    };
    let text = to("nowhere", Path::new("/nonexistent/file"), 1, 1);
    assert!(text.contains("/nonexistent/file") && text.contains("give --perfetto another file"), "{text}");
    assert_eq!(text.lines().count(), 1);
    assert!(to("full", Path::new("/dev/full"), 99, 1).contains("No space left"));
    // The instance ends after the first interval, which is in the file.
    let file = directory.path().join("file");
    assert!(to("ends", &file, 3, 3).contains("scx_bias: not running"));
    let trace: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert!(trace["traceEvents"].as_array().unwrap().len() > 3, "{trace}");
}

#[test]
fn reload_prints_changes_and_refusals() {
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
fn answering(path: &Path, answer: Value) -> std::thread::JoinHandle<()> {
    let listener = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        BufReader::new(stream.try_clone().unwrap()).lines().next();
        let answer = json!({ "errno": 0, "args": { "resp": answer } });
        writeln!(&stream, "{answer}").unwrap();
    })
}

/// Return the published keys of each form.
fn published() -> BTreeMap<String, BTreeSet<String>> {
    let guide = include_str!("../../../../docs/guides/json.md");
    let rows = guide.lines().filter_map(|line| line.strip_prefix("| `scx_bias."));
    let mut forms = BTreeMap::new();
    for row in rows {
        let (form, rest) = row.split_once('`').unwrap();
        let (_, keys) = rest.trim_end_matches('|').trim().rsplit_once(" | ").unwrap();
        let mut keys: BTreeSet<String> = keys.split(", ").map(|key| key.trim_matches('`').into()).collect();
        if form == "stats/1" {
            keys = Stats::ALL.iter().map(|(name, _)| (*name).to_owned()).collect();
        }
        forms.insert(format!("scx_bias.{form}"), keys);
    }
    forms
}

/// Run the program, whatever its exit code, and return the first JSON object that it prints.
fn first(args: &[&str], flags: &[(&str, &Path)]) -> Value {
    let mut command = scx_bias(args);
    for (flag, path) in flags {
        command.arg(flag).arg(path);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut values = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
    values.next().unwrap_or_else(|| panic!("{args:?} printed {text:?}")).unwrap()
}

/// Return a capacity table of this machine at `path`.
fn write_table(path: &Path) {
    let entry = |cpu| json!({"cpu": cpu, "cost_permille": [1000, 1000, 1000]});
    let cpus: Vec<Value> = Topology::read().unwrap().cpus.iter().map(|cpu| entry(cpu.cpu)).collect();
    std::fs::write(path, json!({"version": 1, "cpus": cpus}).to_string()).unwrap();
}

#[test]
fn every_command_prints_the_published_keys() {
    let directory = tempfile::tempdir().unwrap();
    let table = directory.path().join("table.json");
    write_table(&table);
    let table = [("--capacity-file", table.as_path())];
    let ask = |asked: usize, args: &[&str]| {
        let path = directory.path().join(args.concat().replace('/', ""));
        let server = instance(&path, asked);
        let value = first(args, &[("--socket", &path)]);
        server.join().unwrap();
        value
    };
    let documents = [
        first(&["check", "--json"], &[("--root", directory.path())]),
        first(&["table", "--json"], &table),
        first(&["exec", "-n", "1", "--dry-run", "--json"], &table),
        first(&["cgroup", "restore", "--json"], &[]),
        ask(2, &["status", "--json"]),
        ask(9, &["top", "-i", "0.1", "-n", "1", "--json"]),
        ask(5, &["trace", "--perfetto", "-", "--seconds", "0.1"]),
        ask(1, &["swaps", "--json"]),
        ask(2, &["swaps", "--follow", "--json"]),
        ask(1, &["cgroup", "list", "--json"]),
        ask(1, &["reload", "--json"]),
        ask(3, &["--monitor", "0.1", "--stats-format", "json"]),
    ];
    let mut published = published();
    for document in documents {
        let mut keys: BTreeSet<String> = document.as_object().unwrap().keys().cloned().collect();
        assert!(keys.remove("schema"), "{document}");
        let form = document["schema"].as_str().unwrap();
        let promised = published.remove(form).unwrap_or_else(|| panic!("{form} is not published"));
        assert_eq!(keys, promised, "{form}");
    }
    assert!(published.is_empty(), "no command prints {published:?}");
}
