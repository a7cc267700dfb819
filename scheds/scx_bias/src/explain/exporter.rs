// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The metrics over HTTP, for scrapers.
//!
//! # Problem
//! Only root may ask the running instance, and a scraper should not be root. Its clients stay
//! silent, read slowly and leave at any time.
//!
//! # Approach
//! `scx_bias metrics --listen ADDRESS` is a process of its own, so that the process of the
//! scheduler has no network. ADDRESS is HOST:PORT, or the path of a socket that a group may use.
//! Each request makes it ask the instance. Clients are served one after the other, and each
//! connection has one answer. There is no library for so little: those that are well kept bring an
//! asynchronous runtime.
//!
//! # Invariants
//! A client takes at most [`PATIENCE`] for its request, as long again for the answer, and
//! [`HEAD_MAX`] bytes. No request changes anything. Without an instance the answer is 503 with the
//! reason, and the exporter goes on.
//!
//! # Limits
//! There is no encryption and no login. On a TCP port, everyone who reaches it may read.

use std::fs::Permissions;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use bias_agent::failure::Failure;
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Group, chown};

/// Longest time for a client's request, and for its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most bytes of a request's head.
const HEAD_MAX: usize = 8192;
/// Pause after a connection that could not be accepted, for want of descriptors.
const PAUSE: Duration = Duration::from_millis(100);
/// Format of the metrics.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A place at which scrapers connect.
pub struct Exporter {
    listener: Listener,
    /// Where it listens, as a user would name it.
    pub address: String,
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Exporter {
    /// Listen at HOST:PORT, or on a socket at an absolute path that `group` may use.
    ///
    /// # Errors
    /// Usage failure for a text that is no address, and for a group without a socket or one that
    /// does not exist. Runtime failure if the address cannot be used.
    pub fn bind(address: &str, group: Option<&str>) -> Result<Self, Failure> {
        let unusable = |error: io::Error| {
            let remedy = match error.kind() {
                ErrorKind::AddrInUse => "another program uses it; give --listen another one",
                ErrorKind::PermissionDenied => "use sudo, or another address",
                _ => "give --listen HOST:PORT or the path of a socket",
            };
            let message = format!("cannot listen at {address} ({error}): {remedy}");
            // The text is no address. A service must not try it again.
            let is_wrong = error.kind() == ErrorKind::InvalidInput;
            if is_wrong { Failure::usage(message) } else { Failure::runtime(message) }
        };
        if address.starts_with('/') {
            let path = Path::new(address);
            let listener = socket(path).map_err(unusable)?;
            if let Some(group) = group {
                share(path, group)?;
            }
            return Ok(Self { listener: Listener::Unix(listener), address: address.to_owned() });
        }
        if group.is_some() {
            return Err(Failure::usage(format!(
                "{address} is no socket that a group could own; give --listen a path, or no --group"
            )));
        }
        let listener = TcpListener::bind(address).map_err(unusable)?;
        let address = listener.local_addr().map_err(unusable)?;
        Ok(Self { listener: Listener::Tcp(listener), address: format!("http://{address}/metrics") })
    }

    /// Answer clients with `metrics` until a signal ends the program.
    pub fn serve(&self, metrics: impl Fn() -> anyhow::Result<String>) -> ! {
        loop {
            let served = match &self.listener {
                Listener::Tcp(listener) => listener.accept().map(|(client, _)| serve(client, &metrics)),
                Listener::Unix(listener) => listener.accept().map(|(client, _)| serve(client, &metrics)),
            };
            if served.is_err() {
                std::thread::sleep(PAUSE);
            }
        }
    }
}

/// Make a socket that only its owner may use. One that a dead exporter left is replaced.
fn socket(path: &Path) -> io::Result<UnixListener> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    {
        std::fs::remove_file(path)?;
    }
    let before = umask(Mode::from_bits_truncate(0o177));
    let listener = UnixListener::bind(path);
    umask(before);
    listener
}

/// Let the members of `group` use the socket at `path`.
fn share(path: &Path, group: &str) -> Result<(), Failure> {
    let known = Group::from_name(group).ok().flatten();
    let gid =
        known.ok_or_else(|| Failure::usage(format!("there is no group {group}; see `getent group`")))?.gid;
    let failed = |error: &dyn std::fmt::Display| {
        Failure::kernel(format!("cannot give {} to group {group} ({error}); use sudo", path.display()))
    };
    chown(path, None, Some(gid)).map_err(|error| failed(&error))?;
    std::fs::set_permissions(path, Permissions::from_mode(0o660)).map_err(|error| failed(&error))
}

