// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! History of tasks since top began, and the view of one task: its present state, a plot of its
//! speedup, its CPI stack over time, and its moves.
//!
//! # Problem
//! The instance reports the present. A user who opens a task wants to see how it came there, and
//! must not have to choose the task beforehand. Memory must not grow with time.
//!
//! # Approach
//! Each answer adds a sample to every task that ran. A task's samples cover the whole time: at
//! [`SAMPLES_MAX`] samples top drops every second one, and from then on a sample stands for twice
//! as many answers. A change of the CPU between two answers is a move.
//!
//! # Invariants
//! * There are at most [`TASKS_MAX`] tasks, with [`SAMPLES_MAX`] samples and [`MOVES_MAX`] moves
//!   each. The tasks that have not run for longest are dropped first.
//! * Samples are in order of time, and the last one is of the latest answer in which the task ran.
//! * A pid that another task reuses begins a new history.
//!
//! # Limits
//! A sample that stands for several answers shows the last of them.

use std::collections::{HashMap, VecDeque};

use bias_agent::bpf::{Reason, TaskReport};
use bias_agent::control::Machine;
use bias_agent::figures::{count, duration, percent, ratio};
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Sparkline, SparklineBar};

use super::super::tasks::{TopRow, bias_name, gain, reason};
use super::style::{Look, Sheet};
use crate::output::cut;

/// Most samples of a task.
pub const SAMPLES_MAX: usize = 120;
/// Most moves of a task; older ones are only counted.
pub const MOVES_MAX: usize = 16;
/// Most tasks with a history.
pub const TASKS_MAX: usize = 10_000;

/// Columns of the texts in front of bars and plots.
const LABEL: usize = 6;
/// Most lines of the plot of the speedup.
const PLOT_MAX: u16 = 10;
/// Fewest lines of a screen with all strips and the time axis.
const STRIPS_MIN: u16 = 15;
/// Smallest range of the plot [permille], so that small changes do not look like cliffs.
const RANGE_MIN: u32 = 100;
/// A speedup of 1 [permille], which is at the bottom of the plot.
const UNITY: u32 = 1000;

/// Prediction for a task in a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prediction {
    /// Speedup [permille], at most 65 535.
    pub speedup_permille: u16,
    /// CPI stack: execute, internal and external [permille].
    pub stack_permille: [u16; 3],
}

/// State of a task in one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Time since top began [ms].
    pub at_ms: u32,
    /// Prediction, None if unknown.
    pub prediction: Option<Prediction>,
    /// Time that the task ran in the interval before [permille of one CPU].
    pub share_permille: u16,
    /// Part of that on fast CPUs [permille].
    pub on_fast_permille: u16,
}

/// Change of a task's CPU between two answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuMove {
    /// Time since top began at which it was seen [ms].
    pub at_ms: u64,
    /// CPU in the earlier answer.
    pub from: u32,
    /// CPU in the later answer.
    pub to: u32,
    /// Reason of the task's last migration while it ran, in the later answer.
    pub reason: Reason,
}

/// History of one task.
#[derive(Debug, Default)]
pub struct TaskHistory {
    tgid: u32,
    ran_ms: f64,
    cpu: u32,
    /// Time of the latest answer in which the task ran [ms].
    pub last_ms: u64,
    /// Samples, the oldest first.
    pub samples: Vec<Sample>,
    /// Answers for which a sample stands.
    stride: u32,
    /// Answers for which the last sample stands.
    held: u32,
    /// Latest moves, the newest last.
    pub moves: VecDeque<CpuMove>,
    /// Number of all moves since the history began.
    pub moved: u64,
}

impl TaskHistory {
    fn new(task: &TaskReport) -> Self {
        Self { tgid: task.tgid, cpu: task.cpu, stride: 1, ..Self::default() }
    }

    fn is_of(&self, task: &TaskReport) -> bool {
        self.tgid == task.tgid && self.ran_ms <= ran_ms(task)
    }

