// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Load of the CPUs, from `/proc/stat`.
//!
//! The instance reports tasks. A task may migrate within an interval, so the sum of the tasks does
//! not give the load of a CPU. The kernel counts it exactly, for tasks of all policies.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

const PATH: &str = "/proc/stat";
/// Columns that together are all the time: user, nice, system, idle, iowait, irq, softirq, steal.
/// The columns for guests after them are parts of user and nice.
const COLUMNS: usize = 8;
/// Columns in which the CPU idles: idle and iowait.
const IDLE: Range<usize> = 3..5;

/// Load of each CPU [permille], without CPUs whose load is unknown.
pub(super) type Loads = BTreeMap<u32, u32>;

/// Times of a CPU since boot, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CpuTime {
    idle: u64,
    all: u64,
}

/// Reader of the loads, which remembers the last reading.
#[derive(Debug, Default)]
pub(super) struct LoadReader(BTreeMap<u32, CpuTime>);

impl LoadReader {
    /// Return the loads since the last call. A file that cannot be read gives none.
    pub(super) fn read(&mut self) -> Loads {
        self.next(&std::fs::read_to_string(Path::new(PATH)).unwrap_or_default())
    }

    /// Return the loads since the text before. The first text gives none.
    fn next(&mut self, text: &str) -> Loads {
        let now: BTreeMap<u32, CpuTime> = text.lines().filter_map(times).collect();
        let load = |(cpu, now): (&u32, &CpuTime)| Some((*cpu, load(*self.0.get(cpu)?, *now)?));
        let loads = now.iter().filter_map(load).collect();
        self.0 = now;
        loads
    }
}

/// Parse a line of one CPU, such as `cpu3 10 0 20 900 1 0 2 0 0 0`.
fn times(line: &str) -> Option<(u32, CpuTime)> {
    let mut words = line.strip_prefix("cpu")?.split(' ');
    let cpu = words.next()?.parse().ok()?;
    let columns: Vec<u64> = words.take(COLUMNS).map_while(|word| word.parse().ok()).collect();
    let sum = |sum: u64, column: &u64| sum.checked_add(*column);
    let all = columns.iter().try_fold(0, sum)?;
    let idle = columns.get(IDLE)?.iter().try_fold(0, sum)?;
    Some((cpu, CpuTime { idle, all }))
}

/// Return the load between two readings [permille], None if no time has passed between them.
fn load(before: CpuTime, now: CpuTime) -> Option<u32> {
    let all = now.all.checked_sub(before.all).filter(|all| *all > 0)?;
    // iowait may shrink.
    let idle = now.idle.saturating_sub(before.idle).min(all);
    u32::try_from((all - idle).saturating_mul(1000) / all).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn loads_are_what_grew() {
        let mut reader = LoadReader::default();
        let first = "cpu  9 9 9 9\ncpu0 100 0 0 900 0 0 0 0 0 0\ncpu1 5 0 0 5 0 0 0 0\nintr 1 2\n";
        assert_eq!(reader.next(first), Loads::new());
        let second = "cpu0 120 0 10 960 10 0 0 0 77 0\ncpu1 5 0 0 5 0 0 0 0\ncpu2 1 1 1 1 1 1 1 1\n";
        // CPU 1 has not changed, CPU 2 is new.
        assert_eq!(reader.next(second), Loads::from([(0, 300)]));
        assert_eq!(reader.next(""), Loads::new());
    }

    proptest! {
        #[test]
        fn no_text_makes_an_impossible_load(lines in prop::collection::vec("cpu[0-3]( [0-9]{1,20}){0,10}", 0..8), other in ".*") {
            let mut reader = LoadReader::default();
            for line in lines.iter().chain([&other]) {
                prop_assert!(reader.next(line).values().all(|load| *load <= 1000));
            }
        }
    }
}
