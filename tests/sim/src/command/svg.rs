// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The picture as SVG: a row for each CPU, a colour for each task.

use maud::{Markup, html};

use super::document::Report;
use super::grid::Grid;

/// Columns of the picture, each a point wide.
pub const COLUMNS: usize = 900;

const LEFT: usize = 110;
const TOP: usize = 40;
const ROW: usize = 16;
const LEGEND: usize = 18;

/// Return the picture of a run.
#[must_use]
pub fn svg(report: &Report, grid: &Grid) -> String {
    let bottom = TOP + grid.len() * ROW;
    let (width, height) = (LEFT + COLUMNS + 20, bottom + 30 + report.kinds.len() * LEGEND);
    let title = report.title();
    let picture = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (width) " " (height) }
            font-family="sans-serif" font-size="11" role="img" aria-label=(title) {
            title { (title) }
            rect width=(width) height=(height) fill="white" {}
            text x=(LEFT) y="20" { (title) }
            @for (at, (row, cpu)) in grid.iter().zip(&report.cpus).enumerate() {
                @let y = TOP + at * ROW;
                text x=(LEFT - 8) y=(y + 12) text-anchor="end" { "CPU " (cpu.cpu) " " (cpu.class) }
                rect x=(LEFT) y=(y) width=(COLUMNS) height=(ROW - 2) fill="#eee" {}
                (bars(report, row, y))
            }
            text x=(LEFT) y=(bottom + 14) { "0 s" }
            text x=(LEFT + COLUMNS) y=(bottom + 14) text-anchor="end" { (report.seconds) " s" }
            (legend(report, bottom + 20))
        }
    };
    picture.into_string() + "\n"
}

/// Return the stays of a row. Neighbouring columns of a task are one bar.
fn bars(report: &Report, row: &[Option<usize>], y: usize) -> Markup {
    let mut bars: Vec<(usize, usize, usize)> = Vec::new();
    for (column, task) in row.iter().enumerate() {
        let Some(task) = *task else { continue };
        match bars.last_mut() {
            Some((last, from, width)) if *last == task && *from + *width == column => *width += 1,
            _ => bars.push((task, column, 1)),
        }
    }
    html! {
        @for (task, from, width) in bars {
            rect x=(LEFT + from) y=(y) width=(width) height=(ROW - 2) fill=(colour(task)) {
                title { "task " (task) ", " (report.tasks[task].kind) }
            }
        }
    }
}

fn legend(report: &Report, top: usize) -> Markup {
    const SWATCHES: usize = 40;
    html! {
        @for (at, kind) in report.kinds.iter().enumerate() {
            @let y = top + at * LEGEND;
            text x=(LEFT - 8) y=(y + 12) text-anchor="end" { (kind.kind) }
            @for task in kind.first..kind.first + kind.tasks.min(SWATCHES) {
                rect x=(LEFT + (task - kind.first) * 14) y=(y + 2) width="12" height="12" fill=(colour(task)) {}
            }
        }
    }
}

/// Return the colour of a task. The golden angle keeps those of neighbours apart.
fn colour(task: usize) -> String {
    format!("hsl({} {}% {}%)", task * 137 % 360, 55 + task / 7 % 3 * 15, 45 + task / 3 % 3 * 10)
}
