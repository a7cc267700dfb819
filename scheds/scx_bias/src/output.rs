//! What goes to standard output and standard error.

use anyhow::Result;
use bias_agent::failure::Exit;
use std::io::{ErrorKind, Write};

/// Prints; a reader that has gone is no error.
pub fn print(text: &str) -> Result<Exit> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(Exit::Clean),
    }
}

/// Tells what is done and why on standard error.
pub fn log(verbose: bool) {
    let level = if verbose { "debug" } else { "info" };
    let filter = tracing_subscriber::EnvFilter::new(level);
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .without_time()
        .init();
}
