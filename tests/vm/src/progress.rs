//! Progress of long work: a spinner with the last line of output on a terminal, plain lines elsewhere.

use std::io::{BufRead as _, BufReader, IsTerminal as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Lines of a failed command's output that are repeated on the screen.
const LINES_SHOWN: usize = 25;
/// Time between signs of life where there is no terminal.
const HEARTBEAT: Duration = Duration::from_secs(60);

/// One step of set-up. Ends with a line saying how long it took; a step that is dropped unfinished says nothing.
pub struct Step {
    bar: ProgressBar,
    name: String,
    start: Instant,
    beat: Instant,
    terminal: bool,
}

impl Step {
    /// Begins a step; `name` says what is done and why, in a few words.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        let terminal = std::io::stderr().is_terminal();
        let bar = ProgressBar::with_draw_target(
            None,
            if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() },
        );
        if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} [{elapsed}] {wide_msg}") {
            bar.set_style(style);
        }
        bar.set_prefix(name.clone());
        bar.enable_steady_tick(Duration::from_millis(200));
        if !terminal {
            eprintln!("xtask: {name} ...");
        }
        Self { bar, name, start: Instant::now(), beat: Instant::now(), terminal }
    }

    /// Shows what is going on right now: the last line of a build's output, say.
    pub fn note(&mut self, text: &str) {
        self.bar.set_message(text.to_string());
        if !self.terminal && self.beat.elapsed() >= HEARTBEAT {
            self.beat = Instant::now();
            eprintln!("xtask: {} ... {} s: {}", self.name, self.start.elapsed().as_secs(), text.trim());
        }
    }

    /// Ends the step well.
    pub fn done(self, result: &str) {
        self.bar.finish_and_clear();
        let gap = if result.is_empty() { "" } else { ": " };
        eprintln!("xtask: {}{gap}{result} ({:.1} s)", self.name, self.start.elapsed().as_secs_f64());
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Runs a command as part of a step: its output goes to `log`, its last line to the screen.
///
/// # Errors
/// The command cannot be started or fails; the error ends with the last lines of its output and names the log.
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
    // The command keeps the writing ends of the pipe: without dropping it the loop below would never see the end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    if let Some(parent) = log.parent() {
        std::fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
    }
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .with_context(|| format!("cannot write {}", log.display()))?;
    let mut last = std::collections::VecDeque::with_capacity(LINES_SHOWN);
    for line in BufReader::new(reader).split(b'\n') {
        let line = String::from_utf8_lossy(&line.context("cannot read a command's output")?).into_owned();
        writeln!(file, "{line}").with_context(|| format!("cannot write {}", log.display()))?;
        if !line.trim().is_empty() {
            step.note(&line);
            if last.len() == LINES_SHOWN {
                last.pop_front();
            }
            last.push_back(line);
        }
    }
    let status = child.wait().with_context(|| format!("cannot wait for {program}"))?;
    crate::interrupt::check()?;
    if !status.success() {
        let tail: Vec<_> = last.into_iter().collect();
        bail!("{program} failed ({status}); its last lines (all in {}):\n{}", log.display(), tail.join("\n"));
    }
    Ok(())
}
