// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The history of one task: what is known now, a plot of its speedup, its CPI stack over time, and
//! its moves.

use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Sparkline, SparklineBar};

use super::super::shares::TopRow;
use super::super::top_table::gain;
use super::super::words::{cut, reason};
use super::app::App;
use super::history::{CpuMove, Sample, TaskHistory};
use super::look::Look;
use super::matching::bias_name;
use super::sheet::Sheet;
use bias_agent::control::Machine;
use bias_agent::figures::{count, duration, percent, ratio};

/// Columns of the texts in front of bars and plots.
const LABEL: usize = 6;
/// Most lines of the plot of the speedup.
const PLOT_MAX: u16 = 10;
/// Fewest lines of a screen with all strips and the time axis.
const STRIPS_MIN: u16 = 15;
/// Smallest range of the plot [permille], so that a constant speedup is no cliff.
const RANGE_MIN: u32 = 100;
/// A speedup of 1 [permille], which is at the bottom of the plot.
const UNITY: u32 = 1000;

/// A part of the CPI stack, or another share over time.
struct Strip {
    label: &'static str,
    permille: fn(&Sample) -> Option<u32>,
}

const STRIPS: [Strip; 5] = [
    Strip { label: "EXE", permille: |sample| part(sample, 0) },
    Strip { label: "INT", permille: |sample| part(sample, 1) },
    Strip { label: "EXT", permille: |sample| part(sample, 2) },
    Strip { label: "SHARE", permille: |sample| Some(sample.share_permille.into()) },
    FAST,
];
const FAST: Strip = Strip { label: "FAST", permille: |sample| Some(sample.on_fast_permille.into()) };

fn part(sample: &Sample, component: usize) -> Option<u32> {
    sample.prediction?.stack_permille.get(component).map(|permille| u32::from(*permille))
}

/// Draw the opened task. Return the number of tasks that became text.
pub(super) fn draw(sheet: &mut Sheet<'_, '_>, app: &App, look: Look) -> usize {
    let Some(row) = &app.opened else { return 0 };
    let history = app.history.of(row.task.pid);
    let machine = app.snapshot.as_ref().map(|snapshot| &snapshot.machine);
    let height = sheet.height();
    sheet.line(&title(row, look));
    sheet.line(&Line::raw(cut(&place(row, history, machine, app.elapsed_ms), sheet.width())));
    stack(sheet, row);
    let Some(history) = history else { return 1 };
    plot(sheet, history, (height / 5).clamp(1, PLOT_MAX), look);
    let strips = if height < STRIPS_MIN { &[FAST][..] } else { &STRIPS[..] };
    for strip in strips {
        let samples = resampled(&history.samples, sheet.width().saturating_sub(LABEL));
        let mark = |sample: &Sample| (strip.permille)(sample).map_or("?", |share| look.mark(share));
        let marks: String = samples.map(mark).collect();
        sheet.line(&Line::raw(format!("{:<LABEL$}{marks}", strip.label)));
    }
    if height >= STRIPS_MIN {
        axis(sheet, history, app.elapsed_ms);
    }
    moves(sheet, history, machine, app.elapsed_ms);
    1
}

/// Return the task's name and bias.
fn title(row: &TopRow, look: Look) -> Line<'static> {
    let task = &row.task;
    let process = if task.tgid == task.pid { String::new() } else { format!(" of process {}", task.tgid) };
    Line::from(vec![
        Span::styled(format!("{} {}", task.pid, cut(&task.name, usize::MAX)), Modifier::BOLD),
        Span::raw(format!("{process}: ")),
        Span::styled(bias_name(task), look.bias(task)),
        Span::raw(format!(", gain {}", gain(row))),
    ])
}

/// Return where the task is, and on what the prediction rests.
fn place(row: &TopRow, history: Option<&TaskHistory>, machine: Option<&Machine>, now_ms: u64) -> String {
    let task = &row.task;
    let windows = match (task.speedup_permille, task.windows) {
        (None, _) => String::new(),
        (_, 0) => ", prediction inherited".to_owned(),
        (_, windows) => {
            let windows = count(usize::try_from(windows).unwrap_or(usize::MAX), "window");
            if task.stable { format!(", settled ({windows})") } else { format!(", {windows} so far") }
        }
    };
    let idle_ms = history.map_or(0, |history| now_ms.saturating_sub(history.last_ms));
    let ran = match idle_ms {
        0 => percent(row.share_permille) + " of",
        _ => format!("did not run for {}, last on", duration(idle_ms.div_ceil(1000))),
    };
    format!("{ran} CPU {}{windows}", on(machine, task.cpu))
}

