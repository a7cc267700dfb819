//! Flags of the knobs, generated from their definitions.

use crate::output::complain;
use bias_agent::options::knobs::{Knob, Knobs};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};
use std::collections::BTreeMap;

/// Knobs on the command line or in a file, by key, each in the unit of its name.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Numbers(pub BTreeMap<&'static str, u64>);

impl Numbers {
    /// Return these knobs, with those of `beneath` for keys that are absent here.
    #[must_use]
    pub fn over(mut self, beneath: Self) -> Self {
        for (key, value) in beneath.0 {
            self.0.entry(key).or_insert(value);
        }
        self
    }

    /// Return a value for each knob, by default its default.
    ///
    /// # Errors
    /// Cause and remedy for a value out of range, or for values that contradict each other.
    pub fn knobs(&self) -> Result<Knobs, String> {
        let mut knobs = Knobs::default();
        for knob in Knob::ALL {
            if let Some(value) = self.0.get(knob.key) {
                knob.set(&mut knobs, *value)?;
            }
        }
        knobs.check()?;
        Ok(knobs)
    }
}

impl Args for Numbers {
    fn augment_args(command: Command) -> Command {
        let flag = |key: &str| key.replace('_', "-");
        Knob::ALL.iter().fold(command, |command, knob| {
            let help =
                format!("{} [{} to {}; default {}]", knob.help.trim(), knob.min, knob.max, knob.default);
            let arg =
                |key| Arg::new(key).long(flag(key)).value_name(knob.unit).value_parser(value_parser!(u64));
            let command = command.arg(arg(knob.key).help(help));
            if knob.formerly.is_empty() {
                return command;
            }
            command.arg(arg(knob.formerly).hide(true).conflicts_with(knob.key))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Numbers {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |knob: &Knob| {
            let earlier = || {
                let key = Some(knob.formerly).filter(|key| !key.is_empty())?;
                let value = matches.get_one::<u64>(key)?;
                complain(&format!("--{} is now --{}", key.replace('_', "-"), knob.key.replace('_', "-")));
                Some(value)
            };
            Some((knob.key, *matches.get_one::<u64>(knob.key).or_else(earlier)?))
        };
        Ok(Self(Knob::ALL.iter().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?.over(std::mem::take(self));
        Ok(())
    }
}
