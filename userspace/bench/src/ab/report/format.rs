// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Numbers and ratios with their uncertainty, as text and in JSON.

use crate::ab::stats::estimate::Interval;
use crate::ab::stats::pairs;
use serde::{Deserialize, Serialize};

/// A ratio with its 95 % interval. Values that could not be computed are None.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The ratio. "inf" in JSON if infinite.
    #[serde(with = "number")]
    pub ratio: Option<f64>,
    /// Lower end of its 95 % interval.
    #[serde(with = "number")]
    pub low: Option<f64>,
    /// Upper end of its 95 % interval.
    #[serde(with = "number")]
    pub high: Option<f64>,
}

impl Change {
    /// Convert an estimate and its interval, both log-ratios.
    pub fn of(estimate: Option<f64>, interval: Option<Interval>) -> Self {
        Change {
            ratio: estimate.map(pairs::ratio),
            low: interval.map(|i| pairs::ratio(i.low)),
            high: interval.map(|i| pairs::ratio(i.high)),
        }
    }

    /// Return both ends of the interval, if there is one.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.low.zip(self.high)
    }

    /// Return text such as "+3.1% [+2.0%, +4.2%]", or its available parts.
    pub fn text(&self) -> String {
        match (self.ratio.map(change), self.interval()) {
            (Some(ratio), Some((low, high))) => {
                format!("{ratio} [{}, {}]", change(low), change(high))
            }
            (Some(ratio), None) => format!("{ratio} [?]"),
            _ => "-".into(),
        }
    }
}

/// Format four significant digits, without trailing zeros. "inf" for infinite.
pub fn sig(x: f64) -> String {
    if x.is_infinite() {
        return if x > 0.0 { "inf".into() } else { "-inf".into() };
    }
    if x == 0.0 {
        return "0".into();
    }
    let digits = (3 - x.abs().log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{x:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

/// Format as [`sig`] does, or a dash for None.
pub fn sig_or_dash(x: Option<f64>) -> String {
    x.map_or("-".into(), sig)
}

/// Format a ratio as a change in percent: 1.031 is "+3.1%". From 10-fold on, format it as a
/// multiple: "x12".
pub fn change(ratio: f64) -> String {
    match ratio {
        r if r.is_infinite() => "x inf".into(),
        r if r >= 10.0 => format!("x{}", sig(r)),
        r => {
            let text = format!("{:+.1}%", (r - 1.0) * 100.0);
            if text == "-0.0%" { "+0.0%".into() } else { text }
        }
    }
}

/// Format a p-value with three decimals.
pub fn p_value(p: Option<f64>) -> String {
    match p {
        None => "-".into(),
        Some(p) if p < 0.001 => "<0.001".into(),
        Some(p) => format!("{p:.3}"),
    }
}

/// Numbers in JSON: six significant digits, "inf" for infinite, null for None.
pub mod number {
    use serde::{Deserialize, Deserializer, Serializer, de};

    /// Round to six significant digits. Further digits are noise and differ between machines.
    pub fn rounded(x: f64) -> f64 {
        format!("{x:.5e}").parse().unwrap_or(x)
    }

    /// Serialize a number.
    pub fn serialize<S: Serializer>(value: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
        match value {
            None => to.serialize_none(),
            Some(x) if x.is_infinite() => to.serialize_str("inf"),
            Some(x) => to.serialize_f64(rounded(*x)),
        }
    }

    /// Deserialize a number.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
        match serde_json::Value::deserialize(from)? {
            serde_json::Value::Null => Ok(None),
            serde_json::Value::String(s) if s == "inf" => Ok(Some(f64::INFINITY)),
            value => {
                value.as_f64().map(Some).ok_or_else(|| de::Error::custom(format!("{value} is not a number")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short_and_right() {
        let shown = [0.0, 3.54159, 123456.7, 0.001234567, 1000.0, 2.5, -2.5, f64::INFINITY].map(sig);
        assert_eq!(shown, ["0", "3.542", "123457", "0.001235", "1000", "2.5", "-2.5", "inf"]);
        let shown = [1.031, 0.97, 0.99999, 12.0, 0.0, f64::INFINITY].map(change);
        assert_eq!(shown, ["+3.1%", "-3.0%", "+0.0%", "x12", "-100.0%", "x inf"]);
        assert_eq!([None, Some(0.0004), Some(0.0316)].map(p_value), ["-", "<0.001", "0.032"]);
        assert_eq!(number::rounded(1.0 / 3.0), 0.333333);
    }

    #[test]
    fn the_text_contains_the_known_parts() {
        let change = |ratio, low, high| Change { ratio, low, high }.text();
        assert_eq!(change(Some(1.03), Some(1.02), Some(1.04)), "+3.0% [+2.0%, +4.0%]");
        assert_eq!(change(Some(1.03), None, None), "+3.0% [?]");
        assert_eq!(Change::of(None, None).text(), "-");
    }
}
