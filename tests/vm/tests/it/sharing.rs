// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A guest that several commands share: each finds it as the first one did, or the guest reports
//! the remains of the previous one.

use std::time::Duration;

use bias_vm::packages::Consent;
use bias_vm::runner::Outcome;
use bias_vm::session::Session;
use bias_vm::{Machine, Verdict, prepare};

/// Longest wall time of a command here. Each takes a moment.
const LIMIT: Duration = Duration::from_secs(120);

/// A guest, and the directory of its commands' output.
struct Shared {
    session: Session,
    out: std::path::PathBuf,
}

impl Shared {
    fn boot() -> Self {
        let machine = Machine::parse("SYM").unwrap();
        let mut vm = prepare::vm("6.12", machine, true, Consent::Given, None).unwrap();
        vm.shares_guest = true;
        let out = vm.out.clone();
        Self { session: Session::boot(&vm).unwrap().unwrap(), out }
    }

    /// Run a command. Return its outcome and its remains.
    fn shell(&mut self, text: &str, limit: Duration) -> (Outcome, String) {
        let command = ["sh".to_string(), "-c".to_string(), text.to_string()];
        self.session.run(&command, &self.out, limit).unwrap()
    }

    /// Run a command after which the guest is clean, and return its output.
    fn clean(&mut self, text: &str) -> String {
        let (outcome, left) = self.shell(text, LIMIT);
        assert_eq!(outcome.verdict, Verdict::Ended(0), "{text}: {}", outcome.stderr);
        assert_eq!(left, "", "{text}");
        outcome.stdout
    }
}

#[test]
fn commands_find_a_clean_guest_and_what_remains_is_named() {
    let mut guest = Shared::boot();
    assert_eq!(guest.clean("nproc; echo kept >$OUT/file; cat $OUT/file"), "4\nkept\n");
    // Files of state, processes and cgroups end with their command.
    guest.clean("touch /run/mine /var/lib/mine /tmp/mine; sleep 1000 & setsid sleep 1001 & sleep 0.2");
    guest.clean(
        "cd /sys/fs/cgroup && echo +cpu >cgroup.subtree_control && mkdir -p a/b && \
         sh -c 'echo 0 >a/b/cgroup.procs; exec sleep 1002' & sleep 0.5",
    );
    let seen = guest.clean(
        // Ended processes that init has not waited for have no program.
        "ls /run /var/lib /tmp | grep mine; ls -l /proc/[0-9]*/exe 2>/dev/null | grep sleep; \
         cat /sys/fs/cgroup/cgroup.subtree_control; find /sys/fs/cgroup -mindepth 1 -type d",
    );
    assert_eq!(seen.trim(), "");

    // A code is the command's own.
    let (outcome, left) = guest.shell("exit 7", LIMIT);
    assert_eq!((outcome.verdict, left.as_str()), (Verdict::Ended(7), ""));

    let (_, left) = guest.shell("echo 'sched: BUG: not really' >/dev/kmsg", LIMIT);
    assert_eq!(left, "", "only the kernel's own messages count");
    let (_, left) = guest.shell("echo 0 >/sys/devices/system/cpu/cpu3/online", LIMIT);
    assert_eq!(left, "CPUs 0-2");

    let (outcome, left) = guest.shell("while :; do :; done", Duration::from_secs(2));
    assert!(matches!(outcome.verdict, Verdict::Hung(_)), "{:?}", outcome.verdict);
    assert_eq!(left, "the command did not end");
}
