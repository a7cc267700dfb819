// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Client of the running instance, over the socket of scx_stats.
//!
//! # Invariants
//! No call waits for ever: an instance that does not answer within [`PATIENCE`] is an error. A
//! connection may break, for example when the kernel restarts the scheduler. The client reconnects
//! once per request.
//!
//! The client of scx_stats makes a tree of JSON values first. With thousands of tasks that takes
//! most of a client's time, so this one reads the answer straight into its type.

use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use scx_stats::prelude::{StatsRequest, StatsResponse};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bpf;
use crate::failure::{Exit, Failure, REPORT_TO};

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Default socket, at which clients of scx_stats expect the running scheduler.
pub(super) const PATH: &str = "/var/run/scx/root/stats";

/// Answer in the form of scx_stats.
#[derive(Serialize, Deserialize)]
pub(super) struct Answered<T> {
    pub(super) args: AnsweredArgs<T>,
    /// 0 if `resp` is the answer. Else it is the text of a refusal.
    pub(super) errno: i32,
}

#[derive(Serialize, Deserialize)]
pub(super) struct AnsweredArgs<T> {
    pub(super) resp: T,
}

/// A connection to the running instance.
pub struct Client {
    stream: BufReader<UnixStream>,
    path: Option<PathBuf>,
}

impl Client {
    /// Connect to the usual socket, or to `path`.
    ///
    /// The program's name in front of a message is its subject.
    ///
    /// # Errors
    /// [`Exit::Kernel`] when nothing runs or a permission is missing, [`Exit::OtherScheduler`] when
    /// another scheduler runs.
    pub fn connect(path: Option<&Path>) -> Result<Self, Failure> {
        let stream = open(path.unwrap_or(Path::new(PATH))).map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => {
                Failure::kernel("only root may ask the running scx_bias; use sudo")
            }
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => absent(path),
            _ => Failure::runtime(format!("cannot reach the running scx_bias ({error}); try again")),
        })?;
        Ok(Self { stream: BufReader::new(stream), path: path.map(Path::to_owned) })
    }

    /// Send a request with these arguments, as text, and return the answer.
    pub(super) fn ask<T: DeserializeOwned>(
        &mut self,
        target: &str,
        more: &[(&str, String)],
    ) -> Result<T, Failure> {
        match self.ask_once(target, more) {
            Err(Trouble::Closed) => {
                *self = Self::connect(self.path.as_deref())?;
                self.ask_once(target, more).map_err(Trouble::explain)
            }
            result => result.map_err(Trouble::explain),
        }
    }

    fn ask_once<T: DeserializeOwned>(&mut self, target: &str, more: &[(&str, String)]) -> Result<T, Trouble> {
        let more = more.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        let arguments = [("target".to_owned(), target.to_owned())].into_iter().chain(more).collect();
        let request = serde_json::to_string(&StatsRequest::new("stats", arguments));
        let request = request.map_err(|error| Trouble::Misunderstood(error.to_string()))?;
        read(&self.exchange(request).map_err(|error| Trouble::of(&error))?)
    }

    /// Send a line, and return the line of the answer.
    fn exchange(&mut self, request: String) -> io::Result<String> {
        self.stream.get_mut().write_all((request + "\n").as_bytes())?;
        let mut line = String::new();
        match self.stream.read_line(&mut line)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(line),
        }
    }
}

