//! Flags of the options that a configuration file may hold, generated from their definitions.

use crate::output::complain;
use bias_agent::options::Definition;
use bias_agent::options::knobs::Knob;
use bias_agent::options::setting::{Form, Setting};
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueHint, value_parser};
use serde_json::{Number, Value, json};
use std::collections::BTreeMap;

/// Options of the command line or of a file: the values that are given, by key.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct RunSettings(pub BTreeMap<&'static str, Value>);

impl Args for RunSettings {
    fn augment_args(command: Command) -> Command {
        let command = Setting::ALL.iter().map(flag_of_setting).fold(command, Command::arg);
        Knob::ALL.iter().flat_map(flags_of_knob).fold(command, Command::arg)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn with_dashes(key: &str) -> String {
    key.replace('_', "-")
}

fn flag_of_setting(setting: &'static Setting) -> Arg {
    let hint = if setting.is_path() { ValueHint::AnyPath } else { ValueHint::Unknown };
    let arg = Arg::new(setting.key)
        .long(with_dashes(setting.flag))
        .value_name(setting.value_name)
        .help(setting.help);
    let arg = arg.value_hint(hint);
    match setting.form {
        Form::Switch => arg
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .value_parser(value_parser!(bool)),
        Form::Number => arg.value_parser(|text: &str| text.parse::<Number>().map_err(|_| "give a number")),
        Form::Text if setting.words.is_empty() => arg,
        Form::Text => arg.value_parser(PossibleValuesParser::new(setting.words)),
        Form::List => arg.action(ArgAction::Append),
    }
}

/// Return the flag of a knob, and a hidden one for its earlier key.
fn flags_of_knob(knob: &'static Knob) -> impl Iterator<Item = Arg> {
    let help = format!("{} [{} to {}; default {}]", knob.help.trim(), knob.min, knob.max, knob.default);
    let flag = |key: &'static str| {
        Arg::new(key).long(with_dashes(key)).value_name(knob.unit).value_parser(value_parser!(u64))
    };
    let earlier = Definition::Knob(knob).formerly();
    let earlier = earlier.map(|key| flag(key).hide(true).conflicts_with(knob.key));
    [flag(knob.key).help(help)].into_iter().chain(earlier)
}

impl FromArgMatches for RunSettings {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |option: Definition| Some((option.key(), value(matches, option)?));
        Ok(Self(Definition::all().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.extend(Self::from_arg_matches(matches)?.0);
        Ok(())
    }
}

/// Return the value that the command line gives to the option.
fn value(matches: &ArgMatches, option: Definition) -> Option<Value> {
    let key = option.key();
    match option {
        Definition::Setting(Setting { form: Form::Switch, .. }) => {
            matches.get_one::<bool>(key).map(|on| json!(on))
        }
        Definition::Setting(Setting { form: Form::Number, .. }) => {
            matches.get_one::<Number>(key).map(|number| json!(number))
        }
        Definition::Setting(Setting { form: Form::Text, .. }) => {
            matches.get_one::<String>(key).map(|text| json!(text))
        }
        Definition::Setting(Setting { form: Form::List, .. }) => {
            matches.get_many::<String>(key).map(|texts| texts.map(String::as_str).collect())
        }
        Definition::Knob(_) => {
            let number = |key| matches.get_one::<u64>(key).map(|number| json!(number));
            number(key).or_else(|| {
                let earlier = option.formerly()?;
                let value = number(earlier)?;
                complain(&format!("--{} is now --{}", with_dashes(earlier), with_dashes(key)));
                Some(value)
            })
        }
    }
}
