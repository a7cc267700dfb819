// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
#![allow(clippy::unwrap_used)]

use super::*;
use crate::control::connection::{MAX_BYTES, PATIENCE};
use std::io::{Read, Write};
use std::sync::Arc;

/// Handler that echoes its lines and keeps them.
struct Echo(Vec<Vec<u8>>);

impl LineHandler for Echo {
    type Session = ();

    fn answer(&mut self, (): &mut (), line: &[u8]) -> Option<Arc<[u8]>> {
        self.0.push(line.to_vec());
        Some([line, b"\n"].concat().into())
    }

    fn too_long(&self) -> Arc<[u8]> {
        Arc::new(*b"too long\n")
    }
}

fn echo() -> (tempfile::TempDir, Service<Echo>) {
    let directory = tempfile::tempdir().unwrap();
    let listener = listen(&directory.path().join("socket"), Reach::Owner).unwrap();
    (directory, Service::new(listener, Echo(Vec::new())))
}

impl Service<Echo> {
    /// Accept and serve all clients once.
    fn round(&mut self) {
        self.take_on();
        let ready = vec![PollFlags::POLLIN; self.clients.len()];
        self.serve(&ready, &mut cpu_time()).unwrap();
    }
}

#[test]
fn the_one_silent_for_longest_makes_room() {
    let (directory, mut service) = echo();
    let connect = || UnixStream::connect(directory.path().join("socket")).unwrap();
    let mut streams = Vec::new();
    for _ in 0..MAX_CLIENTS {
        streams.push(connect());
        service.take_on();
    }
    assert_eq!(service.clients.len(), MAX_CLIENTS);
    // The first client sends something, so that the second one is replaced.
    streams[0].write_all(b"first\n").unwrap();
    std::thread::sleep(Duration::from_millis(1));
    let mut spoken = vec![PollFlags::empty(); MAX_CLIENTS];
    spoken[0] = PollFlags::POLLIN;
    service.serve(&spoken, &mut cpu_time()).unwrap();
    streams.push(connect());
    service.take_on();
    assert_eq!(service.clients.len(), MAX_CLIENTS);
    let mut heard = [0; 16];
    assert_eq!(streams[0].read(&mut heard).unwrap(), 6);
    assert_eq!(streams[1].read(&mut heard).unwrap(), 0);
}

#[test]
fn requests_arrive_whole_however_they_are_cut_and_one_at_a_time() {
    let (directory, mut service) = echo();
    let mut stream = UnixStream::connect(directory.path().join("socket")).unwrap();
    let sent: Vec<u8> =
        (0..50u8).flat_map(|n| [vec![b'a' + n % 26; usize::from(n)], vec![b'\n']].concat()).collect();
    for piece in sent.chunks(7) {
        stream.write_all(piece).unwrap();
        service.round();
    }
    while service.clients.iter().any(Connection::is_due) {
        service.round();
    }
    let lines: Vec<u8> =
        service.handler.0.iter().flat_map(|line| [line.as_slice(), b"\n"].concat()).collect();
    assert_eq!(lines, sent);
    let mut heard = vec![0; sent.len()];
    stream.read_exact(&mut heard).unwrap();
    assert_eq!(heard, sent);
}

#[test]
fn who_does_not_read_is_dropped_in_time_and_memory_stays_bounded() {
    let (directory, mut service) = echo();
    let mut stream = UnixStream::connect(directory.path().join("socket")).unwrap();
    stream.set_nonblocking(true).unwrap();
    let line = [vec![b'x'; MAX_BYTES - 1], vec![b'\n']].concat();
    for _ in 0..400 {
        let _ = stream.write(&line);
        service.round();
    }
    assert!(service.clients[0].left.is_some());
    assert!(service.clients[0].input.capacity() <= 4 * MAX_BYTES);
    let late = Instant::now() + PATIENCE * 2;
    service.clients[0].give_up_if_slow(late);
    service.round();
    assert!(service.clients.is_empty());
}

/// A client that hangs up must release its requests and its descriptor at once, even when answers
/// take long.
#[test]
fn who_hangs_up_is_gone_at_once_and_who_only_ends_is_answered() {
    let (directory, mut service) = echo();
    let connect = || UnixStream::connect(directory.path().join("socket")).unwrap();
    let (stop, _other_end) = UnixStream::pair().unwrap();
    let (mut gone, mut ended, silent) = (connect(), connect(), connect());
    for stream in [&mut gone, &mut ended] {
        stream.write_all(b"one\ntwo\n").unwrap();
    }
    service.round();
    assert_eq!(service.handler.0, [b"one", b"one"]);
    // Read the answer: with unread data the kernel would report an error instead of a hang-up.
    gone.read_exact(&mut [0; 4]).unwrap();
    // The budget allows no answer for seconds.
    service.budget.charge(BURST);
    service.budget.charge(BURST);
    drop((gone, silent));
    ended.shutdown(std::net::Shutdown::Write).unwrap();
    let pause = service.budget.pause(Instant::now());
    assert!(pause.is_some());
    let ready = service.wait(&stop, pause).unwrap();
    service.serve(&ready.clients, &mut cpu_time()).unwrap();
    assert_eq!(service.clients.len(), 1);
    assert_eq!(service.handler.0.len(), 2);
    service.budget = Budget::new(SHARE, BURST, Instant::now());
    while !service.clients.is_empty() {
        service.round();
    }
    assert_eq!(service.handler.0.len(), 3);
    let mut heard = String::new();
    ended.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "one\ntwo\n");
}
