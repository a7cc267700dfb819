// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Plots as inline SVG: forest plots of ratios, strip plots of raw samples, gain against diversity.
//!
//! Colours come from the page's style sheet by class, so that they adapt to light, dark and print.
//! Shapes differ as well, for readers who cannot distinguish the colours. Coordinates have one
//! decimal, because further digits are noise. A value beyond an axis is drawn at its end as an
//! arrow head, never left out.

use super::format::{change, sig};
use super::text::sentence;
use super::{Row, Series};
use crate::ab::stats::Verdict;
use maud::{Markup, html};

const WIDTH: f64 = 860.0;
/// Left edge of the plot. The labels are to the left of it.
const LEFT: f64 = 300.0;
const RIGHT: f64 = WIDTH - 20.0;
/// Maximum length of a label, characters.
const LABEL: usize = 44;
const ROW_HEIGHT: f64 = 20.0;
/// Ratios beyond this factor in either direction are drawn at the end of the axis.
const LARGEST_FACTOR: f64 = 4.0;

/// A linear map from values to coordinates. Ratios are mapped by their logarithms.
struct Axis {
    from: f64,
    to: f64,
    low: f64,
    high: f64,
}

impl Axis {
    fn at(&self, x: f64) -> f64 {
        let share = (x - self.from) / (self.to - self.from);
        self.low + share.clamp(0.0, 1.0) * (self.high - self.low)
    }

    fn holds(&self, x: f64) -> bool {
        (self.from..=self.to).contains(&x)
    }

    /// Return an axis of logarithms around 0 that shows these ratios and a dead zone.
    fn of_ratios(ratios: impl Iterator<Item = f64>, dead_zone: f64, low: f64, high: f64) -> Axis {
        let finite = ratios.filter(|r| r.is_finite() && *r > 0.0).map(|r| r.ln().abs());
        let reach = finite.fold(dead_zone.ln_1p() * 2.0, f64::max).max(0.02) * 1.08;
        let reach = reach.min(LARGEST_FACTOR.ln());
        Axis { from: -reach, to: reach, low, high }
    }

    /// Return round changes in percent, about six across the axis.
    fn ticks(&self) -> Vec<f64> {
        let reach = (self.to.exp() - 1.0) * 100.0;
        let steps = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];
        let step = steps.into_iter().find(|s| reach / s <= 3.5).unwrap_or(100.0);
        let ticks = (-8..=8).map(|i| 1.0 + f64::from(i) * step / 100.0).filter(|r| *r > 0.0);
        ticks.filter(|r| self.holds(r.ln())).collect()
    }
}

/// Return the CSS class of a verdict.
pub(super) fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Worse => "worse",
        Verdict::Better => "better",
        Verdict::Differs => "differs",
        Verdict::Same => "same",
        Verdict::Inconclusive | Verdict::NotCompared => "open",
    }
}

/// Return a complete plot.
fn plot(height: f64, title: &str, content: Markup) -> Markup {
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (height) } role="img" aria-label=(title) {
            title { (title) }
            (content)
        }
    }
}

/// Return a coordinate as text.
fn px(x: f64) -> String {
    format!("{x:.1}")
}

fn text(x: f64, y: f64, anchor: &str, content: &str) -> Markup {
    html! { text x=(px(x)) y=(px(y)) text-anchor=(anchor) { (content) } }
}

/// Return a label to the left of the plot. A long label is shortened in the middle, because both
/// ends of a name say most.
fn label(y: f64, content: &str) -> Markup {
    let letters: Vec<char> = content.chars().collect();
    let short = if letters.len() > LABEL {
        let half = LABEL / 2;
        let ends = [&letters[..half - 1], &['…'], &letters[letters.len() - half..]];
        ends.concat().into_iter().collect()
    } else {
        content.to_string()
    };
    text(LEFT - 10.0, y + 4.0, "end", &short)
}

fn line(class: &str, [x1, y1, x2, y2]: [f64; 4]) -> Markup {
    html! { line class=(class) x1=(px(x1)) y1=(px(y1)) x2=(px(x2)) y2=(px(y2)) {} }
}

fn circle(class: &str, x: f64, y: f64, radius: f64) -> Markup {
    html! { circle class=(class) cx=(px(x)) cy=(px(y)) r=(radius) {} }
}

