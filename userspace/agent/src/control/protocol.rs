// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Requests on the socket, each declared once.
//!
//! # Problem
//!
//! A request has a name, an argument and an answer. The client, the reader of lines, the main
//! thread and the cache of answers all need them.
//!
//! # Approach
//!
//! All requests are in one list at the end. A macro turns it into [`Request`] with its reader, the
//! methods of [`Instance`] that answer, and those of [`Client`] that ask. A new request is one
//! entry and the method that answers it.
//!
//! An argument is sent as JSON text under its own name. The word after the answer tells how it
//! passes through the socket:
//!
//! | word | the method returns | answer |
//! |---|---|---|
//! | `counted` | statistics since the start | those since this client's last request |
//! | `plain` | the answer | for this client |
//! | `shared` | the answer | also for clients that ask the same soon after |
//! | `fallible` | `anyhow::Result` of it | shared; an error is an error of the protocol |
//! | `command` | the answer or a [`Failure`] | a [`Reply`], and shared answers become stale |

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::client::Client;
use super::encoding::{Encode, refusal};
use super::reply::Reply;
use super::status::StatusReport;
use crate::bpf::{Stats, TasksReport};
use crate::failure::Failure;
use crate::optin::{CgroupRequest, CgroupsReport};
use crate::options::ReloadReport;
use crate::swaps::SwapsReport;

/// Answer to a request. The thread of the socket encodes it.
pub(crate) enum Answer {
    Stats(Box<Stats>),
    Other(Box<dyn Encode>),
    Failed(String),
}

/// Return the argument `name` of a request. An absent one is read as `null`.
fn argument<T: DeserializeOwned>(args: &BTreeMap<String, String>, name: &str) -> Result<T> {
    let text = args.get(name).map_or("null", String::as_str);
    serde_json::from_str(text).with_context(|| format!("the argument {name} is of another version"))
}

/// Return an argument as its text.
fn text<T: Serialize>(argument: &T) -> Result<String, Failure> {
    serde_json::to_string(argument)
        .map_err(|error| Failure::usage(format!("the request cannot be sent ({error}); name another path")))
}

macro_rules! returned {
    (counted $answer:ty) => { $answer };
    (plain $answer:ty) => { $answer };
    (shared $answer:ty) => { $answer };
    (fallible $answer:ty) => { Result<$answer> };
    (command $answer:ty) => { Result<$answer, Failure> };
}

macro_rules! answer {
    (counted $value:expr) => {
        Answer::Stats(Box::new($value))
    };
    (fallible $value:expr) => {
        match $value {
            Ok(value) => Answer::Other(Box::new(value)),
            Err(error) => Answer::Failed(format!("{error:#}")),
        }
    };
    (command $value:expr) => {
        Answer::Other(Box::new(Reply::from($value)))
    };
    ($way:ident $value:expr) => {
        Answer::Other(Box::new($value))
    };
}

macro_rules! received {
    (command $answer:ty, $client:ident, $target:expr, $args:expr) => {
        $client.ask::<Reply<$answer>>($target, $args)?.into()
    };
    ($way:ident $answer:ty, $client:ident, $target:expr, $args:expr) => {
        $client.ask::<$answer>($target, $args)
    };
}

macro_rules! requests {
    ($(
        $(#[doc = $doc:literal])+
        $variant:ident = $name:ident($($arg:ident: $type:ty)?) -> $answer:ty, $way:ident;
    )+) => {
        /// Request of a client.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub(crate) enum Request {
            $($(#[doc = $doc])+ $variant$(($type))?,)+
        }

        impl Request {
            /// Names of all requests.
            pub(crate) const TARGETS: &[&str] = &[$(stringify!($name)),+];

            /// Read the request for `target`.
            ///
            /// # Errors
            /// The target is unknown, or its argument cannot be read.
            pub(crate) fn read(target: &str, args: &BTreeMap<String, String>) -> Result<Self> {
                $(if target == stringify!($name) {
                    return Ok(Self::$variant$((argument::<$type>(args, stringify!($arg))?))?);
                })+
                bail!("unknown stat target; there are {}", Self::TARGETS.join(", "))
            }

            /// Return true if the answer serves all clients that ask the same.
            pub(crate) const fn is_shared(&self) -> bool {
                match self {
                    $(Self::$variant { .. } => matches!(stringify!($way).as_bytes(), b"shared" | b"fallible"),)+
                }
            }

            /// Return true if the request may change what others are answered.
            pub(crate) const fn is_command(&self) -> bool {
                match self {
                    $(Self::$variant { .. } => matches!(stringify!($way).as_bytes(), b"command"),)+
                }
            }

            /// Let `instance` answer.
            pub(crate) fn answer(self, instance: &mut dyn Instance) -> Answer {
                match self {
                    $(Self::$variant$(($arg))? => answer!($way instance.$name($($arg)?)),)+
                }
            }
        }

        /// The running instance, which answers.
        pub(crate) trait Instance {
            $($(#[doc = $doc])+ fn $name(&mut self $(, $arg: $type)?) -> returned!($way $answer);)+
        }

        impl Client {
            $(
                $(#[doc = $doc])+
                ///
                /// # Errors
                /// Those of [`Client::connect`], a refusal of the instance, or an answer that does
                /// not come in time or cannot be read.
                pub fn $name(&mut self $(, $arg: &$type)?) -> Result<$answer, Failure> {
                    received!($way $answer, self, stringify!($name), &[$((stringify!($arg), text($arg)?))?])
                }
            )+
        }
    };
}

requests! {
    /// Return the statistics: the instance those since the start, the client's method those since
    /// its last request.
    Top = top() -> Stats, counted;

    /// Return the state of the instance.
    Status = status() -> StatusReport, shared;

    /// Return a report of each task that has run, or has run since the answer with this number.
    Tasks = tasks(since: Option<u32>) -> TasksReport, fallible;

    /// Change the opted-in cgroups, and return their state. A repeated request is harmless.
    Cgroups = cgroups(request: CgroupRequest) -> CgroupsReport, command;

    /// Read the configuration again, and return the changes. After a failure nothing has changed.
    Reload = reload() -> ReloadReport, command;

    /// Return the planned swaps from this number on.
    Swaps = swaps(from: Option<u64>) -> SwapsReport, plain;
}

impl Answer {
    /// Return the line that answers.
    pub(crate) fn encode(self) -> Arc<[u8]> {
        match self {
            Self::Stats(stats) => stats.encode(),
            Self::Other(answer) => answer.encode(),
            Self::Failed(why) => refusal(&why),
        }
    }
}
