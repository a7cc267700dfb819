// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! How a run in the VM ended, judged from its files and from the watch.
//!
//! # Approach
//! [`judge`] is a pure function of texts and flags, so tests cover every ending without a boot.
//!
//! # Invariants
//! A run counts as ended only if the command's exit code arrived. Every other end is a distinct
//! failure with an explanation. Most explanations include the last lines of the console.

use serde::{Deserialize, Serialize};

use crate::exit;
use crate::guest::NO_TIMER;

/// Maximum number of console lines in an explanation.
const CONSOLE_LINES: usize = 12;
/// Maximum length of a line in an explanation, in characters.
const LINE_CHARS: usize = 160;
/// Explanation of a full disk, to which the guest cannot write the command's exit code.
pub const DISK_FULL: &str = "the disk of the output directory is full: free some space, or give a directory on another disk with --out";

/// The limit that was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    /// The guest did not start the command within this many seconds.
    Boot(u64),
    /// The command did not end within this many seconds.
    Command(u64),
}

/// The evidence that a run left behind.
#[derive(Default)]
pub struct Evidence {
    /// True if the guest recorded that the command is about to start.
    pub started: bool,
    /// The reason why the guest could not start the command, or an empty text.
    pub failed: String,
    /// The command's exit code.
    pub exit_code: Option<i32>,
    /// The limit that was exceeded, if any.
    pub late: Option<Late>,
    /// Text of the guest's console.
    pub console: String,
    /// Output of virtme-run and QEMU.
    pub launcher: String,
    /// True if the output directory's file system has no space left.
    pub disk_full: bool,
}

impl Evidence {
    /// Return how QEMU itself or the boot failed before the command started, if it did, or that a
    /// CPU had no timer, which the command may also find. One such failure is an assertion in QEMU.
    /// A crash shows as a guest that booted and ended without a message from the guest or the
    /// launcher.
    #[must_use]
    pub fn early_failure(&self) -> Option<String> {
        if self.failed.contains(NO_TIMER) {
            return Some(self.failed.trim().to_string());
        }
        if self.started {
            return None;
        }
        if matches!(self.late, Some(Late::Boot(_))) {
            return Some("it hung while booting".to_string());
        }
        let known = |line: &&str| line.starts_with("qemu-system") && line.contains("Assertion");
        if let Some(line) = self.console.lines().find(known) {
            return Some(line.to_string());
        }
        let silent = self.launcher.trim().is_empty() && self.failed.is_empty();
        let crashed = silent && self.console.contains("BIOS-") && !self.console.contains("Kernel panic");
        crashed.then(|| "QEMU crashed while the guest booted".to_string())
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// The command ended with this code.
    Ended(i32),
    /// The VM or the command could not start, with the reason.
    SetUpFailed(String),
    /// The guest kernel panicked or the guest disappeared, with an explanation.
    Panicked(String),
    /// The boot or the command exceeded its limit, with an explanation.
    Hung(String),
}

impl Verdict {
    /// Return the exit code of `cargo xtask vm`.
    #[must_use]
    pub fn code(&self) -> i32 {
        match self {
            Self::Ended(code) => *code,
            Self::SetUpFailed(_) => exit::VM_SETUP,
            Self::Panicked(_) => exit::VM_PANIC,
            Self::Hung(_) => exit::VM_HANG,
        }
    }

