// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
#![allow(clippy::unwrap_used)]

use super::*;
use crate::cli::{RunArgs, wrong_value};
use crate::command::Cli;
use bias_agent::options::reload;
use bias_agent::options::values::Profile;
use clap::{CommandFactory, Parser};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

fn arguments(flags: &[&str]) -> Result<RunArgs, clap::Error> {
    Cli::try_parse_from(["scx_bias"].into_iter().chain(flags.iter().copied())).map(|cli| cli.run)
}

/// Return the options of these flags without a file.
fn given(flags: &[&str]) -> Resolved {
    super::resolve(&arguments(&[&["--no-config"], flags].concat()).unwrap().options, &no_file()).unwrap()
}

fn no_file() -> Source {
    Source { config: None, no_config: true }
}

/// Return the values of this text as a file.
fn values(text: &str) -> Table {
    File::parse(Path::new("/config.toml"), text).unwrap().values
}

fn refusal(text: &str) -> String {
    let (line, why) = File::parse(Path::new("/config.toml"), text).unwrap_err();
    format!("line {line}: {why}")
}

fn resolve_both(config: &str, flags: &[&str]) -> Result<Resolved, Failure> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.toml");
    std::fs::write(&path, config).unwrap();
    let run = arguments(&[&["--config", path.to_str().unwrap()], flags].concat()).unwrap();
    super::resolve(&run.options, &run.source)
}

fn options(config: &str, flags: &[&str]) -> RunOptions {
    resolve_both(config, flags).unwrap().options
}

fn refused(config: &str, flags: &[&str]) -> String {
    resolve_both(config, flags).unwrap_err().message
}

/// Return the template with every option uncommented.
fn all() -> String {
    let uncomment = |line: &str| {
        line.strip_prefix("# ").filter(|line| line.contains(" = ")).unwrap_or(line).to_owned() + "\n"
    };
    given(&[]).template().lines().map(uncomment).collect()
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
    let help = Cli::command().render_help().to_string();
    let places =
        ["--no-config", "--profile", "--slice-us", "--new-table"].map(|flag| help.find(flag).unwrap());
    assert!(places.is_sorted(), "{help}");
}

#[test]
fn every_option_is_in_the_template_with_a_value_that_is_read() {
    let values = values(&all());
    assert!(RunOptions::keys().all(|key| values.contains_key(&key)));
    let found: RunOptions = values.try_into().unwrap();
    let defaults = RunOptions::default();
    assert_eq!((found.knobs(), found.swap_interval_ms), (defaults.knobs(), defaults.swap_interval_ms));
    assert!(all().replace("\n# ", " ").contains("[20 to 10000; default 50]"));
}

/// An option that is added to the structure of the agent appears everywhere.
#[test]
fn every_option_is_a_flag_a_key_and_a_subject_of_reload() {
    let changes: Vec<_> = reload::keys(true).chain(reload::keys(false)).collect();
    let template = given(&[]).template();
    let man = crate::help::reload();
    let examples = RunOptions::examples(Profile::Auto);
    let command = Cli::command();
    for key in RunOptions::keys() {
        let flag = command.get_arguments().find(|flag| *flag.get_id() == key).unwrap();
        assert!(flag.get_help().is_some() && flag.get_long().is_some(), "{key}");
        assert!(template.contains(&format!("\n# {key} = {}\n", examples[&key])), "{key}");
        assert_eq!(changes.iter().filter(|change| **change == key).count(), 1, "{key}");
        assert!(man.contains(&format!(" {key}")), "{key}");
    }
}

#[test]
fn an_earlier_key_sets_the_option_that_replaced_it() {
    for (text, flags) in [
        ("borrow_gap_us = 50000", &["--borrow-gap-us", "50000"][..]),
        ("whole_system = true\ncgroups = ['/a']", &["--limit-bias", "--cgroup", "/a"]),
        ("no_moves = true\nlimit_bias = false", &["--no-pull", "--whole-system=false"]),
    ] {
        assert_eq!(options(text, &[]).values(), given(flags).options.values(), "{text}");
    }
    assert_eq!(*options("borrow_gap_us = 50000", &[]).steal_lag_us, 50_000);
    assert!(refusal("borrow_gap_us = 1").contains("steal_lag_us is 1"));
    for both in ["no_pull = true\n\nno_moves = true", "no_moves = true\n\nno_pull = true"] {
        assert!(refusal(both).contains("no_moves is given twice, also by an earlier name; remove one"));
    }
    assert!(arguments(&["--no-pull", "--no-moves"]).is_err());
}

