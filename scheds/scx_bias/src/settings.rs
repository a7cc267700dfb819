//! From the command line and the configuration file to what the agent wants, checked once for both.

use crate::cli::{CalibrateArgs, ExecArgs, RunArgs, RunSettings};
use bias_agent::calibrate::Settings;
use bias_agent::capacity::Source;
use bias_agent::exec::Wish;
use bias_agent::failure::Failure;
use bias_agent::optin::cgroup;
use bias_agent::pmu::{self, Override};
use bias_agent::safefile;
use bias_agent::sched::RunOptions;
use bias_policy::classes::SplitRule;
use bias_policy::table::CapacityTable;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

/// Intervals of statistics that make sense [s].
const INTERVAL_S: RangeInclusive<f64> = 0.1..=86_400.0;

impl RunArgs {
    /// The options with those of the configuration file beneath, checked.
    ///
    /// # Errors
    /// Usage failure for a bad file or a value out of range.
    pub fn resolve(&self) -> Result<RunSettings, Failure> {
        let settings = match &self.config {
            Some(path) => self.options.clone().over(read(path)?),
            None => self.options.clone(),
        };
        settings.check()?;
        Ok(settings)
    }
}

/// Options of a configuration file.
fn read(path: &Path) -> Result<RunSettings, Failure> {
    let text = safefile::read_text(path, "configuration file")?;
    let mut settings: RunSettings = toml::from_str(&text).map_err(|error| {
        let line =
            error.span().map_or(0, |span| text.get(..span.start).unwrap_or("").matches('\n').count() + 1);
        let why = error.message();
        Failure::usage(format!(
            "configuration file {}, line {line}: {why}; keys are the long flags of `scx_bias --help`",
            path.display()
        ))
    })?;
    // A relative path in the file is relative to the file.
    if let Some(folder) = path.parent() {
        for file in settings.capacity_file.iter_mut().chain(&mut settings.cgroup) {
            *file = folder.join(&*file);
        }
    }
    Ok(settings)
}

impl RunSettings {
    /// These options where they are given, else those beneath.
    fn over(self, beneath: Self) -> Self {
        Self {
            cgroup: if self.cgroup.is_empty() { beneath.cgroup } else { self.cgroup },
            capacity_file: self.capacity_file.or(beneath.capacity_file),
            slice_us: self.slice_us.or(beneath.slice_us),
            slice_min_us: self.slice_min_us.or(beneath.slice_min_us),
            rotate_gap_us: self.rotate_gap_us.or(beneath.rotate_gap_us),
            sync_burst_us: self.sync_burst_us.or(beneath.sync_burst_us),
            no_bias: self.no_bias.or(beneath.no_bias),
            // The last of a role counts, so the command line wins here too.
            events: [beneath.events, self.events].concat(),
            window_instructions: self.window_instructions.or(beneath.window_instructions),
            sample_every: self.sample_every.or(beneath.sample_every),
            thresholds_permille: self.thresholds_permille.or(beneath.thresholds_permille),
            gain_permille: self.gain_permille.or(beneath.gain_permille),
            borrow_gap_us: self.borrow_gap_us.or(beneath.borrow_gap_us),
            unfair_gap_us: self.unfair_gap_us.or(beneath.unfair_gap_us),
            no_recalibrate: self.no_recalibrate.or(beneath.no_recalibrate),
            stats: self.stats.or(beneath.stats),
        }
    }

    fn check(&self) -> Result<(), Failure> {
        within("slice-us", self.slice_us, 100..=100_000)?;
        within("slice-min-us", self.slice_min_us, 10..=100_000)?;
        within("rotate-gap-us", self.rotate_gap_us, 1_000..=10_000_000)?;
        within("sync-burst-us", self.sync_burst_us, 0..=1_000_000)?;
        within("window-instructions", self.window_instructions, 10_000..=1_000_000_000)?;
        within("sample-every", self.sample_every, 1..=1000)?;
        within("gain-permille", self.gain_permille, 10..=10_000)?;
        within("borrow-gap-us", self.borrow_gap_us, 1_000..=10_000_000)?;
        within("unfair-gap-us", self.unfair_gap_us, 1_000..=100_000_000)?;
        within("stats", self.stats, INTERVAL_S)?;
        events(&self.events)?;
        let with_defaults = self.options(CapacityTable::default())?;
        if with_defaults.slice_min_us > with_defaults.slice_us {
            return Err(Failure::usage(format!(
                "slice-min-us is {} and slice-us {}: give a shorter least slice or a longer slice",
                with_defaults.slice_min_us, with_defaults.slice_us
            )));
        }
        Ok(())
    }

