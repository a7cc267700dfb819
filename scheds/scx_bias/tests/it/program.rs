// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of the command line. Bad input must give one line with cause and remedy, and the
//! documented exit code. A closed pipe must neither panic the program nor change its exit code. The
//! tests need no privilege.

use crate::{PROGRAM, scx_bias};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Run the program, check the exit code, and return standard error, which must be one line.
fn refused(args: &[&str], code: i32) -> String {
    let output = scx_bias(args).assert().code(code).get_output().clone();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text.trim_end().lines().count(), 1, "{text}");
    assert!(output.stdout.is_empty());
    text
}

fn table_of(path: &Path) -> String {
    refused(&["table", "--capacity-file", path.to_str().unwrap()], 2)
}

#[test]
fn unknown_flags_are_usage_errors() {
    scx_bias(&["--no-such-flag"]).assert().code(2);
    scx_bias(&["table", "--matrix", "speed"]).assert().code(2);
    scx_bias(&["calibrate", "--rounds", "0"]).assert().code(2);
    scx_bias(&["calibrate", "--visit-ms", "-1"]).assert().code(2);
}

#[test]
fn an_earlier_name_of_an_option_works_and_says_so_in_one_line() {
    for (old, new, key) in [
        ("--no-pull", "--no-moves", "no_moves"),
        ("--borrow-gap-us=50000", "--steal-lag-us", "steal_lag_us"),
        ("--whole-system=false", "--limit-bias", "limit_bias"),
    ] {
        let output = scx_bias(&["config", "--no-config", old]).assert().code(0).get_output().clone();
        let warning = String::from_utf8(output.stderr).unwrap();
        let name = old.split('=').next().unwrap();
        assert_eq!(
            warning,
            format!("scx_bias: {name} is now {new}; only this release still accepts the old name\n")
        );
        assert!(String::from_utf8(output.stdout).unwrap().contains(&format!("\n{key} = ")), "{key}");
    }
    let output = scx_bias(&["--recalibrate", "--slice-us", "1"]).assert().code(2).get_output().clone();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.starts_with("scx_bias: --recalibrate is now --new-table; "), "{text}");
    assert_eq!(text.lines().count(), 2, "{text}");
    scx_bias(&["--recalibrate", "--new-table"]).assert().code(2);
    scx_bias(&["--no-pull", "--no-moves"]).assert().code(2);
}

#[test]
fn options_out_of_range_are_refused_with_the_range() {
    assert!(refused(&["--slice-us", "1"], 2).contains("give a value from 100 to 100000"));
    assert!(refused(&["--stats", "0"], 2).contains("from 0.1 to 86400"));
    assert!(refused(&["--monitor", "inf"], 2).contains("from 0.1 to 86400"));
}

#[test]
fn events_that_do_not_exist_are_refused_before_any_measurement() {
    assert!(refused(&["--events", "stalls=cpu/event=1/"], 2).contains("for example"));
    for start in [&[][..], &["calibrate"]] {
        let args = [start, &["--events", "external=no_such_pmu/event=1/"]].concat();
        assert!(refused(&args, 2).contains("there is no PMU no_such_pmu"));
    }
}

#[test]
fn paths_that_are_not_cgroups_are_refused_before_any_measurement() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("config.toml");
    std::fs::write(&config, "cgroups = ['none']").unwrap();
    // A machine without cgroup v2 refuses all of them, with another exit code.
    let v2 = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default().contains(" - cgroup2 ");
    let code = if v2 { 2 } else { 3 };
    for args in [
        &["--cgroup", "/nonexistent"][..],
        &["--cgroup", "/tmp"],
        &["--cgroup", "/dev/null"],
        &["--config", config.to_str().unwrap()],
    ] {
        let text = refused(args, code);
        assert!(text.contains("cgroup") && (text.contains("; name a directory below") || !v2), "{text}");
        assert_eq!(text.contains("config.toml, line 1: "), args[0] == "--config", "{text}");
    }
    scx_bias(&["cgroup"]).assert().code(2);
    scx_bias(&["cgroup", "add"]).assert().code(2);
}

