// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Standard output, standard error, the log, and text that keeps to a number of columns.

use anyhow::Result;
use bias_agent::failure::Exit;
use bias_agent::options::values::LogLevel;
use clap::ValueEnum;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{Format, FormatEvent, FormatFields, Full, Writer};
use tracing_subscriber::fmt::{FmtContext, format};
use tracing_subscriber::registry::LookupSpan;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Print `text`. A closed pipe is not an error.
///
/// # Errors
/// Any other error of standard output.
pub fn print(text: &str) -> Result<Exit> {
    print_part(text).map(|_| Exit::Clean)
}

/// Print a part of the output immediately. Return false if its reader is gone, which is not an
/// error.
///
/// # Errors
/// As [`print`].
pub fn print_part(text: &str) -> Result<bool> {
    let mut out = std::io::stdout();
    written(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Judge a write to standard output as [`print_part`] does.
///
/// # Errors
/// As [`print`].
pub fn written(result: std::io::Result<()>) -> Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(anyhow::Error::from(error).context("cannot write to standard output")),
    }
}

/// Print a warning or a note on standard error. Failures of that output are ignored.
pub fn complain(message: &str) {
    report(Level::WARN, message);
}

/// Print the error that ends the program, as [`complain`] does.
pub fn complain_of_end(message: &str) {
    report(Level::ERROR, message);
}

fn report(level: Level, message: &str) {
    let priority = if feeds_journal() { priority(level) } else { "" };
    let _ = writeln!(std::io::stderr(), "{priority}scx_bias: {message}");
}

/// Return true if standard error is the journal.
fn feeds_journal() -> bool {
    let stream = std::env::var_os("JOURNAL_STREAM");
    let error = std::io::stderr().as_fd().try_clone_to_owned().map(File::from);
    stream.zip(error.ok()).is_some_and(|(stream, error)| is_stream(&error, &stream))
}

/// Return true if `stream` names the file: systemd sets the device and the inode of its journal.
fn is_stream(file: &File, stream: &OsStr) -> bool {
    file.metadata().is_ok_and(|data| *stream == *format!("{}:{}", data.dev(), data.ino()))
}

/// Return the prefix that gives a line of the journal this priority, see sd-daemon(3).
const fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => "<3>",
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        _ => "<7>",
    }
}

/// Lines of the log, with their priorities if they go to the journal.
struct Lines {
    with_priority: bool,
    format: Format<Full, ()>,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> std::fmt::Result {
        if self.with_priority {
            writer.write_str(priority(*event.metadata().level()))?;
        }
        self.format.format_event(context, writer, event)
    }
}

/// Return the warning about a renamed option.
pub fn renamed(old: &str, new: &str) -> String {
    format!("{old} is now {new}; only this release still accepts the old name")
}

/// Function that sets the log level from now on.
pub type SetLevel = Box<dyn Fn(Level)>;

/// Return the log level where no option gives one: that in RUST_LOG if it names a level, else info.
pub fn usual_level() -> LogLevel {
    let wish = std::env::var("RUST_LOG").ok().and_then(|word| word.parse::<Level>().ok());
    wish.and_then(|level| LogLevel::from_str(level.as_str(), true).ok()).unwrap_or_default()
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
        // Otherwise the subscriber reports a failed write on standard error, which also fails: it
        // panics.
        .log_internal_errors(false)
        .event_format(Lines {
            with_priority: feeds_journal(),
            format: format().with_target(false).without_time(),
        })
        .with_env_filter(filter(level))
        .with_filter_reloading();
    let handle = subscriber.reload_handle();
    subscriber.init();
    Box::new(move |level| {
        // This fails only if the subscriber is gone.
        let _ = handle.reload(filter(level));
    })
}

/// Width of texts that do not follow the terminal [columns].
pub const WIDTH: usize = 80;

/// Cut `text` to `width` columns. A name may hold any bytes: a question mark replaces characters
/// that could move the cursor.
pub fn cut(text: &str, width: usize) -> String {
    let mut used = 0;
    let printable = text.chars().map(|c| if c.is_control() || c.width().is_none() { '?' } else { c });
    printable
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used <= width
        })
        .collect()
}

/// Fit `text` into exactly `width` columns.
pub fn fit(text: &str, width: usize, right: bool) -> String {
    let text = cut(text, width);
    let blank = " ".repeat(width - text.width().min(width));
    if right { blank + &text } else { text + &blank }
}

/// Wrap `text` to at most `width` columns and indent the lines after the first. A longer word is
/// cut.
pub fn wrap(text: &str, width: usize, indent: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) => lines.push(" ".repeat(indent) + word),
            None => lines.push(word.to_owned()),
        }
    }
    lines.iter().map(|line| cut(line, width)).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_journal_is_known_by_device_and_inode() {
        let file = tempfile::tempfile().unwrap();
        let data = file.metadata().unwrap();
        let name = format!("{}:{}", data.dev(), data.ino());
        assert!(is_stream(&file, OsStr::new(&name)));
        assert!(!is_stream(&file, OsStr::new("1:2")) && !is_stream(&file, OsStr::new("")));
        let levels = [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE];
        assert_eq!(levels.map(priority), ["<3>", "<4>", "<6>", "<7>", "<7>"]);
    }

    #[test]
    fn readers_that_have_gone_are_not_a_failure() {
        assert!(written(Err(ErrorKind::BrokenPipe.into())).is_ok_and(|has_reader| !has_reader));
        assert!(written(Err(ErrorKind::StorageFull.into())).is_err() && written(Ok(())).is_ok());
    }

    #[test]
    fn names_cannot_move_the_cursor() {
        assert_eq!(cut("a\x1b[2Jb\n", 20), "a?[2Jb?");
        assert_eq!(fit("名前", 3, false), "名 ");
    }

    #[test]
    fn wrapped_text_keeps_its_words() {
        assert_eq!(wrap("one two three", 7, 2), ["one two", "  three"]);
        assert_eq!(wrap("incomprehensible", 5, 0), ["incom"]);
    }

    proptest! {
        #[test]
        fn fitted_text_has_the_given_width(text in ".*", width in 0usize..30, right: bool) {
            prop_assert_eq!(fit(&text, width, right).width(), width);
            prop_assert!(wrap(&text, width, 2).iter().all(|line| line.width() <= width));
        }
    }
}
