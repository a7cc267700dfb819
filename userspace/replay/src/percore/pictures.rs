// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The page of a report: one file without references, for any browser.
//!
//! A figure for each claim of \[Reif20\]: the distribution of each CPU (Figs 1 and 6), the slowest
//! CPU over the fastest for each kind (Fig 3), cost against time (Fig 4b), and similarity (Fig 5).

use super::times::{
    Compared, CpuTimes, KindTimes, PercoreReport, alike, cost_order, costs_and_times, groups, quantiles,
};
use bias_bench::plot::{Axis, WIDTH, circle, colour, curve, line, page, plot, rect, text};
use bias_bench::spec::CpuList;
use maud::{Markup, html};

const HEIGHT: f64 = 300.0;
const MARGIN: f64 = 40.0;
/// Points of a drawn distribution.
const POINTS: usize = 101;
/// The part of a distribution that decides the axis: rarer delays are drawn at its end.
const SHOWN: usize = 99;
/// Maximum CPUs in a legend.
const LEGEND: usize = 16;

/// Return the complete page.
pub(super) fn of(report: &PercoreReport) -> String {
    let body = html! {
        h1 { "Execution times of each CPU" }
        p { "The same work, run repeatedly on each CPU. If all CPUs were equal, all curves of a kind would coincide." }
        h2 { "Slowest CPU over fastest" }
        (ratios(report))
        @for kind in &report.kinds {
            h2 { (kind.kind) }
            p { (sentence(kind)) }
            figure { figcaption { "Share of runs that took at most a time" } (distributions(kind)) }
            figure { figcaption { "Similarity: a filled square is a pair of CPUs that the test does not distinguish (Anderson-Darling, p = 0.01), or that differ by less than 1 %" } (matrix(kind)) }
            @if !report.costs.is_empty() {
                figure { figcaption { (costs_caption(kind, report)) } (costs(kind, report)) }
            }
        }
    };
    page("Execution times of each CPU", &body)
}

fn sentence(kind: &KindTimes) -> String {
    let groups = groups(kind);
    let listed: Vec<String> =
        groups.iter().take(LEGEND).map(|group| CpuList(group.clone()).to_string()).collect();
    let more = if groups.len() > LEGEND { ", ..." } else { "" };
    format!(
        "{} runs of {} units on each of {} CPUs. Groups of similar CPUs: {}{more}.",
        kind.cpus.first().map_or(0, |cpu| cpu.times_ns.len()),
        kind.units,
        kind.cpus.len(),
        listed.join("; ")
    )
}

/// Return a bar for each kind.
fn ratios(report: &PercoreReport) -> Markup {
    let rows: Vec<(&str, Compared)> =
        report.kinds.iter().filter_map(|kind| Some((kind.kind.as_str(), Compared::of(kind)?))).collect();
    let most = rows.iter().map(|(_, compared)| compared.ratio - 1.0).fold(0.01, f64::max);
    let axis = Axis { from: 0.0, to: most, low: 140.0, high: 560.0 };
    let content = html! {
        @for (row, (kind, compared)) in rows.iter().enumerate() {
            @let y = 24.0 * row as f64 + 4.0;
            @let figure = format!("{:.3} (CPU {} over {})", compared.ratio, compared.slowest, compared.fastest);
            (text(0.0, y + 14.0, "start", kind))
            (rect("mark better", [140.0, y, axis.at(compared.ratio - 1.0), y + 18.0]))
            (text(570.0, y + 14.0, "start", figure))
        }
    };
    plot(24.0 * rows.len() as f64 + 8.0, "Slowest CPU over fastest", content)
}

