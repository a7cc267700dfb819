// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of the socket: lines that are requests or not, and clients that behave or not.

#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use crate::bpf::TaskReport;
use crate::control::protocol::understand;
use crate::control::{Client, Reply, StatusReport, TasksReport};
use crate::failure::Failure;
use crate::optin::{CgroupReport, CgroupRequest, CgroupsReport};
use crate::options::ReloadReport;
use crate::swaps::SwapsReport;
use anyhow::bail;
use crossbeam::channel::RecvTimeoutError;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng, rngs::ChaCha8Rng};
use scx_stats::StatsClient;
use scx_stats::prelude::StatsResponse;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::Shutdown as Ended;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// Number of malformed requests that are tried.
const TRIES: u32 = 1_000_000;
/// Longest wait of a test for what must happen.
const LONG: Duration = Duration::from_secs(20);

const WELL_FORMED: [&str; 8] = [
    r#"{"req":"stats"}"#,
    r#"{"req":"stats_meta","args":{}}"#,
    r#"{"req":"stats","args":{"target":"top"}}"#,
    r#"{"req":"stats","args":{"target":"status"}}"#,
    r#"{"req":"stats","args":{"target":"tasks"}}"#,
    r#"{"req":"stats","args":{"target":"cgroups","request":"{\"add\":\"/sys/fs/cgroup/a\"}"}}"#,
    r#"{"req":"stats","args":{"target":"reload"}}"#,
    r#"{"req":"stats","args":{"target":"swaps","from":"7"}}"#,
];

/// Fragments that tend to break parsers.
const PIECES: [&[u8]; 14] = [
    b"\"",
    b"\\",
    b"\\u",
    b"\\ud800",
    b"{",
    b"[",
    b"}",
    b"null",
    b"-",
    b"1e999999",
    b"\xff\xfe",
    b"\0",
    b"\"args\":",
    b"\"target\":{}",
];

fn malformed(rng: &mut ChaCha8Rng) -> Vec<u8> {
    let mut line = match rng.random_range(0..20) {
        0 => (0..rng.random_range(0..200)).map(|_| rng.random()).collect(),
        // Nest deeper than the stack of a parser should go.
        1 => vec![*b"[{".choose(rng).unwrap_or(&b'['); rng.random_range(1..500)],
        2 => vec![b' '; rng.random_range(0..100)],
        _ => WELL_FORMED[rng.random_range(0..WELL_FORMED.len())].as_bytes().to_vec(),
    };
    for _ in 0..rng.random_range(1..4) {
        let at = rng.random_range(0..=line.len());
        match rng.random_range(0..5) {
            0 => line.truncate(at),
            1 if at < line.len() => line[at] = rng.random(),
            2 if at < line.len() => line[at] ^= 1 << rng.random_range(0..8),
            3 => {
                let other = WELL_FORMED[rng.random_range(0..WELL_FORMED.len())];
                line.splice(at.., other.bytes().skip(at / 2));
            }
            _ => {
                let piece = PIECES[rng.random_range(0..PIECES.len())];
                line.splice(at..at, piece.iter().copied());
            }
        }
    }
    // The socket has removed newlines.
    line.retain(|byte| *byte != b'\n');
    line
}

#[derive(Default)]
struct FakeInstance {
    asked: Cell<u64>,
    /// CPU time of a status.
    cost: Duration,
    refuses: bool,
}

impl Instance for FakeInstance {
    fn top(&mut self) -> Stats {
        self.asked.set(self.asked.get() + 1);
        Stats { moved: 10 * self.asked.get(), ..Stats::default() }
    }

    fn status(&mut self) -> StatusReport {
        let until = cpu_time() + self.cost;
        while cpu_time() < until {}
        StatusReport {
            version: env!("CARGO_PKG_VERSION").into(),
            statistics: self.top(),
            ..StatusReport::default()
        }
    }

    fn swaps(&mut self, from: Option<u64>) -> SwapsReport {
        SwapsReport { next: from.unwrap_or(0) + 3, ..SwapsReport::default() }
    }

    fn cgroups(&mut self, request: CgroupRequest) -> Result<CgroupsReport, Failure> {
        if self.refuses {
            return Err(Failure::usage("no such cgroup; name another"));
        }
        let path = format!("{request:?}");
        Ok(CgroupsReport {
            cgroups: vec![CgroupReport { path, ..CgroupReport::default() }],
            ..CgroupsReport::default()
        })
    }