/// Answer a client. One that fails or leaves gets nothing.
///
/// A TCP connection has the same operations and limits as one of a local socket.
fn serve(client: impl Into<OwnedFd>, metrics: &impl Fn() -> anyhow::Result<String>) {
    let mut client = UnixStream::from(client.into());
    if let Ok(head) = head(&mut client, Instant::now() + PATIENCE) {
        let answer = answer(&head, metrics);
        let _ = send(&mut client, &answer, Instant::now() + PATIENCE);
    }
}

/// Limit the next operation of a client to what is left until `deadline`.
fn limit(client: &UnixStream, deadline: Instant) -> io::Result<()> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(ErrorKind::TimedOut.into());
    }
    client.set_read_timeout(Some(left))?;
    client.set_write_timeout(Some(left))
}

/// Read a request up to the empty line that ends its head.
fn head(client: &mut UnixStream, deadline: Instant) -> io::Result<Vec<u8>> {
    let (mut head, mut part) = (Vec::new(), [0; 1024]);
    while !head.windows(2).any(|end| end == b"\n\n") && !head.windows(4).any(|end| end == b"\r\n\r\n") {
        limit(client, deadline)?;
        let bytes = client.read(&mut part)?;
        if bytes == 0 || head.len() + bytes > HEAD_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
        head.extend(part.iter().take(bytes));
    }
    Ok(head)
}

fn send(client: &mut UnixStream, mut answer: &[u8], deadline: Instant) -> io::Result<()> {
    while !answer.is_empty() {
        limit(client, deadline)?;
        match client.write(answer)? {
            0 => return Err(ErrorKind::WriteZero.into()),
            sent => answer = answer.get(sent..).unwrap_or_default(),
        }
    }
    Ok(())
}

/// Return the answer to a request with this head.
fn answer(head: &[u8], metrics: impl Fn() -> anyhow::Result<String>) -> Vec<u8> {
    let line = head.split(|byte| *byte == b'\r' || *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let plain = "text/plain; charset=utf-8";
    let (status, kind, body) = match (method, target.split('?').next()) {
        ("GET" | "HEAD", Some("/metrics" | "/")) => match metrics() {
            Ok(text) => ("200 OK", OPENMETRICS, text),
            Err(error) => ("503 Service Unavailable", plain, format!("{error:#}\n")),
        },
        ("GET" | "HEAD", _) => ("404 Not Found", plain, "the metrics are at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", plain, "use GET\n".to_owned()),
    };
    let length = body.len();
    let body = if method == "HEAD" { "" } else { &body };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Allow: GET, HEAD\r\nConnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ask(head: &str) -> String {
        String::from_utf8(answer(head.as_bytes(), || Ok("x 1\n# EOF\n".to_owned()))).unwrap()
    }

    #[test]
    fn only_metrics_are_told() {
        let found = ask("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(
            found.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text"),
            "{found}"
        );
        assert!(
            found.contains("Content-Length: 10\r\n") && found.ends_with("\r\n\r\nx 1\n# EOF\n"),
            "{found}"
        );
        assert!(ask("GET /?x=1 HTTP/1.0\n\n").starts_with("HTTP/1.1 200"));
        let head = ask("HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(head.contains("Content-Length: 10\r\n") && head.ends_with("\r\n\r\n"), "{head}");
        assert!(ask("GET /metricsx HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(ask("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
        let absent = answer(b"GET / HTTP/1.1\r\n\r\n", || Err(Failure::kernel("not running").into()));
        let absent = String::from_utf8(absent).unwrap();
        assert!(absent.starts_with("HTTP/1.1 503") && absent.ends_with("not running\n"), "{absent}");
    }

    #[test]
    fn a_silent_a_leaving_and_an_endless_client_are_let_go() {
        let deadline = || Instant::now() + Duration::from_millis(20);
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        assert!(super::head(&mut ours, deadline()).is_err(), "a silent one");
        drop(theirs);
        assert!(super::head(&mut ours, Instant::now() + PATIENCE).is_err(), "one that left");
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(&[b'x'; HEAD_MAX + 1]).unwrap();
        assert!(super::head(&mut ours, Instant::now() + PATIENCE).is_err(), "one without an end");
        assert!(send(&mut ours, &vec![b'x'; 16 << 20], deadline()).is_err(), "one that does not read");
    }

    proptest! {
        #[test]
        fn any_request_has_an_answer(head in proptest::collection::vec(any::<u8>(), 0..300)) {
            let answer = answer(&head, || Ok(String::new()));
            prop_assert!(answer.starts_with(b"HTTP/1.1 ") && answer.windows(4).any(|end| end == b"\r\n\r\n"));
        }
    }
}
