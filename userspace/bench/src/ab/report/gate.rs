// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Gates: conditions that a comparison must meet for a program to continue, e.g. in CI.
//!
//! The syntax is `METRIC:no-worse` or `METRIC:better`, separated by commas. A condition holds for
//! every cell and every arm with the metric. `CELL/METRIC:better` limits it to a cell,
//! `METRIC@ARM:better` to an arm.
//!
//! | verdict | `better` | `no-worse` |
//! |---|---|---|
//! | better | met | met |
//! | same | broken | met |
//! | worse | broken | broken |
//! | inconclusive | inconclusive | see below |
//!
//! An inconclusive row meets `no-worse` if the bad end of its interval is inside the dead zone.
//! Otherwise it is inconclusive.
//!
//! One broken row breaks the gate. Without a broken row, one inconclusive row makes the gate
//! inconclusive: more blocks may decide it.
//!
//! Exit codes: 0 met, 10 broken, 11 inconclusive. 1 to 4 are the errors of every command.

use super::{Report, Row, rows};
use crate::ab::metric::{self, Direction};
use crate::ab::stats::Verdict;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Demand on a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    /// The metric is shown not to be worse.
    NoWorse,
    /// The metric is shown to be better.
    Better,
}

/// One condition of a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Cell to which the condition is limited.
    pub cell: Option<String>,
    /// Arm to which the condition is limited.
    pub arm: Option<String>,
    /// Full name of the metric.
    pub metric: String,
    /// Demand on the metric.
    pub demand: Demand,
}

/// Conditions that must all hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gates(pub Vec<Condition>);

/// Outcome of a gate, from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Gate {
    /// Every condition holds.
    Met,
    /// More data is needed.
    Inconclusive,
    /// At least one condition does not hold.
    Broken,
}

impl Gate {
    /// Return the exit code: 0 met, 10 broken, 11 inconclusive.
    pub fn exit_code(self) -> u8 {
        match self {
            Gate::Met => 0,
            Gate::Broken => 10,
            Gate::Inconclusive => 11,
        }
    }
}

impl Condition {
    fn is_about(&self, row: &Row) -> bool {
        let matches = |limit: &Option<String>, name: &str| limit.as_ref().is_none_or(|limit| limit == name);
        row.metric == self.metric && matches(&self.cell, &row.cell) && matches(&self.arm, &row.arm)
    }
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let wrong = || {
            format!(
                "'{text}' is not a gate; write stp:no-worse, stp:better, CELL/stp:better or stp@ARM:better"
            )
        };
        let (of, demand) = text.rsplit_once(':').ok_or_else(wrong)?;
        let demand = match demand {
            "no-worse" => Demand::NoWorse,
            "better" => Demand::Better,
            _ => return Err(wrong()),
        };
        let (of, arm) = match of.split_once('@') {
            Some((of, arm)) => (of, Some(arm.to_string())),
            None => (of, None),
        };
        let (cell, metric) = match of.rsplit_once('/') {
            Some((cell, metric)) => (Some(cell.to_string()), metric),
            None => (None, of),
        };
        match metric::lookup(metric).map(|m| m.direction) {
            None => Err(format!("'{text}': unknown metric '{metric}'; see bias-bench list")),
            Some(Direction::Neutral) => {
                Err(format!("'{text}': {metric} is neutral; name a metric with a direction"))
            }
            Some(_) => Ok(Condition { cell, arm, metric: metric.into(), demand }),
        }
    }
}

impl FromStr for Gates {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        text.split(',').map(|part| part.trim().parse()).collect::<std::result::Result<_, _>>().map(Gates)
    }
}

impl fmt::Display for Gates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, c) in self.0.iter().enumerate() {
            let cell = c.cell.as_ref().map_or(String::new(), |cell| format!("{cell}/"));
            let demand = if c.demand == Demand::Better { "better" } else { "no-worse" };
            let arm = c.arm.as_ref().map_or(String::new(), |arm| format!("@{arm}"));
            write!(f, "{}{cell}{}{arm}:{demand}", if i > 0 { "," } else { "" }, c.metric)?;
        }
        Ok(())
    }
}

impl Gates {
    /// Check the gate against a report. A condition without any matching row is an error, because
    /// it would always hold.
    pub fn check(&self, report: &Report) -> Result<Gate> {
        let mut outcome = Gate::Met;
        for condition in &self.0 {
            let mut answered = false;
            for row in report.rows.iter().filter(|row| condition.is_about(row)) {
                answered = true;
                outcome = outcome.max(judge(row, condition.demand, rows::dead_zone(&report.run)));
            }
            if !answered {
                return Err(Error::Usage(format!(
                    "gate {}: no comparison of this run matches; name a metric and a cell of the report",
                    Gates(vec![condition.clone()])
                )));
            }
        }
        Ok(outcome)
    }
}

