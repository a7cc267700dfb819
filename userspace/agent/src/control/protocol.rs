// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Requests on the socket, and the lines that carry them.
//!
//! # Problem
//!
//! A request has a name, an argument and an answer. The client, the reader of lines and the main
//! thread all need them.
//!
//! # Approach
//!
//! This file has all of it, from top to bottom: [`Client`] asks, [`Request`] is read, [`Instance`]
//! answers, and [`reply`] makes a line of that.
//!
//! Lines have the form of scx_stats, so that any of its clients can ask. A request is a line of
//! JSON, `{"req": "stats", "args": {"target": "status"}}`. So is the answer,
//! `{"errno": 0, "args": {"resp": ...}}`. The request `stats_meta` returns a description of the
//! statistics.
//!
//! An argument is sent as JSON text under its own name. An answer passes in one of these ways:
//!
//! * Statistics are those since this client's last request. The main thread gives those since the
//!   start.
//! * The answer to a command is a [`Reply`], which can be a [`Failure`] with its exit code.
//! * Other answers are documents, or an error of the protocol.
//!
//! # Invariants
//!
//! Any line but an empty one gets one answer, a line of JSON. The answer is an error if the line is
//! not a request.
//!
//! The thread of the socket makes an answer text, in one pass. As a tree of values first, a list of
//! 10 000 tasks would take several times as long.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use nix::libc::EINVAL;
use scx_stats::prelude::{Meta, StatsRequest};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::client::{Answered, AnsweredArgs, Client};
use super::status::{StatusReport, TasksReport};
use crate::bpf::Stats;
use crate::failure::{Exit, Failure};
use crate::optin::{CgroupRequest, CgroupsReport};
use crate::options::ReloadReport;
use crate::swaps::SwapsReport;

/// Reply to a command: its result, or the failure that the command line would report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reply<T> {
    /// The command succeeded with this result.
    Done(T),
    /// The command was refused.
    Refused {
        /// Exit code of the program.
        exit: u8,
        /// Cause and remedy.
        message: String,
    },
}

impl<T> From<Result<T, Failure>> for Reply<T> {
    fn from(result: Result<T, Failure>) -> Self {
        let refused = |failure: Failure| Self::Refused { exit: failure.exit as u8, message: failure.message };
        result.map_or_else(refused, Self::Done)
    }
}

impl<T> From<Reply<T>> for Result<T, Failure> {
    fn from(reply: Reply<T>) -> Self {
        match reply {
            Reply::Done(done) => Ok(done),
            Reply::Refused { exit, message } => {
                // A refusal of another version may have a code that is unknown here.
                let exit = Exit::of(exit).filter(|exit| *exit != Exit::Clean);
                Err(Failure::new(exit.unwrap_or(Exit::Runtime), message))
            }
        }
    }
}

/// Each method sends a request.
///
/// # Errors
/// Those of [`Client::connect`], a refusal of the instance, or an answer that does not come in time
/// or cannot be read.
impl Client {
    /// Return the statistics since this client's last request, zeros for the first one.
    pub fn top(&mut self) -> Result<Stats, Failure> {
        self.ask("top", &[])
    }

    /// Return the state of the instance.
    pub fn status(&mut self) -> Result<StatusReport, Failure> {
        self.ask("status", &[])
    }

    /// Return a report of each task that has run, or has run since the answer with this number.
    pub fn tasks(&mut self, since: Option<u32>) -> Result<TasksReport, Failure> {
        self.ask("tasks", &[("since", text(&since)?)])
    }

    /// Change the opted-in cgroups, and return their state. A repeated request is harmless.
    pub fn cgroups(&mut self, request: &CgroupRequest) -> Result<CgroupsReport, Failure> {
        self.ask::<Reply<_>>("cgroups", &[("request", text(request)?)])?.into()
    }

    /// Read the configuration again, and return the changes. After a failure nothing has changed.
    pub fn reload(&mut self) -> Result<ReloadReport, Failure> {
        self.ask::<Reply<_>>("reload", &[])?.into()
    }

    /// Return the planned swaps from this number on.
    pub fn swaps(&mut self, from: Option<u64>) -> Result<SwapsReport, Failure> {
        self.ask("swaps", &[("from", text(&from)?)])
    }
}

/// Return an argument as its text.
fn text<T: Serialize>(argument: &T) -> Result<String, Failure> {
    serde_json::to_string(argument)
        .map_err(|error| Failure::usage(format!("the request cannot be sent ({error}); name another path")))
}

/// Request of a client, as the methods of [`Client`] describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    Top,
    Status,
    Tasks(Option<u32>),
    Cgroups(CgroupRequest),
    Reload,
    Swaps(Option<u64>),
}

