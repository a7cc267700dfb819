//! The control socket: requests of clients, and the answers of the daemon.
//!
//! [`protocol`] declares the requests. [`listener`] serves bounded clients, [`handler`] reads their
//! requests and shares answers, and [`server`] passes requests to the main thread.

mod client;
mod handler;
mod listener;
mod protocol;
mod reply;
mod server;
mod status;

pub use client::Client;
pub(crate) use protocol::{Instance, Request};
pub use reply::Reply;
pub(crate) use server::Server;
pub(crate) use status::State;
pub use status::{CpuClass, Machine, Scope, StatusReport, Thresholds};