    /// Refuses what is no cgroup.
    ///
    /// # Errors
    /// As [`cgroup::resolve`], for the first.
    pub fn cgroups(&self) -> Result<(), Failure> {
        self.cgroup.iter().try_for_each(|path| cgroup::resolve(Path::new("/"), path).map(drop))
    }

    /// What the scheduler is run with. Out-of-range values have been refused by [`RunArgs::resolve`].
    ///
    /// # Errors
    /// Usage failure for an event that is none.
    pub fn options(&self, table: CapacityTable) -> Result<RunOptions, Failure> {
        let defaults = RunOptions::new(table);
        Ok(RunOptions {
            cgroups: self.cgroup.clone(),
            events: parse_events(&self.events)?,
            slice_us: self.slice_us.unwrap_or(defaults.slice_us),
            slice_min_us: self.slice_min_us.unwrap_or(defaults.slice_min_us),
            rotate_gap_us: self.rotate_gap_us.unwrap_or(defaults.rotate_gap_us),
            sync_burst_us: self.sync_burst_us.unwrap_or(defaults.sync_burst_us),
            bias: !self.no_bias.unwrap_or(!defaults.bias),
            window_instructions: self.window_instructions.unwrap_or(defaults.window_instructions),
            sample_every: self.sample_every.unwrap_or(defaults.sample_every),
            thresholds_permille: self.thresholds_permille.map(|t| (t.low, t.high)),
            gain_permille: self.gain_permille.unwrap_or(defaults.gain_permille),
            borrow_gap_us: self.borrow_gap_us.unwrap_or(defaults.borrow_gap_us),
            unfair_gap_us: self.unfair_gap_us.unwrap_or(defaults.unfair_gap_us),
            recalibrate: !self.no_recalibrate.unwrap_or(!defaults.recalibrate),
            stats_interval: self
                .stats
                .filter(|seconds| INTERVAL_S.contains(seconds))
                .map(Duration::from_secs_f64),
            ..defaults
        })
    }
}

fn parse_events(named: &[String]) -> Result<Vec<Override>, Failure> {
    named.iter().map(|event| event.parse()).collect()
}

/// The events that were named, which this machine has.
///
/// # Errors
/// Usage failure for the first that cannot be read or does not exist.
fn events(named: &[String]) -> Result<Vec<Override>, Failure> {
    let events = parse_events(named)?;
    pmu::events::check(&events)?;
    Ok(events)
}

fn within<T: PartialOrd + std::fmt::Display>(
    name: &str,
    value: Option<T>,
    range: RangeInclusive<T>,
) -> Result<(), Failure> {
    match value {
        Some(value) if !range.contains(&value) => Err(Failure::usage(format!(
            "{name} is {value}: give a value from {} to {}",
            range.start(),
            range.end()
        ))),
        _ => Ok(()),
    }
}

/// A statistics interval of the command line.
///
/// # Errors
/// Usage failure when it is out of range.
pub fn interval(name: &str, seconds: f64) -> Result<Duration, Failure> {
    within(name, Some(seconds), INTERVAL_S)?;
    Ok(Duration::from_secs_f64(seconds))
}

impl ExecArgs {
    /// Which CPUs are wanted.
    pub fn wish(&self) -> Wish {
        Wish {
            capacity_file: self.capacity_file.clone(),
            count: self.cpus,
            class: self.class.map(Into::into),
            by: self.component.into(),
            whole_cores: self.whole_cores,
        }
    }
}

impl CalibrateArgs {
    /// What to count while measuring.
    ///
    /// # Errors
    /// Usage failure for an event that this machine does not have.
    pub fn counting(&self) -> Result<pmu::Options, Failure> {
        Ok(pmu::Options { events: events(&self.events)?, enabled: true })
    }

