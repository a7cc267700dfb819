//! What goes to standard output and standard error.

use anyhow::Result;
use bias_agent::failure::Exit;
use std::io::{ErrorKind, IsTerminal, Write};
use tracing::Level;
use tracing_subscriber::EnvFilter;

/// Prints; a reader that has gone is no error.
pub fn print(text: &str) -> Result<Exit> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(Exit::Clean),
    }
}

/// Tells what went wrong; that nothing reads it changes nothing.
pub fn complain(message: &str) {
    let _ = writeln!(std::io::stderr(), "scx_bias: {message}");
}

/// Sets what is logged from now on.
pub type SetLevel = Box<dyn Fn(Level)>;

/// Tells on standard error what is done, and at the debug level why.
pub fn log(level: Level) -> SetLevel {
    let filter = |level: Level| EnvFilter::new(level.as_str());
    let subscriber = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .without_time()
        // It would say on standard error that nothing can be written there, and panic.
        .log_internal_errors(false)
        .with_env_filter(filter(level))
        .with_filter_reloading();
    let handle = subscriber.reload_handle();
    subscriber.init();
    Box::new(move |level| {
        // It fails only where there is no subscriber any more.
        let _ = handle.reload(filter(level));
    })
}