#[test]
fn invalid_capacity_files_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    assert!(table_of(&path("absent")).contains("check the path"));
    assert!(table_of(directory.path()).contains("is a directory"));
    assert!(table_of(Path::new("/dev/zero")).contains("is a device"));
    nix::unistd::mkfifo(&path("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(table_of(&path("fifo")).contains("is a FIFO"));
    std::fs::File::create(path("large")).unwrap().set_len(1 << 30).unwrap();
    assert!(table_of(&path("large")).contains("1073741824 bytes"));
    for text in ["", "{", "[]", "{\"version\": 1}", "{\"version\": 1, \"cpus\": [{\"cpu\": 0}]}"] {
        std::fs::write(path("malformed"), text).unwrap();
        assert!(table_of(&path("malformed")).contains("calibrate --output"), "{text}");
    }
    std::fs::write(
        path("foreign"),
        "{\"version\":1,\"cpus\":[{\"cpu\":1023,\"cost_permille\":[1000,1000,1000]}]}",
    )
    .unwrap();
    let foreign = path("foreign");
    // Scheduling refuses the table too, also on a machine that has other problems.
    assert!(
        refused(&["--capacity-file", foreign.to_str().unwrap()], 2)
            .contains("CPU 0 is online but not listed")
    );
    assert!(table_of(&path("foreign")).contains("CPU 0 is online but not listed"));
}

#[test]
fn configuration_files_are_read_with_the_same_care() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.toml");
    let refusal = |text: &str| {
        std::fs::write(&path, text).unwrap();
        refused(&["--config", path.to_str().unwrap()], 2)
    };
    assert!(refusal("slise_us = 1").contains("slise_us"));
    assert!(refusal("\nslice_us = 'x'").contains("line 2"));
    assert!(refusal("slice_us = 3").contains("from 100 to 100000"));
    assert!(refused(&["--config", directory.path().to_str().unwrap()], 2).contains("is a directory"));
}

#[test]
fn a_missing_table_is_explained() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state");
    let output = scx_bias(&["table"]).env("XDG_STATE_HOME", &state).output().unwrap();
    // Root reads /var/lib, where this machine may have a table.
    if output.status.code() != Some(0) {
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains("scx_bias calibrate"));
    }
    assert!(!state.exists());
}

#[test]
fn check_examines_a_machine_and_sets_the_exit_code() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(root.path().join("sys/kernel")).unwrap();
    let args = ["check", "--root", root.path().to_str().unwrap(), "--json"];
    let output = scx_bias(&args).assert().code(3).get_output().clone();
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["exit_code"], 3);
    for finding in value["findings"].as_array().unwrap() {
        assert_eq!(finding["status"] == "ok", finding["remedy"] == "", "{finding}");
    }
}

#[test]
fn an_unfit_machine_is_refused_before_any_measurement() {
    let fit = scx_bias(&["check"]).output().unwrap().status.code() == Some(0);
    if fit {
        return eprintln!("skipped: it would load the scheduler on this machine; the VM tests that");
    }
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state");
    let output = scx_bias(&[]).env("XDG_STATE_HOME", &state).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(matches!(output.status.code(), Some(3 | 4)), "{text}");
    assert!(text.lines().count() == 1 && text.contains(';') && !state.exists(), "{text}");
}

#[test]
fn calibrating_writes_a_table_that_can_be_shown_and_used() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("deep/capacity.json");
    let file = path.to_str().unwrap();
    let quick = [
        "calibrate",
        "--output",
        file,
        "--rounds",
        "1",
        "--visit-ms",
        "5",
        "--external-kib",
        "256",
        "--json",
    ];
    scx_bias(&quick).assert().code(0);
    let shown = scx_bias(&["table", "--capacity-file", file]).assert().code(0).get_output().clone();
    assert!(String::from_utf8(shown.stdout).unwrap().contains("Alike in execute"));
    scx_bias(&["table", "--capacity-file", file, "--matrix", "external"]).assert().code(0);
    assert!(
        refused(&["calibrate", "--output", "/proc/no/table.json", "--rounds", "1", "--visit-ms", "5"], 1)
            .contains("--output")
    );
}

/// Return the standard output, with a space for each break and indent.
fn printed(args: &[&str]) -> String {
    let output = scx_bias(args).assert().code(0).get_output().clone();
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn help_and_man_page_name_the_exit_codes() {
    for args in [
        &["--help"][..],
        &["man"],
        &["check", "--help"],
        &["status", "-h"],
        &["top", "--help"],
        &["cgroup", "--help"],
        &["swaps", "--help"],
    ] {
        assert!(printed(args).contains("3 kernel or permission"), "{args:?}");
    }
    assert!(printed(&["--help"]).contains("5 the kernel ended the scheduler"));
    assert!(printed(&["exec", "--help"]).contains("127 CMD is not found"));
    scx_bias(&["completions", "bash"]).assert().code(0);
}

#[test]
fn every_command_has_a_man_page() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    scx_bias(&["man", "--to", path]).assert().code(0);
    for page in ["scx_bias.1", "scx_bias-check.1", "scx_bias-cgroup-add.1"] {
        let text = std::fs::read_to_string(directory.path().join(page)).unwrap();
        assert!(text.contains(".SH SYNOPSIS"), "{page}: {text}");
    }
    assert!(printed(&["man", "--toml"]).contains(".TH scx_bias.toml 5"));
    assert!(refused(&["man", "--to", "/nonexistent/man"], 1).contains("/nonexistent/man"));
}

