// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The control socket: requests of clients, and the answers of the daemon.
//!
//! [`protocol`] declares the requests and turns lines into them. [`server`] serves clients in turn
//! and passes their requests to the main thread. [`status`] has the documents that answer.

mod client;
mod protocol;
mod server;
mod status;

pub use client::Client;
pub use protocol::Reply;
pub(crate) use protocol::{Instance, Request};
pub(crate) use server::{Server, listen};
pub use status::{CpuClass, Machine, Scope, StatusReport, TasksReport, Thresholds};
