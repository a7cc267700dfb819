// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Colours and characters that the terminal can show, and lines on a frame.

use std::ffi::OsStr;

use bias_agent::bpf::{Bias, TaskReport};
use bias_policy::table::Class;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::bar;
use ratatui::text::Line;

use super::super::tasks::bias;
use crate::output::{allows_colour, wrap};

/// Marks for eight levels, after one for none.
const BLOCKS: [&str; 9] = [".", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
const LETTERS: [&str; 9] = [".", "1", "2", "3", "4", "5", "6", "7", "8"];

/// Capabilities of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Colours are allowed.
    pub has_colour: bool,
    /// Characters beyond ASCII are shown.
    pub has_blocks: bool,
}

impl Look {
    /// Return what the environment allows: `NO_COLOR`, and the character set of the locale.
    pub fn of_environment() -> Self {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].map(std::env::var_os);
        let locale = locale.iter().flatten().find(|value| !value.is_empty());
        Self { has_colour: allows_colour(), has_blocks: locale.is_some_and(|locale| is_utf8(locale)) }
    }

    /// Return the mark for a part of the whole [permille]. Any part above zero has a mark.
    pub fn mark(self, permille: u32) -> &'static str {
        let level = (permille.min(1000) * 8 + 500) / 1000;
        let level = level.max(u32::from(permille > 0));
        self.marks().get(level as usize).copied().unwrap_or("?")
    }

    /// Return the marks for a plot of several rows.
    pub fn plot_marks(self) -> bar::Set<'static> {
        let [_, one, two, three, four, five, six, seven, full] = *self.marks();
        // A column below its level is full.
        let full = if self.has_blocks { full } else { "#" };
        bar::Set {
            full,
            seven_eighths: seven,
            three_quarters: six,
            five_eighths: five,
            half: four,
            three_eighths: three,
            one_quarter: two,
            one_eighth: one,
            empty: " ",
        }
    }

    fn marks(self) -> &'static [&'static str; 9] {
        if self.has_blocks { &BLOCKS } else { &LETTERS }
    }

    /// Return the style of a class of CPUs.
    pub fn class(self, class: Class) -> Style {
        let colour = if class == Class::Fast { Color::Cyan } else { Color::Yellow };
        if self.has_colour { Style::new().fg(colour) } else { Style::new() }
    }

    /// Return the style of a task's bias: that of the class to which the task belongs.
    pub fn bias(self, task: &TaskReport) -> Style {
        match bias(task) {
            None => Style::new().add_modifier(Modifier::DIM),
            Some(Bias::FastBiased) => self.class(Class::Fast),
            Some(Bias::SlowBiased) => self.class(Class::Slow),
            Some(Bias::Unbiased) => Style::new(),
        }
    }
}

/// Return true if the name of a locale has the character set UTF-8.
fn is_utf8(locale: &OsStr) -> bool {
    let locale = locale.to_string_lossy().to_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// Lines on an area of a frame, which are taken from the top.
pub struct Sheet<'a, 'b> {
    frame: &'a mut Frame<'b>,
    /// The part that is left.
    left: Rect,
}

impl<'a, 'b> Sheet<'a, 'b> {
    /// Return the lines of an area of the frame.
    pub fn on(frame: &'a mut Frame<'b>, area: Rect) -> Self {
        Self { frame, left: area }
    }

    /// Return the columns.
    pub fn width(&self) -> usize {
        usize::from(self.left.width)
    }

    /// Return the number of lines that are left.
    pub fn height(&self) -> u16 {
        self.left.height
    }

    /// Take lines from the top. There may be fewer.
    pub fn take(&mut self, lines: u16) -> Rect {
        let height = lines.min(self.left.height);
        let taken = Rect { height, ..self.left };
        self.left.y += height;
        self.left.height -= height;
        taken
    }

    /// Write the next line, if one is left.
    pub fn line(&mut self, line: &Line<'_>) {
        let area = self.take(1);
        if area.height > 0 {
            self.frame.buffer_mut().set_line(area.x, area.y, line, area.width);
        }
    }

    /// Write `text` in at most `lines` lines.
    pub fn text(&mut self, text: &str, lines: u16) {
        for line in wrap(text, self.width(), 0).into_iter().take(usize::from(lines)) {
            self.line(&Line::raw(line));
        }
    }

    /// Return the frame, for widgets in areas that were taken.
    pub fn frame(&mut self) -> &mut Frame<'b> {
        self.frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locales_name_their_character_set() {
        assert!(["de_DE.UTF-8", "C.utf8", "en_GB.utf8@euro"].iter().all(|name| is_utf8(OsStr::new(name))));
        assert!(["C", "POSIX", "de_DE.ISO-8859-1"].iter().all(|name| !is_utf8(OsStr::new(name))));
    }

    #[test]
    fn a_cpu_that_is_not_idle_has_a_mark() {
        let look = Look { has_colour: false, has_blocks: true };
        assert_eq!(
            [0, 1, 62, 500, 937, 938, 1000].map(|load| look.mark(load)),
            [".", "▁", "▁", "▄", "▇", "█", "█"]
        );
        let plain = Look { has_blocks: false, ..look };
        assert_eq!([0, 1, 500, 1000, u32::MAX].map(|load| plain.mark(load)), [".", "1", "4", "8", "8"]);
    }
}
