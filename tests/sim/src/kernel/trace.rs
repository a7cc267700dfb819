// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The trace of a run: text for people, and JSON for Perfetto.

use std::cell::{Cell, RefCell};
use std::fmt::Write as _;

use serde_json::json;

use super::cpu::Curr;

/// A stay of something on a CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stay {
    /// CPU.
    pub cpu: usize,
    /// What ran.
    pub curr: Curr,
    /// From when [ns].
    pub from_ns: u64,
    /// Until when [ns].
    pub until_ns: u64,
}

/// Records events on request.
#[derive(Debug, Default)]
pub struct Trace {
    on: Cell<bool>,
    keeps_stays: bool,
    text: RefCell<String>,
    began: RefCell<Vec<u64>>,
    stays: RefCell<Vec<Stay>>,
}

impl Trace {
    /// Return a trace that records lines if `on`, and stays on CPUs if it `keeps_stays`.
    #[must_use]
    pub fn new(on: bool, keeps_stays: bool) -> Self {
        Self { on: Cell::new(on), keeps_stays, ..Self::default() }
    }

    /// Record a line.
    pub fn line(&self, now_ns: u64, what: impl FnOnce() -> String) {
        if self.on.get() {
            let mut text = self.text.borrow_mut();
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{:>9}.{:03} {}", now_ns / 1000, now_ns % 1000, what());
        }
    }

    /// Record a switch.
    pub fn switch(&self, now_ns: u64, cpu: usize, prev: Curr, next: Curr) {
        if !self.keeps_stays {
            return;
        }
        self.line(now_ns, || format!("switch cpu {cpu} {} -> {}", name(prev), name(next)));
        let mut began = self.began.borrow_mut();
        if began.len() <= cpu {
            began.resize(cpu + 1, 0);
        }
        let from_ns = std::mem::replace(&mut began[cpu], now_ns);
        if prev != Curr::Idle {
            self.stays.borrow_mut().push(Stay { cpu, curr: prev, from_ns, until_ns: now_ns });
        }
    }

    /// Return the text.
    #[must_use]
    pub fn text(&self) -> String {
        self.text.borrow().clone()
    }

    /// Return all stays on CPUs. `running` is what runs on each CPU at `now_ns`.
    #[must_use]
    pub fn stays(&self, now_ns: u64, running: impl Iterator<Item = Curr>) -> Vec<Stay> {
        let began = self.began.borrow();
        let last = running.enumerate().map(|(cpu, curr)| {
            let from_ns = began.get(cpu).copied().unwrap_or(0);
            Stay { cpu, curr, from_ns, until_ns: now_ns }
        });
        self.stays.borrow().iter().cloned().chain(last.filter(|stay| stay.curr != Curr::Idle)).collect()
    }

    /// Return the trace in the JSON format that Perfetto and Chrome read: a track for each CPU.
    #[must_use]
    pub fn perfetto(&self) -> String {
        let events: Vec<_> = self
            .stays
            .borrow()
            .iter()
            .map(|stay| {
                json!({
                    "name": name(stay.curr),
                    "ph": "X",
                    "pid": 1,
                    "tid": stay.cpu,
                    "ts": stay.from_ns as f64 / 1000.0,
                    "dur": (stay.until_ns - stay.from_ns) as f64 / 1000.0,
                })
            })
            .collect();
        json!({ "displayTimeUnit": "ns", "traceEvents": events }).to_string()
    }
}

/// Return a name for what a CPU runs.
#[must_use]
pub fn name(curr: Curr) -> String {
    match curr {
        Curr::Idle => "idle".into(),
        Curr::Task(task) => format!("task {task}"),
        Curr::RealTime => "real-time".into(),
        Curr::Stopper => "stopper".into(),
    }
}
