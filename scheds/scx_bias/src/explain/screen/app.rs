// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! State of the screen: answers and keys go in, and drawing reads it. It has no terminal, no clock
//! and no socket, so tests drive it as a user does.
//!
//! # Invariants
//! * The cursor is on a task that is shown, and that task is visible.
//! * The cursor follows its task when the order changes. At the top it stays at the top.
//! * Only an answer, another order and another filter cause a sort.

use std::ops::Range;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::super::shares::{Snapshot, TopRow};
use super::history::Histories;
use super::matching::TaskFilter;
use super::proc_stat::Loads;
use super::sorting::{SORTS, arrange};

/// Most characters of a filter.
const FILTER_MAX: usize = 40;

/// What the screen shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum View {
    /// CPUs and the table of tasks.
    #[default]
    Table,
    /// History of the opened task.
    Task,
    /// The keys.
    Keys,
}

/// What a key asks of the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reaction {
    /// Draw and go on.
    Continue,
    /// End top.
    Quit,
}

/// State of the screen.
#[derive(Debug, Default)]
pub(super) struct App {
    /// The latest answer, None before the first one.
    pub(super) snapshot: Option<Snapshot>,
    /// Loads of the CPUs in the same interval.
    pub(super) loads: Loads,
    pub(super) history: Histories,
    /// Time from the start to the latest answer [ms].
    pub(super) elapsed_ms: u64,
    /// Indices of the shown rows in the snapshot, in order.
    pub(super) shown: Vec<usize>,
    /// Index in [`SORTS`] of the column that gives the order.
    pub(super) sort: usize,
    pub(super) reversed: bool,
    /// The text of the filter, and what it means.
    pub(super) filter: (String, TaskFilter),
    pub(super) editing: bool,
    pub(super) paused: bool,
    pub(super) view: View,
    /// The opened task, as in the latest answer in which it ran.
    pub(super) opened: Option<TopRow>,
    /// Index of the selected task in `shown`.
    pub(super) cursor: usize,
    /// Pid that the cursor follows; None at the top.
    followed: Option<u32>,
    /// Index of the first visible task in `shown`.
    offset: usize,
    /// Rows of the table on the screen.
    rows: usize,
    /// Sorts so far.
    #[cfg(test)]
    pub(super) sorts: usize,
}

impl App {
    /// Take the next answer, and the loads of the same interval.
    pub(super) fn answer(&mut self, snapshot: Snapshot, loads: Loads) {
        self.elapsed_ms += snapshot.interval_ms;
        self.history.note(&snapshot.tasks, self.elapsed_ms);
        if let Some(opened) = &mut self.opened
            && let Some(row) = snapshot.tasks.iter().find(|row| row.task.pid == opened.task.pid)
        {
            *opened = row.clone();
        }
        (self.snapshot, self.loads) = (Some(snapshot), loads);
        self.arrange();
    }

    /// Take a key.
    pub(super) fn key(&mut self, key: KeyEvent) -> Reaction {
        if key.kind == KeyEventKind::Release {
            return Reaction::Continue;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return Reaction::Quit,
            KeyCode::Char(_) if control => {}
            _ if self.editing => self.edit(key.code),
            KeyCode::Char('q' | 'Q') => return Reaction::Quit,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            code => return self.key_of_view(code),
        }
        Reaction::Continue
    }

    fn key_of_view(&mut self, code: KeyCode) -> Reaction {
        match (self.view, code) {
            (View::Table, KeyCode::Esc) => return Reaction::Quit,
            (View::Table, _) => self.key_of_table(code),
            (View::Keys, _) => {
                self.view = if self.opened.is_some() { View::Task } else { View::Table };
            }
            (View::Task, KeyCode::Char('?')) => self.view = View::Keys,
            (View::Task, KeyCode::Esc | KeyCode::Enter | KeyCode::Backspace) => {
                self.view = View::Table;
                self.opened = None;
            }
            _ => {}
        }
        Reaction::Continue
    }

    fn key_of_table(&mut self, code: KeyCode) {
        let page = self.rows.max(1);
        match code {
            KeyCode::Up | KeyCode::Char('k') => self.select(self.cursor.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.select(self.cursor.saturating_add(1)),
            KeyCode::PageUp => self.select(self.cursor.saturating_sub(page)),
            KeyCode::PageDown => self.select(self.cursor.saturating_add(page)),
            KeyCode::Home => self.select(0),
            KeyCode::End => self.select(usize::MAX),
            KeyCode::Char('s') => {
                self.sort = (self.sort + 1) % SORTS.len();
                self.arrange();
            }
            KeyCode::Char('S') => {
                self.reversed = !self.reversed;
                self.arrange();
            }
            KeyCode::Char('/') => self.editing = true,
            KeyCode::Char('?') => self.view = View::Keys,
            KeyCode::Enter => {
                self.opened = self.row(self.cursor).cloned();
                if self.opened.is_some() {
                    self.view = View::Task;
                }
            }
            _ => {}
        }
    }

    fn edit(&mut self, code: KeyCode) {
        let text = &mut self.filter.0;
        match code {
            KeyCode::Enter => self.editing = false,
            KeyCode::Esc => {
                text.clear();
                self.editing = false;
            }
            KeyCode::Backspace => {
                text.pop();
            }
            KeyCode::Char(letter) if text.chars().count() < FILTER_MAX => text.push(letter),
            _ => return,
        }
        let filter = TaskFilter::new(text);
        if filter != self.filter.1 {
            self.filter.1 = filter;
            self.arrange();
        }
    }

    /// Move the cursor, at most to the last task.
    fn select(&mut self, at: usize) {
        self.cursor = at.min(self.shown.len().saturating_sub(1));
        let pid = self.row(self.cursor).map(|row| row.task.pid);
        self.followed = pid.filter(|_| self.cursor > 0);
        self.scroll();
    }

    /// Choose and order the tasks to show, and move the cursor to where its task is now.
    fn arrange(&mut self) {
        #[cfg(test)]
        {
            self.sorts += 1;
        }
        let tasks = self.snapshot.as_ref().map_or(&[][..], |snapshot| &snapshot.tasks);
        self.shown = arrange(tasks, self.sort, self.reversed, &self.filter.1);
        let is_followed = |at: &usize| tasks.get(*at).map(|row| row.task.pid) == self.followed;
        self.cursor = match self.followed {
            None => 0,
            // A task that sleeps for an interval is followed again when it is back.
            Some(_) => self.shown.iter().position(is_followed).unwrap_or(self.cursor),
        };
        self.cursor = self.cursor.min(self.shown.len().saturating_sub(1));
        self.scroll();
    }

    /// Move the visible rows as little as necessary to show the cursor.
    fn scroll(&mut self) {
        let last = self.shown.len().saturating_sub(self.rows);
        let first = (self.cursor + 1).saturating_sub(self.rows);
        self.offset = self.offset.min(last).clamp(first.min(self.cursor), self.cursor);
    }

    /// Tell how many rows of the table fit, and return the positions of those to draw.
    pub(super) fn fit(&mut self, rows: usize) -> Range<usize> {
        self.rows = rows;
        self.scroll();
        self.offset..(self.offset + rows).min(self.shown.len())
    }

    /// Return the task at a position of the order.
    pub(super) fn row(&self, at: usize) -> Option<&TopRow> {
        self.snapshot.as_ref()?.tasks.get(*self.shown.get(at)?)
    }
}
