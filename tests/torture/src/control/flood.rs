// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Clients of the scheduler's socket: misbehaving ones of several kinds, and a well-behaved one.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Socket on which scx schedulers answer requests.
const SOCKET: &str = "/var/run/scx/root/stats";
/// Request of a user's program, and pause between two requests.
const QUESTION: &[u8] = b"{\"req\":\"stats\",\"args\":{\"target\":\"status\"}}\n";
const ASK: Duration = Duration::from_millis(200);
/// Pause between two rounds of misbehaviour.
const PAUSE: Duration = Duration::from_millis(20);

/// Misbehaving clients of all kinds.
#[derive(Default)]
pub(super) struct Flood {
    streams: Vec<UnixStream>,
}

impl Flood {
    /// Flood until `over`. Add the number of connections made to `made`.
    pub(super) fn run(mut self, clients: usize, over: &AtomicBool, made: &AtomicUsize) {
        while !over.load(Relaxed) {
            made.fetch_add(self.misbehave(clients), Relaxed);
            std::thread::sleep(PAUSE);
        }
    }

    /// Connect or reconnect a part of the clients. Then let every client misbehave in its way.
    /// Return the number of new connections.
    fn misbehave(&mut self, clients: usize) -> usize {
        let mut made = 0;
        for _ in 0..clients.div_ceil(20) {
            // The oldest connection makes room for a new one.
            if self.streams.len() >= clients {
                drop(self.streams.remove(0));
            }
            let Ok(stream) = UnixStream::connect(SOCKET) else { break };
            if stream.set_nonblocking(true).is_ok() {
                self.streams.push(stream);
                made += 1;
            }
        }
        let tasks = b"{\"req\":\"stats\",\"args\":{\"target\":\"tasks\"}}\n".repeat(4);
        for (at, mut stream) in self.streams.iter().enumerate() {
            // A write fails if the server closed the connection, or if the client does not read its
            // answers.
            let _ = match at % 4 {
                0 => Ok(0),
                1 => stream.write(&tasks),
                2 => stream.write(&[b'['; 4096]),
                _ => stream.write(b"{\"req\":\xff\n\0\n{}\n"),
            };
        }
        made
    }
}

/// A well-behaved client.
#[derive(Default)]
pub(super) struct Asker {
    pub asked: u32,
    pub answered: u32,
    pub longest_s: f64,
}

impl Asker {
    /// Ask until `over`.
    pub(super) fn run(mut self, over: &AtomicBool) -> Self {
        while !over.load(Relaxed) {
            self.ask();
            std::thread::sleep(ASK);
        }
        self
    }

    fn ask(&mut self) {
        let start = Instant::now();
        self.asked += 1;
        // A client whose connection was closed asks again, as `scx_bias status` does.
        let answered =
            (0..2).any(|_| once(Path::new(SOCKET)).is_some_and(|answer| answer.contains("\"errno\":0")));
        self.answered += u32::from(answered);
        self.longest_s = self.longest_s.max(start.elapsed().as_secs_f64());
    }
}

/// Ask once on a new connection and return the answer.
fn once(path: &Path) -> Option<String> {
    let mut stream = UnixStream::connect(path).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    stream.write_all(QUESTION).ok()?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).ok()?;
    Some(line)
}
