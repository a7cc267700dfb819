// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The screen: its state, which answers and keys change, and its drawing, a function from the state
//! to a frame. It has no terminal, no clock and no socket, so tests drive it as a user does.
//!
//! # Approach
//! Each view is a list of lines from the top, and the last line is the footer. The table takes the
//! rows that the lines above leave.
//!
//! # Invariants
//! * The cursor is on a task that is shown, and that task is visible.
//! * The cursor follows its task when the order changes. At the top it stays at the top.
//! * Only an answer, another order and another filter cause a sort.
//! * Any size is drawn. Below [`WIDTH_MIN`] x [`HEIGHT_MIN`] the screen says so. No more tasks
//!   become text than there are rows.

use std::ops::Range;

use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::super::tasks::{Snapshot, TopRow};
use super::cpus::{Loads, cpu_lines};
use super::history::{self, Histories};
use super::style::{Look, Sheet};
use super::task_table::{TableColumns, TaskFilter, arrange, note, sort_column, summary};

/// Smallest screen [columns].
pub const WIDTH_MIN: u16 = 30;
/// Smallest screen [lines].
pub const HEIGHT_MIN: u16 = 8;
/// CPUs get at most this part of the lines.
const CPU_PART: u16 = 4;
/// Fewest lines for CPUs, one for each class.
const CPU_LINES_MIN: u16 = 2;
/// The summary gets at most this part of the lines.
const SUMMARY_PART: u16 = 8;

/// The keys in the footer. Those that do not fit are left out from the end.
const FOOTER: [&str; 6] = ["? keys", "q quit", "Enter history", "s sort", "/ filter", "p pause"];
const FOOTER_OF_TASK: [&str; 4] = ["? keys", "q quit", "Esc back", "p pause"];
const FOOTER_OF_FILTER: [&str; 2] = ["Enter keeps it", "Esc clears it"];

/// The keys, with what they do. The smallest screen shows all but the last two.
const KEYS: [(&str, &str); 9] = [
    ("q, Esc, ^C", "quit"),
    ("arrows, j, k", "select a task"),
    ("Enter", "open the task's history"),
    ("s, S", "sort by next column; reverse"),
    ("/", "filter by name, pid or bias"),
    ("p, space", "pause or continue"),
    ("?", "show or hide the keys"),
    ("PgUp, PgDn", "go a page up or down"),
    ("Home, End", "go to the first or last task"),
];
/// Most characters of a filter.
const FILTER_MAX: usize = 40;

/// What the screen shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum View {
    /// CPUs and the table of tasks.
    #[default]
    Table,
    /// History of the opened task.
    Task,
    /// The keys.
    Keys,
}

/// Effect of a key on the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaction {
    /// Draw and continue.
    Continue,
    /// End top.
    Quit,
}

/// State of the screen.
#[derive(Debug, Default)]
pub struct App {
    /// The latest answer, None before the first one.
    pub snapshot: Option<Snapshot>,
    /// Loads of the CPUs in the same interval.
    pub loads: Loads,
    pub history: Histories,
    /// Time from the start to the latest answer [ms].
    pub elapsed_ms: u64,
    /// Indices of the shown rows in the snapshot, in order.
    pub shown: Vec<usize>,
    /// Steps from the usual order to the present one.
    pub sort: usize,
    pub reversed: bool,
    /// The text of the filter, and what it means.
    pub filter: (String, TaskFilter),
    pub editing: bool,
    pub paused: bool,
    pub view: View,
    /// The opened task, as in the latest answer in which it ran.
    pub opened: Option<TopRow>,
    /// Index of the selected task in `shown`.
    pub cursor: usize,
    /// Pid that the cursor follows; None at the top.
    followed: Option<u32>,
    /// Index of the first visible task in `shown`.
    offset: usize,
    /// Rows of the table on the screen.
    rows: usize,
    /// Sorts so far.
    #[cfg(test)]
    pub sorts: usize,
}

