// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The report for a terminal: the conditions of the run, the verdicts by arm and cell, and a
//! legend.

use super::{Report, Row, format};
use crate::ab::metric::Direction;
use crate::ab::stats::Verdict;
use comfy_table::{CellAlignment, Table, TableComponent, presets};
use std::fmt::Write;

/// Return the complete report.
pub(super) fn of(report: &Report) -> String {
    let mut out = String::new();
    for (name, value) in report.facts() {
        let _ = writeln!(out, "{name:10} {}", one_line(&value));
    }
    for warning in &report.warnings {
        let _ = writeln!(out, "! {}", one_line(warning));
    }
    for arm in report.arms() {
        let rows: Vec<&Row> = report.rows.iter().filter(|r| r.arm == arm).collect();
        if rows.is_empty() {
            continue;
        }
        let means = report.means.iter().filter(|r| r.arm == arm);
        let label = one_line(&report.arm_label(arm));
        let _ = writeln!(out, "\n{label} against {}", one_line(&report.run.baseline));
        let table = table(&rows.iter().copied().chain(means).collect::<Vec<_>>());
        table.lines().for_each(|line| out.extend([line.trim_end(), "\n"]));
        out.push_str(&notes(&rows));
    }
    let _ = write!(out, "\n{}\n{}", summary(report), LEGEND);
    out
}

const LEGEND: &str = "\
change: arm over baseline, Hodges-Lehmann estimate with its 95 % interval; [?] where blocks are too few for one
p: sign-flip test, adjusted (Holm) over the metrics of an arm and cell
better, worse, differs: p < 0.05, interval beyond zero, estimate beyond the dead zone; same: interval inside the dead zone
direction: ^ more is better, v less is better, . neither
";

/// Return how often each verdict occurs, losses first.
pub(super) fn summary(report: &Report) -> String {
    let all = [
        Verdict::Worse,
        Verdict::Better,
        Verdict::Differs,
        Verdict::Same,
        Verdict::Inconclusive,
        Verdict::NotCompared,
    ];
    let counts: Vec<String> = all.iter().map(|&v| format!("{} {}", report.count(v), v.name())).collect();
    format!("{} comparisons: {}", report.rows.len(), counts.join(", "))
}

/// Return a row as one sentence.
pub(super) fn sentence(row: &Row) -> String {
    let change = row.change.text();
    let p = format::p_value(row.p_holm);
    let note = row.note.as_ref().map_or(String::new(), |note| format!(" ({note})"));
    let Row { arm, cell, metric, .. } = row;
    format!("{arm}, {cell}, {metric}: {change}, p {p}, {}{note}", row.verdict.name())
}

fn table(rows: &[&Row]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_style(TableComponent::HeaderLines, '─');
    table.set_header(["cell", "metric", "", "baseline", "arm", "change", "p", "verdict", "blocks"]);
    let mut cell = "";
    for row in rows {
        let name = if row.cell == cell { "" } else { row.cell.as_str() };
        cell = &row.cell;
        let unit = if row.unit.is_empty() { String::new() } else { format!(" ({})", row.unit) };
        table.add_row([
            one_line(name),
            one_line(&row.metric) + &unit,
            arrow(row.direction).to_string(),
            format::sig_or_dash(row.baseline_median),
            format::sig_or_dash(row.arm_median),
            row.change.text(),
            format::p_value(row.p_holm),
            mark(row.verdict),
            row.blocks.to_string(),
        ]);
    }
    for right in [3, 4, 5, 6, 8] {
        if let Some(column) = table.column_mut(right) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Return a verdict that stands out without colours.
fn mark(verdict: Verdict) -> String {
    match verdict {
        Verdict::Worse => "-- WORSE".into(),
        Verdict::Better => "++ BETTER".into(),
        Verdict::Differs => "<> differs".into(),
        Verdict::Same => "== same".into(),
        other => format!(" ? {}", other.name()),
    }
}

fn arrow(direction: Direction) -> char {
    match direction {
        Direction::Higher => '^',
        Direction::Lower => 'v',
        Direction::Neutral => '.',
    }
}

/// Return each note once, with the metrics that it applies to, and a line for each row with missing
/// blocks.
fn notes(rows: &[&Row]) -> String {
    let mut out = String::new();
    let mut seen = std::collections::BTreeSet::new();
    for note in rows.iter().filter_map(|r| r.note.as_ref()).filter(|n| seen.insert(n.as_str())) {
        let mut metrics: Vec<&str> =
            rows.iter().filter(|r| r.note.as_ref() == Some(note)).map(|r| r.metric.as_str()).collect();
        metrics.sort_unstable();
        metrics.dedup();
        let _ = writeln!(out, "? {}: {}", one_line(&metrics.join(", ")), one_line(note));
    }
    let missing = rows.iter().filter(|r| r.missing > 0 && r.verdict != Verdict::NotCompared);
    for row in missing {
        let _ = writeln!(
            out,
            "? {} of {}: missing in {} blocks",
            one_line(&row.metric),
            one_line(&row.cell),
            row.missing
        );
    }
    out
}

/// Replace control characters, so that a name from a hostile file cannot control the terminal.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(one_line("a\x1b[31m\nb"), "a?[31m?b");
    }
}
