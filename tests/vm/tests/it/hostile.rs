// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Hosts that do not cooperate: Ctrl-C at any moment, a full disk.
//!
//! In each case the run ends with the documented exit code and one line that names the remedy. It
//! leaves no process and no temporary file.

use std::fs;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use bias_vm::{build, exit};

/// Times from the start to Ctrl-C: during the start, the boot and the command.
const CTRL_C_MS: [u64; 6] = [100, 500, 1500, 4000, 8000, 13_000];

/// Return a command for `program arguments...` with its own directory for temporary files.
fn command(temporary: &Path, program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(build::workspace()).env("TMPDIR", temporary).env("CI", "true");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Assert that a run left no process with its directory of temporary files in the environment, and
/// no file in that directory.
fn expect_tidy(temporary: &Path) {
    let mark = format!("TMPDIR={}", temporary.display());
    let runs = |entry: &fs::DirEntry| {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        environment.windows(mark.len()).any(|window| window == mark.as_bytes())
    };
    let begin = Instant::now();
    let left = || fs::read_dir("/proc").unwrap().filter_map(Result::ok).filter(runs).count();
    while left() > 0 && begin.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(left(), 0, "processes outlive the run");
    let files: Vec<_> = fs::read_dir(temporary).unwrap().filter_map(Result::ok).map(|e| e.path()).collect();
    assert!(files.is_empty(), "temporary files outlive the run: {files:?}");
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn ctrl_c_ends_a_run_at_any_moment() {
    let xtask = build::xtask().unwrap();
    for after_ms in CTRL_C_MS {
        let temporary = tempfile::tempdir().unwrap();
        let mut command = command(temporary.path(), &xtask, &["vm", "--", "sleep", "1000000"]);
        let child = command.process_group(0).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(after_ms));
        let group = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
        nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGINT).unwrap();
        let output = child.wait_with_output().unwrap();
        let status = output.status;
        // Before the handler is installed, the signal itself ends the program.
        assert!(
            status.code() == Some(exit::INTERRUPTED) || status.signal() == Some(2),
            "after {after_ms} ms: {status}: {}",
            complaint(&output)
        );
        expect_tidy(temporary.path());
    }
}

/// Run `guest` in the VM. The output directory is a file system of `kib` KiB.
fn on_small_disk(kib: u32, guest: &str) -> Output {
    let (xtask, temporary) = (build::xtask().unwrap(), tempfile::tempdir().unwrap());
    let disk = tempfile::tempdir().unwrap();
    let script = format!(
        "mount -t tmpfs -o size={kib}k none \"$1\" && exec \"$2\" vm --out \"$1\" -- sh -c '{guest}'"
    );
    let (disk, program) = (disk.path().to_string_lossy(), xtask.to_string_lossy());
    let words = ["-m", "sh", "-c", &script, "sh", &disk, &program];
    let output = command(temporary.path(), Path::new("unshare"), &words).output().unwrap();
    expect_tidy(temporary.path());
    output
}

#[test]
fn a_full_disk_is_named() {
    for kib in [4, 8, 40] {
        let output = on_small_disk(kib, "true");
        let text = complaint(&output);
        assert_ne!(output.status.code(), Some(0), "{kib} KiB: {text}");
        assert!(text.contains("space"), "{kib} KiB: {text}");
    }
    let output = on_small_disk(4096, "cat /dev/zero >$OUT/zeros; exit 7");
    let text = complaint(&output);
    assert_eq!(output.status.code(), Some(exit::VM_SETUP), "{text}");
    assert!(text.contains("the disk of the output directory is full"), "{text}");
}