/// Return a filled polygon with corners relative to a point.
fn polygon(class: &str, x: f64, y: f64, corners: &[(f64, f64)]) -> Markup {
    let points: Vec<String> = corners.iter().map(|(dx, dy)| format!("{:.1},{:.1}", x + dx, y + dy)).collect();
    html! { polygon class={ "mark " (class) } points=(points.join(" ")) {} }
}

/// Return the dead zone as a rectangle with these left, upper, right and lower edges.
fn zone([x1, y1, x2, y2]: [f64; 4]) -> Markup {
    html! { rect.zone x=(px(x1)) y=(px(y1)) width=(px(x2 - x1)) height=(px(y2 - y1)) {} }
}

/// Return the mark of an estimate: a square for a loss, a diamond for a gain, otherwise a circle.
/// The circle is hollow if the verdict is inconclusive or missing.
fn mark(x: f64, y: f64, verdict: Verdict) -> Markup {
    let class = class(verdict);
    match verdict {
        Verdict::Worse => polygon(class, x, y, &[(-5.0, -5.0), (5.0, -5.0), (5.0, 5.0), (-5.0, 5.0)]),
        Verdict::Better => polygon(class, x, y, &[(0.0, -6.5), (6.5, 0.0), (0.0, 6.5), (-6.5, 0.0)]),
        _ => circle(&format!("mark {class}"), x, y, 4.5),
    }
}

/// Return an arrow head at the end of an axis that points to a value beyond it.
fn beyond(x: f64, y: f64, right: bool, class: &str) -> Markup {
    let tip = if right { 7.0 } else { -7.0 };
    polygon(class, x, y, &[(0.0, -5.0), (tip, 0.0), (0.0, 5.0)])
}

/// Return the class of a grid line at this ratio.
fn grid(ratio: f64) -> &'static str {
    if ratio == 1.0 { "zero" } else { "grid" }
}

/// Return a plot of ratios with their intervals and the dead zone, one line per row.
pub(super) fn forest(title: &str, rows: &[(String, &Row)], dead_zone: f64) -> Markup {
    let ends = rows.iter().flat_map(|(_, r)| [r.change.ratio, r.change.low, r.change.high]).flatten();
    let axis = Axis::of_ratios(ends, dead_zone, LEFT, RIGHT - 10.0);
    let bottom = 8.0 + rows.len() as f64 * ROW_HEIGHT;
    let dead = dead_zone.ln_1p();
    let content = html! {
        (zone([axis.at(-dead), 4.0, axis.at(dead), bottom]))
        @for ratio in axis.ticks() {
            @let x = axis.at(ratio.ln());
            (line(grid(ratio), [x, 4.0, x, bottom]))
            (text(x, bottom + 14.0, "middle", &change(ratio)))
        }
        @for (i, (name, row)) in rows.iter().enumerate() {
            @let y = 8.0 + (i as f64 + 0.5) * ROW_HEIGHT;
            (label(y, name))
            (forest_row(&axis, y, row))
        }
    };
    plot(bottom + 24.0, title, content)
}

fn forest_row(axis: &Axis, y: f64, row: &Row) -> Markup {
    let Some(ratio) = row.change.ratio else {
        return text(LEFT + 4.0, y + 4.0, "start", row.note.as_deref().unwrap_or("no figure"));
    };
    let class = class(row.verdict);
    html! {
        g {
            title { (sentence(row)) }
            @if let Some((low, high)) = row.change.interval() {
                (line(&format!("whisker {class}"), [axis.at(low.ln()), y, axis.at(high.ln()), y]))
                @for end in [low.ln(), high.ln()].into_iter().filter(|end| !axis.holds(*end)) {
                    (beyond(axis.at(end), y, end > 0.0, class))
                }
            }
            @if axis.holds(ratio.ln()) {
                (mark(axis.at(ratio.ln()), y, row.verdict))
            } @else {
                (beyond(axis.at(ratio.ln()), y, ratio > 1.0, class))
            }
        }
    }
}

