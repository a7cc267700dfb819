// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The frequency of each CPU while a benchmark runs.
//!
//! # Approach
//! A thread reads `scaling_cur_freq` of all CPUs ten times a second and notes the time. It runs on
//! a CPU that the team does not use, if there is one, so that it disturbs no measurement
//! \[Cui23, section 5.4].
//!
//! # Limits
//! Virtual machines and some drivers have no cpufreq. The log is then empty. Some drivers estimate
//! the frequency that sysfs shows, others average it.

use bias_bench::cpus;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two readings.
const PERIOD: Duration = Duration::from_millis(100);
/// Maximum readings of a run: an hour.
const MAX_READINGS: usize = 36_000;

/// Readings beside one run.
#[derive(Debug, Clone, Default, Serialize)]
pub struct FrequencySeries {
    /// CPUs, in the order of the columns.
    pub cpus: Vec<usize>,
    /// Time of each reading since the start of the run [ms].
    pub at_ms: Vec<u64>,
    /// Frequency of each CPU in each reading [kHz]. 0 where sysfs had none.
    pub khz: Vec<Vec<u32>>,
}

impl FrequencySeries {
    /// Return the least and the largest frequency of the CPUs of a team [kHz]. None without any.
    pub fn range_khz(&self, team: &[usize]) -> Option<(u32, u32)> {
        let of_team = |row: &Vec<u32>| {
            let pairs = self.cpus.iter().zip(row.clone());
            pairs.filter(|(cpu, khz)| team.contains(cpu) && *khz > 0).map(|(_, khz)| khz).collect::<Vec<_>>()
        };
        let all: Vec<u32> = self.khz.iter().flat_map(of_team).collect();
        Some((all.iter().copied().min()?, all.iter().copied().max()?))
    }
}

/// A log in progress.
pub struct FrequencyLog {
    stop: Sender<()>,
    thread: JoinHandle<FrequencySeries>,
}

impl FrequencyLog {
    /// Start a log of these CPUs, on `spare` if given. None if the machine shows no frequency.
    pub fn start(cpus: &[usize], spare: Option<usize>) -> Option<Self> {
        Self::start_in(Path::new("/sys/devices/system/cpu"), cpus, spare)
    }

    fn start_in(directory: &Path, cpus: &[usize], spare: Option<usize>) -> Option<Self> {
        let file = |cpu: &usize| directory.join(format!("cpu{cpu}/cpufreq/scaling_cur_freq"));
        let files: Vec<PathBuf> = cpus.iter().map(file).collect();
        files.iter().find(|file| read_khz(file) > 0)?;
        let (stop, stopped) = channel();
        let mut series = FrequencySeries { cpus: cpus.to_vec(), ..FrequencySeries::default() };
        let work = move || {
            // Without a CPU of its own the log disturbs the team a little, which is not an error.
            let _pinned = spare.and_then(|cpu| cpus::Pinned::to(cpu).ok());
            let begun = Instant::now();
            loop {
                series.at_ms.push(begun.elapsed().as_millis() as u64);
                series.khz.push(files.iter().map(|file| read_khz(file)).collect());
                let ended = stopped.recv_timeout(PERIOD) != Err(RecvTimeoutError::Timeout);
                if ended || series.khz.len() >= MAX_READINGS {
                    return series;
                }
            }
        };
        let thread = std::thread::Builder::new().name("frequencies".into()).spawn(work).ok()?;
        Some(FrequencyLog { stop, thread })
    }

    /// End the log and return its readings.
    pub fn end(self) -> FrequencySeries {
        drop(self.stop);
        self.thread.join().unwrap_or_default()
    }
}

/// Return the frequency in a file, or 0.
fn read_khz(file: &Path) -> u32 {
    std::fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_begin_immediately_and_cover_the_team_only() {
        let root = tempfile::tempdir().unwrap();
        for (cpu, khz) in [(0, "2000000\n"), (1, "3000000\n"), (2, "<unknown>\n")] {
            let directory = root.path().join(format!("cpu{cpu}/cpufreq"));
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(directory.join("scaling_cur_freq"), khz).unwrap();
        }
        let series = FrequencyLog::start_in(root.path(), &[0, 1, 2], None).unwrap().end();
        assert_eq!(series.khz[0], [2_000_000, 3_000_000, 0]);
        assert_eq!(series.at_ms.len(), series.khz.len());
        assert_eq!(series.range_khz(&[1, 2]), Some((3_000_000, 3_000_000)));
        assert_eq!(series.range_khz(&[0, 1]), Some((2_000_000, 3_000_000)));
        assert_eq!(series.range_khz(&[2]), None);
        assert!(FrequencyLog::start_in(root.path(), &[2, 7], None).is_none());
    }
}
