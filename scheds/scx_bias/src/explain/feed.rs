//! Successive answers of the running instance, and the causes that end `scx_bias top`.

use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::shares::Snapshot;
use bias_agent::bpf::TaskReport;
use bias_agent::control::Client;
use bias_agent::failure::Failure;

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

/// The cause that ends the display.
pub(super) enum Stopped {
    /// The instance gave no answer.
    Failure(Failure),
    /// The output failed.
    Output(io::Error),
}

impl Stopped {
    /// Return the failure; None when the cause is no failure.
    pub(super) fn explain(self) -> Option<Failure> {
        match self {
            Self::Failure(failure) => Some(failure),
            Self::Output(error) if error.kind() == ErrorKind::BrokenPipe => None,
            Self::Output(error) => Some(Failure::runtime(format!(
                "cannot write the table ({error}); look at where standard output goes"
            ))),
        }
    }
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

/// Successive reports.
pub(super) struct Feed {
    client: Client,
    before: Vec<TaskReport>,
    at: Instant,
}

impl Feed {
    /// Connect, and read the totals from which the first interval counts.
    pub(super) fn open(options: &TopOptions) -> Result<Self, Failure> {
        let mut client = Client::connect(options.socket.as_deref())?;
        let before = client.tasks()?;
        Ok(Self { client, before, at: Instant::now() })
    }

    /// Return the activity since the last call.
    pub(super) fn next(&mut self) -> Result<Snapshot, Failure> {
        let now = self.client.tasks()?;
        let at = Instant::now();
        let status = self.client.status()?;
        let snapshot = Snapshot::new(status, &self.before, &now, at.duration_since(self.at));
        (self.before, self.at) = (now, at);
        Ok(snapshot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_that_have_gone_are_no_failure() {
        assert!(Stopped::Output(ErrorKind::BrokenPipe.into()).explain().is_none());
        assert!(Stopped::Output(ErrorKind::StorageFull.into()).explain().is_some());
    }
}