/// Return a CPU with its class.
fn on(machine: Option<&Machine>, cpu: u32) -> String {
    let classes = machine.map_or(&[][..], |machine| &machine.classes);
    match classes.iter().find(|class| class.cpus.contains(&cpu)) {
        Some(class) if classes.len() > 1 => format!("{cpu} {}", class.class.name()),
        _ => cpu.to_string(),
    }
}

/// Draw a bar for each component of the CPI stack.
fn stack(sheet: &mut Sheet<'_, '_>, row: &TopRow) {
    let room = sheet.width().saturating_sub(LABEL + 7);
    let parts = row.task.stack_permille.map(|stack| [stack.execute, stack.internal, stack.external]);
    for (at, label) in ["EXE", "INT", "EXT"].into_iter().enumerate() {
        let part = parts.and_then(|parts| parts.get(at).copied());
        let filled = part.map_or(0, |part| (part.min(1000) as usize * room + 500) / 1000);
        let figure = part.map_or_else(|| "?".to_owned(), percent);
        sheet.line(&Line::raw(format!("{label:<LABEL$}[{:<room$}] {figure:>4}", "|".repeat(filled))));
    }
}

/// Return a sample for each of at most `columns` columns, the last one in the last column.
fn resampled(samples: &[Sample], columns: usize) -> impl Iterator<Item = &Sample> {
    let shown = columns.min(samples.len());
    (1..=shown).filter_map(move |at| samples.get((at * samples.len() / shown).saturating_sub(1)))
}

/// Draw the speedup over time in `lines` lines.
fn plot(sheet: &mut Sheet<'_, '_>, history: &TaskHistory, lines: u16, look: Look) {
    let area = sheet.take(lines);
    if area.height == 0 {
        return;
    }
    let room = area.width.saturating_sub(LABEL as u16);
    let speedup = |sample: &Sample| sample.prediction.map(|known| u32::from(known.speedup_permille));
    let speedups: Vec<Option<u32>> = resampled(&history.samples, usize::from(room)).map(speedup).collect();
    let low = speedups.iter().flatten().copied().min().unwrap_or(UNITY).min(UNITY);
    let high = speedups.iter().flatten().copied().max().unwrap_or(UNITY).max(low + RANGE_MIN);
    // A mark of one eighth shows a known speedup at the bottom.
    let step = u64::from(high - low).div_ceil(u64::from(lines) * 8).max(1);
    let bar = |speedup: &Option<u32>| SparklineBar::from(speedup.map(|known| u64::from(known - low) + step));
    let sparkline = Sparkline::default()
        .data(speedups.iter().map(bar))
        .max(u64::from(high - low) + step)
        .bar_set(look.plot_marks())
        .absent_value_symbol("?");
    let frame = sheet.frame();
    frame.render_widget(sparkline, Rect { x: area.x + area.width - room, width: room, ..area });
    let mut label = |permille, y| {
        frame.buffer_mut().set_stringn(area.x, y, ratio(permille) + "x", LABEL, Style::new());
    };
    label(high, area.y);
    if area.height > 1 {
        label(low, area.bottom() - 1);
    }
}

/// Draw the ends of the time axis.
fn axis(sheet: &mut Sheet<'_, '_>, history: &TaskHistory, now_ms: u64) {
    let ago = |at_ms: u64| duration(now_ms.saturating_sub(at_ms) / 1000);
    let first = history.samples.first().map_or(0, |sample| u64::from(sample.at_ms));
    let columns = history.samples.len().min(sheet.width().saturating_sub(LABEL));
    let text = format!("{} ago to {} ago", ago(first), ago(history.last_ms));
    let text = if history.last_ms == now_ms { format!("{} ago to now", ago(first)) } else { text };
    let gap = " ".repeat(LABEL + columns.saturating_sub(text.len()) / 2);
    sheet.line(&Line::raw(gap + &text));
}

/// List the migrations, the newest first.
fn moves(sheet: &mut Sheet<'_, '_>, history: &TaskHistory, machine: Option<&Machine>, now_ms: u64) {
    let moved = usize::try_from(history.moved).unwrap_or(usize::MAX);
    let head = format!("{}, the newest first", count(moved, "migration"));
    sheet.line(&Line::from(Span::styled(head, Modifier::BOLD)));
    let line = |cpu_move: &CpuMove| {
        let ago = duration(now_ms.saturating_sub(cpu_move.at_ms) / 1000);
        let route = format!("{} -> {}", on(machine, cpu_move.from), on(machine, cpu_move.to));
        format!("{route:<16} {:<13} {ago} ago", reason(cpu_move.reason))
    };
    for cpu_move in history.moves.iter().rev().take(usize::from(sheet.height())) {
        sheet.line(&Line::raw(line(cpu_move)));
    }
}
