// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Progress of long work: a spinner with the last line of output on a terminal, plain lines
//! elsewhere.

use std::cell::Cell;
use std::io::{BufRead as _, BufReader, IsTerminal as _, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};

/// Maximum number of lines that are shown of a failed command's output.
const LINES_SHOWN: usize = 25;
/// Minimum time between progress lines if there is no terminal.
const HEARTBEAT: Duration = Duration::from_secs(60);

thread_local! {
    /// True if another program draws on the terminal beside the steps of this thread.
    static IS_BESIDE: Cell<bool> = const { Cell::new(false) };
}

/// Print the steps of this thread as plain lines from now on, because another program draws on the
/// terminal.
pub fn leave_terminal() {
    IS_BESIDE.set(true);
}

/// One step of the set-up. It ends with a line that shows its duration. A step that is dropped
/// before its end prints nothing.
pub struct Step {
    /// It is hidden if there is no terminal.
    bar: ProgressBar,
    beat: Instant,
}

impl Step {
    /// Begin a step. `name` is a short text with the action and its reason.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        let bar = if IS_BESIDE.get() { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
        let bar = bar.with_prefix(name.into());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} [{elapsed}] {wide_msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        if bar.is_hidden() {
            eprintln!("xtask: {} ...", bar.prefix());
        }
        Self { bar, beat: Instant::now() }
    }

    /// Show the current activity, for example the last line of a build's output.
    pub fn note(&mut self, text: &str) {
        self.bar.set_message(text.to_string());
        if self.bar.is_hidden() && self.beat.elapsed() >= HEARTBEAT {
            self.beat = Instant::now();
            let (name, elapsed) = (self.bar.prefix(), self.bar.elapsed().as_secs());
            eprintln!("xtask: {name} ... {elapsed} s: {}", text.trim());
        }
    }

    /// End the step with success, and print `result` and the duration.
    pub fn done(self, result: &str) {
        self.bar.finish_and_clear();
        let gap = if result.is_empty() { "" } else { ": " };
        eprintln!("xtask: {}{gap}{result} ({:.1} s)", self.bar.prefix(), self.bar.elapsed().as_secs_f64());
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A line about a command, on the terminal that shows the command's own output.
///
/// It is shown only below complete lines, and removed before more output follows. Without a
/// terminal there is no such line.
#[derive(Default)]
pub struct StatusLine(Mutex<Line>);

#[derive(Default)]
struct Line {
    /// True if the line is on the terminal.
    is_shown: bool,
    /// True if the last output ended within a line.
    is_within: bool,
}

impl StatusLine {
    /// Show `text` instead of the previous one.
    pub fn show(&self, text: &str) {
        let mut stderr = std::io::stderr();
        if stderr.is_terminal() {
            put(&mut stderr, self.line().shown(text).as_bytes());
        }
    }

    /// Remove the line.
    pub fn wipe(&self) {
        put(&mut std::io::stderr(), self.line().wiped().as_bytes());
    }

    /// Remove the line, then write output to `to`.
    pub fn write(&self, to: &mut impl Write, bytes: &[u8]) {
        let mut line = self.line();
        put(&mut std::io::stderr(), line.before(bytes).as_bytes());
        put(to, bytes);
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    /// Return the output that shows `text`: nothing within a line of output.
    fn shown(&mut self, text: &str) -> String {
        self.is_shown |= !self.is_within;
        if self.is_within { String::new() } else { format!("{WIPE}{text}") }
    }

    /// Return the output that removes the line before these bytes of output.
    fn before(&mut self, bytes: &[u8]) -> &'static str {
        self.is_within = bytes.last().is_some_and(|&last| last != b'\n');
        self.wiped()
    }

    /// Return the output that removes the line.
    fn wiped(&mut self) -> &'static str {
        if std::mem::take(&mut self.is_shown) { WIPE } else { "" }
    }
}

/// Control sequence that returns to the start of the line and erases it.
const WIPE: &str = "\r\x1b[K";

/// Write and flush. Errors are ignored, because the writer is not responsible for a closed pipe of
/// this process.
fn put(to: &mut impl Write, bytes: &[u8]) {
    if !bytes.is_empty() {
        let _ = to.write_all(bytes).and_then(|()| to.flush());
    }
}

/// Run a command as part of a step. Its output goes to `log`, and its last line to the screen.
///
/// # Errors
/// The command cannot start, or fails. The error ends with the last lines of its output and names
/// the log.
pub fn run_logged(step: &mut Step, command: &mut Command, log: &Path) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
    let copy = writer.try_clone().context("cannot share a pipe")?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(copy)
        .spawn()
        .with_context(|| format!("cannot start {program}"))?;
    // `command` holds the write ends of the pipe. The loop below ends only after they are dropped
    // here.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    if let Some(parent) = log.parent() {
        std::fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
    }
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .with_context(|| format!("cannot write {}", log.display()))?;
    let mut lines = Vec::new();
    for line in BufReader::new(reader).split(b'\n') {
        let line = String::from_utf8_lossy(&line.context("cannot read a command's output")?).into_owned();
        writeln!(file, "{line}").with_context(|| format!("cannot write {}", log.display()))?;
        if !line.trim().is_empty() {
            step.note(&line);
            lines.push(line);
        }
    }
    let status = child.wait().with_context(|| format!("cannot wait for {program}"))?;
    crate::interrupt::check()?;
    if !status.success() {
        let tail = lines.split_off(lines.len().saturating_sub(LINES_SHOWN));
        bail!("{program} failed ({status}); its last lines (all in {}):\n{}", log.display(), tail.join("\n"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_follows_whole_lines_and_is_removed_before_output() {
        let mut line = Line::default();
        assert_eq!(line.shown("a"), format!("{WIPE}a"));
        assert_eq!(line.before(b"half"), WIPE);
        assert_eq!(line.shown("b"), "", "it would end a line that is not its own");
        assert_eq!(line.before(b" a line\n"), "", "a line that is not shown needs no wiping");
        assert_eq!(line.shown("c"), format!("{WIPE}c"));
        assert_eq!(line.wiped(), WIPE);
        assert_eq!(line.wiped(), "");
    }
}
