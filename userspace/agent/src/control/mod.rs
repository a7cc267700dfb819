// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The control socket: requests of clients, and the answers of the daemon.
//!
//! [`protocol`] declares the requests. [`listener`] serves bounded clients, each a [`connection`],
//! from a budget of CPU time. [`handler`] reads their requests and shares answers, [`encoding`] turns
//! these into text. [`server`] passes requests to the main thread.

mod client;
mod connection;
mod encoding;
mod handler;
mod listener;
mod protocol;
mod reply;
mod server;
mod status;

pub use client::Client;
pub(crate) use listener::{Reach, listen};
pub(crate) use protocol::{Instance, Request};
pub use reply::Reply;
pub(crate) use server::Server;
pub use status::{CpuClass, Machine, Scope, StatusReport, Thresholds};
