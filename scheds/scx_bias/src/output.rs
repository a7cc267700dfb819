//! Output to standard output and standard error.

use anyhow::Result;
use bias_agent::failure::Exit;
use std::io::{ErrorKind, IsTerminal, Write};
use tracing::Level;
use tracing_subscriber::EnvFilter;

/// Print `text`. A closed pipe is no error.
///
/// # Errors
/// Any other error of standard output.
pub fn print(text: &str) -> Result<Exit> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(Exit::Clean),
    }
}

/// Print an error or a warning on standard error. Failures of that output are ignored.
pub fn complain(message: &str) {
    let _ = writeln!(std::io::stderr(), "scx_bias: {message}");
}

/// Return the warning about an option that has another name than before.
pub fn renamed(old: &str, new: &str) -> String {
    format!("{old} is now {new}; only this release still accepts the old name")
}

/// Function that sets the log level from now on.
pub type SetLevel = Box<dyn Fn(Level)>;

/// Return the log level where no option gives one: that in RUST_LOG if it names a level, else info.
pub fn usual_level() -> Level {
    let wish = std::env::var("RUST_LOG").ok();
    wish.and_then(|word| word.parse().ok()).unwrap_or(Level::INFO)
}

/// Return true if the user allows colours. NO_COLOR with any value forbids them.
pub fn allows_colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Start the log on standard error. The info level shows actions, the debug level also reasons.
pub fn log(level: Level) -> SetLevel {
    let filter = |level: Level| EnvFilter::new(level.as_str());
    let subscriber = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && allows_colour())
        .with_target(false)
        .without_time()
        // Otherwise the subscriber reports a failed write on standard error, which also fails: it
        // panics.
        .log_internal_errors(false)
        .with_env_filter(filter(level))
        .with_filter_reloading();
    let handle = subscriber.reload_handle();
    subscriber.init();
    Box::new(move |level| {
        // This fails only if the subscriber is gone.
        let _ = handle.reload(filter(level));
    })
}
