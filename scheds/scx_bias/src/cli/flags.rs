// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Flags of the options that a configuration file may hold, generated from their definitions.

use crate::output::{complain, renamed};
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
        Setting::all().flat_map(flags).fold(command, Command::arg)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn with_dashes(key: &str) -> String {
    key.replace('_', "-")
}

/// Return the flag of a setting, and hidden ones for its earlier keys.
fn flags(setting: &'static Setting) -> impl Iterator<Item = Arg> {
    let flag = flag_of(setting, setting.key, setting.flag).help(setting.help.trim());
    let earlier = setting.formerly.iter().map(move |key| flag_of(setting, key, key));
    [flag].into_iter().chain(earlier.map(|flag| flag.hide(true).conflicts_with(setting.key)))
}

fn flag_of(setting: &'static Setting, key: &'static str, long: &str) -> Arg {
    let hint = if setting.is_path() { ValueHint::AnyPath } else { ValueHint::Unknown };
    let arg = Arg::new(key).long(with_dashes(long)).value_name(setting.value_name).value_hint(hint);
    match setting.form {
        Form::Switch => arg
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .value_parser(value_parser!(bool)),
        Form::Number => arg.value_parser(|text: &str| text.parse::<Number>().map_err(|_| "give a number")),
        Form::Whole => arg.value_parser(value_parser!(u64)),
        Form::Text if setting.words.is_empty() => arg,
        Form::Text => arg.value_parser(PossibleValuesParser::new(setting.words)),
        Form::List => arg.action(ArgAction::Append),
    }
}

impl FromArgMatches for RunSettings {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |setting: &'static Setting| {
            let earlier = || setting.formerly.iter().find_map(|key| earlier(matches, setting, key));
            Some((setting.key, value(matches, setting.form, setting.key).or_else(earlier)?))
        };
        Ok(Self(Setting::all().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.extend(Self::from_arg_matches(matches)?.0);
        Ok(())
    }
}

/// Return the value that the command line gives to `key`.
fn value(matches: &ArgMatches, form: Form, key: &str) -> Option<Value> {
    match form {
        Form::Switch => matches.get_one::<bool>(key).map(|on| json!(on)),
        Form::Number => matches.get_one::<Number>(key).map(|number| json!(number)),
        Form::Whole => matches.get_one::<u64>(key).map(|number| json!(number)),
        Form::Text => matches.get_one::<String>(key).map(|text| json!(text)),
        Form::List => matches.get_many::<String>(key).map(|texts| texts.map(String::as_str).collect()),
    }
}

/// Return the value of an earlier key of a setting, and tell its present one.
fn earlier(matches: &ArgMatches, setting: &Setting, key: &str) -> Option<Value> {
    let value = value(matches, setting.form, key)?;
    let flag = |key| format!("--{}", with_dashes(key));
    complain(&renamed(&flag(key), &flag(setting.flag)));
    Some(value)
}
