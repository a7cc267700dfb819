// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Server for status requests and commands over a private socket.
//!
//! # Problem
//!
//! Clients connect, stay silent, stop reading and leave at any time. The data that they ask for
//! belongs to the main thread.
//!
//! # Approach
//!
//! One thread serves the clients ([`super::listener`]), reads their requests ([`super::handler`])
//! and passes them on one at a time. The main thread waits for requests together with its
//! other sources and answers at once. [`crate::control::protocol`] declares the requests.
//!
//! # Invariants
//!
//! Every request gets exactly one answer. No scheduling decision waits for this code: scheduling
//! goes on while this process sleeps.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use crossbeam::channel::{Receiver, Sender, unbounded};

use crate::control::client::PATH;
use crate::control::handler::Handler;
use crate::control::listener::{self, Service};
use crate::control::protocol::{Answer, Instance, Request};

/// The socket and its thread. Dropping it ends the thread.
pub(crate) struct Server {
    requests: Receiver<Request>,
    answers: Sender<Answer>,
    path: PathBuf,
    /// Closing it ends the thread.
    _stop: UnixStream,
}

impl Server {
    /// Serve on the default socket, or on `path`.
    pub(crate) fn launch(path: Option<&Path>) -> Result<Self> {
        let path = path.unwrap_or(Path::new(PATH)).to_owned();
        let socket = listener::listen(&path, listener::Reach::Owner)?;
        let (ask, requests) = unbounded();
        let (answers, receiver) = unbounded();
        let (_stop, stopped) = UnixStream::pair().context("cannot make a pair of sockets")?;
        let handler = Handler::new(move |request| {
            ask.send(request).ok()?;
            receiver.recv().ok()
        });
        let service = Service::new(socket, handler);
        std::thread::Builder::new()
            .name("socket".into())
            .spawn(move || service.run(&stopped))
            .context("cannot start a thread for the socket")?;
        Ok(Self { requests, answers, path, _stop })
    }

    /// Return the channel on which requests arrive.
    pub(crate) fn requests(&self) -> &Receiver<Request> {
        &self.requests
    }

    /// Answer a request that was received.
    pub(crate) fn answer(&self, request: Request, instance: &mut dyn Instance) {
        let answer = request.answer(instance);
        // Sending fails only when the thread has ended, and then no client waits.
        let _ = self.answers.send(answer);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Later clients find no server. The file may be gone already.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
