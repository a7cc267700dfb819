// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
#![allow(clippy::unwrap_used)]

use super::*;
use crate::command::Cli;
use bias_agent::options::reload;
use clap::Parser;
use std::os::unix::fs::PermissionsExt;

fn options(text: &str) -> RunSettings {
    parse(text).unwrap().0
}

fn refusal(text: &str) -> String {
    let (line, why) = parse(text).unwrap_err();
    format!("line {line}: {why}")
}

fn given(flags: &[&str]) -> RunSettings {
    Cli::try_parse_from(["scx_bias"].into_iter().chain(flags.iter().copied())).unwrap().run.options
}

/// Return the template with every option uncommented.
fn all() -> String {
    let uncomment = |line: &str| {
        line.strip_prefix("# ").filter(|line| line.contains(" = ")).unwrap_or(line).to_owned() + "\n"
    };
    template(&RunSettings::default()).lines().map(uncomment).collect()
}

#[test]
fn every_option_is_in_the_template_with_a_value_that_is_read() {
    let settings = options(&all());
    for option in Setting::all() {
        assert!(settings.0.contains_key(option.key), "{}", option.key);
    }
    let defaults = RunOptions::default();
    let found = settings.options().unwrap();
    assert_eq!((found.knobs, found.swaps.interval), (defaults.knobs, defaults.swaps.interval));
    assert!(all().replace("\n# ", " ").contains("[20 to 10000; default 50]"));
}

/// An option that is added to the list of the agent appears everywhere.
#[test]
fn every_option_is_a_flag_a_key_and_a_subject_of_reload() {
    let changes: Vec<_> = reload::keys(true).chain(reload::keys(false)).collect();
    let flags = RunSettings::augment_args(Command::new("keys"));
    let template = template(&RunSettings::default());
    let man = crate::help::reload();
    for option in Setting::all() {
        let key = option.key;
        let flag = flags.get_arguments().find(|flag| flag.get_id() == key).unwrap();
        assert!(flag.get_help().is_some() && flag.get_long().is_some(), "{key}");
        assert!(template.contains(&format!("\n# {key} = {}\n", option.example)), "{key}");
        assert_eq!(changes.iter().filter(|change| **change == key).count(), 1, "{key}");
        assert!(man.contains(&format!(" {key}")), "{key}");
    }
}

#[test]
fn an_earlier_key_sets_the_option_that_replaced_it() {
    let settings = options("borrow_gap_us = 50000");
    assert_eq!(settings, given(&["--borrow-gap-us", "50000"]));
    assert_eq!(settings.options().unwrap().knobs.steal_lag_us, 50_000);
    assert!(refusal("borrow_gap_us = 1").contains("steal_lag_us is 1"));
    assert_eq!(options("whole_system = true\ncgroups = ['/a']"), given(&["--limit-bias", "--cgroup", "/a"]));
    assert_eq!(given(&["--no-pull", "--whole-system=false"]), options("no_moves = true\nlimit_bias = false"));
    for both in ["no_pull = true\n\nno_moves = true", "no_moves = true\n\nno_pull = true"] {
        assert!(refusal(both).contains("no_moves is given twice, also by an earlier name; remove one"));
    }
}

#[test]
fn a_template_gives_the_options_that_it_was_made_from() {
    for flags in
        [&[][..], &["--slice-us=5000", "--no-bias", "--cgroup", "/a", "--cgroup", "/b \"c\"", "--stats", "2"]]
    {
        let settings = given(flags);
        let text = template(&settings);
        assert_eq!(options(&text), settings, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
    }
}

#[test]
fn whatever_is_wrong_is_told_with_its_line_and_a_remedy() {
    for (text, says) in [
        ("slice_us = 100\nslise = 3", "line 2: there is no option slise; `scx_bias config` prints all"),
        ("slice-us = 100", "write slice_us; "),
        ("\n\nslice_ms = 5", "line 3: there is no option slice_ms; write slice_us; "),
        ("cgroup = '/a'", "write cgroups; "),
        ("slice = 5", "write slice_us; "),
        ("slice_us = '5ms'", "slice_us is \"5ms\": give a whole number of microseconds from 100 to 100000"),
        ("slice_us = 5.5", "whole number"),
        ("sample_every = -1", "sample_every is -1: give a whole number from 1 to 1000"),
        ("#\nslice_us = 99", "line 2: slice_us is 99: give a value from 100 to 100000"),
        ("cgroups = '/a'", "cgroups is \"/a\": give a list of texts"),
        ("no_bias = 1", "line 1: no_bias is 1: give true or false"),
        ("log_level = 'loud'", "log_level is \"loud\": give one of error, "),
        ("thresholds_permille = [1800, 1200]", "thresholds_permille is [1800,1200]: give two speedups"),
        ("thresholds_permille = 5", "the lower first"),
        ("slice_us = 100\nslice_us = 200", "line 2: duplicate key"),
        ("slice_us = ", "line 1"),
        ("[scx_bias]\nslice_us = 100", "there is no option scx_bias"),
        ("[slice_us]", "slice_us is {}: give a whole number"),
    ] {
        assert!(refusal(text).contains(says), "{text:?}: {}", refusal(text));
        assert_eq!(refusal(text).lines().count(), 1);
    }
    assert_eq!(options(""), RunSettings::default());
}

#[test]
fn root_reads_only_what_nobody_else_can_have_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.toml");
    std::fs::write(&path, "slice_us = 5000").unwrap();
    let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(0o644);
    std::fs::write(&path, "slice_us = ").unwrap();
    assert!(read(&path).unwrap_err().message.ends_with("; `scx_bias config` prints such a file"));
    std::fs::write(&path, "slice_us = 5000").unwrap();
    assert_eq!(read(&path).unwrap().0.0["slice_us"], 5000);
    if !nix::unistd::geteuid().is_root() {
        return eprintln!("skipped: only root refuses such files");
    }
    for open in [0o646, 0o664] {
        mode(open);
        assert!(read(&path).unwrap_err().message.contains("chmod go-w"));
    }
    mode(0o644);
    std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
    assert!(read(&path).unwrap_err().message.contains("chown root"));
}
