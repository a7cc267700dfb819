// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Options of the agent, from the command line and the configuration file. Both share one check.

use crate::cli::{RunArgs, RunSettings, Source as Sources};
use crate::config::{self, Places, Wrong};
use crate::output::usual_level;
use bias_agent::failure::Failure;
use bias_agent::optin::cgroup;
use bias_agent::options::setting::{self, Setting};
use bias_agent::options::{Profile, RunOptions};
use bias_agent::pmu;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tracing::Level;

impl RunArgs {
    /// Return the log level that `-v` asks for; the lowest without it.
    pub fn level(&self) -> Level {
        match self.verbose {
            0 => Level::ERROR,
            1 => Level::DEBUG,
            _ => Level::TRACE,
        }
    }

    /// Return the options of the scheduler with an empty table, because measuring takes time.
    ///
    /// # Errors
    /// As [`resolve`]. Also a failure for a path that cannot be a cgroup.
    pub fn run_options(&self) -> Result<RunOptions, Failure> {
        let (settings, places) = resolve_with_places(&self.options, &self.source)?;
        let wrong = |failure| places.locate(Wrong { keys: vec!["cgroups"], failure });
        let find = |path: &PathBuf| cgroup::find(Path::new("/"), path).map(drop);
        let mut options = settings.options()?;
        if !settings.0.contains_key("log_level") {
            options.log_level = usual_level();
        }
        options.cgroups.iter().try_for_each(find).map_err(wrong)?;
        options.verbose = self.verbose > 0;
        options.log_level = options.log_level.max(self.level());
        Ok(options)
    }
}

/// Return the checked options: those in `given`, else those of the configuration file.
///
/// # Errors
/// Usage failure for a bad file or a value out of range.
pub fn resolve(given: &RunSettings, sources: &Sources) -> Result<RunSettings, Failure> {
    resolve_with_places(given, sources).map(|(settings, _)| settings)
}

/// Do the same, and return the lines of those options that the configuration file decides.
fn resolve_with_places(given: &RunSettings, sources: &Sources) -> Result<(RunSettings, Places), Failure> {
    let (file, places) = match sources.file() {
        Some(path) => config::read(&path)?,
        None => Default::default(),
    };
    file.check_each().map_err(|wrong| places.locate(wrong))?;
    given.check_each()?;
    // A contradiction may involve both sources.
    let places = places.overridden(given);
    let both = given.clone().over(file);
    both.check_together().map_err(|wrong| places.locate(wrong))?;
    Ok((both, places))
}

impl RunSettings {
    /// Return these options, with those of `beneath` for absent ones.
    fn over(mut self, beneath: Self) -> Self {
        let adds = |key| Setting::all().any(|setting| setting.adds && setting.key == key);
        for (key, value) in beneath.0 {
            match (self.0.get_mut(key), value) {
                (Some(Value::Array(above)), Value::Array(below)) if adds(key) => {
                    above.splice(0..0, below);
                }
                (Some(_), _) => {}
                (None, value) => {
                    self.0.insert(key, value);
                }
            }
        }
        self
    }

    /// Check each value on its own.
    fn check_each(&self) -> Result<(), Wrong> {
        let events = self.options()?.events;
        pmu::events::check(&events).map_err(|failure| Wrong { keys: vec!["events"], failure })
    }

    /// Check values that may contradict each other.
    fn check_together(&self) -> Result<(), Wrong> {
        let options = self.options()?;
        if options.limit_bias && options.partial {
            let failure = Failure::usage("limit_bias and partial are mutually exclusive: drop one");
            return Err(Wrong { keys: vec!["limit_bias", "partial"], failure });
        }
        if options.limit_bias && options.cgroups.is_empty() {
            let failure = Failure::usage(
                "limit_bias limits bias to the given cgroups, but no cgroup is given: add --cgroup or drop limit_bias",
            );
            return Err(Wrong { keys: vec!["limit_bias", "cgroups"], failure });
        }
        if options.housekeeping.is_some() && options.cgroups.is_empty() {
            let failure = Failure::usage(
                "housekeeping confines threads outside the given cgroups, but no cgroup is given: add --cgroup or drop housekeeping",
            );
            return Err(Wrong { keys: vec!["housekeeping", "cgroups"], failure });
        }
        options.knobs.check().map_err(|why| {
            // The cause names each knob that it concerns by its key.
            let words: Vec<&str> = why.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
            let keys = Setting::KNOBS.iter().map(|knob| knob.key).filter(|key| words.contains(key)).collect();
            Wrong { keys, failure: Failure::usage(why) }
        })
    }

