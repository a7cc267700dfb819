// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The benchmarks of `constructs.c`, and their sizes.

use crate::ab::workload::types::count;
use std::fmt;
use std::str::FromStr;

/// Source of a benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// A construct of EPCC's syncbench.
    Sync,
    /// A loop of EPCC's schedbench.
    Sched,
    /// An array kernel of BabelStream.
    Stream,
}

use Family::{Sched, Stream, Sync};

/// Names of all benchmarks.
pub const NAMES: [(&str, Family); 18] = [
    ("parallel", Sync),
    ("for", Sync),
    ("parallel-for", Sync),
    ("barrier", Sync),
    ("single", Sync),
    ("critical", Sync),
    ("lock", Sync),
    ("ordered", Sync),
    ("atomic", Sync),
    ("reduction", Sync),
    ("static", Sched),
    ("dynamic", Sched),
    ("guided", Sched),
    ("copy", Stream),
    ("mul", Stream),
    ("add", Stream),
    ("triad", Stream),
    ("dot", Stream),
];

/// One benchmark, such as `barrier`, `static`, `dynamic:16` or `triad`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Benchmark {
    /// Name in the program.
    pub name: &'static str,
    /// Source of the benchmark.
    pub family: Family,
    /// Chunk of a loop [iterations]. 0 is the default: equal parts for static loops, else 1.
    pub chunk: usize,
}

impl FromStr for Benchmark {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (head, chunk) = text.split_once(':').map_or((text, None), |(head, chunk)| (head, Some(chunk)));
        let (name, family) = NAMES.into_iter().find(|(name, _)| *name == head).ok_or_else(|| {
            format!("'{head}' is no OpenMP benchmark; known are {}", NAMES.map(|(name, _)| name).join(", "))
        })?;
        let chunk = match chunk {
            None => 0,
            Some(_) if family != Sched => return Err(format!("'{text}': only a loop has a chunk size")),
            Some(chunk) => count(chunk, 1..=1 << 20)
                .ok_or_else(|| format!("'{text}': a chunk has 1 to 1048576 iterations"))?,
        };
        Ok(Benchmark { name, family, chunk })
    }
}

impl fmt::Display for Benchmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.chunk {
            0 => f.write_str(self.name),
            chunk => write!(f, "{}:{chunk}", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_others_refused() {
        for text in NAMES.map(|(name, _)| name).into_iter().chain(["dynamic:16", "static:1"]) {
            assert_eq!(text.parse::<Benchmark>().unwrap().to_string(), text);
        }
        for (text, why) in [
            ("tuba", "known are parallel"),
            ("", "known are"),
            ("barrier:2", "only a loop"),
            ("guided:0", "1 to 1048576"),
            ("guided:", "1 to 1048576"),
            ("static:01", "1 to 1048576"),
        ] {
            let error = text.parse::<Benchmark>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
