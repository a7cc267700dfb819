//! Plots as inline SVG: forest plots of ratios, strip plots of raw samples, gain against diversity.
//!
//! Colours come from the page's style sheet by class, so that they adapt to light, dark and print.
//! Shapes differ as well, for readers who cannot distinguish the colours. Coordinates have one
//! decimal, because further digits are noise. A value beyond an axis is drawn at its end as an
//! arrow head, never left out.

use super::format::{change, sig};
use super::markup::{escape, sentence};
use super::{Row, Series};
use crate::ab::stats::Verdict;
use std::fmt::Write;

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

fn open(height: f64, title: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH:.0} {height:.0}\" role=\"img\" aria-label=\"{0}\"><title>{0}</title>\n",
        escape(title)
    )
}

fn text(x: f64, y: f64, anchor: &str, content: &str) -> String {
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>\n", escape(content))
}

/// Return a label to the left of the plot. A long label is shortened in the middle, because both
/// ends of a name say most.
fn label(y: f64, content: &str) -> String {
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

fn line(class: &str, [x1, y1, x2, y2]: [f64; 4]) -> String {
    format!("<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>\n")
}

/// Return the mark of an estimate: a square for a loss, a diamond for a gain, otherwise a circle.
/// The circle is hollow if the verdict is inconclusive or missing.
fn mark(x: f64, y: f64, verdict: Verdict) -> String {
    let class = class(verdict);
    let polygon = |points: [(f64, f64); 4]| {
        let points: Vec<String> =
            points.iter().map(|(dx, dy)| format!("{:.1},{:.1}", x + dx, y + dy)).collect();
        format!("<polygon class=\"mark {class}\" points=\"{}\"/>\n", points.join(" "))
    };
    match verdict {
        Verdict::Worse => polygon([(-5.0, -5.0), (5.0, -5.0), (5.0, 5.0), (-5.0, 5.0)]),
        Verdict::Better => polygon([(0.0, -6.5), (6.5, 0.0), (0.0, 6.5), (-6.5, 0.0)]),
        _ => format!("<circle class=\"mark {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\"/>\n"),
    }
}

/// Return an arrow head at the end of an axis that points to a value beyond it.
fn beyond(x: f64, y: f64, right: bool, class: &str) -> String {
    let tip = if right { 7.0 } else { -7.0 };
    format!(
        "<polygon class=\"mark {class}\" points=\"{x:.1},{:.1} {:.1},{y:.1} {x:.1},{:.1}\"/>\n",
        y - 5.0,
        x + tip,
        y + 5.0
    )
}

/// Return a plot of ratios with their intervals and the dead zone, one line per row.
pub(super) fn forest(title: &str, rows: &[(String, &Row)], dead_zone: f64) -> String {
    let ends = rows.iter().flat_map(|(_, r)| [r.change.ratio, r.change.low, r.change.high]).flatten();
    let axis = Axis::of_ratios(ends, dead_zone, LEFT, RIGHT - 10.0);
    let bottom = 8.0 + rows.len() as f64 * ROW_HEIGHT;
    let mut out = open(bottom + 24.0, title);
    let zone = dead_zone.ln_1p();
    let _ = writeln!(
        out,
        "<rect class=\"zone\" x=\"{:.1}\" y=\"4\" width=\"{:.1}\" height=\"{:.1}\"/>",
        axis.at(-zone),
        axis.at(zone) - axis.at(-zone),
        bottom - 4.0
    );
    for ratio in axis.ticks() {
        let x = axis.at(ratio.ln());
        out += &line(if ratio == 1.0 { "zero" } else { "grid" }, [x, 4.0, x, bottom]);
        out += &text(x, bottom + 14.0, "middle", &change(ratio));
    }
    for (i, (name, row)) in rows.iter().enumerate() {
        let y = 8.0 + (i as f64 + 0.5) * ROW_HEIGHT;
        out += &label(y, name);
        out += &forest_row(&axis, y, row);
    }
    out + "</svg>\n"
}

fn forest_row(axis: &Axis, y: f64, row: &Row) -> String {
    let Some(ratio) = row.change.ratio else {
        return text(LEFT + 4.0, y + 4.0, "start", row.note.as_deref().unwrap_or("no figure"));
    };
    let class = class(row.verdict);
    let mut out = String::new();
    if let Some((low, high)) = row.change.interval() {
        let (low, high) = (low.ln(), high.ln());
        out += &line(&format!("whisker {class}"), [axis.at(low), y, axis.at(high), y]);
        for end in [low, high].into_iter().filter(|end| !axis.holds(*end)) {
            out += &beyond(axis.at(end), y, end > 0.0, class);
        }
    }
    if axis.holds(ratio.ln()) {
        out += &mark(axis.at(ratio.ln()), y, row.verdict);
    } else {
        out += &beyond(axis.at(ratio.ln()), y, ratio > 1.0, class);
    }
    format!("<g><title>{}</title>\n{out}</g>\n", escape(&sentence(row)))
}

/// Return a plot of all raw samples of a cell and metric, one line per arm, with the median of each
/// arm.
pub(super) fn strip(title: &str, series: &[(String, &Series)]) -> String {
    let finite = || series.iter().flat_map(|(_, s)| &s.values).copied().filter(|v| v.is_finite());
    let (from, to) = (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
    let (from, to) = if from <= to { (from, to) } else { (0.0, 1.0) };
    let pad = ((to - from) * 0.02).max(from.abs() * 1e-6).max(1e-12);
    let axis = Axis { from: from - pad, to: to + pad, low: LEFT, high: RIGHT - 10.0 };
    let bottom = 4.0 + series.len() as f64 * ROW_HEIGHT;
    let mut out = open(bottom + 20.0, title);
    for (i, (name, series)) in series.iter().enumerate() {
        let y = 4.0 + (i as f64 + 0.5) * ROW_HEIGHT;
        out += &label(y, name);
        out += &line("grid", [LEFT, y, RIGHT, y]);
        for (j, value) in series.values.iter().enumerate() {
            let spread = y + (j % 5) as f64 * 2.0 - 4.0;
            match value.is_finite() {
                true => {
                    let x = axis.at(*value);
                    let _ = writeln!(out, "<circle class=\"dot\" cx=\"{x:.1}\" cy=\"{spread:.1}\" r=\"2\"/>");
                }
                false => out += &beyond(RIGHT, spread, true, "infinite"),
            }
        }
        if let Some(median) = crate::metrics::median(&series.values).filter(|m| m.is_finite()) {
            out += &line("median", [axis.at(median), y - 8.0, axis.at(median), y + 8.0]);
        }
    }
    out += &text(LEFT, bottom + 14.0, "start", &sig(from));
    out += &text(RIGHT - 10.0, bottom + 14.0, "end", &sig(to));
    out + "</svg>\n"
}

/// Return a plot of one arm's gain against the diversity of the tasks of its cells.
pub(super) fn diversity(title: &str, points: &[(f64, &Row)], dead_zone: f64) -> String {
    const HEIGHT: f64 = 280.0;
    let ends = points.iter().flat_map(|(_, r)| [r.change.ratio, r.change.low, r.change.high]).flatten();
    let y_axis = Axis::of_ratios(ends, dead_zone, HEIGHT - 40.0, 10.0);
    let (min, max) = points
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), (d, _)| (min.min(*d), max.max(*d)));
    let pad = ((max - min) * 0.05).max(0.01);
    let x_axis = Axis { from: min - pad, to: max + pad, low: 80.0, high: RIGHT };
    let mut out = open(HEIGHT, title);
    let zone = dead_zone.ln_1p();
    let _ = writeln!(
        out,
        "<rect class=\"zone\" x=\"80\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
        y_axis.at(zone),
        RIGHT - 80.0,
        y_axis.at(-zone) - y_axis.at(zone)
    );
    for ratio in y_axis.ticks() {
        let y = y_axis.at(ratio.ln());
        out += &line(if ratio == 1.0 { "zero" } else { "grid" }, [80.0, y, RIGHT, y]);
        out += &text(74.0, y + 4.0, "end", &change(ratio));
    }
    for (diversity, row) in points {
        let x = x_axis.at(*diversity);
        let _ = writeln!(out, "<g><title>{}</title>", escape(&sentence(row)));
        if let Some((low, high)) = row.change.interval() {
            let class = format!("whisker {}", class(row.verdict));
            out += &line(&class, [x, y_axis.at(low.ln()), x, y_axis.at(high.ln())]);
        }
        if let Some(ratio) = row.change.ratio {
            out += &mark(x, y_axis.at(ratio.ln()), row.verdict);
        }
        out += "</g>\n";
        out += &text(x, HEIGHT - 24.0, "middle", &sig(*diversity));
    }
    out += &text((80.0 + RIGHT) / 2.0, HEIGHT - 6.0, "middle", "diversity of the tasks");
    out + "</svg>\n"
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
            let svg = strip("t", &[("a".into(), &series)]);
            assert!(!svg.contains("NaN") && !svg.contains("inf,") && svg.ends_with("</svg>\n"));
        }
    }
}
