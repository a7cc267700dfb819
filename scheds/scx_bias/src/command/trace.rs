// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `scx_bias trace`: placement of tasks over time, in the JSON trace format that Perfetto opens.
//!
//! # Problem
//! A scheduler trace shows which task ran where, but not why. The agent knows bias, gain and the
//! reason of migrations, as totals of each task.
//!
//! # Approach
//! Successive answers give each task's time in an interval and its CPU at the end. Each CPU is a
//! track with a slice for each such task, as long as the task ran. A migration between two answers
//! is an event on the new CPU's track, with its reason. Two counters show the average gain and the
//! number of tasks.
//!
//! # Limits
//! Within an interval the order of slices on a track is that of their lengths, not that in which
//! tasks ran. All time of a task is on its last CPU. Slices beyond the end of an interval are cut.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, BufWriter, Write, stdout};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use bias_agent::failure::{Exit, Failure};
use bias_agent::options::values::Seconds;
use bias_policy::table::Class;
use clap::Args;
use serde_json::{Value, json};

use super::tasks::{Snapshot, TopRow, bias_cell, gain, reason};
use super::top::feed::Feed;
use crate::cli::SocketArg;
use crate::help;

/// Time between answers: shorter intervals cost the instance more than they show.
const INTERVAL: Duration = Duration::from_millis(100);
/// Processes of the trace format, which group tracks.
const FAST: u32 = 1;
const SLOW: u32 = 2;
/// Process of the counters.
const MACHINE: u32 = 3;

const HELP: &str = "\
The file has the JSON trace format: open it in ui.perfetto.dev, which keeps it
on your machine, or in another viewer of that format.
  Tracks       One for each CPU, fast ones first. A slice is the time that a
               task ran in a tenth of a second. It has the pid, the bias, the
               gain and the CPI stack.
  Events       A task runs on another CPU than a tenth of a second before. The
               name has the reason, as in scx_bias top.
  Counters     The average gain, and the number of tasks that ran.
Within a tenth of a second the order of slices is not that of the tasks, and a
task's whole time is on its last CPU. scxtop and perf record each switch.";

/// Record the placement of tasks for Perfetto: a track for each CPU, with bias and gain of each
/// task and the reasons of migrations
#[derive(Debug, Args)]
#[command(after_help = help::exit_codes(), after_long_help = help::long(HELP))]
pub struct TraceArgs {
    /// Write the trace to this file, or to standard output for -
    #[arg(long, value_name = "FILE")]
    perfetto: PathBuf,

    /// Length of the recording [0.1 to 86400]
    #[arg(long, value_name = "SECONDS", default_value = "10")]
    seconds: Seconds,

    #[command(flatten)]
    socket: SocketArg,
}

impl TraceArgs {
    pub fn run(self) -> Result<Exit> {
        let mut feed = Feed::open(self.socket.connect()?, Some(INTERVAL))?;
        let unwritable = |error: io::Error| {
            let to = self.perfetto.display();
            Failure::runtime(format!("cannot write {to} ({error}); give --perfetto another file"))
        };
        let out: Box<dyn Write> = match self.perfetto.as_os_str().as_encoded_bytes() {
            b"-" => Box::new(stdout()),
            _ => Box::new(File::create(&self.perfetto).map_err(unwritable)?),
        };
        let mut trace = Trace::begin(BufWriter::new(out)).map_err(unwritable)?;
        let ended = trace.record(&mut feed, self.seconds.duration(), &unwritable);
        // If the instance ends meanwhile, the file holds what was recorded.
        trace.end().map_err(unwritable)?;
        ended.map(|()| Exit::Clean)
    }
}

/// A trace that is being written, event by event.
struct Trace<W: Write> {
    out: W,
    /// CPU of each task in the last interval.
    cpus: HashMap<u32, u32>,
    /// Process of each CPU's track.
    tracks: BTreeMap<u32, u32>,
}

