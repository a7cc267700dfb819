//! Audit: every swap is an experiment, and what it taught is used.
//!
//! Problem. A swap is planned by a prediction. The stack it rests on may be old, the cost vectors may be off, and what two tasks do to
//! each other's caches is not predicted at all. A scheduler that never looks back repeats the same mistakes at full speed.
//!
//! Approach. Whoever carries out a [`Swap`](crate::swap::Swap) counts both tasks' instructions before and after and hands the figures in as an
//! [`Experiment`].
//! * [`judge()`] compares what was gained with what was predicted: paid, neutral or regretted.
//! * [`Backoff`]: a task whose swaps do not pay waits twice as long each time, and is forgiven in time.
//! * [`Correction`]: an error that is the same for all swaps is an error of the cost vectors, and mends them.
//! * [`Log`] and [`Summary`] tell the user.
//!
//! [`Audit`] holds these together; each can be used alone. Nothing here reads a clock.
//!
//! Invariants (tests beside each part). Memory is bounded: the log, and the tasks that are remembered. Times are saturating: a clock that steps back
//! delays, it does not panic. Whatever is measured, factors stay within their bounds and waits within theirs.
//!
//! Limits. A task may change phase while it is moved, and is then judged for what the move did not do: one verdict means little, which is
//! why a task is delayed for seconds by it and a cost is moved by an eighth of the error. Instructions are taken as work: a task that spins does
//! more of them for nothing. Neighbours whose caches a swap disturbed are not seen.

mod backoff;
mod correction;
mod judge;
mod log;

#[cfg(test)]
mod audit_tests;
#[cfg(test)]
mod correction_tests;

pub use backoff::{Backoff, BackoffLimits, Backoffs};
pub use correction::{Correction, FACTOR_BOUNDS_PERMILLE, Sample};
pub use judge::{Experiment, JudgeLimits, Observed, Outcome, Rate, Unjudged, Verdict, judge};
pub use log::{Ending, Log, Record, Summary};

/// Figures of an [`Audit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditLimits {
    /// When an experiment is judged, and how.
    pub judge: JudgeLimits,
    /// How long tasks wait.
    pub backoff: BackoffLimits,
    /// Tasks whose waits are remembered.
    pub most_tasks: usize,
    /// Records that are kept.
    pub most_records: usize,
}

impl Default for AuditLimits {
    fn default() -> Self {
        Self {
            judge: JudgeLimits::default(),
            backoff: BackoffLimits::default(),
            most_tasks: 4096,
            most_records: 1024,
        }
    }
}

/// What swaps have taught so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Audit {
    judge: JudgeLimits,
    /// The last experiments.
    pub log: Log,
    /// All experiments, in figures.
    pub summary: Summary,
    /// Tasks that wait.
    pub backoffs: Backoffs,
    /// What to multiply the slow CPUs' costs with.
    pub correction: Correction,
}

impl Audit {
    /// Nothing learnt yet.
    #[must_use]
    pub fn new(limits: AuditLimits) -> Self {
        Self {
            judge: limits.judge,
            log: Log::new(limits.most_records),
            summary: Summary::default(),
            backoffs: Backoffs::new(limits.backoff, limits.most_tasks),
            correction: Correction::default(),
        }
    }

    /// Judges an experiment that ended at `at_ns`, draws the consequences, and returns what was written to the log.
    pub fn conclude(&mut self, experiment: &Experiment, at_ns: u64) -> Record {
        let ending = match judge(experiment, &self.judge) {
            Ok(outcome) => Ending::Judged(outcome),
            Err(why) => Ending::Unjudged(why),
        };
        if let Ending::Judged(outcome) = ending {
            let swap = &experiment.swap;
            self.backoffs.note(swap.up.pid, !outcome.up_failed, at_ns);
            self.backoffs.note(swap.down.pid, !outcome.down_failed, at_ns);
            for sample in experiment.samples() {
                self.correction.learn(&sample);
            }
        }
        let lost_ns = experiment.up.lost_ns.saturating_add(experiment.down.lost_ns);
        let record = self.log.push(at_ns, experiment.swap, lost_ns, ending);
        self.summary.add(&record);
        record
    }
}
