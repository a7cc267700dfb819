// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The page of a report: one file without references, for any browser.
//!
//! A figure for each claim of \[Reif20\]: the distribution of each CPU (Figs 1 and 6), the slowest
//! CPU over the fastest for each kind (Fig 3), cost against time (Fig 4b), and similarity (Fig 5).

use super::times::{
    Compared, CpuTimes, KindTimes, PercoreReport, alike, cost_order, costs_and_times, groups, quantiles,
};
use bias_bench::html_page::page;
use bias_bench::spec::CpuList;
use maud::{Markup, html};

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 300.0;
const MARGIN: f64 = 40.0;
/// Points of a distribution that are drawn.
const POINTS: usize = 101;
/// The part of a distribution that decides the axis: rarer delays are drawn at its end.
const SHOWN: usize = 99;
/// CPUs that a legend names at most.
const LEGEND: usize = 16;

/// Return the complete page.
pub(super) fn of(report: &PercoreReport) -> String {
    let body = html! {
        h1 { "Execution times of each CPU" }
        p { "The same work, run again and again on each CPU. If all CPUs were equal, all curves of a kind would be one." }
        h2 { "Slowest CPU over fastest" }
        (ratios(report))
        @for kind in &report.kinds {
            h2 { (kind.kind) }
            p { (sentence(kind)) }
            figure { figcaption { "Share of runs that took at most a time" } (distributions(kind)) }
            figure { figcaption { "Similarity: a filled square is a pair of CPUs that no test tells apart (Anderson-Darling, p = 0.01), or that differ by less than 1 %" } (matrix(kind)) }
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
        "{} runs of {} units on each of {} CPUs. Groups of alike CPUs: {}{more}.",
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
    let height = 24.0 * rows.len() as f64 + 8.0;
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {height}")) role="img" aria-label="Slowest CPU over fastest" {
            @for (row, (kind, compared)) in rows.iter().enumerate() {
                @let y = 24.0 * row as f64 + 4.0;
                text x="0" y=(y + 14.0) { (kind) }
                rect.mark.better x="140" y=(y) height="18" width=(format!("{:.1}", (compared.ratio - 1.0) / most * 420.0)) {}
                text x="570" y=(y + 14.0) {
                    (format!("{:.3} (CPU {} over {})", compared.ratio, compared.slowest, compared.fastest))
                }
            }
        }
    }
}

/// Return the colour of a CPU, by its place in the list.
fn colour(nth: usize, of: usize) -> String {
    format!("hsl({} 70% 45%)", 360 * nth / of.max(1))
}

/// Return a curve for each CPU.
fn distributions(kind: &KindTimes) -> Markup {
    let curves: Vec<Vec<f64>> = kind.cpus.iter().map(|cpu| quantiles(cpu, POINTS)).collect();
    let low = curves.iter().map(|curve| curve[0]).fold(f64::INFINITY, f64::min);
    let high = curves.iter().map(|curve| curve[SHOWN]).fold(low * 1.001, f64::max);
    let x = |ns: f64| MARGIN + (ns.min(high) - low) / (high - low) * (WIDTH - 2.0 * MARGIN);
    let y = |share: f64| HEIGHT - MARGIN - share * (HEIGHT - 2.0 * MARGIN);
    let points = |curve: &[f64]| {
        let point =
            |(nth, ns): (usize, &f64)| format!("{:.1},{:.1}", x(*ns), y(nth as f64 / (POINTS - 1) as f64));
        curve.iter().enumerate().map(point).collect::<Vec<_>>().join(" ")
    };
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label="Distributions" {
            @for share in [0.0, 0.5, 1.0] {
                line.grid x1=(MARGIN) x2=(WIDTH - MARGIN) y1=(y(share)) y2=(y(share)) {}
                text x="0" y=(y(share) + 4.0) { (format!("{:.0} %", share * 100.0)) }
            }
            @for nth in 0..5 {
                @let ns = low + (high - low) * f64::from(nth) / 4.0;
                text x=(format!("{:.1}", x(ns) - 20.0)) y=(HEIGHT - 16.0) { (format!("{:.4}", ns / low)) }
            }
            text x=(MARGIN) y=(HEIGHT - 2.0) { (format!("times {:.1} us, the shortest run", low / 1000.0)) }
            @for (nth, (cpu, curve)) in kind.cpus.iter().zip(&curves).enumerate() {
                polyline points=(points(curve)) fill="none" stroke=(colour(nth, kind.cpus.len())) stroke-width="1.5" {
                    title { "CPU " (cpu.cpu) }
                }
            }
            @if kind.cpus.len() <= LEGEND {
                @for (nth, cpu) in kind.cpus.iter().enumerate() {
                    text x=(WIDTH - MARGIN - 50.0) y=(format!("{:.1}", HEIGHT - MARGIN - 12.0 * (kind.cpus.len() - nth) as f64)) style=(format!("fill: {}", colour(nth, kind.cpus.len()))) { "CPU " (cpu.cpu) }
                }
            }
        }
    }
}

