//! Server for status requests and commands over a private socket.
//!
//! # Problem
//!
//! Clients connect, stay silent, stop reading and leave at any time. The data that they ask for
//! belongs to the main thread.
//!
//! # Approach
//!
//! One thread serves the clients ([`crate::control::listener`]), parses their requests ([`crate::control::handler`]) and
//! passes their questions on one at a time. The main thread waits for questions together with its
//! other sources and answers at once. The targets are:
//!
//! | target | answer |
//! |---|---|
//! | `top` (the default) | [`Stats`] since the client's last question |
//! | `status` | [`StatusReport`] |
//! | `tasks` | a list of [`TaskReport`] |
//! | `cgroups`, with `request` a [`CgroupRequest`] as JSON | a [`Reply`] with a [`CgroupsReport`] |
//! | `reload` | a [`Reply`] with a [`ReloadReport`] |
//! | `swaps`, with `from` the number of a swap | [`SwapsReport`] |
//!
//! # Invariants
//!
//! Every question gets exactly one answer. No scheduling decision waits for this code: scheduling
//! goes on while this process sleeps.
//!
//! [`Reply`]: crate::control::Reply

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use crossbeam::channel::{Receiver, Sender, unbounded};

use crate::bpf::Stats;
use crate::bpf::TaskReport;
use crate::control::handler::Handler;
use crate::control::listener::{self, Service};
use crate::control::protocol::{Answer, Question};
use crate::control::status::StatusReport;
use crate::failure::Failure;
use crate::optin::{CgroupRequest, CgroupsReport};
use crate::options::reload::ReloadReport;
use crate::swaps::SwapsReport;

/// Default socket, at which clients of scx_stats expect the running scheduler.
const PATH: &str = "/var/run/scx/root/stats";

/// Source of the answers.
pub(crate) trait Instance {
    fn stats(&self) -> Stats;
    fn status(&self) -> StatusReport;
    fn tasks(&self) -> Result<Vec<TaskReport>>;
    fn cgroups(&mut self, request: &CgroupRequest) -> Result<CgroupsReport, Failure>;
    fn reload(&mut self) -> Result<ReloadReport, Failure>;
    fn swaps(&self, first: u64) -> SwapsReport;
}

/// The socket and its thread. Dropping it ends the thread.
pub(crate) struct Server {
    questions: Receiver<Question>,
    answers: Sender<Answer>,
    path: PathBuf,
    /// Closing it ends the thread.
    _stop: UnixStream,
}

impl Server {
    /// Serve on the default socket, or on `path`.
    pub(crate) fn launch(path: Option<&Path>) -> Result<Self> {
        let path = path.unwrap_or(Path::new(PATH)).to_owned();
        let socket = listener::listen(&path)?;
        let (ask, questions) = unbounded();
        let (answers, receiver) = unbounded();
        let (_stop, stopped) = UnixStream::pair().context("cannot make a pair of sockets")?;
        let handler = Handler::new(move |question| {
            ask.send(question).ok()?;
            receiver.recv().ok()
        });
        let service = Service::new(socket, handler);
        std::thread::Builder::new()
            .name("socket".into())
            .spawn(move || service.run(&stopped))
            .context("cannot start a thread for the socket")?;
        Ok(Self { questions, answers, path, _stop })
    }

    /// Return the channel on which questions arrive.
    pub(crate) fn questions(&self) -> &Receiver<Question> {
        &self.questions
    }

    /// Answer a question that was received.
    pub(crate) fn answer(&self, question: Question, source: &mut dyn Instance) {
        let answer = match question {
            Question::Stats => Answer::Stats(source.stats()),
            Question::Status => Answer::Status(Box::new(source.status())),
            Question::Tasks => Answer::Tasks(source.tasks().map_err(|error| format!("{error:#}"))),
            Question::Cgroups(request) => Answer::Cgroups(source.cgroups(&request).into()),
            Question::Reload => Answer::Reload(source.reload().into()),
            Question::Swaps(first) => Answer::Swaps(Box::new(source.swaps(first))),
        };
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
