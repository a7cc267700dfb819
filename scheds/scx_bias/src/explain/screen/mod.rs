// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The screen of `scx_bias top`: CPUs, tasks, and one task's history.
//!
//! # Problem
//! A user wants to see at a glance which CPUs are busy, find one of thousands of tasks, and learn
//! why it went from CPU to CPU. The screen must stay readable at 80 columns and with 256 CPUs, and
//! top itself must cost little: it runs on the machine that it shows.
//!
//! # Approach
//! [`app`] holds the state. It takes answers and keys, and knows neither a terminal nor a clock.
//! [`draw`] puts that state on a frame, with [`sheet`], [`cpu_bars`], [`task_view`] and [`look`].
//! [`terminal`] is a thin loop: it waits for keys and signals, asks the instance, and draws.
//! [`sorting`] and [`matching`] choose the tasks to show. [`history`] keeps samples of each task,
//! [`proc_stat`] reads the load of the CPUs.
//!
//! # Invariants
//! * The terminal is restored, regardless of what ends the program: a key, a signal or an error.
//! * An answer is sorted once. Only rows that are visible become text.
//! * The history is bounded: [`history::TASKS_MAX`] tasks, each with [`history::SAMPLES_MAX`]
//!   samples and [`history::MOVES_MAX`] moves, at most 60 MB in all.
//! * The bias of a task is a word, so that it is visible without colour.
//!
//! # Limits
//! * The instance reports where a task is, not each of its moves. Moves between two answers count
//!   as one. The reason is that of the last migration while the task ran, and a task can also
//!   change its CPU when it wakes.
//! * Nothing is asked while top is paused, so the history has a gap there.
//! * While the instance does not answer, keys wait, for at most 10 s.

mod app;
#[cfg(test)]
mod app_tests;
mod cpu_bars;
mod draw;
mod history;
mod look;
mod matching;
mod proc_stat;
mod sheet;
mod sorting;
mod task_view;
mod terminal;
#[cfg(test)]
mod tests;

pub(super) use terminal::show;