    fn reload(&mut self) -> Result<ReloadReport, Failure> {
        if self.refuses {
            return Err(Failure::usage("line 3: no such key; remove it"));
        }
        self.asked.set(0);
        Ok(ReloadReport::default())
    }

    fn tasks(&mut self, since: Option<u32>) -> Result<TasksReport> {
        if self.refuses {
            bail!("no iterator");
        }
        let seven = TaskReport { pid: 7, name: "seven".into(), ..TaskReport::default() };
        Ok(TasksReport { next: since.unwrap_or(0) + 1, tasks: vec![seven], ..TasksReport::default() })
    }
}

/// Return the answer of `fake` to a line.
fn answered(fake: &mut FakeInstance, last: &mut Option<Stats>, line: &[u8]) -> Vec<u8> {
    reply(line, last, |request| Some(request.answer(fake))).unwrap()
}

#[test]
fn any_bytes_get_one_line_of_json() {
    let (mut understood, mut refused) = (0u32, 0u32);
    let (mut fake, mut last) = (FakeInstance::default(), None);
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for attempt in 0..TRIES {
        let line = malformed(&mut rng);
        let bytes = answered(&mut fake, &mut last, &line);
        if line.trim_ascii().is_empty() {
            assert!(bytes.is_empty());
            continue;
        }
        assert_eq!(bytes.iter().position(|byte| *byte == b'\n'), Some(bytes.len() - 1), "{line:?}");
        let fine = bytes.ends_with(b",\"errno\":0}\n");
        // Parsing every answer would take longer than giving it.
        if attempt % 64 == 0 {
            let answer: StatsResponse = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(answer.errno == 0, fine, "{line:?}");
            assert!(answer.args.contains_key("resp"));
        }
        understood += u32::from(fine);
        refused += u32::from(!fine);
    }
    // Most requests are invalid, but some are still valid: the test covers both cases.
    assert!(refused > TRIES / 2 && understood > TRIES / 100, "{refused} refused, {understood} understood");
}

#[test]
fn statistics_are_since_the_clients_last_request() {
    let (mut fake, mut one, mut other) = (FakeInstance::default(), None, None);
    // The first request of a client begins its first interval.
    let mut moved = |last: &mut Option<Stats>| {
        let bytes = answered(&mut fake, last, WELL_FORMED[0].as_bytes());
        let answer: StatsResponse = serde_json::from_slice(&bytes).unwrap();
        answer.args["resp"]["moved"].as_u64().unwrap()
    };
    assert_eq!([moved(&mut one), moved(&mut other), moved(&mut other), moved(&mut one)], [0, 0, 10, 30]);
}

#[test]
fn every_request_is_read_and_listed() {
    let refusal = Request::read("stat", &BTreeMap::new()).unwrap_err().to_string();
    for target in Request::TARGETS {
        assert!(refusal.split([' ', ',']).any(|word| word == target), "{refusal}");
        // An argument may be missing, but the target is known.
        let refused = Request::read(target, &BTreeMap::new()).err().map(|error| error.to_string());
        assert!(refused.is_none_or(|error| error.contains("argument")), "{target}");
    }
    assert!(WELL_FORMED.iter().all(|line| understand(line.as_bytes()).is_ok()));
    let swaps = understand(br#"{"req":"stats","args":{"target":"swaps"}}"#);
    assert!(matches!(swaps, Ok(Some(Request::Swaps(None)))));
}

/// Serve `fake` on a socket while `clients` runs.
fn served<T: Send>(fake: &mut FakeInstance, clients: impl FnOnce(&Path) -> T + Send) -> T {
    served_by(fake, PATIENCE, clients)
}

/// The same, with a server that waits for a client at most as long as `patience`.
fn served_by<T: Send>(
    fake: &mut FakeInstance,
    patience: Duration,
    clients: impl FnOnce(&Path) -> T + Send,
) -> T {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("deep/stats");
    let server = Server::patient(&path, patience).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // A failed client must end the test instead of leaving it waiting.
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| clients(&path)));
            done.store(true, Relaxed);
            result
        });
        while !done.load(Relaxed) {
            if let Ok(request) = server.requests().recv_timeout(Duration::from_millis(20)) {
                server.answer(request, fake);
            }
        }
        thread.join().unwrap().unwrap()
    })
}

