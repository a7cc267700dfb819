// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of `scx_bias top` on a pseudo-terminal, with a fake instance: its screen, and that it
//! restores the terminal, whatever ends it.

use crate::PROGRAM;
use crate::instance::instance;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{LocalFlags, tcgetattr};
use nix::unistd::{Pid, setsid};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

/// More questions than a test asks.
const ENDLESS: usize = 100_000;
/// Longest wait for an expected event. It only ends tests that fail.
const PATIENCE: Duration = Duration::from_secs(60);
nix::ioctl_write_ptr_bad!(
    /// Set the size of a terminal.
    set_size,
    nix::libc::TIOCSWINSZ,
    Winsize
);

const LEAVE_ALTERNATE_SCREEN: &str = "\x1b[?1049l";
const SHOW_CURSOR: &str = "\x1b[?25h";

/// `scx_bias top` on a terminal.
struct Top {
    child: Child,
    terminal: OwnedFd,
    keyboard: File,
    screen: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
    _directory: tempfile::TempDir,
}

fn size(columns: u16, lines: u16) -> Winsize {
    Winsize { ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Start top on a terminal, in a session of its own.
fn spawn_top(terminal: &OwnedFd, socket: &Path, environment: &[(&str, &str)]) -> Child {
    let end = || Stdio::from(terminal.try_clone().unwrap());
    let mut command = Command::new(PROGRAM);
    command.args(["top", "-i", "0.1", "--socket"]).arg(socket);
    command.stdin(end()).stdout(end()).stderr(end());
    command.env_remove("NO_COLOR").env("LANG", "C.UTF-8").envs(environment.iter().copied());
    // SAFETY: setsid() is safe to call between fork and exec. It detaches the program from the
    // terminal of the test, so that it can only use the one that it gets.
    unsafe { command.pre_exec(|| Ok(setsid().map(drop)?)) };
    command.spawn().unwrap()
}

impl Top {
    /// Start top on a terminal of this size, with an instance that answers `asked` questions.
    fn start(columns: u16, lines: u16, asked: usize, environment: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        instance(&socket, asked);
        let pty = openpty(Some(&size(columns, lines)), None).unwrap();
        let child = spawn_top(&pty.slave, &socket, environment);
        let mut output = File::from(pty.master.try_clone().unwrap());
        let screen = Arc::new(Mutex::new(Vec::new()));
        let written = Arc::clone(&screen);
        let reader = spawn(move || {
            let mut bytes = [0; 4096];
            // Reading fails once no program has the terminal open.
            while let Ok(length @ 1..) = output.read(&mut bytes) {
                written.lock().unwrap().extend_from_slice(&bytes[..length]);
            }
        });
        let (terminal, keyboard) = (pty.slave, File::from(pty.master));
        Self { child, terminal, keyboard, screen, reader, _directory: directory }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().unwrap()).into_owned()
    }

    /// Wait until the terminal got this word. Blanks may be movements of the cursor.
    fn expect(&self, text: &str) {
        let end = Instant::now() + PATIENCE;
        while !self.text().contains(text) {
            assert!(Instant::now() < end, "no {text:?} in {:?}", self.text());
            sleep(Duration::from_millis(10));
        }
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    fn resize(&self, columns: u16, lines: u16) {
        let size = size(columns, lines);
        // SAFETY: the descriptor is open, and the kernel only reads the size.
        unsafe { set_size(self.terminal.as_raw_fd(), &raw const size) }.unwrap();
        // The kernel signals only the session of the terminal, and top has none.
        self.signal(Signal::SIGWINCH);
    }

    fn has_raw_mode(&self) -> bool {
        !tcgetattr(&self.terminal).unwrap().local_flags.contains(LocalFlags::ICANON | LocalFlags::ECHO)
    }

    /// Wait for the end, check that the terminal is as before, and return the exit code and the
    /// text after the screen.
    fn end(mut self) -> (Option<i32>, String) {
        let end = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > end {
                self.child.kill().unwrap();
            }
            sleep(Duration::from_millis(10));
        };
        assert!(!self.has_raw_mode());
        let Self { terminal, screen, reader, .. } = self;
        drop(terminal);
        reader.join().unwrap();
        let text = String::from_utf8_lossy(&screen.lock().unwrap()).into_owned();
        let (before, after) = text.rsplit_once(LEAVE_ALTERNATE_SCREEN).unwrap();
        assert!(before.ends_with(SHOW_CURSOR), "{text:?}");
        (status.code(), after.to_owned())
    }
}

#[test]
fn keys_work_and_quit() {
    let mut top = Top::start(80, 24, ENDLESS, &[]);
    top.expect("NAME");
    assert!(top.has_raw_mode());
    top.press("/chase\r\r");
    top.expect("migrations,");
    top.press("q");
    assert_eq!(top.end(), (Some(0), String::new()));
}

#[test]
fn control_c_and_signals_quit() {
    let mut top = Top::start(80, 24, ENDLESS, &[]);
    top.expect("NAME");
    top.press("\x03");
    assert_eq!(top.end(), (Some(0), String::new()));
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let top = Top::start(80, 24, ENDLESS, &[]);
        top.expect("NAME");
        top.signal(signal);
        assert_eq!(top.end(), (Some(0), String::new()), "{signal}");
    }
}

#[test]
fn the_end_of_the_instance_is_reported_on_the_restored_terminal() {
    let top = Top::start(80, 24, 5, &[]);
    let (code, text) = top.end();
    assert_eq!((code, text.lines().count()), (Some(3), 1), "{text}");
    assert!(text.starts_with("scx_bias: not running; start it with"), "{text}");
}

#[test]
fn colours_are_left_out_where_no_color_is_set() {
    const COLOUR: &str = "\x1b[38;5;";
    let mut top = Top::start(80, 24, ENDLESS, &[]);
    top.expect(COLOUR);
    top.press("q");
    top.end();
    let mut top = Top::start(80, 24, ENDLESS, &[("NO_COLOR", "1")]);
    top.expect("chase");
    top.expect("2.40x");
    assert!(!top.text().contains(COLOUR), "{:?}", top.text());
    top.press("q");
    top.end();
}

#[test]
fn a_small_terminal_says_so_until_it_grows() {
    let mut top = Top::start(20, 5, ENDLESS, &[]);
    top.expect("needs");
    top.resize(80, 24);
    top.expect("NAME");
    top.press("q");
    assert_eq!(top.end().0, Some(0));
}

#[test]
fn a_terminal_that_is_gone_ends_top() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    instance(&socket, ENDLESS);
    let pty = openpty(Some(&size(80, 24)), None).unwrap();
    // A copy of this end in top would keep the terminal.
    fcntl(&pty.master, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
    // It gets no signal, because the terminal does not control its session.
    let mut child = spawn_top(&pty.slave, &socket, &[]);
    drop(pty.slave);
    let mut output = File::from(pty.master);
    let mut shown = Vec::new();
    while !String::from_utf8_lossy(&shown).contains("NAME") {
        let mut bytes = [0; 4096];
        let length = output.read(&mut bytes).unwrap();
        shown.extend_from_slice(&bytes[..length]);
    }
    drop(output);
    let end = Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > end {
            child.kill().unwrap();
            panic!("it keeps running without a terminal");
        }
        sleep(Duration::from_millis(10));
    }
}
