//! `scx_bias top`: a table for each interval, in place on a terminal, one after the other
//! elsewhere.
//!
//! # Invariants
//! The terminal is restored, regardless of what ends the program: a key, a signal or an error. A
//! closed reader of the output is no error. The screen reacts to keys and resizes at once, with any
//! interval.

use std::io::{self, ErrorKind, IsTerminal, Stdout, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{self, Event, KeyCode, KeyModifiers};
use crossterm::style::{Attribute, Print, SetAttribute};
use crossterm::terminal::{
    self, Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use crossterm::{execute, queue};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::shares::Snapshot;
use super::top_table::{Lines, render};
use bias_agent::bpf::TaskReport;
use bias_agent::control::Client;
use bias_agent::failure::Failure;

/// Columns where there is no terminal.
const WIDTH: usize = 80;
/// Longest wait for the first table on a terminal.
const FIRST: Duration = Duration::from_millis(500);
/// Time between checks for signals.
const POLL: Duration = Duration::from_millis(200);

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

/// Show the activity of tasks until the user, the reader or the scheduler ends it.
///
/// # Errors
/// As [`Client::status`], and [`bias_agent::failure::Exit::Runtime`] when the output cannot be
/// written.
pub fn top(options: &TopOptions) -> Result<(), Failure> {
    let mut feed = Feed::open(options)?;
    let terminal = io::stdout().is_terminal() && io::stdin().is_terminal();
    let result = if terminal && options.count.is_none() && !options.json {
        on_screen(&mut feed, options)
    } else {
        in_sequence(&mut feed, options, &mut io::stdout())
    };
    result.map_err(Stopped::explain).or_else(|failure| failure.map_or(Ok(()), Err))
}

/// The cause that ends the display.
enum Stopped {
    Failure(Failure),
    Output(io::Error),
}

impl Stopped {
    /// Return the failure; None when the cause is no failure.
    fn explain(self) -> Option<Failure> {
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
struct Feed {
    client: Client,
    before: Vec<TaskReport>,
    at: Instant,
}

impl Feed {
    fn open(options: &TopOptions) -> Result<Self, Failure> {
        let mut client = Client::connect(options.socket.as_deref())?;
        let before = client.tasks()?;
        Ok(Self { client, before, at: Instant::now() })
    }

    /// Return the activity since the last call.
    fn next(&mut self) -> Result<Snapshot, Failure> {
        let now = self.client.tasks()?;
        let at = Instant::now();
        let status = self.client.status()?;
        let snapshot = Snapshot::new(status, &self.before, &now, at.duration_since(self.at));
        (self.before, self.at) = (now, at);
        Ok(snapshot)
    }
}

/// Print tables or JSON lines, one after the other.
fn in_sequence(feed: &mut Feed, options: &TopOptions, out: &mut impl Write) -> Result<(), Stopped> {
    let mut printed = 0;
    while options.count.is_none_or(|count| printed < count) {
        sleep(options.interval);
        let snapshot = feed.next()?;
        if options.json {
            let line = serde_json::to_string(&snapshot)
                .map_err(|error| Failure::runtime(format!("cannot write the table as JSON ({error})")))?;
            writeln!(out, "{line}")?;
        } else {
            let gap = if printed == 0 { "" } else { "\n" };
            let width = if io::stdout().is_terminal() { size().0 } else { WIDTH };
            writeln!(out, "{gap}{}", render(&snapshot, width, usize::MAX).lines.join("\n"))?;
        }
        out.flush()?;
        printed += 1;
    }
    Ok(())
}

/// Return the columns and lines of the terminal.
fn size() -> (usize, usize) {
    let (width, height) = terminal::size().unwrap_or((80, 24));
    (usize::from(width), usize::from(height))
}

/// Show tables in place.
fn on_screen(feed: &mut Feed, options: &TopOptions) -> Result<(), Stopped> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // Without a handler a signal would end the program at once and leave the terminal in raw
        // mode.
        let _ = signal_hook::flag::register(signal, Arc::clone(&stop));
    }
    let mut screen = Screen::open()?;
    let mut due = Instant::now() + options.interval.min(FIRST);
    let mut snapshot = None;
    loop {
        screen.draw(snapshot.as_ref())?;
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            if left.is_zero() {
                snapshot = Some(feed.next()?);
                due = Instant::now() + options.interval;
                break;
            }
            if event::poll(left.min(POLL))? {
                match event::read()? {
                    event if quits(&event) => return Ok(()),
                    Event::Resize(..) => break,
                    _ => {}
                }
            }
        }
    }
}

/// Return true for `q`, Esc, and Ctrl-C, which is no signal while the terminal is in raw mode.
fn quits(event: &Event) -> bool {
    let Event::Key(key) = event else { return false };
    match key.code {
        KeyCode::Char('q' | 'Q') | KeyCode::Esc => true,
        KeyCode::Char('c') => key.modifiers.contains(KeyModifiers::CONTROL),
        _ => false,
    }
}

/// The terminal in raw mode.
struct Screen(Stdout);

impl Screen {
    fn open() -> io::Result<Self> {
        enable_raw_mode()?;
        // From here on, drop restores the terminal.
        let mut screen = Self(io::stdout());
        execute!(screen.0, EnterAlternateScreen, Hide)?;
        Ok(screen)
    }

    fn draw(&mut self, snapshot: Option<&Snapshot>) -> io::Result<()> {
        let (width, height) = size();
        let lines = snapshot.map_or_else(
            || Lines { lines: vec!["Measuring ...".to_owned()], head: usize::MAX },
            |snapshot| render(snapshot, width, height.saturating_sub(1)),
        );
        paint(&mut self.0, &lines, height)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs no restoring.
        let _ = execute!(self.0, Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}

/// Draw over the old content, line by line, so that nothing flickers. The last of `height` lines
/// shows the keys.
fn paint(out: &mut impl Write, lines: &Lines, height: usize) -> io::Result<()> {
    for (at, line) in lines.lines.iter().enumerate() {
        // Clear first: after a line of full width the cursor is still on its last character.
        queue!(out, MoveTo(0, row(at)), Clear(ClearType::UntilNewLine))?;
        let attribute = if at == lines.head { Attribute::Bold } else { Attribute::Reset };
        queue!(out, SetAttribute(attribute), Print(line), SetAttribute(Attribute::Reset))?;
    }
    queue!(out, MoveTo(0, row(lines.lines.len())), Clear(ClearType::FromCursorDown))?;
    if height > lines.lines.len() {
        queue!(out, MoveTo(0, row(height.saturating_sub(1))), Print("q quits"))?;
    }
    out.flush()
}

fn row(at: usize) -> u16 {
    u16::try_from(at).unwrap_or(u16::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crossterm::event::KeyEvent;

    #[test]
    fn the_keys_that_quit_quit() {
        let key = |code, modifiers| quits(&Event::Key(KeyEvent::new(code, modifiers)));
        assert!(key(KeyCode::Char('q'), KeyModifiers::NONE) && key(KeyCode::Esc, KeyModifiers::NONE));
        assert!(key(KeyCode::Char('c'), KeyModifiers::CONTROL));
        assert!(!key(KeyCode::Char('c'), KeyModifiers::NONE) && !quits(&Event::Resize(1, 1)));
    }

    #[test]
    fn a_frame_covers_the_one_before() {
        let mut out = Vec::new();
        let lines = Lines { lines: vec!["a".into(), "HEAD".into()], head: 1 };
        paint(&mut out, &lines, 5).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("\x1b[2;1H\x1b[K\x1b[1mHEAD\x1b[0m"), "{text:?}");
        assert!(text.ends_with("\x1b[3;1H\x1b[J\x1b[5;1Hq quits"), "{text:?}");
    }

    #[test]
    fn readers_that_have_gone_are_no_failure() {
        assert!(Stopped::Output(ErrorKind::BrokenPipe.into()).explain().is_none());
        assert!(Stopped::Output(ErrorKind::StorageFull.into()).explain().is_some());
    }
}
