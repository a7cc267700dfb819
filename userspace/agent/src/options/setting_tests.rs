// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn every_default_and_example_is_a_valid_value() {
    for setting in Setting::all() {
        let mut options = RunOptions::default();
        setting.set(&mut options, &Value::Null).unwrap();
        assert_eq!(setting.of(&options), setting.of(&RunOptions::default()), "{}", setting.key);
        let example: toml::Table = toml::from_str(&format!("x = {}", setting.example)).unwrap();
        let example = serde_json::to_value(&example["x"]).unwrap();
        setting.set(&mut options, &example).unwrap();
        let shown = setting.of(&options);
        setting.set(&mut options, &shown).unwrap();
        assert_eq!(setting.of(&options), shown, "{}", setting.key);
        let help = setting.help.trim();
        assert!(!help.is_empty() && !help.ends_with('.') && !help.contains("  "), "{help}");
    }
}

#[test]
fn each_setting_sets_itself_only() {
    for setting in Setting::all() {
        let other = match setting.form {
            Form::Switch => json!(!setting.of(&RunOptions::default()).as_bool().unwrap()),
            Form::Number => json!(77),
            Form::Whole => json!(setting.of(&RunOptions::default()).as_u64().unwrap() + 1),
            Form::Text if setting.words.is_empty() => {
                let example: toml::Table = toml::from_str(&format!("x = {}", setting.example)).unwrap();
                serde_json::to_value(&example["x"]).unwrap()
            }
            Form::Text => json!(setting.words.last().unwrap()),
            Form::List => json!(["external=software/config=1/"]),
        };
        let mut options = RunOptions::default();
        setting.set(&mut options, &other).unwrap();
        let changed = |setting: &&Setting| setting.of(&options) != setting.of(&RunOptions::default());
        let keys: Vec<_> = Setting::all().filter(changed).map(|setting| setting.key).collect();
        assert_eq!(keys, [setting.key]);
    }
}

#[test]
fn a_wrong_value_is_refused_with_its_key_and_leaves_the_options() {
    for setting in Setting::all() {
        for wrong in [json!({}), json!([1]), json!(-1), json!(1e9)] {
            let mut options = RunOptions::default();
            let why = setting.set(&mut options, &wrong).unwrap_err();
            assert!(why.starts_with(&format!("{} is {wrong}: ", setting.key)), "{why}");
            assert_eq!(setting.of(&options), setting.of(&RunOptions::default()));
        }
    }
}

#[test]
fn keys_and_earlier_keys_find_one_option() {
    let found = |key| Setting::find(key).map(|setting| setting.key);
    assert_eq!((found("borrow_gap_us"), found("no_bias")), (Some("steal_lag_us"), Some("no_bias")));
    assert_eq!((found(""), found("slice")), (None, None));
    let keys = Setting::all().flat_map(|setting| [setting.key].into_iter().chain(setting.formerly.to_vec()));
    let mut keys: Vec<_> = keys.collect();
    let count = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), count);
}

#[test]
fn each_profile_has_one_word_and_valid_options() {
    for word in Profile::WORDS {
        let profile = Profile::named(word).unwrap();
        assert_eq!(profile.word(), *word);
        let options = RunOptions::of(profile);
        assert_eq!(options.knobs.check(), Ok(()));
        for setting in Setting::all() {
            // A value beyond the range of its option would be refused here.
            setting.set(&mut RunOptions::default(), &setting.of(&options)).unwrap();
        }
    }
    assert_eq!(Profile::named("turbo"), None);
}

#[test]
fn the_guide_lists_what_each_profile_changes() {
    let guide = include_str!("../../../../docs/guides/configuration.md");
    for word in Profile::WORDS {
        let row = guide.lines().find(|line| line.starts_with(&format!("| `{word}` |"))).unwrap();
        let (options, usual) = (RunOptions::of(Profile::named(word).unwrap()), RunOptions::default());
        for setting in Setting::all().filter(|setting| setting.key != "profile") {
            let (value, usual) = (setting.of(&options), setting.of(&usual));
            let entry = format!("`{} = {value}`", setting.key);
            assert_eq!(row.contains(&entry), value != usual, "{entry} in {row}");
        }
    }
}
