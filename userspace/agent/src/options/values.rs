// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Values of options, as flags and the configuration file give them.
//!
//! # Invariants
//!
//! Flag and key have the same valid values, because both read a text. The error for a wrong value
//! names the valid ones.

use std::fmt::Display;
use std::ops::{Deref, RangeInclusive};
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use serde::de::{Deserialize, Deserializer, Error};
use serde::{Serialize, Serializer};
use toml::Value;
use tracing::Level;

use crate::housekeeping::HousekeepingCpu;
use crate::pmu::Override;

/// Valid intervals of statistics [s].
const STATS_S: RangeInclusive<f64> = 0.1..=86_400.0;
/// Valid thresholds [permille].
const THRESHOLDS: RangeInclusive<u32> = 1000..=64_000;
/// Units of whole numbers, as they follow "a whole number".
const UNITS: [&str; 5] = ["", " of microseconds", " of milliseconds", " of permille", " of bytes"];

/// Whole number of a unit in [`UNITS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Whole<const UNIT: usize, const MIN: u64, const MAX: u64, const DEFAULT: u64>(u64);

/// Number without a unit, from MIN to MAX.
pub type Count<const MIN: u64, const MAX: u64, const DEFAULT: u64> = Whole<0, MIN, MAX, DEFAULT>;
/// Microseconds from MIN to MAX.
pub type Micros<const MIN: u64, const MAX: u64, const DEFAULT: u64> = Whole<1, MIN, MAX, DEFAULT>;
/// Milliseconds from MIN to MAX.
pub type Millis<const MIN: u64, const MAX: u64, const DEFAULT: u64> = Whole<2, MIN, MAX, DEFAULT>;
/// Permille from MIN to MAX.
pub type Permille<const MIN: u64, const MAX: u64, const DEFAULT: u64> = Whole<3, MIN, MAX, DEFAULT>;
/// Bytes from MIN to MAX.
pub type Bytes<const MIN: u64, const MAX: u64, const DEFAULT: u64> = Whole<4, MIN, MAX, DEFAULT>;

impl<const UNIT: usize, const MIN: u64, const MAX: u64, const DEFAULT: u64> Default
    for Whole<UNIT, MIN, MAX, DEFAULT>
{
    fn default() -> Self {
        Self(DEFAULT)
    }
}

impl<const UNIT: usize, const MIN: u64, const MAX: u64, const DEFAULT: u64> Deref
    for Whole<UNIT, MIN, MAX, DEFAULT>
{
    type Target = u64;

    fn deref(&self) -> &u64 {
        &self.0
    }
}

impl<const UNIT: usize, const MIN: u64, const MAX: u64, const DEFAULT: u64> FromStr
    for Whole<UNIT, MIN, MAX, DEFAULT>
{
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(number) if (MIN..=MAX).contains(&number) => Ok(Self(number)),
            Ok(_) => Err(between(&(MIN..=MAX))),
            Err(_) => Err(format!("give a whole number{} from {MIN} to {MAX}", UNITS[UNIT])),
        }
    }
}

impl<'de, const UNIT: usize, const MIN: u64, const MAX: u64, const DEFAULT: u64> Deserialize<'de>
    for Whole<UNIT, MIN, MAX, DEFAULT>
{
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        read(from, str::parse)
    }
}

/// Interval of statistics [s].
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Seconds(f64);

impl Seconds {
    /// Return the interval.
    #[must_use]
    pub fn duration(self) -> Duration {
        Duration::from_secs_f64(self.0)
    }
}

impl FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let valid = text.parse().ok().filter(|seconds| STATS_S.contains(seconds));
        valid.map(Self).ok_or_else(|| between(&STATS_S))
    }
}

fn between<T: Display>(range: &RangeInclusive<T>) -> String {
    format!("give a value from {} to {}", range.start(), range.end())
}

/// A kind of use, which the help of `--profile` describes. The words are those of scx_loader for
/// its modes.
// The help would show comments of variants a second time. The same holds for the next two.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[value(rename_all = "lower")]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    #[default]
    Auto,
    Gaming,
    LowLatency,
    PowerSave,
    Server,
}

/// Format of printed statistics.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StatsFormat {
    #[default]
    Text,
    Json,
}

/// Level of the log, the most important first. The code that installed the subscriber applies it.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

impl From<LogLevel> for Level {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
            LogLevel::Trace => Self::TRACE,
        }
    }
}

/// Read the thresholds of a flag.
pub(super) fn pair(text: &str) -> Result<(u32, u32), String> {
    let parts: Result<Vec<u32>, _> = text.split(',').map(|part| part.trim().parse()).collect();
    match parts.as_deref() {
        Ok(&[low, high]) if low <= high && THRESHOLDS.contains(&low) && THRESHOLDS.contains(&high) => {
            Ok((low, high))
        }
        _ => Err(
            "give two speedups from 1000 to 64000, the lower first, e.g. [1200, 1800] (1200,1800 as a flag)"
                .into(),
        ),
    }
}

/// Return a value of the file as its flag gives it.
fn as_flag(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Read a value of the file as its flag does.
fn read<'de, D, T>(from: D, parse: impl Fn(&str) -> Result<T, String>) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
{
    parse(&as_flag(&Value::deserialize(from)?)).map_err(D::Error::custom)
}

/// Read the thresholds of the file: a list of two numbers, or the text of the flag.
pub(super) fn some_pair<'de, D: Deserializer<'de>>(from: D) -> Result<Option<(u32, u32)>, D::Error> {
    let value = Value::deserialize(from)?;
    let text = match value.as_array() {
        Some(items) => items.iter().map(as_flag).collect::<Vec<_>>().join(","),
        None => as_flag(&value),
    };
    pair(&text).map(Some).map_err(D::Error::custom)
}

/// Read an option of the file that has no default.
pub(super) fn some<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err = String>,
{
    read(from, str::parse).map(Some)
}

/// Read a word of the file.
pub(super) fn word<'de, D: Deserializer<'de>, T: ValueEnum>(from: D) -> Result<T, D::Error> {
    let words = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    let words: Vec<String> = words.map(|word| word.get_name().to_owned()).collect();
    read(from, |text| T::from_str(text, false).map_err(|_| format!("give one of {}", words.join(", "))))
}

/// Read a switch of the file.
pub(super) fn switch<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    bool::deserialize(from).map_err(|_| D::Error::custom("give true or false"))
}

/// Read a list of the file.
pub(super) fn list<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    let texts = Vec::<String>::deserialize(from);
    let texts = texts.map_err(|_| D::Error::custom("give a list of texts, such as [\"...\"]"))?;
    texts.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
}

impl Serialize for HousekeepingCpu {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl Serialize for Override {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}
