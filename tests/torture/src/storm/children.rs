// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Children that compute a little and end.

use bias_bench::spec::WorkKind;
use bias_bench::task::spawn;
use bias_bench::work;
use nix::errno::Errno;
use nix::sys::wait::{WaitStatus, waitpid};

/// Fork a child that computes a little and ends with `code`, and reap it. Return true if it ended
/// with that code.
pub(super) fn ends_with(code: u8) -> bool {
    let mut work = work::build(&WorkKind::Compute);
    let child = spawn(|| {
        work.step();
        code
    });
    let Ok(pid) = child else { return false };
    loop {
        match waitpid(pid, None) {
            Err(Errno::EINTR) => {}
            Ok(WaitStatus::Exited(_, found)) => return found == i32::from(code),
            _ => return false,
        }
    }
}