#[test]
fn every_target_is_answered() {
    served(&mut FakeInstance::default(), |path| {
        let mut client = Client::connect(Some(path)).unwrap();
        assert_eq!(client.tasks(None).unwrap().tasks[0].name, "seven");
        assert_eq!(client.tasks(Some(8)).unwrap().next, 9);
        assert_eq!(client.status().unwrap().version, env!("CARGO_PKG_VERSION"));
        for request in
            [CgroupRequest::List, CgroupRequest::Add("/a b".into()), CgroupRequest::Remove("/\"".into())]
        {
            let report = client.cgroups(&request).unwrap();
            assert_eq!(report.cgroups[0].path, format!("{request:?}"));
        }
        assert_eq!([None, Some(1 << 40)].map(|from| client.swaps(from).unwrap().next), [3, (1 << 40) + 3]);
        assert_eq!(client.reload().unwrap(), ReloadReport::default());
        assert_eq!([client.top().unwrap().moved, client.top().unwrap().moved], [0, 10]);
        let mut raw = StatsClient::new().set_path(path).connect(Some(5000)).unwrap();
        for moved in [0, 10, 10] {
            assert_eq!(raw.request::<Stats>("stats", vec![]).unwrap().moved, moved);
        }
        let unknown = vec![("target".to_owned(), "stranger".to_owned())];
        assert!(raw.request::<Stats>("stats", unknown).is_err());
    });
}

#[test]
fn a_source_that_fails_is_an_answer_too() {
    served(&mut FakeInstance { refuses: true, ..FakeInstance::default() }, |path| {
        let mut client = Client::connect(Some(path)).unwrap();
        assert!(client.tasks(None).unwrap_err().to_string().contains("no iterator"));
        let refused = client.cgroups(&CgroupRequest::List).unwrap_err();
        assert_eq!(refused, Failure::usage("no such cgroup; name another"));
        assert_eq!(client.reload().unwrap_err(), Failure::usage("line 3: no such key; remove it"));
        let raw = vec![("target".to_owned(), "cgroups".to_owned())];
        let mut stranger = StatsClient::new().set_path(path).connect(Some(5000)).unwrap();
        assert!(stranger.request::<Reply<CgroupsReport>>("stats", raw).is_err());
        assert!(client.status().is_ok());
    });
}

#[test]
fn clients_that_go_hang_or_send_nonsense_disturb_no_other() {
    let question = b"{\"req\":\"stats\",\"args\":{\"target\":\"tasks\"}}\n";
    served(&mut FakeInstance::default(), |path| {
        let mut silent: Vec<UnixStream> = (0..50).map(|_| UnixStream::connect(path).unwrap()).collect();
        for stream in &mut silent[..25] {
            // The answers are never read.
            stream.write_all(&question.repeat(20)).unwrap();
        }
        for stream in &mut silent[25..] {
            stream.write_all(b"{\"req\":\xff nonsense\n\n").unwrap();
        }
        drop(silent.drain(..10));
        for _ in 0..20 {
            let mut gone = UnixStream::connect(path).unwrap();
            gone.write_all(question).unwrap();
        }
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| {
                    let mut client = Client::connect(Some(path)).unwrap();
                    for _ in 0..5 {
                        assert_eq!(client.tasks(None).unwrap().tasks.len(), 1);
                    }
                });
            }
        });
    });
}

#[test]
fn a_server_that_has_gone_is_missed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("stats");
    drop(Server::launch(Some(&path)).unwrap());
    assert!(Client::connect(Some(&path)).err().unwrap().message.contains("not running"));
    // The next server takes the socket over.
    let _again = Server::launch(Some(&path)).unwrap();
    assert!(Client::connect(Some(&path)).is_ok());
}

#[test]
fn the_socket_is_its_owners_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("open/stats");
    // The directory is open to all, and another file is in place of the socket.
    std::fs::create_dir(path.parent().unwrap()).unwrap();
    std::fs::set_permissions(path.parent().unwrap(), std::fs::Permissions::from_mode(0o777)).unwrap();
    std::fs::write(&path, "").unwrap();
    let server = Server::launch(Some(&path)).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(path.parent().unwrap()), mode(&path)), (0o700, 0o600));
    drop(server);
    assert!(!path.exists());
}

