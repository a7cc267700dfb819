// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Drawing of the screen: a function from the state to a frame.
//!
//! # Approach
//! Each view is a list of lines from the top, and the last line is the footer. The table takes the
//! rows that the lines above leave.
//!
//! # Invariants
//! Any size is drawn. Below [`WIDTH_MIN`] x [`HEIGHT_MIN`] the screen says so. No more tasks become
//! text than there are rows.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::super::shares::TopRow;
use super::super::top_table::{TableColumns, note, summary};
use super::app::{App, View};
use super::cpu_bars::cpu_lines;
use super::look::Look;
use super::sheet::Sheet;
use super::sorting::SORTS;
use super::task_view;

/// Smallest screen [columns].
pub(super) const WIDTH_MIN: u16 = 30;
/// Smallest screen [lines].
pub(super) const HEIGHT_MIN: u16 = 8;
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
    ("p, space", "pause or go on"),
    ("?", "show or hide the keys"),
    ("PgUp, PgDn", "go a page up or down"),
    ("Home, End", "go to the first or last task"),
];

/// Draw the state. Return the number of tasks that became text.
pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App, look: Look) -> usize {
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
        View::Task => task_view::draw(&mut sheet, app, look),
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
        if title == SORTS[app.sort].title { bold.add_modifier(Modifier::UNDERLINED) } else { bold }
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

/// Return the last line: what differs from the usual, then the keys that fit.
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
                format!("by {}{}", SORTS[app.sort].title, if app.reversed { " reversed" } else { "" });
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
