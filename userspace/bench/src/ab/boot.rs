//! One boot's work, inside the machine that is measured.
//!
//! The session on the host hands over a [`Task`] as a file, this module carries it out with the real [`super::stage`],
//! appends samples to the run's `samples.jsonl` in the folder both sides share, and leaves an `outcome-BOOT.json`.
//! Progress goes to standard output, one line of JSON each, behind [`PROGRESS`].

use super::plan::Plan;
use super::runner::{self, Job, Outcome, Progress, Sink};
use super::sample::Sample;
use super::stage::Machine;
use super::store::{self, Store};
use crate::{Error, Result, files};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// What a line of progress begins with.
pub const PROGRESS: &str = "@progress ";
/// A task is no larger.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// What a boot has to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The plan, for workloads and times.
    pub plan: Plan,
    /// The blocks and their order.
    pub job: Job,
}

/// Name of the file in which a boot tells how it ended.
pub fn outcome_file(boot: u32) -> String {
    format!("outcome-{boot}.json")
}

/// Reads a task.
pub fn read_task(path: &Path) -> Result<Task> {
    let text = files::read_small_file(path, MAX_FILE_BYTES)?;
    serde_json::from_str(&text)
        .map_err(|e| Error::Usage(format!("{}: not a boot's task: {e}", path.display())))
}

/// Appends to the run's samples, and passes progress on.
pub struct Recorder<'a> {
    store: Store,
    progress: &'a mut dyn FnMut(&Progress),
}

impl<'a> Recorder<'a> {
    /// Appends to the samples in `folder`.
    pub fn open(folder: &Path, progress: &'a mut dyn FnMut(&Progress)) -> Result<Self> {
        Ok(Recorder { store: Store::open(folder)?.0, progress })
    }
}

impl Sink for Recorder<'_> {
    fn sample(&mut self, sample: &Sample) -> Result<()> {
        self.store.append(sample)
    }

    fn progress(&mut self, progress: &Progress) {
        (self.progress)(progress);
    }

    fn block_end(&mut self) -> Result<()> {
        self.store.end_block()
    }
}

/// Carries out a task on this machine; samples and outcome go to `folder`.
pub fn carry_out(
    task: &Task,
    folder: &Path,
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Outcome> {
    progress(&Progress {
        boot: task.job.boot,
        block: task.job.blocks.first().copied().unwrap_or(0),
        done: 0,
        total: 1,
        what: "measuring each workload alone".into(),
    });
    let mut machine = Machine::open(&task.plan, task.job.wall_per_guest, interrupted)?;
    let solo =
        serde_json::to_string_pretty(machine.solo()).map_err(|e| Error::failed("writing solo rates", e))?;
    let write = |name: &str, text: &str| store::write_whole(&folder.join(name), text.as_bytes());
    write(&format!("solo-{}.json", task.job.boot), &solo)?;
    let mut recorder = Recorder::open(folder, progress)?;
    let outcome = runner::run(&task.job, &mut machine, &mut recorder)?;
    let text = serde_json::to_string_pretty(&outcome).map_err(|e| Error::failed("writing the outcome", e))?;
    write(&outcome_file(task.job.boot), &text)?;
    Ok(outcome)
}

/// The command that the VM runs.
pub fn main(task: &Path, folder: &Path) -> Result<()> {
    let task = read_task(task)?;
    let interrupted = AtomicBool::new(false);
    let mut tell = |progress: &Progress| {
        if let Ok(line) = serde_json::to_string(progress) {
            // Nobody listening is no reason to stop.
            let _ = writeln!(std::io::stdout(), "{PROGRESS}{line}");
        }
    };
    carry_out(&task, folder, &interrupted, &mut tell).map(drop)
}