/// Return a plot of all raw samples of a cell and metric, one line per arm, with the median of each
/// arm.
pub(super) fn strip(title: &str, series: &[(String, &Series)]) -> Markup {
    let finite = || series.iter().flat_map(|(_, s)| &s.values).copied().filter(|v| v.is_finite());
    let (from, to) = (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
    let (from, to) = if from <= to { (from, to) } else { (0.0, 1.0) };
    let pad = ((to - from) * 0.02).max(from.abs() * 1e-6).max(1e-12);
    let axis = Axis { from: from - pad, to: to + pad, low: LEFT, high: RIGHT - 10.0 };
    let bottom = 4.0 + series.len() as f64 * ROW_HEIGHT;
    let content = html! {
        @for (i, (name, series)) in series.iter().enumerate() {
            @let y = 4.0 + (i as f64 + 0.5) * ROW_HEIGHT;
            (label(y, name))
            (line("grid", [LEFT, y, RIGHT, y]))
            @for (j, value) in series.values.iter().enumerate() {
                @let spread = y + (j % 5) as f64 * 2.0 - 4.0;
                @if value.is_finite() {
                    (circle("dot", axis.at(*value), spread, 2.0))
                } @else {
                    (beyond(RIGHT, spread, true, "infinite"))
                }
            }
            @if let Some(median) = crate::metrics::median(&series.values).filter(|m| m.is_finite()) {
                (line("median", [axis.at(median), y - 8.0, axis.at(median), y + 8.0]))
            }
        }
        (text(LEFT, bottom + 14.0, "start", &sig(from)))
        (text(RIGHT - 10.0, bottom + 14.0, "end", &sig(to)))
    };
    plot(bottom + 20.0, title, content)
}

/// Return a plot of one arm's gain against the diversity of the tasks of its cells.
pub(super) fn diversity(title: &str, points: &[(f64, &Row)], dead_zone: f64) -> Markup {
    const HEIGHT: f64 = 280.0;
    let ends = points.iter().flat_map(|(_, r)| [r.change.ratio, r.change.low, r.change.high]).flatten();
    let y_axis = Axis::of_ratios(ends, dead_zone, HEIGHT - 40.0, 10.0);
    let (min, max) = points
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), (d, _)| (min.min(*d), max.max(*d)));
    let pad = ((max - min) * 0.05).max(0.01);
    let x_axis = Axis { from: min - pad, to: max + pad, low: 80.0, high: RIGHT };
    let dead = dead_zone.ln_1p();
    let content = html! {
        (zone([80.0, y_axis.at(dead), RIGHT, y_axis.at(-dead)]))
        @for ratio in y_axis.ticks() {
            @let y = y_axis.at(ratio.ln());
            (line(grid(ratio), [80.0, y, RIGHT, y]))
            (text(74.0, y + 4.0, "end", &change(ratio)))
        }
        @for (diversity, row) in points {
            @let x = x_axis.at(*diversity);
            g {
                title { (sentence(row)) }
                @if let Some((low, high)) = row.change.interval() {
                    @let class = format!("whisker {}", class(row.verdict));
                    (line(&class, [x, y_axis.at(low.ln()), x, y_axis.at(high.ln())]))
                }
                @if let Some(ratio) = row.change.ratio { (mark(x, y_axis.at(ratio.ln()), row.verdict)) }
            }
            (text(x, HEIGHT - 24.0, "middle", &sig(*diversity)))
        }
        (text((80.0 + RIGHT) / 2.0, HEIGHT - 6.0, "middle", "diversity of the tasks"))
    };
    plot(HEIGHT, title, content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_few_round_and_hold_zero() {
        for reach in [0.01, 0.03, 0.2, 0.7, 1.3] {
            let ticks = Axis { from: -reach, to: reach, low: 0.0, high: 1.0 }.ticks();
            assert!((1..=9).contains(&ticks.len()) && ticks.contains(&1.0), "{reach}: {ticks:?}");
        }
    }

    #[test]
    fn coordinates_stay_on_the_axis() {
        let axis = Axis::of_ratios([1.05, f64::INFINITY, 0.0].into_iter(), 0.01, 10.0, 20.0);
        for log in [f64::NEG_INFINITY, -1.0, 0.0, 0.04, f64::INFINITY] {
            assert!((10.0..=20.0).contains(&axis.at(log)), "{log}");
        }
        assert!(axis.holds(1.05f64.ln()) && !axis.holds(f64::INFINITY));
    }

    #[test]
    fn samples_all_alike_or_all_infinite_can_be_drawn() {
        for values in [vec![2.0; 4], vec![0.0; 4], vec![f64::INFINITY; 4]] {
            let series = Series { cell: "c".into(), metric: "m".into(), arm: "a".into(), values };
            let svg = strip("t", &[("a".into(), &series)]).into_string();
            assert!(!svg.contains("NaN") && !svg.contains("inf,") && svg.ends_with("</svg>"));
        }
    }
}
