// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Groups of processes that pass messages: `groups:N`. Based on the idea of hackbench.
//!
//! # Problem
//! Many short wakeups at the same time, with more runnable processes than CPUs, show the cost of a
//! scheduler's queues and locks.
//!
//! # Approach
//! A group has ten senders and ten receivers. In a batch, every sender sends a few messages to each
//! receiver of its group, through one socket per receiver. The time of a batch is from the first
//! order to the last report. Batches follow one another until the window is over.
//!
//! # Invariants
//! Every batch passes the same number of messages. A process that fails or hangs ends the run with
//! an error.
//!
//! # Limits
//! A batch is smaller than hackbench's default (twenty of each, 100 rounds), so that it takes well
//! under a second in the VM.

use super::child::{Child, Fault, readable};
use super::series;
use super::{Description, Env, Measured, Workload, count, measured};
use crate::{Error, Result};
use nix::unistd::{pipe, read, write};
use serde_json::json;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Entry of this workload in [`super::list`].
pub const DESCRIPTION: Description = Description {
    name: "groups",
    syntax: "groups:N (1 to 20 groups of 20 processes)",
    measures: "groups of ten senders and ten receivers that pass 400 messages per group and batch: time of a batch",
    metrics: &["time_ms"],
    with_pmu: &[],
};

/// Number of senders of a group, and of receivers.
const SIDE: usize = 10;
/// Messages from each sender to each receiver in a batch.
const ROUNDS: usize = 4;
/// Size of a message, bytes.
const MESSAGE: usize = 100;
/// Minimum number of measured batches, even beyond the window.
const MIN_BATCHES: usize = 3;
/// Maximum time of a batch. A longer one has lost a process.
const LIMIT: Duration = Duration::from_secs(120);

/// The workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Groups(usize);

impl Groups {
    /// Parse the text after the name.
    pub(super) fn parse(rest: &str) -> Option<Self> {
        count(rest.strip_prefix(':')?, 1..=20).map(Groups)
    }
}

impl Workload for Groups {
    fn name(&self) -> String {
        format!("groups:{}", self.0)
    }

    fn run(&self, env: &Env) -> Result<Measured> {
        let hall = Hall::open(self.0)?;
        let start = Instant::now();
        while hall.batch()? < LIMIT && start.elapsed() < env.warmup {}
        let mut times = Vec::new();
        let start = Instant::now();
        while times.len() < MIN_BATCHES || start.elapsed() < env.window {
            times.push(hall.batch()?.as_nanos() as u64);
        }
        let metrics = series::spread(&times)?.into_iter().filter(|(name, _)| name == "time_ms").collect();
        let mut detail = series::detail(&times, 0);
        detail["messages"] = json!(self.0 * SIDE * SIDE * ROUNDS);
        measured(metrics, detail)
    }
}

/// All groups. Dropping this ends them.
struct Hall {
    /// Kept only so that dropping them ends the processes.
    processes: Vec<Child>,
    /// One pipe per sender. A byte is the order for a batch.
    go: Vec<OwnedFd>,
    /// Pipe with one byte from each receiver that has all messages of a batch.
    done: OwnedFd,
    receivers: usize,
}

impl Hall {
    fn open(groups: usize) -> Result<Self> {
        let (done, report) = new_pipe()?;
        let mut hall = Hall { processes: Vec::new(), go: Vec::new(), done, receivers: groups * SIDE };
        for _ in 0..groups {
            hall.add_group(&report)?;
        }
        Ok(hall)
    }

    fn add_group(&mut self, report: &OwnedFd) -> Result<()> {
        let pair = |_| UnixStream::pair().map_err(|e| Error::failed("making a socket (see 'ulimit -n')", e));
        let sockets = (0..SIDE).map(pair).collect::<Result<Vec<_>>>()?;
        let (outs, ins): (Vec<UnixStream>, Vec<UnixStream>) = sockets.into_iter().unzip();
        for socket in &ins {
            self.processes.push(Child::start(|| receive(socket, report))?);
        }
        for _ in 0..SIDE {
            let (order, go) = new_pipe()?;
            self.processes.push(Child::start(|| send(&order, &outs))?);
            self.go.push(go);
        }
        Ok(())
    }

    /// Let every sender send its messages. Return the time until the last one was received.
    fn batch(&self) -> Result<Duration> {
        let start = Instant::now();
        for go in &self.go {
            write(go, &[1]).map_err(|e| Error::failed("message passing: a sender is lost", e))?;
        }
        let mut missing = self.receivers;
        let mut bytes = [0; 256];
        while missing > 0 {
            if !readable(self.done.as_fd(), start + LIMIT)? {
                let why = format!("{missing} receivers are not done after {} s", LIMIT.as_secs());
                return Err(Error::failed("message passing", why + "; does the scheduler starve a task?"));
            }
            let room = missing.min(bytes.len());
            match read(&self.done, &mut bytes[..room]).map_err(|e| Error::failed("message passing", e))? {
                0 => return Err(Error::failed("message passing", "all processes ended early")),
                n => missing -= n,
            }
        }
        Ok(start.elapsed())
    }
}

fn new_pipe() -> Result<(OwnedFd, OwnedFd)> {
    pipe().map_err(|e| Error::failed("making a pipe (see 'ulimit -n')", e))
}

/// Run a sender until its pipe of orders is closed.
fn send(orders: &OwnedFd, receivers: &[UnixStream]) -> std::result::Result<(), Fault> {
    let mut byte = [0];
    while matches!(read(orders, &mut byte), Ok(1)) {
        for _ in 0..ROUNDS {
            for mut receiver in receivers {
                receiver.write_all(&[7; MESSAGE]).map_err(|_| Fault::Channel)?;
            }
        }
    }
    Ok(())
}

/// Run a receiver: receive all messages of a batch, report, repeat.
fn receive(mut socket: &UnixStream, report: &OwnedFd) -> std::result::Result<(), Fault> {
    let mut message = [0; MESSAGE];
    loop {
        for _ in 0..SIDE * ROUNDS {
            socket.read_exact(&mut message).map_err(|_| Fault::Channel)?;
        }
        write(report, &[1]).map_err(|_| Fault::Channel)?;
    }
}
