//! What the service's unit promises, as far as it can be told without systemd.

#![allow(clippy::unwrap_used)]

const UNIT: &str = include_str!("../scx_bias.service.in");

/// The value of a setting, without its unit.
fn setting(name: &str) -> &'static str {
    UNIT.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).unwrap()
}

#[test]
fn whatever_ends_it_threads_get_back_what_they_had() {
    assert_eq!(setting("ExecStopPost"), "-@bindir@/scx_bias cgroup restore");
    assert_eq!(setting("RuntimeDirectoryPreserve"), "yes");
    // Quietly where there is nothing to do. A machine on which it runs has something.
    if !std::path::Path::new("/run/scx_bias").exists() {
        let mut restore = assert_cmd::Command::new(env!("CARGO_BIN_EXE_scx_bias"));
        restore.args(["cgroup", "restore"]).assert().code(0).stdout("").stderr("");
    }
}

#[test]
fn a_scheduler_that_the_kernel_ends_is_started_a_few_times_only() {
    // Waiting for a stall, starting on a busy machine, and the pause: none may be too long for the limit to be reached.
    let (stall_s, start_s, pause_s) = (30, 120, 2);
    assert_eq!(setting("RestartSec"), format!("{pause_s}s"));
    assert_eq!(setting("TimeoutStartSec"), "2min");
    let starts: u32 = setting("StartLimitBurst").parse().unwrap();
    let interval_h: u32 = setting("StartLimitIntervalSec").strip_suffix('h').unwrap().parse().unwrap();
    assert_eq!(starts, 1 + 3);
    assert!(starts * (stall_s + start_s + pause_s) < interval_h * 3600);
    assert!(!setting("RestartPreventExitStatus").split(' ').any(|code| code == "5"));
}