    /// Where the table is to come from.
    pub fn source(&self) -> Source {
        let settings = Settings {
            rounds: self.rounds,
            visit: self.visit_ms.map(Duration::from_millis),
            external_bytes: self.external_kib.map(|kib| kib as usize * 1024),
            rule: SplitRule { min_effect_permille: self.min_effect_permille, ..SplitRule::default() },
            ..Settings::default()
        };
        Source { capacity_file: None, force: self.force, settings, output: self.output.clone() }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::{CommandFactory, Parser};

    fn resolve(config: &str, flags: &[&str]) -> Result<RunSettings, Failure> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        std::fs::write(&path, config).unwrap();
        let flags = ["scx_bias", "--config", path.to_str().unwrap()].into_iter().chain(flags.iter().copied());
        Cli::try_parse_from(flags).unwrap().run.resolve()
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_command_line_wins_over_the_file() {
        let settings = resolve("slice-us = 5000\nstats = 1.5", &["--slice-us", "7000"]).unwrap();
        assert_eq!((settings.slice_us, settings.stats), (Some(7000), Some(1.5)));
        let options = settings.options(CapacityTable::default()).unwrap();
        assert_eq!(options.stats_interval, Some(Duration::from_millis(1500)));
    }

    #[test]
    fn every_setting_can_be_in_the_file_and_nothing_else() {
        let all = "cgroup = ['/sys/fs/cgroup/a']\ncapacity-file = 'a'\nslice-us = 100\nslice-min-us = 100\nrotate-gap-us = 1000\nsync-burst-us = 0\n\
            no-bias = true\nwindow-instructions = 10000\nsample-every = 2\nthresholds-permille = '1200,1800'\ngain-permille = 50\nborrow-gap-us = 1000\n\
            unfair-gap-us = 1000\nno-recalibrate = true\nstats = 1.0\nevents = ['external=software/config=1/']";
        let settings = resolve(all, &[]).unwrap();
        assert!(settings.capacity_file.unwrap().is_absolute());
        assert_eq!(all.lines().count(), RunSettings::augment_flags());
        let refused = resolve("slice-us = 100\nslise = 3", &[]).unwrap_err().message;
        assert!(refused.contains("line 2") && refused.contains("slise"), "{refused}");
    }

    #[test]
    fn events_are_checked_wherever_they_stand_and_the_command_line_wins() {
        let file = "events = ['external=software/config=1/', 'internal=software/config=2/']";
        let settings = resolve(file, &["--events", "external=software/config=3/"]).unwrap();
        let events = settings.options(CapacityTable::default()).unwrap().events;
        // The last of a role counts.
        assert_eq!(events.last().unwrap().to_string(), "external=software/config=0x3/");
        assert_eq!(events.len(), 3);
        assert!(resolve("events = ['external']", &[]).unwrap_err().message.contains("no ROLE="));
        let absent = resolve("", &["--events", "external=no_such_pmu/config=1/"]).unwrap_err().message;
        assert!(absent.contains("there is no PMU no_such_pmu; this machine has"), "{absent}");
    }

    #[test]
    fn cgroups_of_the_command_line_replace_those_of_the_file() {
        let file = "cgroup = ['/a', 'b']";
        let settings = resolve(file, &[]).unwrap();
        assert!(settings.cgroup[1].is_absolute() && settings.cgroup[1].ends_with("b"));
        let settings = resolve(file, &["--cgroup", "/c", "--cgroup=d"]).unwrap();
        assert_eq!(settings.options(CapacityTable::default()).unwrap().cgroups, ["/c", "d"].map(Path::new));
        assert!(resolve("cgroup = '/a'", &[]).unwrap_err().message.contains("line 1"));
    }

    #[test]
    fn values_out_of_range_are_refused_wherever_they_stand() {
        assert!(resolve("slice-us = 99", &[]).unwrap_err().message.contains("from 100 to 100000"));
        assert!(resolve("", &["--rotate-gap-us", "1"]).unwrap_err().message.contains("rotate-gap-us is 1"));
        for wrong in ["1800,1200", "999,1200", "1200", "a,b", ""] {
            let error = resolve(&format!("thresholds-permille = '{wrong}'"), &[]).unwrap_err().message;
            assert!(error.contains("the lower first"), "{error}");
        }
        assert!(resolve("stats = nan", &[]).is_err());
        assert!(resolve("slice-us = 500", &[]).unwrap_err().message.contains("shorter least slice"));
    }

    impl RunSettings {
        /// Number of flags that are settings.
        fn augment_flags() -> usize {
            <Self as clap::Args>::augment_args(clap::Command::new("x")).get_arguments().count()
        }
    }
}
