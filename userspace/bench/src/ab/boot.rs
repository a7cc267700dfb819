// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Work of one boot, inside the machine that is measured.
//!
//! The session on the host passes a [`Task`] as a file. This module carries it out with the real
//! [`super::stage`], appends samples to `samples.jsonl` in the directory that both sides share, and
//! writes `outcome-BOOT.json`. Progress goes to standard output, as one line of JSON per step after
//! [`PROGRESS`].

use super::plan::Plan;
use super::runner::{self, BootProgress, Job, Outcome, Sink};
use super::sample::Sample;
use super::stage::Machine;
use super::store::{self, Store};
use crate::{Error, Result, files};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Prefix of a progress line.
pub const PROGRESS: &str = "@progress ";
/// Maximum size of a task file.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Work of one boot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The plan, with workloads and times.
    pub plan: Plan,
    /// The blocks, the arms and the seed of their order.
    pub job: Job,
}

/// Return the name of the file in which a boot reports its outcome.
pub fn outcome_file(boot: u32) -> String {
    format!("outcome-{boot}.json")
}

/// Read a task file.
pub fn read_task(path: &Path) -> Result<Task> {
    let text = files::read_small_file(path, MAX_FILE_BYTES)?;
    serde_json::from_str(&text)
        .map_err(|e| Error::Usage(format!("{}: not a boot's task: {e}", path.display())))
}

/// A sink that appends to the run's samples and forwards progress.
pub struct Recorder<'a> {
    store: Store,
    progress: &'a mut dyn FnMut(&BootProgress),
}

impl<'a> Recorder<'a> {
    /// Open the run in `directory` to append to its samples.
    pub fn open(directory: &Path, progress: &'a mut dyn FnMut(&BootProgress)) -> Result<Self> {
        Ok(Recorder { store: Store::open(directory)?.0, progress })
    }
}

impl Sink for Recorder<'_> {
    fn sample(&mut self, sample: &Sample) -> Result<()> {
        self.store.append(sample)
    }

    fn progress(&mut self, progress: &BootProgress) {
        (self.progress)(progress);
    }

    fn block_end(&mut self) -> Result<()> {
        self.store.end_block()
    }
}

/// Carry out a task on this machine. Samples and outcome go to `directory`.
pub fn carry_out(
    task: &Task,
    directory: &Path,
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(&BootProgress),
) -> Result<Outcome> {
    progress(&BootProgress {
        boot: task.job.boot,
        block: task.job.blocks.first().copied().unwrap_or(0),
        done: 0,
        total: 1,
        what: "measuring each workload alone".into(),
    });
    let mut machine = Machine::open(&task.plan, task.job.wall_per_guest, interrupted)?;
    let solo =
        serde_json::to_string_pretty(machine.solo()).map_err(|e| Error::failed("writing solo rates", e))?;
    let write = |name: &str, text: &str| store::write_whole(&directory.join(name), text.as_bytes());
    write(&format!("solo-{}.json", task.job.boot), &solo)?;
    let mut recorder = Recorder::open(directory, progress)?;
    let outcome = runner::run(&task.job, &mut machine, &mut recorder)?;
    let text = serde_json::to_string_pretty(&outcome).map_err(|e| Error::failed("writing the outcome", e))?;
    write(&outcome_file(task.job.boot), &text)?;
    Ok(outcome)
}

/// Run the command that the VM executes: carry out the task in the file `task`.
pub fn main(task: &Path, directory: &Path) -> Result<()> {
    let task = read_task(task)?;
    let interrupted = AtomicBool::new(false);
    let mut tell = |progress: &BootProgress| {
        if let Ok(line) = serde_json::to_string(progress) {
            // A missing reader does not stop the run.
            let _ = writeln!(std::io::stdout(), "{PROGRESS}{line}");
        }
    };
    carry_out(&task, directory, &interrupted, &mut tell).map(drop)
}