impl Request {
    /// Names of all requests.
    pub(super) const TARGETS: [&str; 6] = ["top", "status", "tasks", "cgroups", "reload", "swaps"];

    /// Read the request for `target`.
    ///
    /// # Errors
    /// The target is unknown, or its argument cannot be read.
    pub(super) fn read(target: &str, args: &BTreeMap<String, String>) -> Result<Self> {
        Ok(match target {
            "top" => Self::Top,
            "status" => Self::Status,
            "tasks" => Self::Tasks(argument(args, "since")?),
            "cgroups" => Self::Cgroups(argument(args, "request")?),
            "reload" => Self::Reload,
            "swaps" => Self::Swaps(argument(args, "from")?),
            _ => bail!("unknown stat target; there are {}", Self::TARGETS.join(", ")),
        })
    }

    /// Let `instance` answer.
    pub(super) fn answer(self, instance: &mut dyn Instance) -> Answer {
        match self {
            Self::Top => Answer::Stats(Box::new(instance.top())),
            Self::Status => Answer::other(instance.status()),
            Self::Tasks(since) => match instance.tasks(since) {
                Ok(report) => Answer::other(report),
                Err(error) => Answer::Other(Box::new(move || refusal(&format!("{error:#}")))),
            },
            Self::Cgroups(request) => Answer::other(Reply::from(instance.cgroups(request))),
            Self::Reload => Answer::other(Reply::from(instance.reload())),
            Self::Swaps(from) => Answer::other(instance.swaps(from)),
        }
    }
}

/// Return the argument `name` of a request. An absent one is read as `null`.
fn argument<T: DeserializeOwned>(args: &BTreeMap<String, String>, name: &str) -> Result<T> {
    let text = args.get(name).map_or("null", String::as_str);
    serde_json::from_str(text).with_context(|| format!("the argument {name} has another version"))
}

/// The running instance, which answers.
pub(crate) trait Instance {
    /// Return the statistics since the start.
    fn top(&mut self) -> Stats;
    fn status(&mut self) -> StatusReport;
    fn tasks(&mut self, since: Option<u32>) -> Result<TasksReport>;
    fn cgroups(&mut self, request: CgroupRequest) -> Result<CgroupsReport, Failure>;
    fn reload(&mut self) -> Result<ReloadReport, Failure>;
    fn swaps(&mut self, from: Option<u64>) -> SwapsReport;
}

/// Answer to a request. The thread of the socket encodes it.
pub(crate) enum Answer {
    Stats(Box<Stats>),
    /// Encoder of any other answer.
    Other(Box<dyn FnOnce() -> Vec<u8> + Send>),
}

impl Answer {
    fn other(answer: impl Serialize + Send + 'static) -> Self {
        Self::Other(Box::new(move || encode(&answer)))
    }
}

/// Return the line that answers with `resp`.
fn encode(resp: &impl Serialize) -> Vec<u8> {
    line(0, resp).unwrap_or_else(|error| refusal(&error.to_string()))
}

/// Return the line that refuses a request for this reason.
pub(super) fn refusal(why: &str) -> Vec<u8> {
    // Text always converts to JSON.
    line(EINVAL, &why).unwrap_or_default()
}

fn line(errno: i32, resp: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(&Answered { args: AnsweredArgs { resp }, errno })?;
    line.push(b'\n');
    Ok(line)
}

/// Return the line that answers `request`, without its end, of the client that got the statistics
/// `last`. `ask` calls the main thread, and returns None when that has ended. Then return None.
pub(super) fn reply(
    request: &[u8],
    last: &mut Option<Stats>,
    ask: impl FnOnce(Request) -> Option<Answer>,
) -> Option<Vec<u8>> {
    let request = request.trim_ascii();
    if request.is_empty() {
        return Some(Vec::new());
    }
    let request = match understand(request) {
        Ok(Some(request)) => request,
        Ok(None) => {
            let meta = Stats::meta();
            return Some(encode(&json!({ meta.name.clone(): meta })));
        }
        Err(error) => return Some(refusal(&format!("{error:#}"))),
    };
    Some(match ask(request)? {
        Answer::Stats(now) => {
            // The first request of a client begins its first interval.
            let since = now.since(last.as_ref().unwrap_or(&now));
            *last = Some(*now);
            encode(&since)
        }
        Answer::Other(encode) => encode(),
    })
}

/// Read a line. Return None if it asks for the description of the statistics.
pub(super) fn understand(line: &[u8]) -> Result<Option<Request>> {
    let request: StatsRequest = serde_json::from_slice(line).context("this is not a request")?;
    match request.req.as_str() {
        "stats" => {
            let target = request.args.get("target").map_or("top", String::as_str);
            Request::read(target, &request.args).map(Some)
        }
        "stats_meta" => Ok(None),
        _ => bail!("unknown command; there are stats and stats_meta"),
    }
}