    /// Return why the command did not end; `None` if it did.
    #[must_use]
    pub fn explanation(&self) -> Option<&str> {
        match self {
            Self::Ended(_) => None,
            Self::SetUpFailed(text) | Self::Panicked(text) | Self::Hung(text) => Some(text),
        }
    }
}

/// Judge a run from its evidence.
#[must_use]
pub fn judge(evidence: &Evidence) -> Verdict {
    if !evidence.failed.is_empty() {
        return Verdict::SetUpFailed(evidence.failed.trim().to_string());
    }
    let (console, qemu) = (tail("console", &evidence.console), tail("QEMU", &evidence.launcher));
    if let Some(line) = panic_line(&evidence.console) {
        return Verdict::Panicked(format!("{line}\n{console}"));
    }
    if let (Some(code), None) = (evidence.exit_code, evidence.late) {
        return Verdict::Ended(code);
    }
    if evidence.disk_full {
        return Verdict::SetUpFailed(DISK_FULL.to_string());
    }
    match evidence.late {
        Some(Late::Boot(seconds)) => {
            Verdict::Hung(format!("the guest did not start the command within {seconds} s\n{console}"))
        }
        Some(Late::Command(seconds)) => Verdict::Hung(format!(
            "the command did not end within {seconds} s of real time (raise --timeout if it needs longer)\n{console}"
        )),
        None if evidence.started => Verdict::Panicked(format!(
            "the guest went away before the command ended: it powered off, reset, or QEMU was killed\n{console}\n{qemu}"
        )),
        None => Verdict::SetUpFailed(format!("QEMU ended before the command started\n{qemu}\n{console}")),
    }
}

/// Return an explanation with the kernel's own reason if the console shows a panic.
fn panic_line(console: &str) -> Option<String> {
    let line = console.lines().find(|line| line.contains("Kernel panic - not syncing"))?;
    let text = line.split("Kernel panic - not syncing").nth(1)?.trim_start_matches(':').trim();
    Some(if text.contains("softlockup") {
        format!("the guest kernel panicked because a CPU made no progress ({text})")
    } else {
        format!("the guest kernel panicked: {text}")
    })
}

fn tail(name: &str, text: &str) -> String {
    let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.is_empty() {
        return format!("({name} printed nothing)");
    }
    let first = lines.len().saturating_sub(CONSOLE_LINES);
    let shown: Vec<_> = lines[first..]
        .iter()
        .map(|line| format!("  | {}", line.chars().take(LINE_CHARS).collect::<String>()))
        .collect();
    format!("last lines of {name}:\n{}", shown.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(code: i32) -> Evidence {
        Evidence { started: true, exit_code: Some(code), ..Evidence::default() }
    }

    #[test]
    fn the_commands_own_code_is_returned() {
        assert_eq!(judge(&ended(0)), Verdict::Ended(0));
        assert_eq!(judge(&ended(42)).code(), 42);
    }

    #[test]
    fn a_panic_is_named_even_if_a_code_arrived() {
        let console = "[ 1.0] Kernel panic - not syncing: sysrq triggered crash\n[ 1.1] Rebooting";
        let verdict = judge(&Evidence { console: console.into(), ..ended(0) });
        assert_eq!(verdict.code(), exit::VM_PANIC);
        assert!(verdict.explanation().is_some_and(|text| text.contains("sysrq triggered crash")));
        let lockup = "Kernel panic - not syncing: softlockup: hung tasks";
        let verdict = judge(&Evidence { console: lockup.into(), ..Evidence::default() });
        assert!(verdict.explanation().is_some_and(|text| text.contains("no progress")));
    }

    #[test]
    fn a_full_disk_explains_a_code_that_never_arrived() {
        let full = |evidence: Evidence| judge(&Evidence { disk_full: true, ..evidence });
        assert_eq!(full(ended(3)), Verdict::Ended(3));
        let verdict = full(Evidence { started: true, ..Evidence::default() });
        assert_eq!(verdict, Verdict::SetUpFailed(DISK_FULL.into()));
    }

    #[test]
    fn kinds_of_silence_are_distinguished() {
        let boot = judge(&Evidence { late: Some(Late::Boot(60)), ..Evidence::default() });
        let command = judge(&Evidence { started: true, late: Some(Late::Command(9)), ..Evidence::default() });
        assert_eq!((boot.code(), command.code()), (exit::VM_HANG, exit::VM_HANG));
        assert_ne!(boot, command);
        let gone = judge(&Evidence { started: true, ..Evidence::default() });
        assert_eq!(gone.code(), exit::VM_PANIC);
        let never = judge(&Evidence { launcher: "no such plugin".into(), ..Evidence::default() });
        assert_eq!(never.code(), exit::VM_SETUP);
        assert!(never.explanation().is_some_and(|text| text.contains("no such plugin")));
        let failed = judge(&Evidence { failed: "insmod: bad\n".into(), ..Evidence::default() });
        assert_eq!(failed, Verdict::SetUpFailed("insmod: bad".into()));
    }

    #[test]
    fn qemus_own_failures_are_known_until_the_command_starts() {
        let early = |console: &str, failed: &str| {
            Evidence { console: console.into(), failed: failed.into(), ..Evidence::default() }.early_failure()
        };
        let booted = "[    0.0] BIOS-e820: usable\n[    6.8] amp_pmu: loading\n";
        assert_eq!(early("[    0.1] booting\n", ""), None);
        assert_eq!(
            early("[ 1.7] 9pnet_virtio: no channels available for device\n", ""),
            None,
            "every boot from 9p"
        );
        assert!(early("qemu-system-x86_64: msix.c:228: f: Assertion `x' failed.\n", "").is_some());
        assert!(early(booted, "").is_some_and(|why| why.contains("crashed")));
        assert_eq!(early(booted, "no module\n"), None, "another boot would not help");
        assert!(early(booted, &format!("{NO_TIMER}\n")).is_some_and(|why| why.contains("no exact timer")));
        let panicked = format!("{booted}[    7.0] Kernel panic - not syncing: x\n");
        assert_eq!(early(&panicked, ""), None, "a guest that panicked is not QEMU's fault");
        let started = Evidence { started: true, console: booted.into(), ..Evidence::default() };
        assert_eq!(started.early_failure(), None, "from then on the command may have caused it");
        let lost = Evidence { failed: format!("{NO_TIMER}\n"), ..started };
        assert!(lost.early_failure().is_some(), "no command takes a CPU's timer");
    }
}
