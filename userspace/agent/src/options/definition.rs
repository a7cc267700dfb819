//! All options of a run, settings and knobs, to walk and to find by key.

use serde_json::{Value, json};

use super::knobs::Knob;
use super::run_options::RunOptions;
use super::setting::Setting;

/// Definition of an option.
#[derive(Debug, Clone, Copy)]
pub enum Definition {
    /// A setting.
    Setting(&'static Setting),
    /// A knob.
    Knob(&'static Knob),
}

impl Definition {
    /// Return all options.
    pub fn all() -> impl Iterator<Item = Self> {
        Setting::ALL.iter().map(Self::Setting).chain(Knob::ALL.iter().map(Self::Knob))
    }

    /// Return the option that `key` names, now or in an earlier release.
    #[must_use]
    pub fn find(key: &str) -> Option<Self> {
        Self::all().find(|option| option.key() == key || option.formerly() == Some(key))
    }

    /// Return the key in the configuration file.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Setting(setting) => setting.key,
            Self::Knob(knob) => knob.key,
        }
    }

    /// Return the earlier key, which this release still accepts.
    #[must_use]
    pub fn formerly(self) -> Option<&'static str> {
        match self {
            Self::Knob(knob) => Some(knob.formerly).filter(|key| !key.is_empty()),
            Self::Setting(_) => None,
        }
    }

    /// Return the option's value in `options`, `null` if there is none.
    #[must_use]
    pub fn of(self, options: &RunOptions) -> Value {
        match self {
            Self::Setting(setting) => setting.of(options),
            Self::Knob(knob) => json!(knob.of(&options.knobs)),
        }
    }

    /// Set the option's value in `options`.
    ///
    /// # Errors
    /// Fail with the key, the cause and the remedy if the value is not valid.
    pub fn set(self, options: &mut RunOptions, value: &Value) -> Result<(), String> {
        match self {
            Self::Setting(setting) => setting.set(options, value),
            Self::Knob(knob) => knob.set(&mut options.knobs, knob.number(value)?),
        }
    }

    /// Return true if the option can change while the scheduler runs.
    #[must_use]
    pub fn is_live(self) -> bool {
        match self {
            Self::Setting(setting) => setting.live,
            Self::Knob(_) => true,
        }
    }

    /// Return a value in the notation of TOML, the default if there is one.
    #[must_use]
    pub fn example(self) -> String {
        match self {
            Self::Setting(setting) => setting.example.to_owned(),
            Self::Knob(knob) => knob.default.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_earlier_keys_find_one_option() {
        let found = |key| Definition::find(key).map(Definition::key);
        assert_eq!((found("borrow_gap_us"), found("no_bias")), (Some("steal_lag_us"), Some("no_bias")));
        assert_eq!((found(""), found("slice")), (None, None));
        let keys = Definition::all().flat_map(|option| [Some(option.key()), option.formerly()]);
        let mut keys: Vec<_> = keys.flatten().collect();
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }
}
