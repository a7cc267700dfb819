// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of the service unit's promises, as far as they need no systemd.

use crate::scx_bias;

const UNIT: &str = include_str!("../../scx_bias.service.in");

/// Return the value of the setting `name` in the unit file.
fn setting(name: &str) -> &'static str {
    UNIT.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).unwrap()
}

#[test]
fn threads_get_their_policies_back_whatever_ends_the_service() {
    assert_eq!(setting("ExecStopPost"), "-@bindir@/scx_bias cgroup restore");
    assert_eq!(setting("RuntimeDirectoryPreserve"), "yes");
    // The command is silent if it has nothing to restore. A machine that runs scx_bias may have
    // something to restore.
    if !std::path::Path::new("/run/scx_bias").exists() {
        scx_bias(&["cgroup", "restore"]).assert().code(0).stdout("").stderr("");
    }
}

#[test]
fn a_scheduler_that_the_kernel_ends_is_started_a_few_times_only() {
    // A cycle is a stall, a start on a busy machine and the pause. It must be short enough for the
    // service to reach its limit of starts.
    let (stall_s, start_s, pause_s) = (30, 120, 2);
    assert_eq!(setting("RestartSec"), format!("{pause_s}s"));
    assert_eq!(setting("TimeoutStartSec"), "2min");
    let starts: u32 = setting("StartLimitBurst").parse().unwrap();
    let interval_h: u32 = setting("StartLimitIntervalSec").strip_suffix('h').unwrap().parse().unwrap();
    assert_eq!(starts, 1 + 3);
    assert!(starts * (stall_s + start_s + pause_s) < interval_h * 3600);
    assert!(!setting("RestartPreventExitStatus").split(' ').any(|code| code == "5"));
}

/// The kernel refuses a second scheduler, so the service must stop those that load others.
#[test]
fn it_conflicts_with_services_of_other_schedulers() {
    let conflicts: Vec<&str> = setting("Conflicts").split(' ').collect();
    assert!(conflicts.contains(&"scx.service") && conflicts.contains(&"scx_loader.service"));
}

/// Root with a single capability serves the metrics, by a command that the program has.
#[test]
fn the_exporter_is_a_service_of_its_own() {
    let unit = include_str!("../../scx_bias-metrics.service.in");
    let setting = |name: &str| unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    assert_eq!(setting("CapabilityBoundingSet"), Some("CAP_CHOWN"));
    let words: Vec<&str> = setting("ExecStart").unwrap().split(' ').collect();
    assert_eq!(words[..3], ["@bindir@/scx_bias", "metrics", "--listen"]);
    scx_bias(&words[1..]).arg("--help").assert().code(0);
}

/// The patch for scx_loader starts the program with flags that exist, and a profile for each mode.
#[test]
fn the_patch_of_scx_loader_gives_flags_that_exist() {
    let patch = include_str!("../../../packaging/scx_loader.patch");
    let modes: Vec<&str> = patch.lines().filter(|line| line.contains("SchedMode::")).collect();
    assert_eq!(modes.len(), 5);
    for mode in modes {
        let words: Vec<&str> = mode.split('"').skip(1).step_by(2).collect();
        scx_bias(&["config", "--no-config"]).args(&words).assert().code(0);
        let name = mode.split("SchedMode::").nth(1).unwrap().split(' ').next().unwrap();
        assert_eq!(words, ["--profile", &name.to_lowercase()], "{mode}");
    }
}