    fn note(&mut self, row: &TopRow, at_ms: u64) {
        let task = &row.task;
        if task.cpu != self.cpu {
            if self.moves.len() == MOVES_MAX {
                self.moves.pop_front();
            }
            self.moves.push_back(CpuMove { at_ms, from: self.cpu, to: task.cpu, reason: task.reason });
            self.moved += 1;
        }
        (self.cpu, self.ran_ms, self.last_ms) = (task.cpu, ran_ms(task), at_ms);
        self.push(sample(row, at_ms));
    }

    fn push(&mut self, sample: Sample) {
        if self.held < self.stride
            && let Some(last) = self.samples.last_mut()
        {
            *last = sample;
            self.held += 1;
            return;
        }
        if self.samples.len() == SAMPLES_MAX {
            let mut at = 0;
            self.samples.retain(|_| {
                at += 1;
                at % 2 == 0
            });
            self.stride = self.stride.saturating_mul(2);
        }
        self.samples.push(sample);
        self.held = 1;
    }
}

/// Histories of tasks, by pid.
#[derive(Debug, Default)]
pub struct Histories(HashMap<u32, TaskHistory>);

impl Histories {
    /// Add the tasks of an answer, `at_ms` after top began.
    pub fn note(&mut self, rows: &[TopRow], at_ms: u64) {
        for row in rows {
            let task = &row.task;
            let history = self.0.entry(task.pid).or_insert_with(|| TaskHistory::new(task));
            if !history.is_of(task) {
                *history = TaskHistory::new(task);
            }
            history.note(row, at_ms);
        }
        self.forget();
    }

    /// Return the history of a task, None if it has not run since top began or is forgotten.
    pub fn of(&self, pid: u32) -> Option<&TaskHistory> {
        self.0.get(&pid)
    }

    /// Remove the tasks above the bound that have not run for longest.
    fn forget(&mut self) {
        let excess = self.0.len().saturating_sub(TASKS_MAX);
        if excess == 0 {
            return;
        }
        let mut ages: Vec<(u64, u32)> = self.0.iter().map(|(pid, history)| (history.last_ms, *pid)).collect();
        ages.select_nth_unstable(excess - 1);
        for (_, pid) in ages.iter().take(excess) {
            self.0.remove(pid);
        }
    }
}

fn ran_ms(task: &TaskReport) -> f64 {
    task.fast_ms + task.slow_ms
}

fn sample(row: &TopRow, at_ms: u64) -> Sample {
    let short = |permille: u32| u16::try_from(permille).unwrap_or(u16::MAX);
    let prediction = row.task.speedup_permille.zip(row.task.stack_permille);
    Sample {
        at_ms: u32::try_from(at_ms).unwrap_or(u32::MAX),
        prediction: prediction.map(|(speedup, stack)| Prediction {
            speedup_permille: short(speedup),
            stack_permille: [stack.execute, stack.internal, stack.external].map(short),
        }),
        share_permille: short(row.share_permille),
        on_fast_permille: short(row.on_fast_permille),
    }
}

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

/// Draw the task of `row` and its history, as of `now_ms` after top began.
pub fn draw(
    sheet: &mut Sheet<'_, '_>,
    row: &TopRow,
    history: Option<&TaskHistory>,
    machine: Option<&Machine>,
    now_ms: u64,
    look: Look,
) {
    let height = sheet.height();
    sheet.line(&title(row, look));
    sheet.line(&Line::raw(cut(&place(row, history, machine, now_ms), sheet.width())));
    stack(sheet, row);
    let Some(history) = history else { return };
    plot(sheet, history, (height / 5).clamp(1, PLOT_MAX), look);
    let strips = if height < STRIPS_MIN { &[FAST][..] } else { &STRIPS[..] };
    for strip in strips {
        let samples = resampled(&history.samples, sheet.width().saturating_sub(LABEL));
        let mark = |sample: &Sample| (strip.permille)(sample).map_or("?", |share| look.mark(share));
        let marks: String = samples.map(mark).collect();
        sheet.line(&Line::raw(format!("{:<LABEL$}{marks}", strip.label)));
    }
    if height >= STRIPS_MIN {
        axis(sheet, history, now_ms);
    }
    moves(sheet, history, machine, now_ms);
}