#[test]
fn a_template_gives_the_options_that_it_was_made_from() {
    for flags in
        [&[][..], &["--slice-us=5000", "--no-bias", "--cgroup", "/a", "--cgroup", "/b \"c\"", "--stats", "2"]]
    {
        let resolved = given(flags);
        let text = resolved.template();
        let read = values(&text);
        assert!(RunOptions::keys().all(|key| read.contains_key(&key) == resolved.gives(&key)), "{text}");
        assert_eq!(options(&text, &[]).values(), resolved.options.values(), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
    }
}

#[test]
fn errors_are_reported_with_their_line_and_a_remedy() {
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
        ("log_level = 3", "log_level is 3: give one of error, "),
        ("thresholds_permille = [1800, 1200]", "thresholds_permille is [1800, 1200]: give two speedups"),
        ("thresholds_permille = 5", "the lower first"),
        ("slice_us = 100\nslice_us = 200", "line 2: duplicate key"),
        ("slice_us = ", "line 1"),
        ("slice_us = ", "; `scx_bias config` prints such a file"),
        ("[scx_bias]\nslice_us = 100", "there is no option scx_bias"),
        ("[slice_us]", "slice_us is {}: give a whole number"),
    ] {
        assert!(refusal(text).contains(says), "{text:?}: {}", refusal(text));
        assert_eq!(refusal(text).lines().count(), 1);
    }
    assert_eq!(values(""), Table::new());
    // Each wrong value is named with its key.
    for key in RunOptions::keys() {
        for wrong in ["{}", "[1]", "-1", "1000000000.0"] {
            let said = refusal(&format!("{key} = {wrong}"));
            assert!(said.starts_with(&format!("line 1: {key} is {wrong}: ")), "{said}");
        }
    }
}

#[test]
fn root_reads_only_files_that_no_other_user_can_have_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.toml");
    std::fs::write(&path, "slice_us = 5000").unwrap();
    let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(0o644);
    std::fs::write(&path, "slice_us = ").unwrap();
    assert!(File::read(&path).unwrap_err().message.ends_with("; `scx_bias config` prints such a file"));
    std::fs::write(&path, "slice_us = 5000").unwrap();
    assert_eq!(File::read(&path).unwrap().values["slice_us"], 5000.into());
    if !nix::unistd::geteuid().is_root() {
        return eprintln!("skipped: only root refuses such files");
    }
    for open in [0o646, 0o664] {
        mode(open);
        assert!(File::read(&path).unwrap_err().message.contains("chmod go-w"));
    }
    mode(0o644);
    std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
    assert!(File::read(&path).unwrap_err().message.contains("chown root"));
}

#[test]
fn the_command_line_wins_over_the_file() {
    let options = options("slice_us = 5000\nstats = 1.5\nno_bias = true", &["--slice-us", "7000"]);
    assert_eq!((*options.slice_us, options.no_bias), (7000, true));
    assert_eq!(options.stats_interval(), Some(Duration::from_millis(1500)));
    assert!(!self::options("no_bias = true", &["--no-bias=false"]).no_bias);
}

#[test]
fn events_are_checked_wherever_they_stand_and_the_command_line_wins() {
    let file = "events = ['external=software/config=1/', 'internal=software/config=2/']";
    let events = options(file, &["--events", "external=software/config=3/"]).events;
    // The last event of a role counts.
    assert_eq!(events.last().unwrap().to_string(), "external=software/config=0x3/");
    assert_eq!(events.len(), 3);
    assert!(refused("events = ['external']", &[]).contains("no ROLE="));
    let absent = refused("events = ['external=no_such_pmu/config=1/']", &[]);
    assert!(absent.contains("config.toml, line 1: ") && absent.contains("no PMU no_such_pmu"), "{absent}");
    let absent = refused(file, &["--events", "external=no_such_pmu/config=1/"]);
    assert!(absent.contains("there is no PMU no_such_pmu; this machine has"), "{absent}");
    assert!(!absent.contains("configuration file"), "{absent}");
}

#[test]
fn cgroups_of_the_command_line_replace_those_of_the_file() {
    let file = "cgroups = ['/a', 'b']";
    let cgroups = options(file, &[]).cgroups;
    assert!(cgroups[1].is_absolute() && cgroups[1].ends_with("b"));
    assert_eq!(options(file, &["--cgroup", "/c", "--cgroup=d"]).cgroups, ["/c", "d"].map(Path::new));
    assert!(refused("cgroups = '/a'", &[]).contains("line 1"));
}

#[test]
fn the_whole_system_with_bias_in_cgroups_needs_cgroups() {
    let options = options("cgroups = ['/a']", &["--limit-bias"]);
    assert!(options.schedules_everything() && options.limits_bias());
    let refused = refused("limit_bias = true", &[]);
    assert!(refused.contains("configuration file") && refused.contains("--cgroup"), "{refused}");
    assert!(resolve_both("limit_bias = true", &["--limit-bias=false"]).is_ok());
}

