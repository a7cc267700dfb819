// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Readers of values: each returns the value, or what to give instead.

use std::time::Duration;

use serde_json::Value;

/// Valid intervals of statistics [s].
const STATS_S: std::ops::RangeInclusive<f64> = 0.1..=86_400.0;
/// Valid thresholds [permille].
const THRESHOLDS: std::ops::RangeInclusive<u32> = 1000..=64_000;

pub(super) fn one_of(words: &[&str]) -> String {
    format!("give one of {}", words.join(", "))
}

pub(super) fn between<T: std::fmt::Display>(range: &std::ops::RangeInclusive<T>) -> String {
    format!("give a value from {} to {}", range.start(), range.end())
}

pub(super) fn switch(value: &Value) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| "give true or false".into())
}

/// Read the value of a knob, which has this unit and range.
pub(super) fn whole(value: &Value, unit: &str, range: std::ops::RangeInclusive<u64>) -> Result<u64, String> {
    let number = value.as_u64().ok_or_else(|| {
        let of = if unit == "N" { String::new() } else { format!(" of {}", unit.to_lowercase()) };
        format!("give a whole number{of} from {} to {}", range.start(), range.end())
    })?;
    if range.contains(&number) { Ok(number) } else { Err(between(&range)) }
}

pub(super) fn text(value: &Value) -> Result<String, String> {
    value.as_str().map(Into::into).ok_or_else(|| "give a text in quotes".into())
}

pub(super) fn texts(value: &Value) -> Result<Vec<String>, String> {
    let list = value.as_array().and_then(|list| list.iter().map(|item| text(item).ok()).collect());
    list.ok_or_else(|| "give a list of texts, such as [\"...\"]".into())
}

pub(super) fn optional<T>(value: &Value, read: fn(&Value) -> Result<T, String>) -> Result<Option<T>, String> {
    if value.is_null() { Ok(None) } else { read(value).map(Some) }
}

/// Read thresholds as a list of two numbers, or as the text of the flag.
pub(super) fn thresholds(value: &Value) -> Result<(u32, u32), String> {
    let parts: Option<Vec<u32>> = match value {
        Value::String(text) => text.split(',').map(|part| part.trim().parse().ok()).collect(),
        Value::Array(list) => list.iter().map(|part| part.as_u64()?.try_into().ok()).collect(),
        _ => None,
    };
    match parts.unwrap_or_default()[..] {
        [low, high] if low <= high && THRESHOLDS.contains(&low) && THRESHOLDS.contains(&high) => {
            Ok((low, high))
        }
        _ => Err(
            "give two speedups from 1000 to 64000, the lower first, e.g. [1200, 1800] (1200,1800 as a flag)"
                .into(),
        ),
    }
}

/// Read an interval of statistics [s].
///
/// # Errors
/// Fail with the remedy if it is out of range.
pub fn interval(value: &Value) -> Result<Duration, String> {
    let seconds = value.as_f64().filter(|seconds| STATS_S.contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| between(&STATS_S))
}