/// Return the task's name and bias.
fn title(row: &TopRow, look: Look) -> Line<'static> {
    let task = &row.task;
    let process = if task.tgid == task.pid { String::new() } else { format!(" of process {}", task.tgid) };
    Line::from(vec![
        Span::styled(format!("{} {}", task.pid, cut(&task.name, usize::MAX)), Modifier::BOLD),
        Span::raw(format!("{process}: ")),
        Span::styled(bias_name(task), look.bias(task)),
        Span::raw(format!(", gain {}", gain(&row.task))),
    ])
}

/// Describe the task's CPU and the basis of its prediction.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row(pid: u32, cpu: u32, ran_ms: f64) -> TopRow {
        let task = TaskReport { pid, cpu, fast_ms: ran_ms, ..TaskReport::default() };
        TopRow { task, share_permille: 500, on_fast_permille: 1000 }
    }

    #[test]
    fn a_reused_pid_begins_a_new_history() {
        let mut histories = Histories::default();
        histories.note(&[row(1, 0, 100.0)], 0);
        histories.note(&[row(1, 1, 150.0)], 1000);
        assert_eq!(histories.of(1).map(|history| history.moved), Some(1));
        histories.note(&[row(1, 2, 3.0)], 2000);
        assert_eq!(histories.of(1).map(|history| (history.moved, history.samples.len())), Some((0, 1)));
        let mut other = row(1, 3, 500.0);
        other.task.tgid = 9;
        histories.note(&[other], 3000);
        assert_eq!(histories.of(1).map(|history| (history.moved, history.last_ms)), Some((0, 3000)));
    }

    #[test]
    fn the_tasks_that_have_not_run_for_longest_are_forgotten() {
        let mut histories = Histories::default();
        let most = TASKS_MAX as u32;
        histories.note(&[row(0, 0, 1.0)], 0);
        let rows: Vec<TopRow> = (1..=most).map(|pid| row(pid, 0, 1.0)).collect();
        histories.note(&rows, 1000);
        assert_eq!(histories.0.len(), TASKS_MAX);
        assert!(histories.of(0).is_none() && histories.of(most).is_some());
    }

    #[test]
    fn a_full_history_fits_its_bound() {
        let task = SAMPLES_MAX * size_of::<Sample>() + MOVES_MAX * size_of::<CpuMove>();
        // The map and the vectors take up to twice the size of their contents.
        assert!(TASKS_MAX * 2 * (task + size_of::<TaskHistory>()) <= 60_000_000, "{task}");
    }

    proptest! {
        /// Samples are bounded, in order, cover the whole time and end with the latest answer.
        #[test]
        fn samples_cover_the_whole_time(
            steps_ms in prop::collection::vec(1u64..5000, 1..600), cpus in 1u32..4,
        ) {
            let mut histories = Histories::default();
            let mut now_ms = 0;
            for (at, step_ms) in steps_ms.iter().enumerate() {
                now_ms += step_ms;
                histories.note(&[row(7, at as u32 % cpus, at as f64)], now_ms);
            }
            let Some(history) = histories.of(7) else { return Err(TestCaseError::fail("no history")) };
            let samples = &history.samples;
            prop_assert!((1..=SAMPLES_MAX).contains(&samples.len()));
            prop_assert!(samples.is_sorted_by(|a, b| a.at_ms < b.at_ms));
            prop_assert_eq!(samples.last().map(|sample| u64::from(sample.at_ms)), Some(now_ms));
            // The first sample stands for the first answers.
            let stride = history.stride as usize;
            prop_assert!(stride * SAMPLES_MAX <= 2 * steps_ms.len().max(SAMPLES_MAX / 2 + 1) || stride == 1);
            let first: u64 = steps_ms.iter().take(stride).sum();
            prop_assert!(samples.first().is_some_and(|sample| u64::from(sample.at_ms) <= first));
            let moved = if cpus == 1 { 0 } else { steps_ms.len() as u64 - 1 };
            prop_assert_eq!(history.moved, moved);
            prop_assert!(history.moves.len() as u64 == moved.min(MOVES_MAX as u64));
        }
    }
}
