// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use crate::bpf::{Stats, TaskReport, TasksReport};
use crate::control::Client;
use crate::control::Reply;
use crate::control::StatusReport;
use crate::control::connection::MAX_BYTES;
use crate::failure::Failure;
use crate::optin::{CgroupReport, CgroupRequest, CgroupsReport};
use crate::options::ReloadReport;
use crate::swaps::SwapsReport;
use anyhow::bail;
use scx_stats::StatsClient;
use std::cell::Cell;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[derive(Default)]
struct FakeInstance {
    asked: Cell<u64>,
    refuses: bool,
}

impl Instance for FakeInstance {
    fn top(&mut self) -> Stats {
        self.asked.set(self.asked.get() + 1);
        Stats { moved: 10 * self.asked.get(), ..Stats::default() }
    }

    fn status(&mut self) -> StatusReport {
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
        Ok(TasksReport { next: since.unwrap_or(0) + 1, tasks: vec![seven] })
    }
}

/// Serve `fake` on a socket while `clients` runs.
fn served<T: Send>(fake: &mut FakeInstance, clients: impl FnOnce(&Path) -> T + Send) -> T {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("deep/stats");
    let server = Server::launch(Some(&path)).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // A failed client must end the test instead of leaving it waiting.
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| clients(&path)));
            done.store(true, Ordering::Relaxed);
            result
        });
        while !done.load(Ordering::Relaxed) {
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
        assert_eq!(client.tasks(&None).unwrap().tasks[0].name, "seven");
        assert_eq!(client.tasks(&Some(8)).unwrap().next, 9);
        assert_eq!(client.status().unwrap().version, env!("CARGO_PKG_VERSION"));
        for request in
            [CgroupRequest::List, CgroupRequest::Add("/a b".into()), CgroupRequest::Remove("/\"".into())]
        {
            let report = client.cgroups(&request).unwrap();
            assert_eq!(report.cgroups[0].path, format!("{request:?}"));
        }
        assert_eq!([None, Some(1 << 40)].map(|from| client.swaps(&from).unwrap().next), [3, (1 << 40) + 3]);
        assert_eq!(client.reload().unwrap(), ReloadReport::default());
        assert_eq!(client.top().unwrap().moved, 10);
        let mut raw = StatsClient::new().set_path(path).connect(Some(5000)).unwrap();
        for _ in 0..3 {
            assert_eq!(raw.request::<Stats>("stats", vec![]).unwrap().moved, 10);
        }
        let unknown = vec![("target".to_owned(), "stranger".to_owned())];
        assert!(raw.request::<Stats>("stats", unknown).is_err());
    });
}

#[test]
fn a_source_that_fails_is_an_answer_too() {
    served(&mut FakeInstance { refuses: true, ..FakeInstance::default() }, |path| {
        let mut client = Client::connect(Some(path)).unwrap();
        assert!(client.tasks(&None).unwrap_err().to_string().contains("no iterator"));
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
fn clients_that_go_hang_or_talk_nonsense_disturb_nobody() {
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
                        assert_eq!(client.tasks(&None).unwrap().tasks.len(), 1);
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
                            // A client that was replaced finds its connection broken.
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
                assert_eq!(Client::connect(Some(path)).unwrap().tasks(&None).unwrap().tasks.len(), 1);
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
fn who_has_said_everything_is_still_answered() {
    served(&mut FakeInstance::default(), |path| {
        for end in ["\n", ""] {
            let mut stream = UnixStream::connect(path).unwrap();
            stream
                .write_all(format!("{{\"req\":\"stats_meta\"}}\n{{\"req\":\"nothing\"}}{end}").as_bytes())
                .unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let lines: Vec<_> = BufReader::new(&stream).lines().map(Result::unwrap).collect();
            assert_eq!(lines.len(), 2);
            assert!(lines[0].contains("run_fast_ns") && lines[1].contains("unknown command"));
        }
    });
}
