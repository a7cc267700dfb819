// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Lines on a frame.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::super::words::wrap;

/// Lines on an area of a frame, which are taken from the top.
pub(super) struct Sheet<'a, 'b> {
    frame: &'a mut Frame<'b>,
    /// The part that is left.
    left: Rect,
}

impl<'a, 'b> Sheet<'a, 'b> {
    /// Return the lines of an area of the frame.
    pub(super) fn on(frame: &'a mut Frame<'b>, area: Rect) -> Self {
        Self { frame, left: area }
    }

    /// Return the columns.
    pub(super) fn width(&self) -> usize {
        usize::from(self.left.width)
    }

    /// Return the number of lines that are left.
    pub(super) fn height(&self) -> u16 {
        self.left.height
    }

    /// Take lines from the top. There may be fewer.
    pub(super) fn take(&mut self, lines: u16) -> Rect {
        let height = lines.min(self.left.height);
        let taken = Rect { height, ..self.left };
        self.left.y += height;
        self.left.height -= height;
        taken
    }

    /// Write the next line, if one is left.
    pub(super) fn line(&mut self, line: &Line<'_>) {
        let area = self.take(1);
        if area.height > 0 {
            self.frame.buffer_mut().set_line(area.x, area.y, line, area.width);
        }
    }

    /// Write `text` in at most `lines` lines.
    pub(super) fn text(&mut self, text: &str, lines: u16) {
        for line in wrap(text, self.width(), 0).into_iter().take(usize::from(lines)) {
            self.line(&Line::raw(line));
        }
    }

    /// Return the frame, for widgets in areas that were taken.
    pub(super) fn frame(&mut self) -> &mut Frame<'b> {
        self.frame
    }
}