/// Return a square for each pair of alike CPUs.
fn matrix(kind: &KindTimes) -> Markup {
    let count = kind.cpus.len();
    let cell = (560.0 / count as f64).min(28.0);
    let side = cell * count as f64;
    let at = |nth: usize| format!("{:.1}", MARGIN + cell * nth as f64);
    let is_alike = |one: &CpuTimes, other: &CpuTimes| one.cpu == other.cpu || alike(one, other);
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {:.1}", side + MARGIN + 10.0)) role="img" aria-label="Similarity" {
            rect.zone x=(MARGIN) y=(MARGIN) width=(format!("{side:.1}")) height=(format!("{side:.1}")) {}
            @for (row, one) in kind.cpus.iter().enumerate() {
                @if count <= 2 * LEGEND || row % 8 == 0 {
                    text x="4" y=(format!("{:.1}", MARGIN + cell * (row as f64 + 0.7))) { (one.cpu) }
                    text x=(at(row)) y=(MARGIN - 6.0) { (one.cpu) }
                }
                @for (column, other) in kind.cpus.iter().enumerate() {
                    @if is_alike(one, other) {
                        rect.mark.better x=(at(column)) y=(at(row)) width=(format!("{:.1}", cell * 0.9)) height=(format!("{:.1}", cell * 0.9)) {}
                    }
                }
            }
        }
    }
}

fn costs_caption(kind: &KindTimes, report: &PercoreReport) -> String {
    let order = cost_order(kind, &report.costs).map_or("none".to_string(), |order| format!("{order:.2}"));
    format!("Time against the cost of executing in the capacity table; rank correlation {order}")
}

/// Return a dot for each CPU: cost to the right, time upwards.
fn costs(kind: &KindTimes, report: &PercoreReport) -> Markup {
    let pairs = costs_and_times(kind, &report.costs);
    let range = |of: fn(&(f64, f64)) -> f64| {
        let (low, high) = pairs
            .iter()
            .map(of)
            .fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), x| (low.min(x), high.max(x)));
        (low, (high - low).max(low * 0.001))
    };
    let ((x_low, x_range), (y_low, y_range)) = (range(|pair| pair.0), range(|pair| pair.1));
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label="Cost and time" {
            line.grid x1=(MARGIN) x2=(WIDTH - MARGIN) y1=(HEIGHT - MARGIN) y2=(HEIGHT - MARGIN) {}
            line.grid x1=(MARGIN) x2=(MARGIN) y1=(MARGIN) y2=(HEIGHT - MARGIN) {}
            text x=(MARGIN) y=(HEIGHT - 10.0) { (format!("cost {:.3} to {:.3}", x_low / 1000.0, (x_low + x_range) / 1000.0)) }
            text x=(MARGIN + 6.0) y=(MARGIN) { (format!("time {:.1} to {:.1} us", y_low / 1000.0, (y_low + y_range) / 1000.0)) }
            @for (cost, ns) in &pairs {
                circle.mark.better r="4"
                    cx=(format!("{:.1}", MARGIN + 10.0 + (cost - x_low) / x_range * (WIDTH - 2.0 * MARGIN - 20.0)))
                    cy=(format!("{:.1}", HEIGHT - MARGIN - 10.0 - (ns - y_low) / y_range * (HEIGHT - 2.0 * MARGIN - 20.0))) {}
            }
        }
    }
}