/// Return the outcome for one row, by the table at the top of this module.
pub fn judge(row: &Row, demand: Demand, dead_zone: f64) -> Gate {
    match (row.verdict, demand) {
        (Verdict::Better, _) | (Verdict::Same, Demand::NoWorse) => Gate::Met,
        (Verdict::Worse, _) | (Verdict::Same, Demand::Better) => Gate::Broken,
        (Verdict::Inconclusive, Demand::NoWorse) if not_worse(row, dead_zone) => Gate::Met,
        _ => Gate::Inconclusive,
    }
}

/// Return true if the bad end of the interval is inside the dead zone.
fn not_worse(row: &Row, dead_zone: f64) -> bool {
    match row.direction {
        Direction::Higher => row.change.low.is_some_and(|low| low >= 1.0 / (1.0 + dead_zone)),
        Direction::Lower => row.change.high.is_some_and(|high| high <= 1.0 + dead_zone),
        Direction::Neutral => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::Change;
    use super::super::golden;
    use super::*;

    fn row(verdict: Verdict, direction: Direction, low: f64, high: f64) -> Row {
        let report = golden::report();
        let base = report.rows.first().cloned().unwrap();
        let change = Change { low: Some(low), high: Some(high), ..base.change };
        Row { verdict, direction, change, ..base }
    }

    #[test]
    fn verdicts_lead_to_the_outcomes_of_the_table() {
        use Verdict::*;
        let outcome = |verdict, demand| judge(&row(verdict, Direction::Higher, 0.9, 1.1), demand, 0.01);
        let better = [Better, Same, Worse, Inconclusive].map(|v| outcome(v, Demand::Better));
        assert_eq!(better, [Gate::Met, Gate::Broken, Gate::Broken, Gate::Inconclusive]);
        let no_worse = [Better, Same, Worse, Inconclusive].map(|v| outcome(v, Demand::NoWorse));
        assert_eq!(no_worse, [Gate::Met, Gate::Met, Gate::Broken, Gate::Inconclusive]);
    }

    #[test]
    fn an_interval_that_rules_out_a_loss_suffices_for_no_worse() {
        let judge = |direction, low, high| {
            judge(&row(Verdict::Inconclusive, direction, low, high), Demand::NoWorse, 0.01)
        };
        assert_eq!(judge(Direction::Higher, 0.995, 1.03), Gate::Met);
        assert_eq!(judge(Direction::Higher, 0.98, 1.03), Gate::Inconclusive);
        assert_eq!(judge(Direction::Lower, 0.95, 1.005), Gate::Met);
        assert_eq!(judge(Direction::Lower, 0.95, 1.02), Gate::Inconclusive);
    }

    #[test]
    fn gates_survive_printing_and_nonsense_is_refused() {
        let gates: Gates = "stp:no-worse,2compute+chase:4M/antt@lavd:better".parse().unwrap();
        assert_eq!(gates.0[1].cell.as_deref(), Some("2compute+chase:4M"));
        assert_eq!(gates.0[1].arm.as_deref(), Some("lavd"));
        assert_eq!(gates.to_string().parse(), Ok(gates));
        for (bad, why) in [
            ("stp", "write stp:no-worse"),
            ("stp:worse", "write stp:no-worse"),
            ("speed:better", "unknown metric"),
            ("migrations_per_s:better", "is neutral"),
        ] {
            assert!(bad.parse::<Gates>().unwrap_err().contains(why), "{bad}");
        }
    }

    #[test]
    fn a_gate_is_as_good_as_its_worst_row() {
        let report = golden::report();
        let check = |text: &str| text.parse::<Gates>().unwrap().check(&report);
        assert_eq!(check("2compute+2chase/stp@scx_bias:better").unwrap(), Gate::Met);
        assert_eq!(check("stp@scx_bias:no-worse").unwrap(), Gate::Met);
        assert_eq!(check("stp@scx_bias:better").unwrap(), Gate::Broken);
        assert_eq!(check("latency_p99_us@scx_bias:no-worse").unwrap(), Gate::Inconclusive);
        assert_eq!(check("stp:no-worse").unwrap(), Gate::Broken);
        assert_eq!(check("energy_j:better").unwrap_err().exit_code(), 2);
        assert_eq!([Gate::Met, Gate::Broken, Gate::Inconclusive].map(Gate::exit_code), [0, 10, 11]);
    }
}
