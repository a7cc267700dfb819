// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The plots of a report: forest plots of ratios, strip plots of raw samples, gain against
//! diversity.
//!
//! Verdicts differ by colour and by shape, because not all readers distinguish the colours. A value
//! beyond an axis is drawn at its end as an arrow head, never left out.

use super::format::{change, sig};
use super::text::sentence;
use super::{Row, Series};
use crate::ab::stats::Verdict;
use crate::plot::{Axis, WIDTH, circle, line, plot, polygon, rect, text};
use maud::{Markup, html};

/// Left edge of the plot. The labels are to the left of it.
const LEFT: f64 = 300.0;
const RIGHT: f64 = WIDTH - 20.0;
/// Maximum length of a label, characters.
const LABEL: usize = 44;
const ROW_HEIGHT: f64 = 20.0;

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

/// Return a label to the left of the plot. A long label is shortened in the middle, because the
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
    text(LEFT - 10.0, y + 4.0, "end", short)
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
pub fn forest(title: &str, rows: &[(String, &Row)], dead_zone: f64) -> Markup {
    let ends = rows.iter().flat_map(|(_, r)| [r.change.ratio, r.change.low, r.change.high]).flatten();
    let axis = Axis::of_ratios(ends, dead_zone, LEFT, RIGHT - 10.0);
    let bottom = 8.0 + rows.len() as f64 * ROW_HEIGHT;
    let dead = dead_zone.ln_1p();
    let content = html! {
        (rect("zone", [axis.at(-dead), 4.0, axis.at(dead), bottom]))
        @for ratio in axis.ticks() {
            @let x = axis.at(ratio.ln());
            (line(grid(ratio), [x, 4.0, x, bottom]))
            (text(x, bottom + 14.0, "middle", change(ratio)))
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
        (text(LEFT, bottom + 14.0, "start", sig(from)))
        (text(RIGHT - 10.0, bottom + 14.0, "end", sig(to)))
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
        (rect("zone", [80.0, y_axis.at(dead), RIGHT, y_axis.at(-dead)]))
        @for ratio in y_axis.ticks() {
            @let y = y_axis.at(ratio.ln());
            (line(grid(ratio), [80.0, y, RIGHT, y]))
            (text(74.0, y + 4.0, "end", change(ratio)))
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
            (text(x, HEIGHT - 24.0, "middle", sig(*diversity)))
        }
        (text((80.0 + RIGHT) / 2.0, HEIGHT - 6.0, "middle", "diversity of the tasks"))
    };
    plot(HEIGHT, title, content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_or_infinite_samples_can_be_drawn() {
        for values in [vec![2.0; 4], vec![0.0; 4], vec![f64::INFINITY; 4]] {
            let series = Series { cell: "c".into(), metric: "m".into(), arm: "a".into(), values };
            let svg = strip("t", &[("a".into(), &series)]).into_string();
            assert!(!svg.contains("NaN") && !svg.contains("inf,") && svg.ends_with("</svg>"));
        }
    }
}
