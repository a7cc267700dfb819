// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! What the terminal can show: colours and characters.

use std::ffi::OsStr;

use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::bar;

use crate::output;
use bias_agent::bpf::{Bias, TaskReport};
use bias_policy::table::Class;

/// Marks for eight levels, after one for none.
const BLOCKS: [&str; 9] = [".", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
const LETTERS: [&str; 9] = [".", "1", "2", "3", "4", "5", "6", "7", "8"];

/// Capabilities of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    /// Colours are allowed.
    pub(super) has_colour: bool,
    /// Characters beyond ASCII are shown.
    pub(super) has_blocks: bool,
}

impl Look {
    /// Return what the environment allows: `NO_COLOR`, and the character set of the locale.
    pub(super) fn of_environment() -> Self {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].map(std::env::var_os);
        let locale = locale.iter().flatten().find(|value| !value.is_empty());
        Self { has_colour: output::allows_colour(), has_blocks: locale.is_some_and(|locale| is_utf8(locale)) }
    }

    /// Return the mark for a part of the whole [permille]. Any part above zero has a mark.
    pub(super) fn mark(self, permille: u32) -> &'static str {
        let level = (permille.min(1000) * 8 + 500) / 1000;
        let level = level.max(u32::from(permille > 0));
        self.marks().get(level as usize).copied().unwrap_or("?")
    }

    /// Return the marks for a plot of several rows.
    pub(super) fn plot_marks(self) -> bar::Set<'static> {
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
    pub(super) fn class(self, class: Class) -> Style {
        let colour = if class == Class::Fast { Color::Cyan } else { Color::Yellow };
        if self.has_colour { Style::new().fg(colour) } else { Style::new() }
    }

    /// Return the style of a task's bias: that of the class to which the task belongs.
    pub(super) fn bias(self, task: &TaskReport) -> Style {
        match (task.speedup_permille, task.bias) {
            (None, _) => Style::new().add_modifier(Modifier::DIM),
            (_, Bias::FastBiased) => self.class(Class::Fast),
            (_, Bias::SlowBiased) => self.class(Class::Slow),
            (_, Bias::Unbiased) => Style::new(),
        }
    }
}

/// Return true if the name of a locale has the character set UTF-8.
fn is_utf8(locale: &OsStr) -> bool {
    let locale = locale.to_string_lossy().to_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locales_tell_their_character_set() {
        assert!(["de_DE.UTF-8", "C.utf8", "en_GB.utf8@euro"].iter().all(|name| is_utf8(OsStr::new(name))));
        assert!(["C", "POSIX", "de_DE.ISO-8859-1"].iter().all(|name| !is_utf8(OsStr::new(name))));
    }

    #[test]
    fn what_is_not_idle_has_a_mark() {
        let look = Look { has_colour: false, has_blocks: true };
        assert_eq!(
            [0, 1, 62, 500, 937, 938, 1000].map(|load| look.mark(load)),
            [".", "▁", "▁", "▄", "▇", "█", "█"]
        );
        let plain = Look { has_blocks: false, ..look };
        assert_eq!([0, 1, 500, 1000, u32::MAX].map(|load| plain.mark(load)), [".", "1", "4", "8", "8"]);
    }
}