/// Return a curve for each CPU.
fn distributions(kind: &KindTimes) -> Markup {
    let curves: Vec<Vec<f64>> = kind.cpus.iter().map(|cpu| quantiles(cpu, POINTS)).collect();
    let low = curves.iter().map(|curve| curve[0]).fold(f64::INFINITY, f64::min);
    let high = curves.iter().map(|curve| curve[SHOWN]).fold(low * 1.001, f64::max);
    let x = Axis { from: low, to: high, low: MARGIN, high: WIDTH - MARGIN };
    let y = Axis { from: 0.0, to: 1.0, low: HEIGHT - MARGIN, high: MARGIN };
    let points = |curve: &[f64]| {
        let share = |nth: usize| nth as f64 / (POINTS - 1) as f64;
        curve.iter().enumerate().map(|(nth, ns)| (x.at(*ns), y.at(share(nth)))).collect::<Vec<_>>()
    };
    let content = html! {
        @for share in [0.0, 0.5, 1.0] {
            (line("grid", [MARGIN, y.at(share), WIDTH - MARGIN, y.at(share)]))
            (text(0.0, y.at(share) + 4.0, "start", format!("{:.0} %", share * 100.0)))
        }
        @for nth in 0..5 {
            @let ns = low + (high - low) * f64::from(nth) / 4.0;
            (text(x.at(ns), HEIGHT - 16.0, "middle", format!("{:.4}", ns / low)))
        }
        (text(MARGIN, HEIGHT - 2.0, "start", format!("times {:.1} us, the shortest run", low / 1000.0)))
        @for (nth, (cpu, of_cpu)) in kind.cpus.iter().zip(&curves).enumerate() {
            @let colour = colour(nth, kind.cpus.len());
            (curve(points(of_cpu).into_iter(), &colour, &format!("CPU {}", cpu.cpu)))
            @if kind.cpus.len() <= LEGEND {
                @let y = HEIGHT - MARGIN - 12.0 * (kind.cpus.len() - nth) as f64;
                g style=(format!("--ink: {colour}")) {
                    (text(WIDTH - MARGIN, y, "end", format!("CPU {}", cpu.cpu)))
                }
            }
        }
    };
    plot(HEIGHT, "Distributions", content)
}

/// Return a square for each pair of similar CPUs.
fn matrix(kind: &KindTimes) -> Markup {
    let count = kind.cpus.len();
    let cell = (560.0 / count as f64).min(28.0);
    let side = cell * count as f64;
    let at = |nth: usize| MARGIN + cell * nth as f64;
    let is_alike = |one: &CpuTimes, other: &CpuTimes| one.cpu == other.cpu || alike(one, other);
    let content = html! {
        (rect("zone", [MARGIN, MARGIN, MARGIN + side, MARGIN + side]))
        @for (row, one) in kind.cpus.iter().enumerate() {
            @let y = at(row);
            @if count <= 2 * LEGEND || row % 8 == 0 {
                (text(4.0, y + cell * 0.7, "start", one.cpu))
                (text(y, MARGIN - 6.0, "start", one.cpu))
            }
            @for (column, other) in kind.cpus.iter().enumerate() {
                @if is_alike(one, other) {
                    @let x = at(column);
                    (rect("mark better", [x, y, x + cell * 0.9, y + cell * 0.9]))
                }
            }
        }
    };
    plot((side + MARGIN + 10.0).ceil(), "Similarity", content)
}

fn costs_caption(kind: &KindTimes, report: &PercoreReport) -> String {
    let order = cost_order(kind, &report.costs).map_or("none".to_string(), |order| format!("{order:.2}"));
    format!("Time against the cost of executing in the capacity table; rank correlation {order}")
}

/// Return a dot for each CPU: cost to the right, time upwards.
fn costs(kind: &KindTimes, report: &PercoreReport) -> Markup {
    let pairs = costs_and_times(kind, &report.costs);
    let axis = |of: fn(&(f64, f64)) -> f64, low: f64, high: f64| {
        let ends = |(least, most): (f64, f64), x: f64| (least.min(x), most.max(x));
        let (from, to) = pairs.iter().map(of).fold((f64::INFINITY, 0.0), ends);
        Axis { from, to: to.max(from * 1.001), low, high }
    };
    let x = axis(|pair| pair.0, MARGIN + 10.0, WIDTH - MARGIN - 10.0);
    let y = axis(|pair| pair.1, HEIGHT - MARGIN - 10.0, MARGIN + 10.0);
    let range = |of: &str, axis: &Axis| format!("{of} {:.3} to {:.3}", axis.from / 1000.0, axis.to / 1000.0);
    let content = html! {
        (line("grid", [MARGIN, HEIGHT - MARGIN, WIDTH - MARGIN, HEIGHT - MARGIN]))
        (line("grid", [MARGIN, MARGIN, MARGIN, HEIGHT - MARGIN]))
        (text(MARGIN, HEIGHT - 10.0, "start", range("cost", &x)))
        (text(MARGIN + 6.0, MARGIN, "start", range("time", &y) + " us"))
        @for (cost, ns) in &pairs {
            (circle("mark better", x.at(*cost), y.at(*ns), 4.0))
        }
    };
    plot(HEIGHT, "Cost and time", content)
}