    /// Return the options of the scheduler.
    ///
    /// # Errors
    /// Usage failure for the first value that is not valid.
    pub fn options(&self) -> Result<RunOptions, Wrong> {
        let mut options = RunOptions::of(self.profile());
        for (key, value) in &self.0 {
            let set = |option: &Setting| option.set(&mut options, value);
            Setting::find(key)
                .map_or(Ok(()), set)
                .map_err(|why| Wrong { keys: vec![*key], failure: Failure::usage(why) })?;
        }
        Ok(options)
    }

    /// Return the profile, which decides the defaults. One that does not exist is refused later.
    pub fn profile(&self) -> Profile {
        let word = self.0.get("profile").and_then(Value::as_str);
        word.and_then(Profile::named).unwrap_or_default()
    }
}

/// Return a statistics interval of the command line, given in seconds.
///
/// # Errors
/// Usage failure when it is out of range.
pub fn interval(name: &str, seconds: f64) -> Result<Duration, Failure> {
    let wrong = |why| Failure::usage(format!("{name} is {seconds}: {why}"));
    setting::interval(&json!(seconds)).map_err(wrong)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::command::Cli;
    use clap::{CommandFactory, Parser};

    fn resolve(config: &str, flags: &[&str]) -> Result<RunSettings, Failure> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.toml");
        std::fs::write(&path, config).unwrap();
        let flags = ["scx_bias", "--config", path.to_str().unwrap()].into_iter().chain(flags.iter().copied());
        let run = Cli::try_parse_from(flags).unwrap().run;
        super::resolve(&run.options, &run.source)
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_command_line_wins_over_the_file() {
        let settings = resolve("slice_us = 5000\nstats = 1.5", &["--slice-us", "7000"]).unwrap();
        assert_eq!((&settings.0["slice_us"], &settings.0["stats"]), (&json!(7000), &json!(1.5)));
        let options = settings.options().unwrap();
        assert_eq!(options.stats_interval, Some(Duration::from_millis(1500)));
    }

    #[test]
    fn events_are_checked_wherever_they_stand_and_the_command_line_wins() {
        let file = "events = ['external=software/config=1/', 'internal=software/config=2/']";
        let settings = resolve(file, &["--events", "external=software/config=3/"]).unwrap();
        let events = settings.options().unwrap().events;
        // The last event of a role counts.
        assert_eq!(events.last().unwrap().to_string(), "external=software/config=0x3/");
        assert_eq!(events.len(), 3);
        assert!(resolve("events = ['external']", &[]).unwrap_err().message.contains("no ROLE="));
        let absent = resolve("", &["--events", "external=no_such_pmu/config=1/"]).unwrap_err().message;
        assert!(absent.contains("there is no PMU no_such_pmu; this machine has"), "{absent}");
    }

    #[test]
    fn cgroups_of_the_command_line_replace_those_of_the_file() {
        let file = "cgroups = ['/a', 'b']";
        let settings = resolve(file, &[]).unwrap();
        let cgroups = settings.options().unwrap().cgroups;
        assert!(cgroups[1].is_absolute() && cgroups[1].ends_with("b"));
        let settings = resolve(file, &["--cgroup", "/c", "--cgroup=d"]).unwrap();
        assert_eq!(settings.options().unwrap().cgroups, ["/c", "d"].map(Path::new));
        assert!(resolve("cgroups = '/a'", &[]).unwrap_err().message.contains("line 1"));
    }

    #[test]
    fn each_v_prints_more() {
        let level =
            |flags: &[&str]| Cli::try_parse_from([&["scx_bias"], flags].concat()).unwrap().run.level();
        let levels = [level(&[]), level(&["-v"]), level(&["-vv"]), level(&["-v", "-v", "-v"])];
        assert_eq!(levels, [Level::ERROR, Level::DEBUG, Level::TRACE, Level::TRACE]);
    }

    #[test]
    fn the_whole_system_with_bias_in_cgroups_needs_cgroups() {
        let options = resolve("cgroups = ['/a']", &["--limit-bias"]).unwrap();
        let options = options.options().unwrap();
        assert!(options.schedules_everything() && options.limits_bias());
        let refused = resolve("limit_bias = true", &[]).unwrap_err().message;
        assert!(refused.contains("configuration file") && refused.contains("--cgroup"), "{refused}");
        assert!(resolve("limit_bias = true", &["--limit-bias=false"]).is_ok());
    }

    #[test]
    fn a_profile_changes_defaults_only() {
        let slices = |config: &str, flags: &[&str]| {
            let knobs = resolve(config, flags).unwrap().options().unwrap().knobs;
            (knobs.slice_us, knobs.slice_min_us)
        };
        assert_eq!(slices("", &["--profile", "gaming"]), (4000, 500));
        assert_eq!(slices("profile = 'server'\nslice_us = 9000", &[]), (9000, 3000));
        assert_eq!(slices("slice_us = 9000", &["--profile=lowlatency", "--slice-min-us=400"]), (9000, 400));
        // A contradiction of a value with its profile is found, too.
        assert!(resolve("slice_us = 1000", &["--profile=server"]).is_err());
        assert!(resolve("profile = 'turbo'", &[]).unwrap_err().message.contains("give one of auto, gaming"));
        assert!(!resolve("profile = 'powersave'", &[]).unwrap().options().unwrap().swaps.enabled);
    }

    #[test]
    fn what_is_scheduled_is_decided_by_cgroups_and_partial() {
        let everything =
            |flags: &[&str]| resolve("", flags).unwrap().options().unwrap().schedules_everything();
        assert!(everything(&[]) && everything(&["--cgroup=/a", "--limit-bias"]));
        assert!(!everything(&["--partial"]) && !everything(&["--cgroup=/a"]));
        assert!(!everything(&["--cgroup=/a", "--partial"]));
        let both = resolve("limit_bias = true\ncgroups = ['/a']", &["--partial"]).unwrap_err().message;
        assert!(both.contains(", line 1: ") && both.contains("drop one"), "{both}");
    }

    #[test]
    fn a_housekeeping_cpu_needs_cgroups() {
        for (file, flags) in
            [("housekeeping = 3", &["--cgroup", "/a"][..]), ("cgroups = ['/a']", &["--housekeeping=slow"])]
        {
            assert!(resolve(file, flags).unwrap().options().unwrap().housekeeping.is_some(), "{file}");
        }
        let refused = resolve("", &["--housekeeping", "slow"]).unwrap_err().message;
        assert!(refused.contains("--cgroup"), "{refused}");
        let refused = resolve("cgroups = ['/a']\nhousekeeping = 'big'", &[]).unwrap_err().message;
        assert!(refused.contains("line 2: housekeeping is \"big\": give slow, fast"), "{refused}");
    }

    #[test]
    fn values_out_of_range_are_refused_wherever_they_stand() {
        assert!(resolve("slice_us = 99", &[]).unwrap_err().message.contains("from 100 to 100000"));
        assert!(resolve("", &["--rotate-gap-us", "1"]).unwrap_err().message.contains("rotate_gap_us is 1"));
        for wrong in ["1800,1200", "999,1200", "1200", "a,b", "1200,a,1800", ""] {
            let error = resolve(&format!("thresholds_permille = '{wrong}'"), &[]).unwrap_err().message;
            assert!(error.contains("the lower first"), "{error}");
        }
        assert!(resolve("stats = nan", &[]).is_err());
        assert!(resolve("slice_us = 500", &[]).unwrap_err().message.contains("shorter least slice"));
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
            let message = resolve(text, flags).unwrap_err().message;
            assert!(message.starts_with("configuration file /"), "{text:?}: {message}");
            assert!(message.contains(&format!("config.toml{says}")), "{text:?}: {message}");
            assert_eq!(message.lines().count(), 1);
        }
        // The file is not to blame for a mistake of the command line alone.
        for flags in [&["--stats=0.01"][..], &["--slice-min-us=9000", "--slice-us=5000"]] {
            let message = resolve("no_bias = true\nslice_us = 9500", flags).unwrap_err().message;
            assert!(!message.contains("configuration file"), "{message}");
        }
    }
}
