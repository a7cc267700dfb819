// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Texts for figures, and documents for machines.
//!
//! # Invariants
//!
//! Every JSON object that a command prints has the key `schema` first, such as `scx_bias.status/1`.
//! It names the form and its version. Within a version keys are only added.

use crate::failure::Failure;
use serde::Serialize;

/// A document with the name of its form.
#[derive(Serialize)]
struct Tagged<'a, T> {
    schema: String,
    #[serde(flatten)]
    document: &'a T,
}

impl<'a, T: Serialize> Tagged<'a, T> {
    fn new(document: &'a T, name: &str) -> Self {
        Self { schema: format!("scx_bias.{name}/1"), document }
    }
}

/// Format a structure as a JSON document of the form `name`.
///
/// # Errors
/// Runtime failure when it cannot be written as JSON.
pub fn json(document: &impl Serialize, name: &str) -> Result<String, Failure> {
    serde_json::to_string_pretty(&Tagged::new(document, name))
        .map(|text| text + "\n")
        .map_err(|error| no_json(name, &error))
}

/// Format a structure as a JSON object of the form `name`, on one line without its end.
///
/// # Errors
/// Runtime failure when it cannot be written as JSON.
pub fn json_line(document: &impl Serialize, name: &str) -> Result<String, Failure> {
    serde_json::to_string(&Tagged::new(document, name)).map_err(|error| no_json(name, &error))
}

fn no_json(name: &str, error: &serde_json::Error) -> Failure {
    Failure::runtime(format!("cannot write scx_bias.{name} as JSON ({error})"))
}

/// Format a speedup or cost of 1000 as `1.00`.
#[must_use]
pub fn ratio(permille: u32) -> String {
    format!("{:.2}", f64::from(permille) / 1000.0)
}

/// Format a share in whole percent, rounded. A share above zero is never shown as zero.
#[must_use]
pub fn percent(permille: u32) -> String {
    match (permille, (permille + 5) / 10) {
        (1.., 0) => "<1%".to_owned(),
        (_, rounded) => format!("{rounded}%"),
    }
}

/// Format a count: `1 task`, `2 tasks`.
#[must_use]
pub fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Format a duration in its two largest units.
#[must_use]
pub fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_begin_with_the_name_of_their_form() {
        let document = serde_json::json!({"cpus": [1]});
        assert!(
            json_line(&document, "x").is_ok_and(|line| line == r#"{"schema":"scx_bias.x/1","cpus":[1]}"#)
        );
        assert!(
            json(&document, "x").is_ok_and(|text| text.starts_with("{\n  \"schema\": \"scx_bias.x/1\",\n"))
        );
        // Only objects have keys.
        assert!(json(&[1], "x").is_err_and(|failure| failure.message.contains("scx_bias.x as JSON")));
    }

    #[test]
    fn figures_are_short() {
        assert_eq!([0, 4, 5, 996, 1000].map(percent), ["0%", "<1%", "1%", "100%", "100%"]);
        assert_eq!(ratio(2412), "2.41");
        assert_eq!([5, 65, 3700, 90_000].map(duration), ["5 s", "1 min 5 s", "1 h 1 min", "1 d 1 h"]);
        assert_eq!([count(1, "task"), count(2, "task")], ["1 task", "2 tasks"]);
    }
}
