// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Pages and plots: a page is one file without a script, a font or a picture from elsewhere, and
//! holds its plots as SVG.
//!
//! Colours come from the page's style sheet by class, so that they adapt to light, dark and print.
//! Coordinates have one decimal, because further digits are noise.

use maud::{DOCTYPE, Markup, PreEscaped, Render, html};

/// Width of a plot.
pub const WIDTH: f64 = 860.0;
/// Ratios beyond this factor in either direction are drawn at the end of the axis.
const LARGEST_FACTOR: f64 = 4.0;

/// Style sheet of all pages, which adapts to light, dark and print.
pub const STYLE: &str = include_str!("plot.css");

/// Return the complete page with this title and body.
pub fn page(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { (body) }
        }
    };
    page.into_string()
}

/// Return a plot as a file of its own, with the colours of the pages.
pub fn picture(plot: &Markup) -> String {
    let paper = r#"<rect width="100%" height="100%" style="fill: var(--paper)"/>"#;
    let text = plot.0.replacen("<svg ", "<svg xmlns=\"http://www.w3.org/2000/svg\" ", 1);
    // A picture has a width of its own; in a page it is as wide as the text.
    let style = format!("{STYLE}svg {{ width: {WIDTH}px; }}");
    text.replacen('>', &format!(">\n<style>\n{style}\n</style>{paper}\n"), 1) + "\n"
}

/// A linear map from values to coordinates. Ratios are mapped by their logarithms.
pub struct Axis {
    /// Least value.
    pub from: f64,
    /// Largest value.
    pub to: f64,
    /// Coordinate of the least value.
    pub low: f64,
    /// Coordinate of the largest value.
    pub high: f64,
}

impl Axis {
    /// Return the coordinate of a value. A value beyond the axis is at its end.
    pub fn at(&self, x: f64) -> f64 {
        let share = (x - self.from) / (self.to - self.from);
        self.low + share.clamp(0.0, 1.0) * (self.high - self.low)
    }

    /// Return true if a value is on the axis.
    pub fn holds(&self, x: f64) -> bool {
        (self.from..=self.to).contains(&x)
    }

    /// Return an axis of logarithms around 0 that shows these ratios and a dead zone.
    pub fn of_ratios(ratios: impl Iterator<Item = f64>, dead_zone: f64, low: f64, high: f64) -> Axis {
        let finite = ratios.filter(|r| r.is_finite() && *r > 0.0).map(|r| r.ln().abs());
        let reach = finite.fold(dead_zone.ln_1p() * 2.0, f64::max).max(0.02) * 1.08;
        let reach = reach.min(LARGEST_FACTOR.ln());
        Axis { from: -reach, to: reach, low, high }
    }

    /// Return the ratios of round percentages, about six across the axis.
    pub fn ticks(&self) -> Vec<f64> {
        let reach = (self.to.exp() - 1.0) * 100.0;
        let steps = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];
        let step = steps.into_iter().find(|s| reach / s <= 3.5).unwrap_or(100.0);
        let ticks = (-8..=8).map(|i| 1.0 + f64::from(i) * step / 100.0).filter(|r| *r > 0.0);
        ticks.filter(|r| self.holds(r.ln())).collect()
    }
}

/// Return a complete plot.
pub fn plot(height: f64, title: &str, content: Markup) -> Markup {
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (height) } role="img" aria-label=(title) {
            title { (title) }
            (content)
        }
    }
}

/// Return a coordinate as text.
pub fn px(x: f64) -> String {
    format!("{x:.1}")
}

/// Return a text. `anchor` is the part of it that is at `x`: start, middle or end.
pub fn text(x: f64, y: f64, anchor: &str, content: impl Render) -> Markup {
    html! { text x=(px(x)) y=(px(y)) text-anchor=(anchor) { (content) } }
}

/// Return a line from one point to another.
pub fn line(class: &str, [x1, y1, x2, y2]: [f64; 4]) -> Markup {
    html! { line class=(class) x1=(px(x1)) y1=(px(y1)) x2=(px(x2)) y2=(px(y2)) {} }
}

/// Return a circle.
pub fn circle(class: &str, x: f64, y: f64, radius: f64) -> Markup {
    html! { circle class=(class) cx=(px(x)) cy=(px(y)) r=(radius) {} }
}

/// Return a filled polygon with corners relative to a point.
pub fn polygon(class: &str, x: f64, y: f64, corners: &[(f64, f64)]) -> Markup {
    let points: Vec<String> = corners.iter().map(|(dx, dy)| format!("{:.1},{:.1}", x + dx, y + dy)).collect();
    html! { polygon class={ "mark " (class) } points=(points.join(" ")) {} }
}

/// Return a rectangle with these left, upper, right and lower edges.
pub fn rect(class: &str, [x1, y1, x2, y2]: [f64; 4]) -> Markup {
    html! { rect class=(class) x=(px(x1)) y=(px(y1)) width=(px(x2 - x1)) height=(px(y2 - y1)) {} }
}

/// Return a line through these points, with a title that shows under the pointer.
pub fn curve(points: impl Iterator<Item = (f64, f64)>, colour: &str, title: &str) -> Markup {
    let points: Vec<String> = points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    html! {
        polyline points=(points.join(" ")) fill="none" stroke=(colour) stroke-width="1.5" {
            title { (title) }
        }
    }
}

/// Return the colour of the `nth` of `of` curves.
pub fn colour(nth: usize, of: usize) -> String {
    format!("hsl({} 70% 45%)", 360 * nth / of.max(1))
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
}
