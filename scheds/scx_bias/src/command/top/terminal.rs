// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The terminal of the screen, and the loop that serves it.
//!
//! # Invariants
//! The terminal is restored when [`RawTerminal`] is dropped, regardless of the cause. Keys, resizes
//! and signals take effect immediately, at any interval. A terminal that is gone ends top.

use std::io::{self, Stdout};
use std::mem::ManuallyDrop;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    self, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::cpus::LoadReader;
use super::feed::Feed;
use super::screen::{App, Reaction, draw};
use super::style::Look;

/// Longest wait for the first answer.
const FIRST: Duration = Duration::from_millis(500);
/// Time between checks for signals.
const POLL: Duration = Duration::from_millis(200);
/// Size of a terminal that does not know its own, such as a serial line.
const USUAL: (u16, u16) = (80, 24);
/// Context of errors of the terminal.
const UNUSABLE: &str = "cannot use the terminal";

/// Show tasks on the terminal until a key, a signal or a failure ends it.
///
/// # Errors
/// The instance gives no answer, or the terminal fails.
pub fn show(feed: &mut Feed) -> Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // Without a handler a signal would end the program and leave the terminal in raw mode.
        let _ = signal_hook::flag::register(signal, Arc::clone(&stop));
    }
    let look = Look::of_environment();
    let mut screen = RawTerminal::open().context(UNUSABLE)?;
    let (mut app, mut loads) = (App::default(), LoadReader::default());
    loads.read();
    let mut due = Instant::now() + feed.interval().min(FIRST);
    loop {
        screen.draw(&mut app, look).context(UNUSABLE)?;
        match wait(&mut app, due, &stop).context(UNUSABLE)? {
            Woken::Quit => return Ok(()),
            Woken::Drawable => {}
            Woken::Due => {
                let snapshot = feed.next()?;
                app.answer(snapshot, loads.read());
                due = Instant::now() + feed.interval();
            }
        }
    }
}

/// Event that ends a wait.
enum Woken {
    /// The next answer is due.
    Due,
    /// A key or a resize changed the screen.
    Drawable,
    /// A key or a signal asks to quit.
    Quit,
}

/// Wait until an answer is due, or until a key, a resize or a signal comes first.
fn wait(app: &mut App, due: Instant, stop: &AtomicBool) -> io::Result<Woken> {
    loop {
        let left = due.saturating_duration_since(Instant::now());
        if stop.load(Ordering::Relaxed) {
            return Ok(Woken::Quit);
        }
        if left.is_zero() && !app.paused {
            return Ok(Woken::Due);
        }
        let patience = if app.paused { POLL } else { left.min(POLL) };
        // crossterm would read the end of a terminal that is gone forever.
        if is_gone(Duration::ZERO)? {
            return Ok(Woken::Quit);
        }
        if event::poll(Duration::ZERO)? {
            match event::read()? {
                Event::Key(key) if app.key(key) == Reaction::Quit => return Ok(Woken::Quit),
                Event::Key(_) | Event::Resize(..) => return Ok(Woken::Drawable),
                _ => {}
            }
        } else if is_gone(patience)? {
            return Ok(Woken::Quit);
        }
    }
}

/// Wait for a key or a signal, and return true if the terminal is gone.
fn is_gone(patience: Duration) -> io::Result<bool> {
    let stdin = io::stdin();
    let mut terminal = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    let patience = u16::try_from(patience.as_millis()).unwrap_or(u16::MAX);
    match poll(&mut terminal, patience) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => return Err(error.into()),
    }
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    Ok(terminal[0].revents().is_some_and(|flags| flags.intersects(gone)))
}

/// The terminal in raw mode.
struct RawTerminal {
    /// Its drop writes to standard error, which panics if that is closed. [`RawTerminal`] restores
    /// the cursor instead.
    inner: ManuallyDrop<Terminal<CrosstermBackend<Stdout>>>,
    size: (u16, u16),
}

impl RawTerminal {
    fn open() -> io::Result<Self> {
        let size = size();
        let viewport = Viewport::Fixed(Rect::new(0, 0, size.0, size.1));
        let backend = CrosstermBackend::new(io::stdout());
        let inner = ManuallyDrop::new(Terminal::with_options(backend, TerminalOptions { viewport })?);
        enable_raw_mode()?;
        // From here on, drop restores the terminal.
        let screen = Self { inner, size };
        execute!(io::stdout(), EnterAlternateScreen, Hide)?;
        Ok(screen)
    }

    fn draw(&mut self, app: &mut App, look: Look) -> io::Result<()> {
        let size = size();
        if size != self.size {
            self.inner.resize(Rect::new(0, 0, size.0, size.1))?;
            self.size = size;
        }
        self.inner.draw(|frame| {
            draw(frame, app, look);
        })?;
        Ok(())
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        // A terminal that is gone needs no restoring.
        let _ = execute!(io::stdout(), Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}

/// Return the columns and lines of the terminal.
fn size() -> (u16, u16) {
    terminal::size().ok().filter(|(width, height)| *width > 0 && *height > 0).unwrap_or(USUAL)
}