#[test]
fn statistics_and_version_are_printed_without_scheduling() {
    assert!(printed(&["--help-stats"]).contains("enq_shared tasks queued in a shared DSQ"));
    assert!(printed(&["--version"]).starts_with(concat!("scx_bias ", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn without_a_running_instance_there_is_one_line() {
    for command in [
        &["status"][..],
        &["top"],
        &["reload"],
        &["swaps"],
        &["metrics"],
        &["trace", "--perfetto", "/nonexistent/file"],
        &["cgroup", "list"],
        &["cgroup", "add", "/a"],
    ] {
        let text = refused(&[command, &["--socket", "/nonexistent/socket"]].concat(), 3);
        assert!(text.contains("scx_bias: not running; start it with `sudo scx_bias`"), "{text}");
    }
    assert!(refused(&["top", "--interval", "0"], 2).contains("from 0.1 to 86400"));
    scx_bias(&["top", "--count", "0"]).assert().code(2);
    scx_bias(&["trace"]).assert().code(2);
}

#[test]
fn options_in_effect_are_printed_as_a_configuration_file_that_gives_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.toml");
    let file = path.to_str().unwrap();
    let print = |args: &[&str]| {
        let output = scx_bias(&[&["config"], args].concat()).assert().code(0).get_output().clone();
        String::from_utf8(output.stdout).unwrap()
    };
    let text = print(&["--no-config", "--slice-us", "5000", "--events", "external=software/config=1/"]);
    assert!(text.contains("\nslice_us = 5000\n") && text.contains("\n# gain_permille = 100\n"), "{text}");
    std::fs::write(&path, &text).unwrap();
    // The file gives the same options, and flags take precedence over it.
    assert_eq!(print(&["--config", file]), text);
    assert!(print(&["--config", file, "--slice-us", "6000"]).contains("\nslice_us = 6000\n"));
    assert!(
        refused(&["config", "--config", file, "--slice-min-us", "9000"], 2).contains("slice_min_us is 9000")
    );
    scx_bias(&["config", "--config", file, "--no-config"]).assert().code(2);
}

/// Run the program with both outputs closed, and return its exit code.
fn code_when_closed(args: &[&str]) -> Option<i32> {
    let closed = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        Stdio::from(writer)
    };
    let mut command = Command::new(PROGRAM);
    command.args(args).stdin(Stdio::null()).stdout(closed()).stderr(closed()).status().unwrap().code()
}

/// Lines on the journal's own file get priorities, and only there.
#[test]
fn lines_for_the_journal_have_priorities() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let file = File::create(&path).unwrap();
    let data = file.metadata().unwrap();
    let said = |stream: String, args: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(args).env("JOURNAL_STREAM", stream).stdin(Stdio::null());
        command.stderr(file.try_clone().unwrap()).status().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        text.lines().last().unwrap().to_owned()
    };
    let journal = || format!("{}:{}", data.dev(), data.ino());
    let refused = ["status", "--socket", "/nonexistent"];
    assert!(said(journal(), &refused).starts_with("<3>scx_bias: not running"));
    assert!(said("1:1".to_owned(), &refused).starts_with("scx_bias: not running"));
    let table = directory.path().join("table");
    let quick = ["calibrate", "--rounds", "1", "--visit-ms", "5", "--external-kib", "64", "--output"];
    let line = said(journal(), &[&quick[..], &[table.to_str().unwrap()]].concat());
    assert!(line.starts_with("<6>") || line.starts_with("<4>"), "{line}");
}

#[test]
fn an_error_keeps_its_exit_code() {
    assert_eq!(code_when_closed(&["table", "--capacity-file", "/nonexistent"]), Some(2));
    assert_eq!(code_when_closed(&["status", "--socket", "/nonexistent"]), Some(3));
}

#[test]
fn a_full_disk_is_one_line_and_a_code() {
    let help = [&["--help"][..], &["--version"], &["help", "top"], &["top", "-h"], &["--help-stats"]];
    let texts = [&["check"][..], &["config", "--no-config"], &["completions", "bash"], &["man"]];
    for args in [&texts[..], &help[..]].concat() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = Command::new(PROGRAM).args(args).stdout(full).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(said.starts_with("scx_bias: cannot write to standard output: No space left"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn lost_output_and_logs_do_not_change_the_exit_code() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("capacity.json");
    let file = file.to_str().unwrap();
    let calibrate =
        ["calibrate", "-v", "--rounds", "1", "--visit-ms", "5", "--external-kib", "64", "--output"];
    assert_eq!(code_when_closed(&[&calibrate[..], &[file]].concat()), Some(0));
    assert_eq!(code_when_closed(&["exec", "--capacity-file", file, "-n", "1", "-v", "true"]), Some(0));
}
