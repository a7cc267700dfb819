//! Client of the running instance, over the socket of scx_stats.
//!
//! # Invariants
//! No call waits for ever: an instance that does not answer within [`PATIENCE`] is an error. A
//! connection may break, as it does when the kernel has the scheduler reloaded. It is opened again
//! once per request.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use scx_stats::{StatsClient, StatsErrno};
use serde::de::DeserializeOwned;

use crate::bpf;
use crate::failure::{Exit, Failure};

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection to the running instance.
pub struct Client {
    inner: StatsClient,
    path: Option<PathBuf>,
}

impl Client {
    /// Connect to the usual socket, or to `path`.
    ///
    /// # Errors
    /// [`Exit::Kernel`] when nothing runs or a permission is missing, [`Exit::OtherScheduler`] when
    /// another scheduler runs.
    pub fn connect(path: Option<&Path>) -> Result<Self, Failure> {
        let client = match path {
            Some(path) => StatsClient::new().set_path(path),
            None => StatsClient::new(),
        };
        let inner = client.connect(Some(PATIENCE.as_millis() as u64)).map_err(|error| {
            match error.downcast_ref::<std::io::Error>().map(std::io::Error::kind) {
                Some(ErrorKind::PermissionDenied) => {
                    Failure::kernel("only root may ask the running scx_bias; use sudo")
                }
                Some(ErrorKind::NotFound | ErrorKind::ConnectionRefused) => absent(path),
                _ => Failure::runtime(format!("cannot reach the running scx_bias ({error}); try again")),
            }
        })?;
        Ok(Self { inner, path: path.map(Path::to_owned) })
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
        self.inner.request("stats", arguments).map_err(|error| Trouble::of(&error))
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
    fn of(error: &anyhow::Error) -> Self {
        if error.downcast_ref::<StatsErrno>().is_some() {
            // The library sends the error's debug form as a JSON string. The first line is the
            // message.
            let said = error.root_cause().to_string();
            let said: String = serde_json::from_str(&said).unwrap_or(said);
            if said.contains("unknown stat target") {
                return Self::Stranger;
            }
            return Self::Refused(said.lines().next().unwrap_or_default().to_owned());
        }
        if error.downcast_ref::<serde_json::Error>().is_some() {
            return Self::Misunderstood(error.to_string());
        }
        if error.to_string().contains("timed out") { Self::Late } else { Self::Closed }
    }

    fn explain(self) -> Failure {
        match self {
            Self::Closed => Failure::kernel("scx_bias has just ended; start it with `sudo scx_bias`"),
            Self::Late => Failure::runtime(format!(
                "the running scx_bias has not answered for {} s; look whether its process is stopped",
                PATIENCE.as_secs()
            )),
            Self::Stranger => Failure::new(
                Exit::OtherScheduler,
                "the scheduler that runs is not scx_bias, or one of another version; stop it and start this one",
            ),
            Self::Misunderstood(why) => Failure::runtime(format!(
                "the running scx_bias is of another version ({why}); use the program that was started"
            )),
            Self::Refused(why) => Failure::runtime(format!(
                "the running scx_bias cannot answer ({why}); see its log, and please report this"
            )),
        }
    }
}

/// Return the failure for a socket on which no process listens.
fn absent(path: Option<&Path>) -> Failure {
    match bpf::active().filter(|_| path.is_none()) {
        Some(name) if name.starts_with("bias") => {
            Failure::runtime("scx_bias runs without a socket to ask it on; its log shows why; restart it")
        }
        Some(name) => Failure::new(
            Exit::OtherScheduler,
            format!("scx_bias is not running, but the sched_ext scheduler \"{name}\"; stop that first"),
        ),
        None => Failure::kernel("scx_bias is not running; start it with `sudo scx_bias`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn every_trouble_has_its_remedy() {
        let refused = |text: &str| anyhow!("{}", serde_json::json!(text)).context(StatsErrno(22));
        assert_eq!(
            Trouble::of(&refused("no iterator\n\nCaused by: x")),
            Trouble::Refused("no iterator".into())
        );
        assert_eq!(Trouble::of(&refused("Invalid argument: unknown stat target x")), Trouble::Stranger);
        assert_eq!(Trouble::of(&anyhow!("read timed out")), Trouble::Late);
        assert_eq!(Trouble::of(&anyhow!("connection closed")), Trouble::Closed);
        assert_eq!(Trouble::Stranger.explain().exit, Exit::OtherScheduler);
        assert_eq!(Trouble::Closed.explain().exit, Exit::Kernel);
        assert!(Trouble::Late.explain().message.contains("5 s"));
    }

    #[test]
    fn a_socket_that_is_not_there_is_a_scheduler_that_does_not_run() {
        let error = Client::connect(Some(Path::new("/nonexistent/stats"))).err();
        assert_eq!(error.as_ref().map(|error| error.exit), Some(Exit::Kernel));
        assert!(error.is_some_and(|error| error.message.contains("sudo scx_bias")));
    }
}
