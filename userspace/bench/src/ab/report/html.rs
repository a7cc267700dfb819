// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The report as one page without external parts: no script, no font, no picture from elsewhere.
//!
//! # Problem
//! A page is passed around, printed, and read years later.
//!
//! # Approach
//! Inline SVG and one style sheet. Colours follow the verdict, and adapt to light, dark and print.
//! Losses are listed before gains, in the same size. The template library escapes every name.
//!
//! # Limits
//! The page cannot filter or sort, because that would need a script.

use super::{Report, Row, Series, format, rows, svg, text};
use crate::ab::metric::{self, Direction};
use crate::ab::stats::Verdict;
use crate::plot::page;
use maud::{Markup, html};

/// Return the complete page.
pub(super) fn of(report: &Report) -> String {
    let title = format!("{} on {}", report.arms().join(", "), report.run.machine);
    let body = html! {
        h1 { (title) ", against " (report.run.baseline) }
        @for warning in &report.warnings { p.warning { (warning) } }
        p.summary { (text::summary(report)) "." }
        div.outcomes {
            (outcome(report, "Worse", Verdict::Worse))
            (outcome(report, "Better", Verdict::Better))
        }
        h2 { "What it ran on" }
        table.facts {
            @for (name, value) in report.facts() { tr { th { (name) } td { (value) } } }
        }
        (diversity(report))
        (metrics(report))
        h2 { "All comparisons" }
        (table(report))
        (how_to_read())
    };
    page(&title, &body)
}

fn how_to_read() -> Markup {
    html! {
        h2 { "How to read this" }
        p {
            "A " em { "change" } " is the arm over the baseline: the Hodges-Lehmann estimate from paired blocks with its 95 % interval. "
            em { "p" } " is from a sign-flip test, adjusted (Holm) over the metrics of an arm and cell. "
            em { "Better" } ", " em { "worse" } " and " em { "differs" }
            " need p below 0.05, an interval beyond zero, and an estimate beyond the dead zone (the grey band); "
            em { "same" } " needs the whole interval inside the dead zone. Everything else is inconclusive: more blocks may decide it. "
            "Squares are losses, diamonds gains, hollow circles undecided; arrow heads point to values beyond the axis."
        }
    }
}

/// Return the rows with this verdict as a list.
fn outcome(report: &Report, title: &str, verdict: Verdict) -> Markup {
    let rows: Vec<&Row> = report.rows.iter().filter(|r| r.verdict == verdict).collect();
    html! {
        section class={ "outcome " (svg::class(verdict)) } {
            h2 { (title) ": " (rows.len()) }
            ul {
                @for row in &rows { li { (text::sentence(row)) } }
                @if rows.is_empty() { li { "none" } }
            }
        }
    }
}

/// Return a figure with its title.
fn figure(title: &str, plot: impl Fn(&str) -> Markup) -> Markup {
    html! { figure { figcaption { (title) } (plot(title)) } }
}

/// Return plots of the gain in throughput against diversity, one per arm and machine, for cells
/// with a diversity.
fn diversity(report: &Report) -> Markup {
    let cell_of = |row: &Row| report.run.cells.iter().find(|c| c.name == row.cell);
    let mut machines: Vec<Option<&str>> = Vec::new();
    for cell in &report.run.cells {
        if !machines.contains(&cell.machine.as_deref()) {
            machines.push(cell.machine.as_deref());
        }
    }
    let mut figures = Vec::new();
    for (arm, &machine) in report.arms().iter().flat_map(|arm| machines.iter().map(move |m| (*arm, m))) {
        let rows =
            report.rows.iter().filter(|r| r.arm == arm && r.metric == "stp" && r.change.ratio.is_some());
        let here = rows.filter_map(|r| Some((cell_of(r).filter(|c| c.machine.as_deref() == machine)?, r)));
        let with = here.filter_map(|(c, r)| Some((c.diversity.filter(|d| d.is_finite())?, r)));
        let points: Vec<(f64, &Row)> = with.collect();
        if points.len() >= 2 {
            let label = report.arm_label(arm);
            let place = machine.map(|m| format!(" on {m}")).unwrap_or_default();
            let title = format!("Gain in throughput (stp) of {label} versus diversity{place}");
            let dead_zone = rows::dead_zone(&report.run);
            figures.push(figure(&title, |title| svg::diversity(title, &points, dead_zone)));
        }
    }
    html! {
        @if !figures.is_empty() { h2 { "Gain versus diversity" } }
        @for figure in figures { (figure) }
    }
}

/// Return one section per metric: a forest plot of all arms and cells, and the raw samples behind
/// it.
fn metrics(report: &Report) -> Markup {
    let mut names: Vec<&str> = report.rows.iter().map(|r| r.metric.as_str()).collect();
    names.sort_by(|a, b| metric::order(a).cmp(&metric::order(b)));
    names.dedup();
    html! { @for name in names { (metric_section(report, name)) } }
}

fn metric_section(report: &Report, name: &str) -> Markup {
    let known = metric::of(name);
    let better = match known.direction {
        Direction::Higher => "right is better",
        Direction::Lower => "left is better",
        Direction::Neutral => "neither way is better",
    };
    let unit = in_parentheses(known.unit);
    let all = report.rows.iter().chain(&report.means);
    let labelled: Vec<(String, &Row)> = all
        .filter(|r| r.metric == name)
        .map(|r| (format!("{} · {}", r.cell, report.arm_label(&r.arm)), r))
        .collect();
    let title = format!("{name}: change against {}", report.run.baseline);
    html! {
        section.metric {
            h2 { (name) (unit) }
            p { (known.about) " " (better) "." }
            (figure(&title, |title| svg::forest(title, &labelled, rows::dead_zone(&report.run))))
            @for cell in cells_with(report, name) {
                @let of = |s: &&Series| s.metric == name && s.cell == cell;
                @let series = report.series.iter().filter(of).map(|s| (report.arm_label(&s.arm), s)).collect::<Vec<_>>();
                (figure(&format!("{name} in {cell}: every sample{unit}"), |title| svg::strip(title, &series)))
            }
        }
    }
}

fn in_parentheses(unit: &str) -> String {
    if unit.is_empty() { String::new() } else { format!(" ({unit})") }
}

fn cells_with<'a>(report: &'a Report, metric: &str) -> Vec<&'a str> {
    let mut cells: Vec<&str> =
        report.series.iter().filter(|s| s.metric == metric).map(|s| s.cell.as_str()).collect();
    cells.dedup();
    cells
}

fn table(report: &Report) -> Markup {
    const COLUMNS: [&str; 9] =
        ["arm", "cell", "metric", "baseline", "arm", "change", "p", "verdict", "blocks"];
    html! {
        table.rows {
            thead { tr { @for column in COLUMNS { th { (column) } } } }
            tbody {
                @for row in report.rows.iter().chain(&report.means) {
                    tr {
                        td { (report.arm_label(&row.arm)) }
                        td { (row.cell) }
                        td { (row.metric) (in_parentheses(&row.unit)) }
                        td { (format::sig_or_dash(row.baseline_median)) }
                        td { (format::sig_or_dash(row.arm_median)) }
                        td { (row.change.text()) }
                        td { (format::p_value(row.p_holm)) }
                        td {
                            span class=(svg::class(row.verdict)) { (row.verdict.name()) }
                            @if let Some(note) = &row.note { ": " (note) }
                        }
                        td { (row.blocks) }
                    }
                }
            }
        }
    }
}
