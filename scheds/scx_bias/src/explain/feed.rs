// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Successive answers of the running instance.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::confined;
use super::shares::{Snapshot, Totals};
use bias_agent::control::Client;
use bias_agent::failure::Failure;

/// A task with a smaller share of a CPU is no burden where it runs [permille].
const BUSY_PERMILLE: u32 = 50;

/// The user's options.
#[derive(Debug, Clone)]
pub struct TopOptions {
    /// Time between tables.
    pub interval: Duration,
    /// Tables to print, as plain text; None for no limit.
    pub count: Option<u64>,
    /// True for JSON lines instead of tables.
    pub json: bool,
    /// The socket; None for the usual one.
    pub socket: Option<PathBuf>,
}

/// Successive reports.
pub(super) struct Feed {
    client: Client,
    totals: Totals,
    /// Number of the last answer.
    number: u32,
    at: Instant,
}

impl Feed {
    /// Connect, and read the totals from which the first interval counts.
    pub(super) fn open(options: &TopOptions) -> Result<Self, Failure> {
        let mut client = Client::connect(options.socket.as_deref())?;
        let answer = client.tasks(&None)?;
        let at = Instant::now();
        let mut totals = Totals::default();
        totals.advance(answer.tasks, true, Duration::ZERO);
        Ok(Self { client, totals, number: answer.next, at })
    }

    /// Return the activity since the last call.
    pub(super) fn next(&mut self) -> Result<Snapshot, Failure> {
        // Few of thousands of tasks run in an interval, and the others cost time here and there.
        let since = (!self.totals.are_outdated()).then_some(self.number);
        let answer = self.client.tasks(&since)?;
        let at = Instant::now();
        let interval = at.duration_since(self.at);
        let rows = self.totals.advance(answer.tasks, since.is_none(), interval);
        let mut snapshot = Snapshot::new(self.client.status()?, rows, interval);
        let busy = snapshot.tasks.iter().filter(|row| row.share_permille >= BUSY_PERMILLE);
        snapshot.confined = confined::find_now(busy.map(|row| &row.task), &snapshot.machine);
        (self.number, self.at) = (answer.next, at);
        Ok(snapshot)
    }
}