#[test]
fn a_thousand_clients_do_not_keep_others_from_being_answered() {
    let question = b"{\"req\":\"stats\",\"args\":{\"target\":\"tasks\"}}\n";
    served(&mut FakeInstance::default(), |path| {
        let before = descriptors();
        std::thread::scope(|scope| {
            let flooders: Vec<_> = (0..4)
                .map(|kind| {
                    scope.spawn(move || {
                        let mut streams = Vec::new();
                        for _ in 0..250 {
                            // A client that made room finds its connection broken.
                            let Ok(mut stream) = UnixStream::connect(path) else { continue };
                            let _ = match kind {
                                0 => Ok(()),
                                1 => stream.write_all(&question.repeat(100)),
                                2 => stream.write_all(&[b'{'; 8192]),
                                _ => stream.write_all(b"\xff\n\n{}\n"),
                            };
                            streams.push(stream);
                        }
                        streams.len()
                    })
                })
                .collect();
            for _ in 0..20 {
                assert_eq!(Client::connect(Some(path)).unwrap().tasks(None).unwrap().tasks.len(), 1);
            }
            let connected: usize = flooders.into_iter().map(|flooder| flooder.join().unwrap()).sum();
            assert_eq!(connected, 1000);
        });
        // All clients have gone, and the server must close its ends.
        for _ in 0..100 {
            if descriptors() <= before {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("{} descriptors are open, {before} before", descriptors());
    });
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn a_request_without_an_end_is_refused() {
    served(&mut FakeInstance::default(), |path| {
        let mut stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // Send exactly one byte too many: the kernel would drop the refusal if more stayed unread.
        stream.write_all(&vec![b'x'; MAX_BYTES + 1]).unwrap();
        let mut lines = BufReader::new(&stream).lines();
        assert!(lines.next().unwrap().unwrap().contains("at most"));
        assert!(lines.next().is_none());
    });
}

#[test]
fn a_client_that_sends_no_more_is_still_answered() {
    served(&mut FakeInstance::default(), |path| {
        for end in ["\n", ""] {
            let mut stream = UnixStream::connect(path).unwrap();
            stream
                .write_all(format!("{{\"req\":\"stats_meta\"}}\n{{\"req\":\"nothing\"}}{end}").as_bytes())
                .unwrap();
            stream.shutdown(Ended::Write).unwrap();
            let lines: Vec<_> = BufReader::new(&stream).lines().map(Result::unwrap).collect();
            assert_eq!(lines.len(), 2);
            assert!(lines[0].contains("run_fast_ns") && lines[1].contains("unknown command"));
        }
    });
}

#[test]
fn requests_arrive_whole_however_they_are_cut() {
    served(&mut FakeInstance::default(), |path| {
        let mut stream = UnixStream::connect(path).unwrap();
        let ask = |from: u64| {
            format!("{{\"req\":\"stats\",\"args\":{{\"target\":\"swaps\",\"from\":\"{from}\"}}}}\n")
        };
        let sent: String = (0..50).map(|n| ask(1 << n)).collect();
        for piece in sent.as_bytes().chunks(7) {
            stream.write_all(piece).unwrap();
        }
        stream.shutdown(Ended::Write).unwrap();
        let next = |line: io::Result<String>| {
            let answer: StatsResponse = serde_json::from_str(&line.unwrap()).unwrap();
            answer.args["resp"]["next"].as_u64().unwrap()
        };
        let heard: Vec<u64> = BufReader::new(&stream).lines().map(next).collect();
        assert_eq!(heard, (0..50).map(|n| (1 << n) + 3).collect::<Vec<u64>>());
    });
}

/// Connect a client that is being served.
fn placed(path: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(b"{}\n").unwrap();
    assert_eq!(heard(&stream), 1);
    stream
}

/// Read a line. Return 0 if the connection has ended instead.
fn heard(stream: &UnixStream) -> usize {
    let mut line = String::new();
    usize::from(BufReader::new(stream).read_line(&mut line).is_ok_and(|length| length > 0))
}

#[test]
fn a_client_too_many_waits_until_a_silent_one_makes_room() {
    served(&mut FakeInstance::default(), |path| {
        let mut placed: Vec<UnixStream> = (0..MAX_CLIENTS).map(|_| placed(path)).collect();
        // No client ends while no other waits.
        for stream in &mut placed {
            stream.write_all(b"{}\n").unwrap();
            assert_eq!(heard(stream), 1);
        }
        assert!(Client::connect(Some(path)).unwrap().status().is_ok());
        // That took the place of one of them.
        let ended = placed.iter().filter(|stream| {
            stream.set_nonblocking(true).unwrap();
            matches!((&mut &**stream).read(&mut [0; 1]), Ok(0))
        });
        assert_eq!(ended.count(), 1);
    });
}

#[test]
fn a_client_that_leaves_its_answers_unread_ends_in_time() {
    served_by(&mut FakeInstance::default(), Duration::from_millis(500), |path| {
        let mut stream = UnixStream::connect(path).unwrap();
        stream.set_write_timeout(Some(LONG)).unwrap();
        let (mut accepted, began) = (0, Instant::now());
        while let Ok(count) = stream.write(b"{\"req\":\"stats_meta\"}\n") {
            accepted += count;
            assert!(began.elapsed() < LONG);
        }
        // The server reads no more while an answer is unread, so that its memory stays bounded.
        assert!(accepted < 1 << 20, "{accepted}");
        let mut endless = placed(path);
        endless.write_all(b"{").unwrap();
        assert_eq!(heard(&endless), 0);
    });
}

/// A client that hangs up must withdraw its requests, even when answers take long.
#[test]
fn a_client_that_hangs_up_withdraws_its_requests() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("stats");
    let server = Server::patient(&path, LONG).unwrap();
    let ask = |target: &str| {
        let mut stream = UnixStream::connect(&path).unwrap();
        writeln!(stream, "{{\"req\":\"stats\",\"args\":{{\"target\":\"{target}\"}}}}").unwrap();
        stream
    };
    let first = ask("status");
    assert_eq!(server.requests().recv_timeout(LONG), Ok(Request::Status));
    let (gone, ended) = (ask("reload"), ask("swaps"));
    drop(gone);
    ended.shutdown(Ended::Write).unwrap();
    let mut fake = FakeInstance::default();
    server.answer(Request::Status, &mut fake);
    assert_eq!(heard(&first), 1);
    let second = server.requests().recv_timeout(LONG).unwrap();
    assert_eq!(second, Request::Swaps(None));
    server.answer(second, &mut fake);
    assert_eq!(heard(&ended), 1);
    assert!(server.requests().recv_timeout(Duration::from_millis(500)).is_err());
}

#[test]
fn answers_wait_for_their_share_of_a_cpu() {
    served(&mut FakeInstance { cost: BURST, ..FakeInstance::default() }, |path| {
        let began = Instant::now();
        let mut client = Client::connect(Some(path)).unwrap();
        for _ in 0..2 {
            client.status().unwrap();
        }
        client.top().unwrap();
        // The two answers before took twice what is saved up at the start.
        assert!(began.elapsed() >= BURST * SHARE, "{:?}", began.elapsed());
    });
}

#[test]
fn the_end_of_the_server_ends_its_clients_and_thread() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::patient(&directory.path().join("stats"), LONG).unwrap();
    let client = placed(&directory.path().join("stats"));
    let requests = server.requests().clone();
    drop(server);
    assert_eq!(heard(&client), 0);
    assert_eq!(requests.recv_timeout(LONG), Err(RecvTimeoutError::Disconnected));
}

/// The clients of `bias-torture control`: they come and go all the time, and misbehave in all ways.
#[test]
fn a_flood_that_never_ends_leaves_answers_for_a_client_that_behaves() {
    const CLIENTS: usize = 250;
    const ROUND: Duration = Duration::from_millis(20);
    served(&mut FakeInstance::default(), |path| {
        let (over, made) = (AtomicBool::new(false), AtomicUsize::new(0));
        let tasks = format!("{}\n", WELL_FORMED[4]).repeat(4).into_bytes();
        let flood = || {
            let mut streams: Vec<UnixStream> = Vec::new();
            while !over.load(Relaxed) {
                for _ in 0..CLIENTS / 20 {
                    if streams.len() >= CLIENTS {
                        streams.remove(0);
                    }
                    let stream = UnixStream::connect(path).unwrap();
                    stream.set_nonblocking(true).unwrap();
                    streams.push(stream);
                    made.fetch_add(1, Relaxed);
                }
                for (at, mut stream) in streams.iter().enumerate() {
                    let _ = match at % 4 {
                        0 => Ok(0),
                        1 => stream.write(&tasks),
                        2 => stream.write(&[b'['; 4096]),
                        _ => stream.write(b"{\"req\":\xff\n\0\n{}\n"),
                    };
                }
                sleep(ROUND);
            }
        };
        std::thread::scope(|scope| {
            (0..4).for_each(|_| drop(scope.spawn(flood)));
            let began = Instant::now();
            while made.load(Relaxed) < 4 * CLIENTS && began.elapsed() < LONG {
                sleep(ROUND);
            }
            let answered = (0..5).filter(|_| {
                let answer = Client::connect(Some(path)).and_then(|mut client| client.status());
                answer.is_ok()
            });
            let answered = answered.count();
            println!("{answered} of 5 answers took {:?}", began.elapsed());
            over.store(true, Relaxed);
            assert!(answered >= 2, "{answered}");
        });
    });
}
