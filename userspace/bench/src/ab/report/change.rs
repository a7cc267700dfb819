// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A ratio and its uncertainty, as shown in reports and comparisons.

use super::format;
use crate::ab::stats::interval::Interval;
use crate::ab::stats::pairs;
use serde::{Deserialize, Serialize};

/// A ratio with its 95 % interval. Values that could not be computed are None.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The ratio. "inf" in JSON if infinite.
    #[serde(with = "format::number")]
    pub ratio: Option<f64>,
    /// Lower end of its 95 % interval.
    #[serde(with = "format::number")]
    pub low: Option<f64>,
    /// Upper end of its 95 % interval.
    #[serde(with = "format::number")]
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
        match (self.ratio.map(format::change), self.interval()) {
            (Some(ratio), Some((low, high))) => {
                format!("{ratio} [{}, {}]", format::change(low), format::change(high))
            }
            (Some(ratio), None) => format!("{ratio} [?]"),
            _ => "-".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_tells_what_is_known() {
        let change = |ratio, low, high| Change { ratio, low, high }.text();
        assert_eq!(change(Some(1.03), Some(1.02), Some(1.04)), "+3.0% [+2.0%, +4.0%]");
        assert_eq!(change(Some(1.03), None, None), "+3.0% [?]");
        assert_eq!(Change::of(None, None).text(), "-");
    }
}
