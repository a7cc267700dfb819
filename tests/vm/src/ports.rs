// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The command's output from the guest: one abstract Unix socket per stream, copied as it arrives.

use std::io::Read as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context as _, Result};

use crate::steps::StatusLine;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Destination of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sink {
    /// This process's standard output.
    Stdout,
    /// This process's standard error.
    Stderr,
    /// Memory. [`Port::finish`] returns it.
    Keep,
}

/// A listening socket for QEMU, and the thread that copies the data from it.
pub struct Port {
    /// Name of the socket in the abstract namespace.
    pub socket: String,
    address: SocketAddr,
    thread: JoinHandle<Vec<u8>>,
}

impl Port {
    /// Listen, and copy the first peer's data to `sink`. The copy removes `line` from the terminal
    /// first.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub fn open(sink: Sink, line: Arc<StatusLine>) -> Result<Self> {
        let socket = format!("scx-bias-vm-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let address = SocketAddr::from_abstract_name(&socket).context("cannot name a socket")?;
        let listener = UnixListener::bind_addr(&address).context("cannot listen for the guest's output")?;
        let thread = std::thread::spawn(move || {
            listener.accept().map(|(stream, _)| copy(stream, sink, &line)).unwrap_or_default()
        });
        Ok(Self { socket, address, thread })
    }

    /// Wait until all data is copied, and return the data of a [`Sink::Keep`]. The caller waits for
    /// the end of QEMU first.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        // If no peer connected, this connection ends the wait. It queues behind one that did.
        let _ = UnixStream::connect_addr(&self.address);
        self.thread.join().unwrap_or_default()
    }
}

fn copy(mut stream: UnixStream, sink: Sink, line: &StatusLine) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut buffer = [0; 8192];
    loop {
        let count = match stream.read(&mut buffer) {
            Ok(0) => return kept,
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => return kept,
        };
        let bytes = &buffer[..count];
        // The guest is not responsible for a closed pipe of this process. Continue to read, so that
        // the command can end.
        match sink {
            Sink::Keep => kept.extend_from_slice(bytes),
            Sink::Stdout => line.write(&mut std::io::stdout(), bytes),
            Sink::Stderr => line.write(&mut std::io::stderr(), bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::Write as _;

    #[test]
    fn all_data_is_kept_and_an_unused_port_ends() {
        let port = Port::open(Sink::Keep, Arc::default()).unwrap();
        let unused = Port::open(Sink::Keep, Arc::default()).unwrap();
        let mut peer = UnixStream::connect_addr(&port.address).unwrap();
        let data: Vec<u8> = (0..100_000u32).map(|n| n as u8).collect();
        peer.write_all(&data).unwrap();
        drop(peer);
        assert_eq!(port.finish(), data);
        assert!(unused.finish().is_empty());
    }
}
