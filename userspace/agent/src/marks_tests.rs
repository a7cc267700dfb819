// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use bias_mark::wire::{ANSWER_BYTES, decode_answer};
use std::os::unix::fs::PermissionsExt as _;

const LONG: Duration = Duration::from_secs(20);

struct Fixture {
    directory: tempfile::TempDir,
    server: MarkServer,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let server = MarkServer::launch(Some(&directory.path().join("marks/socket"))).unwrap();
        Fixture { directory, server }
    }

    fn connect(&self, bytes: &[u8]) -> UnixStream {
        let mut stream = UnixStream::connect(self.directory.path().join("marks/socket")).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        // The server may have refused already.
        let _ = stream.write_all(bytes);
        stream
    }

    fn event(&self) -> MarkEvent {
        self.server.events().recv_timeout(LONG).unwrap()
    }
}

fn request(pid: u32) -> [u8; REQUEST_BYTES] {
    Request { pid, table: 4096 }.encode()
}

fn told(mut stream: &UnixStream) -> (Status, Vec<usize>) {
    let mut bytes = [0; ANSWER_BYTES];
    stream.read_exact(&mut bytes).unwrap();
    let (status, slow) = decode_answer(&bytes);
    (status, slow.enumerate().filter(|(_, slow)| *slow).map(|(cpu, _)| cpu).collect())
}

#[test]
fn a_process_has_hints_from_its_request_to_its_end() {
    let fixture = Fixture::new();
    let mut process = fixture.connect(&request(std::process::id()));
    let MarkEvent::Began { pid, table, connection } = fixture.event() else { panic!("it has ended") };
    assert_eq!((pid, table), (std::process::id(), 4096));
    answer(&connection, Status::Accepted, [2, 3]);
    drop(connection);
    assert_eq!(told(&process), (Status::Accepted, vec![2, 3]));
    // A second request ends the first one.
    process.write_all(&request(std::process::id())).unwrap();
    assert_eq!(fixture.event(), MarkEvent::Ended { pid });
    let process = fixture.connect(&request(std::process::id()));
    assert!(matches!(fixture.event(), MarkEvent::Began { .. }));
    drop(process);
    assert_eq!(fixture.event(), MarkEvent::Ended { pid });
}

#[test]
fn a_process_can_announce_only_itself() {
    let fixture = Fixture::new();
    assert_eq!(told(&fixture.connect(&request(1))).0, Status::Namespace);
    assert_eq!(told(&fixture.connect(&[0; REQUEST_BYTES])).0, Status::Unknown);
    // An invalid request ends the connection.
    for bytes in [&[7; 3][..], &[7; 100]] {
        let mut process = fixture.connect(bytes);
        assert!(matches!(process.read(&mut [0; 1]), Ok(0) | Err(_)));
    }
    drop(fixture.connect(&[]));
    assert!(fixture.server.events().is_empty());
}

#[test]
fn one_user_cannot_take_all_places() {
    let fixture = Fixture::new();
    let silent: Vec<UnixStream> = (0..MAX_PER_USER).map(|_| fixture.connect(&[])).collect();
    assert_eq!(told(&fixture.connect(&[])).0, Status::Full);
    drop(silent);
    // Places are free again soon.
    let free = (0..1000).any(|_| {
        let process = fixture.connect(&request(std::process::id()));
        let began = fixture.server.events().recv_timeout(Duration::from_millis(20)).is_ok();
        drop(process);
        began
    });
    assert!(free);
}

#[test]
fn every_user_can_reach_the_socket_and_its_end_removes_it() {
    let Fixture { directory, server } = Fixture::new();
    let mode =
        |path: &str| std::fs::metadata(directory.path().join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("marks"), mode("marks/socket")), (0o755, 0o666));
    drop(server);
    assert!(!directory.path().join("marks/socket").exists());
}

#[test]
fn a_loop_of_connections_is_slowed_down() {
    let fixture = Fixture::new();
    let begun = std::time::Instant::now();
    for _ in 0..20 {
        drop(fixture.connect(&request(std::process::id())));
        while fixture.event() != (MarkEvent::Ended { pid: std::process::id() }) {}
    }
    assert!(begun.elapsed() >= 19 * PACE, "{:?}", begun.elapsed());
}
