#![allow(clippy::unwrap_used)]

use super::*;
use crate::cli::{Cli, LogLevel, Thresholds};
use clap::Parser;
use std::os::unix::fs::PermissionsExt;

fn refusal(text: &str) -> String {
    let error = parse(text).unwrap_err();
    let line = error.span().map_or(0, |span| text[..span.start].matches('\n').count() + 1);
    format!("line {line}: {}", error.message())
}

fn given(flags: &[&str]) -> RunSettings {
    Cli::try_parse_from(["scx_bias"].into_iter().chain(flags.iter().copied())).unwrap().run.options
}

/// Return the template with every option uncommented.
fn all() -> String {
    let template = template(&RunSettings::default()).unwrap();
    template
        .lines()
        .map(|line| {
            line.strip_prefix("# ").filter(|line| line.contains(" = ")).unwrap_or(line).to_owned() + "\n"
        })
        .collect()
}

#[test]
fn every_option_stands_in_the_template_with_a_value_that_is_read() {
    let settings = parse(&all()).unwrap();
    assert_eq!(settings.numbers.0.len(), Knob::ALL.len());
    assert_eq!(settings.numbers.knobs().unwrap(), bias_agent::options::knobs::Knobs::default());
    assert_eq!(settings.thresholds_permille, Some(Thresholds { low: 1200, high: 1800 }));
    assert_eq!(
        (settings.log_level, settings.no_bias, settings.stats),
        (Some(LogLevel::Info), Some(false), Some(10.0))
    );
    assert_eq!((settings.cgroups.len(), settings.events.len()), (1, 1));
    assert!(settings.capacity_file.is_some());
    // The loop, the template and the help must agree on the default of `--swap-interval-ms`.
    let interval = bias_agent::swaps::SwapOptions::default().interval.as_millis();
    assert_eq!(settings.swap_interval_ms.map(u128::from), Some(interval));
    assert!(all().replace("\n# ", " ").contains(&format!("[20 to 10000; default {interval}]")));
    let options = all().lines().filter(|line| !line.starts_with('#') && line.contains('=')).count();
    let earlier = Knob::ALL.iter().filter(|knob| !knob.formerly.is_empty()).count();
    assert_eq!(options, keys().len() - earlier);
}

#[test]
fn an_earlier_key_sets_the_option_that_replaced_it() {
    let settings = parse("borrow_gap_us = 50000").unwrap();
    assert_eq!(settings.numbers, given(&["--borrow-gap-us", "50000"]).numbers);
    assert_eq!(settings.numbers.knobs().unwrap().steal_lag_us, 50_000);
    let refused = parse("borrow_gap_us = 1").unwrap_err().message().to_owned();
    assert!(refused.contains("steal_lag_us is 1"), "{refused}");
}

#[test]
fn a_template_gives_the_options_that_it_was_made_from() {
    for flags in
        [&[][..], &["--slice-us=5000", "--no-bias", "--cgroup", "/a", "--cgroup", "/b \"c\"", "--stats", "2"]]
    {
        let settings = given(flags);
        let text = template(&settings).unwrap();
        assert_eq!(parse(&text).unwrap(), settings, "{text}");
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
        ("cgroups = '/a'", "cgroups: invalid type"),
        ("no_bias = 1", "line 1: no_bias: invalid type"),
        ("log_level = 'loud'", "log_level: unknown variant `loud`, expected one of"),
        ("thresholds_permille = [1800, 1200]", "thresholds_permille: '1800,1200': give two speedups"),
        ("thresholds_permille = 5", "the lower first"),
        ("slice_us = 100\nslice_us = 200", "line 2: duplicate key"),
        ("slice_us = ", "line 1"),
        ("[scx_bias]\nslice_us = 100", "there is no option scx_bias"),
        ("[slice_us]", "slice_us is {}: give a whole number"),
    ] {
        assert!(refusal(text).contains(says), "{text:?}: {}", refusal(text));
        assert_eq!(refusal(text).lines().count(), 1);
    }
    assert_eq!(parse("").unwrap(), RunSettings::default());
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
    assert_eq!(read(&path).unwrap().0.numbers.0["slice_us"], 5000);
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    for open in [0o646, 0o664] {
        mode(open);
        assert!(read(&path).unwrap_err().message.contains("chmod go-w"));
    }
    mode(0o644);
    std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
    assert!(read(&path).unwrap_err().message.contains("chown root"));
}