impl<W: Write> Trace<W> {
    fn begin(mut out: W) -> io::Result<Self> {
        out.write_all(b"{\"schema\":\"scx_bias.trace/1\",\"displayTimeUnit\":\"ms\",\"traceEvents\":[")?;
        let mut trace = Self { out, cpus: HashMap::new(), tracks: BTreeMap::new() };
        let name = |process: u32, name: &str| json!({"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}});
        write!(trace.out, "{}", name(FAST, "fast CPUs"))?;
        trace.event(&name(SLOW, "slow CPUs"))?;
        trace.event(&name(MACHINE, "machine"))?;
        Ok(trace)
    }

    /// Add the activity during `length`.
    fn record(
        &mut self,
        feed: &mut Feed,
        length: Duration,
        unwritable: &dyn Fn(io::Error) -> Failure,
    ) -> Result<()> {
        let started = Instant::now();
        let mut from = Duration::ZERO;
        while from < length {
            sleep(INTERVAL.min(length.saturating_sub(started.elapsed())));
            self.add(&feed.next()?, from).map_err(unwritable)?;
            from = started.elapsed();
        }
        Ok(())
    }

    /// Add the interval that began at `from`.
    fn add(&mut self, snapshot: &Snapshot, from: Duration) -> io::Result<()> {
        let (from_us, interval_us) = (from.as_micros() as u64, snapshot.interval_ms * 1000);
        let end_us = from_us + interval_us;
        self.find_tracks(snapshot)?;
        let mut next: HashMap<u32, u64> = HashMap::new();
        for row in &snapshot.tasks {
            let Some(process) = self.tracks.get(&row.task.cpu).copied() else { continue };
            let begin_us = *next.get(&row.task.cpu).unwrap_or(&from_us);
            let length_us = (interval_us * u64::from(row.share_permille) / 1000).min(end_us - begin_us);
            if length_us > 0 {
                self.event(&slice(row, process, begin_us, length_us))?;
                next.insert(row.task.cpu, begin_us + length_us);
            }
            let before = self.cpus.insert(row.task.pid, row.task.cpu);
            if let Some(before) = before.filter(|before| *before != row.task.cpu) {
                self.event(&migration(row, process, before, begin_us))?;
            }
        }
        let counter = |name: &str, value: Value| json!({"ph": "C", "name": name, "pid": MACHINE, "ts": from_us, "args": {"value": value}});
        if let Some(average) = snapshot.average_permille {
            self.event(&counter("average gain", json!(f64::from(average) / 1000.0)))?;
        }
        self.event(&counter("tasks that ran", json!(snapshot.tasks.len())))
    }

    /// Name the tracks of CPUs that are new or have another class than before.
    fn find_tracks(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        for class in &snapshot.machine.classes {
            let process = if class.class == Class::Fast { FAST } else { SLOW };
            for cpu in &class.cpus {
                if self.tracks.insert(*cpu, process) != Some(process) {
                    let args = json!({"name": format!("CPU {cpu}")});
                    let name = json!({"ph": "M", "name": "thread_name", "pid": process, "tid": track(*cpu), "args": args});
                    self.event(&name)?;
                }
            }
        }
        Ok(())
    }

    fn event(&mut self, event: &Value) -> io::Result<()> {
        write!(self.out, ",\n{event}")
    }

    fn end(mut self) -> io::Result<()> {
        self.out.write_all(b"]}\n")?;
        self.out.flush()
    }
}

/// Return the track of a CPU. Viewers treat 0 as no track.
const fn track(cpu: u32) -> u32 {
    cpu + 1
}

fn slice(row: &TopRow, process: u32, begin_us: u64, length_us: u64) -> Value {
    let task = &row.task;
    json!({
        "ph": "X", "name": task.name, "pid": process, "tid": track(task.cpu), "ts": begin_us, "dur": length_us,
        "args": {
            "pid": task.pid,
            "bias": bias_cell(task),
            "gain": gain(task),
            "stack_permille": task.stack_permille,
            "share_permille": row.share_permille,
        },
    })
}

fn migration(row: &TopRow, process: u32, from: u32, at_us: u64) -> Value {
    let task = &row.task;
    json!({
        "ph": "i", "s": "t", "name": format!("{}: {}", task.name, reason(task.reason)), "pid": process,
        "tid": track(task.cpu), "ts": at_us, "args": {"pid": task.pid, "from_cpu": from, "to_cpu": task.cpu},
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::super::tests::snapshot;
    use super::*;

    fn traced(snapshots: &[Snapshot]) -> Vec<Value> {
        let mut out = Vec::new();
        let mut trace = Trace::begin(&mut out).unwrap();
        for (at, snapshot) in (0u32..).zip(snapshots) {
            trace.add(snapshot, Duration::from_secs(1) * at).unwrap();
        }
        trace.end().unwrap();
        let document: Value = serde_json::from_slice(&out).unwrap();
        document["traceEvents"].as_array().unwrap().clone()
    }

    fn of<'a>(events: &'a [Value], phase: &str) -> Vec<&'a Value> {
        events.iter().filter(|event| event["ph"] == phase).collect()
    }

    #[test]
    fn tasks_are_slices_on_the_tracks_of_their_cpus() {
        let events = traced(&[snapshot()]);
        let slices = of(&events, "X");
        let chase = slices.iter().find(|event| event["name"] == "chase").unwrap();
        assert_eq!((&chase["dur"], &chase["tid"], &chase["pid"]), (&json!(607_000), &json!(2), &json!(FAST)));
        assert_eq!((&chase["args"]["gain"], &chase["args"]["bias"]), (&json!("1.07x"), &json!("slow")));
        // Slices of a track do not overlap, and none ends after its interval.
        let mut ends: BTreeMap<u64, u64> = BTreeMap::new();
        for event in slices {
            let [tid, ts, dur] = ["tid", "ts", "dur"].map(|key| event[key].as_u64().unwrap());
            assert!(ts >= *ends.get(&tid).unwrap_or(&0) && ts + dur <= 1_000_000, "{event}");
            ends.insert(tid, ts + dur);
        }
        assert_eq!(of(&events, "C").len(), 2);
        // Three groups and four CPUs have names.
        assert_eq!(of(&events, "M").len(), 3 + 4);
    }

    #[test]
    fn a_task_on_another_cpu_than_before_has_migrated() {
        let mut second = snapshot();
        second.tasks[0].task.cpu = 0;
        let events = traced(&[snapshot(), second]);
        let [migration] = of(&events, "i")[..] else { panic!("{events:?}") };
        assert_eq!(migration["name"], "render: gains more");
        assert_eq!((&migration["args"]["from_cpu"], &migration["args"]["to_cpu"]), (&json!(3), &json!(0)));
        assert_eq!((&migration["pid"], &migration["ts"]), (&json!(FAST), &json!(1_000_000)));
    }
}
