// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The page of a report on teams: one file without references, for any browser.
//!
//! For each condition it has the table of the text, and for each benchmark a picture of all runs:
//! every repetition over the mean of all, as in Figs 3 to 5 of \[Cui23], and below it the
//! frequencies beside the runs, as in Figs 6 and 7.

use super::team::{TeamCase, TeamReport};
use bias_bench::plot::{Axis, WIDTH, circle, colour, curve, line, page, plot, text};
use maud::{Markup, html};

const HEIGHT: f64 = 220.0;
const MARGIN: f64 = 50.0;
/// Height of the picture of frequencies.
const LOW: f64 = 120.0;
/// Maximum dots for a run. More would hide each other.
const DOTS: usize = 200;

/// Return the complete page.
pub(super) fn of(report: &TeamReport) -> String {
    let wait = report.wait.as_deref().map_or(String::new(), |wait| format!(", waiting threads {wait}"));
    let body = html! {
        h1 { "Variation of parallel programs" }
        p { "Each benchmark of the OpenMP runtime ran several times, under " (report.scheduler) (wait) ". CV is the standard deviation over the mean: within a run, of its repetitions; between runs, of their means." }
        @for (place, condition) in report.conditions.iter().enumerate() {
            @let cases: Vec<&TeamCase> = report.cases.iter().filter(|case| case.condition == place).collect();
            h2 { (condition) }
            table {
                thead { tr { @for head in ["benchmark", "mean ms", "CV within", "CV between", "min", "max", "MHz"] { th { (head) } } }
                }
                tbody { @for case in &cases { tr { @for cell in case.cells(condition) { td { (cell) } } } } }
            }
            @for case in &cases {
                figure { figcaption { (case.benchmark) ": repetitions of each run over the mean of all" } (repetitions(case)) }
                @if let Some(range) = case.range_khz(&condition.cpus) {
                    figure { figcaption { (case.benchmark) ": frequency of each CPU beside each run" } (frequencies(case, &condition.cpus, range)) }
                }
            }
        }
    };
    page("Variation of parallel programs", &body)
}

/// Return the left edge of a run's column, and the width of columns.
fn column(run: usize, runs: usize) -> (f64, f64) {
    let width = (WIDTH - MARGIN) / runs.max(1) as f64;
    (MARGIN + width * run as f64, width * 0.9)
}

/// Return a dot for each repetition, and a line at each run's mean.
fn repetitions(case: &TeamCase) -> Markup {
    let Some(variation) = &case.variation else { return html! {} };
    let (mean, runs) = (variation.mean_ns, &variation.runs);
    let low = runs.iter().map(|run| run.min * run.mean_ns / mean).fold(1.0, f64::min) - 0.001;
    let high = runs.iter().map(|run| run.max * run.mean_ns / mean).fold(1.0, f64::max) + 0.001;
    let axis = Axis { from: low, to: high, low: HEIGHT - 20.0, high: 10.0 };
    let content = html! {
        @for level in [low, 1.0, high] {
            (level_line(axis.at(level), format!("{level:.3}")))
        }
        @for (run, times) in case.times_ns.iter().enumerate() {
            @let (x, width) = column(run, case.times_ns.len());
            @let step = times.len().div_ceil(DOTS).max(1);
            @for (nth, ns) in times.iter().enumerate().step_by(step) {
                (circle("dot", x + width * nth as f64 / times.len() as f64, axis.at(*ns as f64 / mean), 2.0))
            }
            @if let Some(figures) = runs.get(run) {
                @let y = axis.at(figures.mean_ns / mean);
                (line("median", [x, y, x + width, y]))
            }
            (text(x, HEIGHT - 4.0, "start", format!("run {}", run + 1)))
        }
    };
    plot(HEIGHT, "Repetitions", content)
}

/// Return a curve for each CPU of the team in each run. `range` is that of the axis [kHz].
fn frequencies(case: &TeamCase, team: &[usize], range: (u32, u32)) -> Markup {
    let axis = Axis {
        from: f64::from(range.0) * 0.999,
        to: f64::from(range.1) * 1.001,
        low: LOW - 10.0,
        high: 10.0,
    };
    let points = |run: usize, place: usize| {
        let (x, width) = column(run, case.frequencies.len());
        let series = &case.frequencies[run];
        let last = series.at_ms.last().copied().unwrap_or(0).max(1) as f64;
        let rows = series.at_ms.iter().zip(&series.khz).filter(|(_, row)| row[place] > 0);
        let point =
            |(at, row): (&u64, &Vec<u32>)| (x + width * *at as f64 / last, axis.at(f64::from(row[place])));
        rows.map(point).collect::<Vec<_>>()
    };
    let content = html! {
        @for khz in [range.0, range.1] {
            (level_line(axis.at(f64::from(khz)), (khz / 1000).to_string()))
        }
        @for (run, series) in case.frequencies.iter().enumerate() {
            @for (place, cpu) in series.cpus.iter().enumerate().filter(|(_, cpu)| team.contains(cpu)) {
                @let colour = colour(place, series.cpus.len());
                (curve(points(run, place).into_iter(), &colour, &format!("CPU {cpu}")))
            }
        }
    };
    plot(LOW, "Frequencies", content)
}

/// Return a line across the picture, with its value at the left.
fn level_line(y: f64, value: String) -> Markup {
    html! { (line("grid", [MARGIN, y, WIDTH, y])) (text(0.0, y + 4.0, "start", value)) }
}
