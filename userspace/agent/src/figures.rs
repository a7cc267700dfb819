//! Texts for figures.

use crate::failure::Failure;
use serde::Serialize;

/// Format a document as JSON. `what` names it in the failure.
///
/// # Errors
/// Runtime failure when it cannot be written as JSON.
pub fn json(document: &impl Serialize, what: &str) -> Result<String, Failure> {
    serde_json::to_string_pretty(document)
        .map(|text| text + "\n")
        .map_err(|error| Failure::runtime(format!("cannot write the {what} as JSON ({error})")))
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
    fn figures_are_short() {
        assert_eq!([0, 4, 5, 996, 1000].map(percent), ["0%", "<1%", "1%", "100%", "100%"]);
        assert_eq!(ratio(2412), "2.41");
        assert_eq!([5, 65, 3700, 90_000].map(duration), ["5 s", "1 min 5 s", "1 h 1 min", "1 d 1 h"]);
        assert_eq!([count(1, "task"), count(2, "task")], ["1 task", "2 tasks"]);
    }
}