impl App {
    /// Process the next answer, and the loads of the same interval.
    pub fn answer(&mut self, snapshot: Snapshot, loads: Loads) {
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

    /// Process a key.
    pub fn key(&mut self, key: KeyEvent) -> Reaction {
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
                self.sort += 1;
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

    /// Set the number of rows that fit, and return the positions of those to draw.
    pub fn fit(&mut self, rows: usize) -> Range<usize> {
        self.rows = rows;
        self.scroll();
        self.offset..(self.offset + rows).min(self.shown.len())
    }

    /// Return the task at a position of the order.
    pub fn row(&self, at: usize) -> Option<&TopRow> {
        self.snapshot.as_ref()?.tasks.get(*self.shown.get(at)?)
    }
}

/// Draw the state. Return the number of tasks that became text.
pub fn draw(frame: &mut Frame<'_>, app: &mut App, look: Look) -> usize {
    let area = frame.area();
    if area.width < WIDTH_MIN || area.height < HEIGHT_MIN {
        let (width, height) = (area.width, area.height);
        let text = format!("The terminal has {width} x {height}; top needs {WIDTH_MIN} x {HEIGHT_MIN}.");
        Sheet::on(frame, area).text(&text, height);
        return 0;
    }
    let mut sheet = Sheet::on(frame, Rect { height: area.height - 1, ..area });
    let drawn = match app.view {
        View::Keys => {
            keys(&mut sheet);
            0
        }
        View::Task => task_view(&mut sheet, app, look),
        View::Table => table_view(&mut sheet, app, look),
    };
    let last = Rect { y: area.bottom() - 1, height: 1, ..area };
    Sheet::on(frame, last).line(&footer(app, usize::from(area.width)));
    drawn
}

fn keys(sheet: &mut Sheet<'_, '_>) {
    for (key, action) in KEYS {
        sheet.line(&Line::from(vec![Span::styled(format!("{key:<12} "), Modifier::BOLD), Span::raw(action)]));
    }
}

/// Draw the opened task.
fn task_view(sheet: &mut Sheet<'_, '_>, app: &App, look: Look) -> usize {
    let Some(row) = &app.opened else { return 0 };
    let machine = app.snapshot.as_ref().map(|snapshot| &snapshot.machine);
    history::draw(sheet, row, app.history.of(row.task.pid), machine, app.elapsed_ms, look);
    1
}

/// Draw the CPUs and the tasks.
fn table_view(sheet: &mut Sheet<'_, '_>, app: &mut App, look: Look) -> usize {
    let (width, height) = (sheet.width(), sheet.height() + 1);
    let Some(snapshot) = &app.snapshot else {
        sheet.line(&Line::raw("Measuring ..."));
        return 0;
    };
    let cpu_rows = usize::from((height / CPU_PART).max(CPU_LINES_MIN));
    let cpus = cpu_lines(&snapshot.machine, &app.loads, width, cpu_rows, look);
    let mut summary = summary(snapshot);
    if cpus.fold > 1 {
        summary = format!("a mark: {} CPUs; {summary}", cpus.fold);
    }
    sheet.text(&summary, (height / SUMMARY_PART).max(1));
    for line in &cpus.lines {
        sheet.line(line);
    }
    if let Some(note) = note(snapshot) {
        sheet.text(&note, 2);
    }
    let columns = TableColumns::within(width);
    sheet.line(&head(&columns, app));
    let visible = app.fit(usize::from(sheet.height()));
    let drawn = visible.len();
    for at in visible {
        if let Some(row) = app.row(at) {
            sheet.line(&task_line(&columns, row, at == app.cursor, width, look));
        }
    }
    drawn
}

/// Return the titles. The one of the order is underlined.
fn head(columns: &TableColumns, app: &App) -> Line<'static> {
    let style = |title| {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        if title == sort_column(app.sort).title { bold.add_modifier(Modifier::UNDERLINED) } else { bold }
    };
    spaced(columns.titles().into_iter().map(|(title, text)| Span::styled(text, style(title))))
}

fn task_line(
    columns: &TableColumns,
    row: &TopRow,
    selected: bool,
    width: usize,
    look: Look,
) -> Line<'static> {
    let of_bias = |title| title == "BIAS" || title == "GAIN";
    let style = |title| if of_bias(title) { look.bias(&row.task) } else { Style::new() };
    let cells = columns.cells(row);
    let mut line = spaced(cells.into_iter().map(|(title, text)| Span::styled(text, style(title))));
    if selected {
        line.push_span(Span::raw(" ".repeat(width.saturating_sub(line.width()))));
        line = line.patch_style(Style::new().add_modifier(Modifier::REVERSED));
    }
    line
}

fn spaced(spans: impl Iterator<Item = Span<'static>>) -> Line<'static> {
    let mut line = Line::default();
    for span in spans {
        if line.iter().next().is_some() {
            line.push_span(Span::raw(" "));
        }
        line.push_span(span);
    }
    line
}

/// Return the last line: the state that differs from the usual, then the keys that fit.
fn footer(app: &App, width: usize) -> Line<'static> {
    if app.editing {
        return within(vec![format!("/{}_", app.filter.0)], &FOOTER_OF_FILTER, width);
    }
    let paused = app.paused.then(|| "PAUSED".to_owned());
    match app.view {
        View::Keys => within(paused.into_iter().collect(), &["any key returns", "q quit"], width),
        View::Task => within(paused.into_iter().collect(), &FOOTER_OF_TASK, width),
        View::Table => {
            let place = format!("{}/{}", (app.cursor + 1).min(app.shown.len()), app.shown.len());
            let order =
                format!("by {}{}", sort_column(app.sort).title, if app.reversed { " reversed" } else { "" });
            let filter = Some(&app.filter.0).filter(|text| !text.is_empty()).map(|text| format!("/{text}"));
            let state = paused.into_iter().chain([place, order]).chain(filter);
            within(state.collect(), &FOOTER, width)
        }
    }
}

/// Return the state and the keys that fit the width, at least the state.
fn within(state: Vec<String>, keys: &[&'static str], width: usize) -> Line<'static> {
    let state = state.join(" ");
    let mut used = Line::raw(state.as_str()).width();
    let mut line = Line::from(Span::styled(state, Modifier::BOLD));
    for key in keys {
        let gap = if used == 0 { "" } else { "  " };
        used += gap.len() + key.len();
        if used > width {
            break;
        }
        line.push_span(Span::raw(format!("{gap}{key}")));
    }
    line
}
