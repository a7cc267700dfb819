//! The report as one page without external parts: no script, no font, no picture from elsewhere.
//!
//! # Problem
//! A page is passed around, printed, and read years later.
//!
//! # Approach
//! Inline SVG and one style sheet. Colours follow the verdict, and adapt to light, dark and print.
//! Losses are listed before gains, in the same size. Every name that came from a file is escaped.
//!
//! # Limits
//! The page cannot filter or sort, because that would need a script.

use super::markup::{escape, sentence};
use super::{Report, Row, Series, format, rows, svg, text};
use crate::ab::metric::{self, Direction};
use crate::ab::stats::Verdict;
use std::fmt::Write;

const STYLE: &str = include_str!("style.css");

/// Return the complete page.
pub(super) fn of(report: &Report) -> String {
    let title = escape(&format!("{} on {}", report.arms().join(", "), report.run.machine));
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>{title}, against {}</h1>\n",
        escape(&report.run.baseline)
    );
    for warning in &report.warnings {
        let _ = writeln!(out, "<p class=\"warning\">{}</p>", escape(warning));
    }
    let _ = writeln!(out, "<p class=\"summary\">{}.</p>", escape(&text::summary(report)));
    out += &outcomes(report);
    out += &facts(report);
    out += &diversity(report);
    out += &metrics(report);
    out += "<h2>All comparisons</h2>\n";
    out += &table(report);
    out + HOW_TO_READ + "</body>\n</html>\n"
}

const HOW_TO_READ: &str = "<h2>How to read this</h2>\n\
<p>A <em>change</em> is the arm over the baseline: the Hodges-Lehmann estimate from paired blocks with its 95 % interval. \
<em>p</em> is that of a sign-flip test, adjusted after Holm over the metrics of an arm and cell. <em>Better</em>, <em>worse</em> and \
<em>differs</em> need p below 0.05, an interval beyond zero, and an estimate beyond the dead zone (the grey band); \
<em>same</em> needs the whole interval inside the dead zone. Everything else is inconclusive: more blocks may decide it. \
Squares are losses, diamonds gains, hollow circles undecided; arrow heads point to what lies beyond the axis.</p>\n";

/// Return losses and gains, side by side in the same size.
fn outcomes(report: &Report) -> String {
    let list = |title: &str, verdict: Verdict| {
        let rows: Vec<&Row> = report.rows.iter().filter(|r| r.verdict == verdict).collect();
        let mut out = format!(
            "<section class=\"outcome {}\"><h2>{title}: {}</h2>\n<ul>\n",
            svg::class(verdict),
            rows.len()
        );
        for row in &rows {
            let _ = writeln!(out, "<li>{}</li>", escape(&sentence(row)));
        }
        if rows.is_empty() {
            out += "<li>none</li>\n";
        }
        out + "</ul></section>\n"
    };
    format!(
        "<div class=\"outcomes\">\n{}{}</div>\n",
        list("Worse", Verdict::Worse),
        list("Better", Verdict::Better)
    )
}

fn facts(report: &Report) -> String {
    let mut out = String::from("<h2>What it ran on</h2>\n<table class=\"facts\">\n");
    for (name, value) in report.facts() {
        let _ = writeln!(out, "<tr><th>{}</th><td>{}</td></tr>", escape(name), escape(&value));
    }
    out + "</table>\n"
}

/// Return plots of the gain in throughput against diversity, one per arm and machine, for cells
/// with a diversity.
fn diversity(report: &Report) -> String {
    let cell_of = |row: &Row| report.run.cells.iter().find(|c| c.name == row.cell);
    let mut machines: Vec<Option<&str>> = Vec::new();
    for cell in &report.run.cells {
        if !machines.contains(&cell.machine.as_deref()) {
            machines.push(cell.machine.as_deref());
        }
    }
    let mut out = String::new();
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
            let plot = svg::diversity(&title, &points, rows::dead_zone(&report.run));
            let _ = write!(out, "<figure><figcaption>{}</figcaption>\n{plot}</figure>\n", escape(&title));
        }
    }
    if out.is_empty() { out } else { format!("<h2>Gain versus diversity</h2>\n{out}") }
}

/// Return one section per metric: a forest plot of all arms and cells, and the raw samples behind
/// it.
fn metrics(report: &Report) -> String {
    let mut names: Vec<&str> = report.rows.iter().map(|r| r.metric.as_str()).collect();
    names.sort_by(|a, b| metric::order(a).cmp(&metric::order(b)));
    names.dedup();
    names.into_iter().map(|name| metric_section(report, name)).collect()
}

fn metric_section(report: &Report, name: &str) -> String {
    let known = metric::of(name);
    let better = match known.direction {
        Direction::Higher => "right is better",
        Direction::Lower => "left is better",
        Direction::Neutral => "neither way is better",
    };
    let unit = if known.unit.is_empty() { String::new() } else { format!(" ({})", known.unit) };
    let mut out = format!(
        "<section class=\"metric\"><h2>{}{unit}</h2>\n<p>{} {better}.</p>\n",
        escape(name),
        escape(known.about)
    );
    let all = report.rows.iter().chain(&report.means);
    let labelled: Vec<(String, &Row)> = all
        .filter(|r| r.metric == name)
        .map(|r| (format!("{} · {}", r.cell, report.arm_label(&r.arm)), r))
        .collect();
    let title = format!("{name}: change against {}", report.run.baseline);
    let plot = svg::forest(&title, &labelled, rows::dead_zone(&report.run));
    let _ = write!(out, "<figure><figcaption>{}</figcaption>\n{plot}</figure>\n", escape(&title));
    for cell in cells_with(report, name) {
        let of = |s: &&Series| s.metric == name && s.cell == cell;
        let series: Vec<(String, &Series)> =
            report.series.iter().filter(of).map(|s| (report.arm_label(&s.arm), s)).collect();
        let title = format!("{name} in {cell}: every sample{unit}");
        let plot = svg::strip(&title, &series);
        let _ = write!(out, "<figure><figcaption>{}</figcaption>\n{plot}</figure>\n", escape(&title));
    }
    out + "</section>\n"
}

fn cells_with<'a>(report: &'a Report, metric: &str) -> Vec<&'a str> {
    let mut cells: Vec<&str> =
        report.series.iter().filter(|s| s.metric == metric).map(|s| s.cell.as_str()).collect();
    cells.dedup();
    cells
}

fn table(report: &Report) -> String {
    let mut out = String::from(
        "<table class=\"rows\">\n<thead><tr><th>arm</th><th>cell</th><th>metric</th><th>baseline</th>\
         <th>arm</th><th>change</th><th>p</th><th>verdict</th><th>blocks</th></tr></thead>\n<tbody>\n",
    );
    for row in report.rows.iter().chain(&report.means) {
        let unit = if row.unit.is_empty() { String::new() } else { format!(" ({})", row.unit) };
        let note = row.note.as_ref().map_or(String::new(), |note| format!(": {}", escape(note)));
        let cells = [
            escape(&report.arm_label(&row.arm)),
            escape(&row.cell),
            escape(&row.metric) + &unit,
            format::sig_or_dash(row.baseline_median),
            format::sig_or_dash(row.arm_median),
            row.change.text(),
            escape(&format::p_value(row.p_holm)),
            format!("<span class=\"{}\">{}</span>{note}", svg::class(row.verdict), row.verdict.name()),
            row.blocks.to_string(),
        ];
        let cells: String = cells.iter().map(|cell| format!("<td>{cell}</td>")).collect();
        let _ = writeln!(out, "<tr>{cells}</tr>");
    }
    out + "</tbody></table>\n"
}