fn open(path: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(path)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Read an answer. If it does not have this type, read it again as a refusal.
fn read<T: DeserializeOwned>(line: &str) -> Result<T, Trouble> {
    let why = match serde_json::from_str::<Answered<T>>(line) {
        Ok(answer) if answer.errno == 0 => return Ok(answer.args.resp),
        Ok(_) => "an error without a text".to_owned(),
        Err(error) => error.to_string(),
    };
    match serde_json::from_str::<StatsResponse>(line) {
        Ok(StatsResponse { errno, args }) if errno != 0 => {
            Err(Trouble::refused(args.get("resp").and_then(Value::as_str).unwrap_or(&why)))
        }
        _ => Err(Trouble::Misunderstood(why)),
    }
}

/// The reason why there is no usable answer.
#[derive(Debug, PartialEq, Eq)]
enum Trouble {
    Closed,
    Late,
    /// The scheduler that answers does not support the request.
    Stranger,
    /// The answer has another format.
    Misunderstood(String),
    Refused(String),
}

impl Trouble {
    fn of(error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::TimedOut | ErrorKind::WouldBlock => Self::Late,
            _ => Self::Closed,
        }
    }

    /// Return the trouble for the text of a refusal, whose first line is the message.
    fn refused(said: &str) -> Self {
        if said.contains("unknown stat target") {
            return Self::Stranger;
        }
        Self::Refused(said.lines().next().unwrap_or_default().to_owned())
    }

    fn explain(self) -> Failure {
        match self {
            Self::Closed => Failure::kernel("no longer running; start it with `sudo scx_bias`"),
            Self::Late => Failure::runtime(format!(
                "the running scx_bias has not answered for {} s; check whether its process is stopped, or other clients keep it busy",
                PATIENCE.as_secs()
            )),
            Self::Stranger => Failure::new(
                Exit::OtherScheduler,
                "the running scheduler is not scx_bias, or has another version; stop it and start this one",
            ),
            Self::Misunderstood(why) => Failure::runtime(format!(
                "the running scx_bias has another version ({why}); use the program that was started"
            )),
            Self::Refused(why) => Failure::runtime(format!(
                "the running scx_bias cannot answer ({why}); see its log, and please report this{REPORT_TO}"
            )),
        }
    }
}

/// Return the failure for a socket on which no process listens.
fn absent(path: Option<&Path>) -> Failure {
    match bpf::active().filter(|_| path.is_none()) {
        Some(name) if name.starts_with("bias") => {
            Failure::runtime("running, but without a control socket; its log shows why; restart it")
        }
        Some(name) => Failure::new(
            Exit::OtherScheduler,
            format!("not running, but the sched_ext scheduler \"{name}\" is; stop that first"),
        ),
        None => Failure::kernel("not running; start it with `sudo scx_bias`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_its_remedy() {
        let refused = |text: &str| {
            let answer = serde_json::json!({ "errno": 22, "args": { "resp": text } });
            read::<Vec<u32>>(&answer.to_string()).err()
        };
        assert_eq!(refused("no iterator\n\nCaused by: x"), Some(Trouble::Refused("no iterator".into())));
        assert_eq!(refused("Invalid argument: unknown stat target x"), Some(Trouble::Stranger));
        assert_eq!(Trouble::of(&ErrorKind::WouldBlock.into()), Trouble::Late);
        assert_eq!(Trouble::of(&ErrorKind::UnexpectedEof.into()), Trouble::Closed);
        assert_eq!(Trouble::Stranger.explain().exit, Exit::OtherScheduler);
        assert_eq!(Trouble::Closed.explain().exit, Exit::Kernel);
        assert!(Trouble::Late.explain().message.contains("5 s"));
    }

    #[test]
    fn unreadable_answers_have_another_version() {
        assert_eq!(read::<Vec<u32>>("{\"errno\":0,\"args\":{\"resp\":[1,2]}}\n"), Ok(vec![1, 2]));
        // A text is not a refusal if the error code is 0.
        assert_eq!(read::<String>("{\"args\":{\"resp\":\"a\"},\"errno\":0}"), Ok("a".to_owned()));
        for line in ["", "[]", "{\"errno\":0,\"args\":{}}", "{\"errno\":0,\"args\":{\"resp\":\"a\"}}"] {
            assert!(matches!(read::<Vec<u32>>(line), Err(Trouble::Misunderstood(_))), "{line}");
        }
        assert!(matches!(
            read::<String>("{\"errno\":5,\"args\":{\"resp\":\"a\"}}"),
            Err(Trouble::Refused(_))
        ));
    }

    #[test]
    fn a_missing_socket_means_that_no_scheduler_runs() {
        let error = Client::connect(Some(Path::new("/nonexistent/stats"))).err();
        assert_eq!(error.as_ref().map(|error| error.exit), Some(Exit::Kernel));
        assert!(error.is_some_and(|error| error.message.contains("sudo scx_bias")));
    }
}
