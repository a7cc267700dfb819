// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
#![allow(clippy::unwrap_used)]

use super::*;
use clap::ValueEnum;
use toml::Value;

/// Return options of this one value.
fn with(key: &str, value: impl Into<Value>) -> Result<RunOptions, toml::de::Error> {
    Table::from_iter([(key.to_owned(), value.into())]).try_into()
}

/// Return the value of `key` after [`with`].
fn set(key: &str, value: impl Into<Value>) -> Option<Value> {
    with(key, value).ok()?.values().remove(key)
}

#[test]
fn every_default_and_example_is_a_valid_value() {
    let (usual, examples) = (RunOptions::default().values(), RunOptions::examples(Profile::Auto));
    assert!(RunOptions::keys().all(|key| examples.contains_key(&key)));
    assert_eq!(RunOptions::keys().count(), examples.len());
    for (key, example) in &examples {
        let shown = set(key, example.clone()).unwrap();
        assert_eq!(set(key, shown.clone()), Some(shown.clone()), "{key}");
        // Only examples of options without a default differ.
        assert!(EXAMPLES.contains(&format!("\n{key} = ")) || usual.get(key) == Some(&shown), "{key}");
    }
    for flag in RunOptions::flags() {
        let help = flag.get_help().unwrap().to_string();
        assert!(!help.is_empty() && !help.ends_with('.') && !help.contains("  "), "{help}");
    }
}

#[test]
fn ranges_and_defaults_in_help_texts_match_the_types() {
    let mut checked = 0;
    for flag in RunOptions::flags() {
        let (key, help) = (flag.get_id().as_str(), flag.get_help().unwrap().to_string());
        let usual = RunOptions::default().values().remove(key);
        let Some(Value::Integer(usual)) = usual else { continue };
        let range = help.split_once('[').unwrap().1.split_once(']').unwrap().0;
        let (min, rest) = range.split_once(" to ").unwrap();
        let (max, default) = rest.split_once("; default ").unwrap();
        let [min, max, default] = [min, max, default].map(|number| number.parse::<i64>().unwrap());
        assert_eq!(default, usual, "{key}");
        assert!(set(key, min).is_some() && set(key, max).is_some(), "{key}");
        for beyond in [min - 1, max + 1] {
            assert!(
                with(key, beyond).unwrap_err().message().contains(&format!("from {min} to {max}")),
                "{key}"
            );
        }
        checked += 1;
    }
    assert_eq!(checked, 12);
}

#[test]
fn each_option_sets_itself_only() {
    let usual = RunOptions::default().values();
    for flag in RunOptions::flags() {
        let key = flag.get_id().as_str();
        let other = match usual.get(key).cloned() {
            Some(Value::Boolean(on)) => Value::Boolean(!on),
            Some(Value::Integer(number)) => Value::Integer(number + 1),
            Some(Value::String(_)) => flag.get_possible_values().last().unwrap().get_name().into(),
            _ => RunOptions::examples(Profile::Auto)[key].clone(),
        };
        let changed = with(key, other).unwrap().values();
        let keys = RunOptions::keys().filter(|key| changed.get(key) != usual.get(key));
        assert_eq!(keys.collect::<Vec<_>>(), [key]);
    }
}

#[test]
fn a_wrong_value_is_refused() {
    for key in RunOptions::keys() {
        let wrong: [Value; 4] = [Table::new().into(), vec![1].into(), (-1).into(), 1e9.into()];
        for value in wrong {
            assert!(with(&key, value.clone()).is_err(), "{key} = {value}");
        }
    }
}

#[test]
fn keys_and_earlier_keys_find_one_option() {
    let found = |name| RunOptions::key(name);
    assert_eq!(found("borrow_gap_us").as_deref(), Some("steal_lag_us"));
    assert_eq!(found("no_bias").as_deref(), Some("no_bias"));
    assert_eq!((found(""), found("slice")), (None, None));
    let mut keys: Vec<_> = RunOptions::keys().chain(EARLIER.iter().map(|(old, _)| (*old).into())).collect();
    let count = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), count);
    assert!(LIVE.iter().all(|key| found(key).is_some()));
    assert_eq!(RunOptions::default().knobs().len(), 10);
}

#[test]
fn each_profile_has_one_word_and_valid_options() {
    for profile in Profile::value_variants() {
        let options = RunOptions::of(*profile);
        assert_eq!(options.check(), Ok(()));
        let named = with("profile", options.values()["profile"].clone()).unwrap();
        assert_eq!(named.profile, *profile);
        // A mistake in the list of differences would leave the usual defaults.
        assert_eq!(options.values() != named.values(), *profile != Profile::Auto, "{profile:?}");
    }
    assert!(with("profile", "turbo").is_err());
}

#[test]
fn the_guide_lists_the_changes_of_each_profile() {
    let guide = include_str!("../../../../docs/guides/configuration.md");
    let usual = RunOptions::default().values();
    for profile in Profile::value_variants() {
        let values = RunOptions::of(*profile).values();
        let start = format!("| `{}` |", values["profile"].as_str().unwrap());
        let row = guide.lines().find(|line| line.starts_with(&start)).unwrap();
        for (key, value) in values {
            let entry = format!("`{key} = {value}`");
            let differs = key != "profile" && usual.get(&key) != Some(&value);
            assert_eq!(row.contains(&entry), differs, "{entry} in {row}");
        }
    }
}

#[test]
fn a_least_slice_above_the_slice_is_refused() {
    let wrong = with("slice_us", 500).unwrap().check().unwrap_err();
    assert_eq!(wrong.keys, ["slice_min_us", "slice_us"]);
    assert!(wrong.why.contains("shorter least slice"));
}
