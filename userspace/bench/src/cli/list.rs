// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The command list: what a comparison can run and measure.

use crate::Result;
use crate::ab::metric::{self, Direction};
use crate::ab::{suites, workload};
use crate::options::Output;
use clap::Args;
use serde_json::json;
use std::fmt::Write;

/// List suites, workloads and metrics, with units and which direction is better
#[derive(Debug, Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    output: Output,
}

impl ListArgs {
    pub(super) fn run(&self) -> Result<()> {
        let suites: Vec<_> = suites::SUITES
            .iter()
            .map(|s| json!({"name": s.name, "about": s.about, "minutes": s.minutes, "machines": s.machines, "plan": (s.plan)()}))
            .collect();
        let document = json!({"suites": suites, "workloads": workload::list(), "metrics": metric::METRICS});
        self.output.print_as(&document, text)
    }
}

fn text() -> String {
    let mut out = String::from("Suites (--suite)\n");
    for suite in &suites::SUITES {
        let _ = writeln!(
            out,
            "  {:12} {} ({} min of the VM's time for two arms; {})",
            suite.name,
            suite.about,
            suite.minutes,
            suite.machines.join(", ")
        );
        let cells: Vec<String> = (suite.plan)().cells.into_iter().map(|cell| cell.workload).collect();
        let _ = writeln!(out, "  {:12}   {}", "", cells.join("  "));
    }
    out += "\nWorkloads (--cells)\n";
    for workload in workload::list() {
        let _ = writeln!(out, "  {:26} {}", workload.syntax, workload.measures);
    }
    out += "\nMetrics (name, unit, better)\n";
    for metric in metric::METRICS {
        let better = match metric.direction {
            Direction::Higher => "higher",
            Direction::Lower => "lower",
            Direction::Neutral => "",
        };
        let _ = writeln!(out, "  {:26} {:5} {:7} {}", metric.name, metric.unit, better, metric.about);
    }
    out
}
