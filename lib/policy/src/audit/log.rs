//! What people see of the audit: the last experiments one by one, all of them in figures.

use super::judge::{Outcome, Unjudged, Verdict};
use crate::swap::Swap;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// How an experiment ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// With a verdict.
    Judged(Outcome),
    /// Without.
    Unjudged(Unjudged),
}

/// An experiment in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Counts from 0.
    pub number: u64,
    /// When it ended [ns].
    pub at_ns: u64,
    /// What was swapped, and what was predicted.
    pub swap: Swap,
    /// Time that the migrations took from both tasks [ns].
    pub lost_ns: u64,
    /// What came of it.
    pub ending: Ending,
}

/// The last records: a ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    most: usize,
    next: u64,
    records: VecDeque<Record>,
}

impl Log {
    /// Empty; keeps the last `most` records.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { most, next: 0, records: VecDeque::new() }
    }

    /// Adds a record under the next number, in place of the oldest when the log is full.
    pub fn push(&mut self, at_ns: u64, swap: Swap, lost_ns: u64, ending: Ending) -> Record {
        let record = Record { number: self.next, at_ns, swap, lost_ns, ending };
        self.next += 1;
        self.records.push_back(record);
        while self.records.len() > self.most {
            self.records.pop_front();
        }
        record
    }

    /// The records that are kept, the oldest first, from number `first` on.
    pub fn kept_from(&self, first: u64) -> impl Iterator<Item = &Record> {
        self.records.iter().skip_while(move |record| record.number < first)
    }

    /// Number of the next record: how many there ever were.
    #[must_use]
    pub fn next_number(&self) -> u64 {
        self.next
    }
}

/// All experiments, in figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Summary {
    /// Swaps that paid.
    pub paid: u64,
    /// That did neither.
    pub neutral: u64,
    /// That lost.
    pub regretted: u64,
    /// That could not be judged.
    pub unjudged: u64,
    /// Sum of the predicted gains of those that were judged [permille].
    pub predicted_permille: i64,
    /// Sum of their measured gains, migrations left out [permille].
    pub measured_permille: i64,
    /// Sum of their gains, migrations deducted [permille].
    pub net_permille: i64,
    /// Time that migrations took, of all swaps [ns].
    pub lost_ns: u64,
}

impl Summary {
    /// Counts a record.
    pub fn add(&mut self, record: &Record) {
        self.lost_ns = self.lost_ns.saturating_add(record.lost_ns);
        let Ending::Judged(outcome) = record.ending else {
            self.unjudged += 1;
            return;
        };
        match outcome.verdict {
            Verdict::Paid => self.paid += 1,
            Verdict::Neutral => self.neutral += 1,
            Verdict::Regretted => self.regretted += 1,
        }
        self.predicted_permille += i64::from(record.swap.gain_permille);
        self.measured_permille += i64::from(outcome.measured_permille);
        self.net_permille += i64::from(outcome.net_permille);
    }

    /// Swaps with a verdict.
    #[must_use]
    pub fn judged(&self) -> u64 {
        self.paid + self.neutral + self.regretted
    }

    /// Mean predicted, measured and net gain of a swap with a verdict [permille]; None without any.
    #[must_use]
    pub fn means_permille(&self) -> Option<[i64; 3]> {
        let judged = i64::try_from(self.judged()).ok().filter(|judged| *judged > 0)?;
        Some([self.predicted_permille, self.measured_permille, self.net_permille].map(|sum| sum / judged))
    }
}
