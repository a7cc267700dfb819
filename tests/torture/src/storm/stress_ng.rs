// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! stress-ng during the storm, where it is installed: churn from an independent program.

use bias_bench::{Error, Result, files};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Stressors that exercise a scheduler, one instance each.
const STRESSORS: [&str; 9] =
    ["fork", "vfork", "exec", "affinity", "nice", "futex", "switch", "clone", "yield"];

/// Time that stress-ng may take to clean up after its run.
const GRACE: Duration = Duration::from_secs(60);

/// A running stress-ng.
pub(super) struct StressNg {
    child: Child,
    deadline: Instant,
}

/// Start stress-ng for `time`. Return None if it is not installed.
pub(super) fn start(time: Duration) -> Result<Option<StressNg>> {
    let mut command = Command::new("stress-ng");
    for name in STRESSORS {
        command.args([format!("--{name}"), "1".into()]);
    }
    command.args([
        "--quiet",
        "--temp-path",
        &files::writable_directory(),
        "--timeout",
        &format!("{}s", time.as_secs().max(1)),
    ]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
    // SAFETY: prctl is safe between fork and exec. It ends stress-ng if this process dies.
    unsafe {
        command.pre_exec(|| {
            nix::libc::prctl(nix::libc::PR_SET_PDEATHSIG, nix::libc::SIGTERM);
            Ok(())
        });
    }
    match command.spawn() {
        Ok(child) => Ok(Some(StressNg { child, deadline: Instant::now() + time + GRACE })),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::failed("starting stress-ng", e)),
    }
}

impl StressNg {
    /// Wait for the end of stress-ng. Return an error line unless it reports success.
    pub(super) fn finish(mut self) -> std::result::Result<(), String> {
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(format!("stress-ng failed ({status})")),
                Ok(None) if Instant::now() > self.deadline => {
                    return Err(format!(
                        "stress-ng did not end within {} s after its timeout",
                        GRACE.as_secs()
                    ));
                }
                Ok(None) => std::thread::sleep(Duration::from_millis(50)),
                Err(e) => return Err(format!("waiting for stress-ng: {e}")),
            }
        }
    }
}

impl Drop for StressNg {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