#[test]
fn a_profile_changes_defaults_only() {
    let slices = |config: &str, flags: &[&str]| {
        let options = options(config, flags);
        (*options.slice_us, *options.slice_min_us)
    };
    assert_eq!(slices("", &["--profile", "gaming"]), (4000, 500));
    assert_eq!(slices("profile = 'server'\nslice_us = 9000", &[]), (9000, 3000));
    assert_eq!(slices("profile = 'server'", &["--profile=gaming"]), (4000, 500));
    assert_eq!(slices("slice_us = 9000", &["--profile=lowlatency", "--slice-min-us=400"]), (9000, 400));
    // A contradiction of a value with its profile is found, too.
    assert!(resolve_both("slice_us = 1000", &["--profile=server"]).is_err());
    assert!(refused("profile = 'turbo'", &[]).contains("give one of auto, gaming"));
    assert!(options("profile = 'powersave'", &[]).no_swap);
}

#[test]
fn cgroups_and_partial_decide_which_tasks_are_scheduled() {
    let everything = |flags: &[&str]| options("", flags).schedules_everything();
    assert!(everything(&[]) && everything(&["--cgroup=/a", "--limit-bias"]));
    assert!(!everything(&["--partial"]) && !everything(&["--cgroup=/a"]));
    assert!(!everything(&["--cgroup=/a", "--partial"]));
    let both = refused("limit_bias = true\ncgroups = ['/a']", &["--partial"]);
    assert!(both.contains(", line 1: ") && both.contains("drop one"), "{both}");
}

#[test]
fn a_housekeeping_cpu_needs_cgroups() {
    for (file, flags) in
        [("housekeeping = 3", &["--cgroup", "/a"][..]), ("cgroups = ['/a']", &["--housekeeping=slow"])]
    {
        assert!(options(file, flags).housekeeping.is_some(), "{file}");
    }
    let alone = refused("", &["--housekeeping", "slow"]);
    assert!(alone.contains("--cgroup"), "{alone}");
    let wrong = refused("cgroups = ['/a']\nhousekeeping = 'big'", &[]);
    assert!(wrong.contains("line 2: housekeeping is \"big\": give slow, fast"), "{wrong}");
}

#[test]
fn values_out_of_range_are_refused_wherever_they_stand() {
    assert!(refused("slice_us = 99", &[]).contains("from 100 to 100000"));
    for (flag, says) in [
        ("--rotate-gap-us=1", "--rotate-gap-us is 1: give a value from 1000 to 10000000"),
        ("--slice-us=5ms", "--slice-us is 5ms: give a whole number of microseconds from 100 to 100000"),
        ("--monitor=inf", "--monitor is inf: give a value from 0.1 to 86400"),
        ("--thresholds-permille=1800,1200", "--thresholds-permille is 1800,1200: give two speedups"),
        ("--events=external", "--events \"external\": there is no ROLE="),
    ] {
        let message = wrong_value(&arguments(&[flag]).unwrap_err()).unwrap().message;
        assert!(message.starts_with(says), "{message}");
    }
    assert!(wrong_value(&arguments(&["--no-such-flag"]).unwrap_err()).is_none());
    for wrong in ["1800,1200", "999,1200", "1200", "a,b", "1200,a,1800", ""] {
        let error = refused(&format!("thresholds_permille = '{wrong}'"), &[]);
        assert!(error.contains("the lower first"), "{error}");
    }
    for valid in ["'1200,1800'", "[1200, 1800]"] {
        let options = options(&format!("thresholds_permille = {valid}"), &[]);
        assert_eq!(options.thresholds_permille, Some((1200, 1800)));
    }
    assert!(resolve_both("stats = nan", &[]).is_err());
    assert!(refused("slice_us = 500", &[]).contains("shorter least slice"));
}

#[test]
fn every_error_of_a_file_names_its_lines() {
    for (text, flags, says) in [
        ("#\nstats = 0.01", &[][..], ", line 2: stats is 0.01: give"),
        ("no_bias = true\n\nswap_interval_ms = 1", &[], ", line 3: swap_interval_ms is 1: give"),
        ("no_bias = true\nevents = ['external']", &[], ", line 2: "),
        ("#\nlimit_bias = true", &[], ", line 2: limit_bias limits"),
        ("#\nwhole_system = true", &[], ", line 2: limit_bias limits"),
        ("cgroups = []\nlimit_bias = true", &[], ", lines 1 and 2: limit_bias limits"),
        ("slice_min_us = 9000\n\nslice_us = 5000", &[], ", lines 1 and 3: slice_min_us is 9000"),
        ("slice_min_us = 9000\nslice_us = 5000", &["--slice-us=6000"], ", line 1: slice_min_us is 9000"),
        ("#\nslice_us = 99", &[], ", line 2: slice_us is 99"),
    ] {
        let message = refused(text, flags);
        assert!(message.starts_with("configuration file /"), "{text:?}: {message}");
        assert!(message.contains(&format!("config.toml{says}")), "{text:?}: {message}");
        assert_eq!(message.lines().count(), 1);
    }
    // The file is not to blame for a mistake of the command line alone.
    let flags = ["--slice-min-us=9000", "--slice-us=5000"];
    let message = refused("no_bias = true\nslice_us = 9500", &flags);
    assert!(!message.contains("configuration file"), "{message}");
}
