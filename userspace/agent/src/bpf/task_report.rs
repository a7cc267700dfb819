// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Reports of all tasks, read from the kernel side.
//!
//! # Problem
//!
//! Profiles are in task storage, which only programs in the kernel can walk. The kernel side writes
//! them while they are read.
//!
//! # Approach
//!
//! An iterator over tasks (`bpf/report.bpf.h`) prints one `struct bias_task_report` for each task
//! that has run, or that has run since an earlier request. The agent attaches it once and reads it
//! in full, like a file, at each request. Each record becomes a [`TaskReport`], in which an unknown
//! value is None.
//!
//! # Invariants
//!
//! * Any bytes make reports or none, never an error. An incomplete last record is dropped.
//! * Values that no version of the kernel side writes become [`Reason::None`] and
//!   [`Bias::Unbiased`].
//! * Names need not be text.
//! * A task without a prediction has neither a speedup nor a CPI stack.
//!
//! # Limits
//!
//! At most [`MAX_TASKS`] reports are read. A task that runs while no other waits keeps its old
//! bias.

use std::io::{ErrorKind, Read};

use anyhow::{Context, Result, bail};
use bias_policy::ffi;
use libbpf_rs::{Iter, Link, ProgramMut};
use serde::{Deserialize, Serialize};

/// Most reports that are read.
const MAX_TASKS: usize = 65_536;
/// Size of a record [bytes].
const RECORD: usize = size_of::<ffi::bias_task_report>();
/// Most retries when the kernel asks to read again, as it does once per million tasks that print
/// nothing.
const ATTEMPTS: u32 = 100;

/// Reason for a task's last migration while it ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reason {
    /// The task has not migrated while it ran.
    #[default]
    None,
    /// Pull: a CPU was about to idle.
    Pull,
    /// Rotation: the task or its partner lagged behind.
    Rotate,
    /// Gain swap: the task gains more from a fast CPU than its partner.
    Gain,
    /// Gain swap: the task gains less than its partner.
    Yield,
    /// Planned swap.
    Swap,
}

impl From<u32> for Reason {
    fn from(reason: u32) -> Self {
        match reason {
            ffi::BIAS_REASON_PULL => Self::Pull,
            ffi::BIAS_REASON_ROTATE => Self::Rotate,
            ffi::BIAS_REASON_GAIN => Self::Gain,
            ffi::BIAS_REASON_YIELD => Self::Yield,
            ffi::BIAS_REASON_SWAP => Self::Swap,
            _ => Self::None,
        }
    }
}

/// Bias of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bias {
    /// Unbiased, or without a prediction.
    #[default]
    Unbiased,
    /// Fast-biased.
    FastBiased,
    /// Slow-biased.
    SlowBiased,
}

impl From<u32> for Bias {
    fn from(bias: u32) -> Self {
        match bias {
            ffi::BIAS_FAST_BIASED => Self::FastBiased,
            ffi::BIAS_SLOW_BIASED => Self::SlowBiased,
            _ => Self::Unbiased,
        }
    }
}

/// CPI stack: shares of a task's time on the reference CPU [permille, sum 1000].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stack {
    /// Execution.
    pub execute: u32,
    /// Stalls inside the core.
    pub internal: u32,
    /// Stalls outside the core.
    pub external: u32,
}

/// Report of one task.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TaskReport {
    /// Pid of the thread.
    pub pid: u32,
    /// Pid of its process.
    pub tgid: u32,
    /// Name, with invalid UTF-8 replaced. It may hold control characters.
    pub name: String,
    /// CPU on which the task runs or ran last.
    pub cpu: u32,
    /// True if the task runs now.
    pub running: bool,
    /// Reason for the last migration while it ran.
    pub reason: Reason,
    /// Bias.
    pub bias: Bias,
    /// Predicted time on a slow CPU over time on a fast one [permille], None if unknown.
    pub speedup_permille: Option<u32>,
    /// CPI stack, None if unknown.
    pub stack_permille: Option<Stack>,
    /// Number of own windows behind the prediction, 0 if the prediction is inherited.
    pub windows: u32,
    /// True if the prediction has settled.
    pub stable: bool,
    /// Time on fast CPUs since the scheduler first saw the task [ms].
    pub fast_ms: f64,
    /// Time on slow CPUs since then [ms].
    pub slow_ms: f64,
}

impl From<&ffi::bias_task_report> for TaskReport {
    fn from(raw: &ffi::bias_task_report) -> Self {
        let speedup = Some(raw.profile.speedup_permille).filter(|speedup| *speedup != 0);
        let [execute, internal, external] = raw.profile.stack.permille;
        let name: Vec<u8> = raw.comm.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
        Self {
            pid: raw.pid,
            tgid: raw.tgid,
            name: String::from_utf8_lossy(&name).into_owned(),
            cpu: raw.cpu,
            running: raw.running != 0,
            reason: raw.reason.into(),
            bias: if speedup.is_some() { raw.profile.bias.into() } else { Bias::Unbiased },
            speedup_permille: speedup,
            stack_permille: speedup.map(|_| Stack { execute, internal, external }),
            windows: raw.profile.windows,
            // SAFETY: the function only reads the profile, to which a reference exists.
            stable: unsafe { ffi::bias_profile_stable(&raw const raw.profile) },
            fast_ms: ms(raw.fast_ns),
            slow_ms: ms(raw.slow_ns),
        }
    }
}

/// Convert nanoseconds to milliseconds, to the microsecond.
fn ms(ns: u64) -> f64 {
    (ns / 1000) as f64 / 1000.0
}

/// The attached iterator. The kernel side runs it only when it is read.
pub(crate) struct Reports(Link);

impl Reports {
    pub(crate) fn attach(program: &ProgramMut<'_>) -> Result<Self> {
        Ok(Self(program.attach().context("cannot attach the iterator over tasks")?))
    }

    /// Return a report of each task that the kernel side chooses.
    pub(crate) fn read(&self) -> Result<Vec<TaskReport>> {
        let mut iter = Iter::new(&self.0).context("cannot iterate over tasks")?;
        Ok(parse(&read_all(&mut iter).context("cannot read the iterator over tasks")?))
    }
}

/// Read all bytes of `from`, up to [`MAX_TASKS`] records.
fn read_all(from: &mut impl Read) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut chunk = vec![0; RECORD * 512];
    let mut attempts = 0;
    while bytes.len() < MAX_TASKS * RECORD {
        match from.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(chunk.get(..count).unwrap_or_default()),
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {
                attempts += 1;
                if attempts > ATTEMPTS {
                    bail!("it makes no progress ({error})");
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    bytes.truncate(MAX_TASKS * RECORD);
    Ok(bytes)
}

/// Parse the reports in `bytes`, without an incomplete last one.
fn parse(bytes: &[u8]) -> Vec<TaskReport> {
    let record = |bytes: &[u8]| {
        // SAFETY: the chunk is as long as the structure. It consists of integers only, so that any
        // bytes are valid. The read does not require alignment.
        let raw: ffi::bias_task_report = unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) };
        TaskReport::from(&raw)
    };
    bytes.chunks_exact(RECORD).map(record).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io;

    fn raw(pid: u32, name: &[u8]) -> ffi::bias_task_report {
        let mut raw =
            ffi::bias_task_report { pid, tgid: pid, fast_ns: 1_234_567, ..ffi::bias_task_report::default() };
        for (to, from) in raw.comm.iter_mut().zip(name) {
            *to = *from as i8;
        }
        raw
    }

    fn bytes(raw: &ffi::bias_task_report) -> Vec<u8> {
        // SAFETY: the structure has no padding, as a test asserts, so that all its bytes are
        // initialised.
        unsafe { std::slice::from_raw_parts((&raw const *raw).cast::<u8>(), RECORD) }.to_vec()
    }

    /// Both compilers must produce the layout that the header asserts.
    #[test]
    fn the_record_has_no_padding() {
        assert_eq!(RECORD, 2 * 8 + 5 * 4 + size_of::<ffi::bias_profile>() + 16);
        assert_eq!((RECORD, size_of::<ffi::bias_profile>()), (80, 7 * 4));
    }

    #[test]
    fn a_known_task_is_reported_in_full() {
        let mut known = raw(7, b"chase");
        (known.running, known.cpu, known.reason, known.slow_ns) = (1, 3, ffi::BIAS_REASON_YIELD, 5_000_000);
        known.profile.stack.permille = [100, 50, 850];
        known.profile.speedup_permille = 1090;
        known.profile.bias = ffi::BIAS_SLOW_BIASED;
        known.profile.stable = ffi::BIAS_STABLE_WINDOWS;
        known.profile.windows = 9;
        let expected = TaskReport {
            pid: 7,
            tgid: 7,
            name: "chase".into(),
            cpu: 3,
            running: true,
            reason: Reason::Yield,
            bias: Bias::SlowBiased,
            speedup_permille: Some(1090),
            stack_permille: Some(Stack { execute: 100, internal: 50, external: 850 }),
            windows: 9,
            stable: true,
            fast_ms: 1.234,
            slow_ms: 5.0,
        };
        assert_eq!(TaskReport::from(&known), expected);
        let json = serde_json::to_string(&expected).unwrap();
        assert_eq!(serde_json::from_str::<TaskReport>(&json).unwrap(), expected);
        assert!(json.contains("\"reason\":\"yield\"") && json.contains("\"bias\":\"slow-biased\""), "{json}");
    }

    #[test]
    fn an_uncounted_task_has_no_speedup_and_no_stack() {
        let mut unknown = raw(7, b"x");
        (unknown.reason, unknown.profile.bias) = (77, ffi::BIAS_FAST_BIASED);
        let report = TaskReport::from(&unknown);
        assert_eq!((report.speedup_permille, report.stack_permille), (None, None));
        assert_eq!((report.reason, report.bias, report.stable), (Reason::None, Bias::Unbiased, false));
    }

    #[test]
    fn names_need_neither_utf8_nor_a_terminator() {
        assert_eq!(TaskReport::from(&raw(1, b"a\xffb")).name, "a\u{fffd}b");
        assert_eq!(TaskReport::from(&raw(1, b"0123456789abcdef")).name.len(), 16);
    }

    #[test]
    fn an_incomplete_record_is_dropped() {
        let mut all = bytes(&raw(1, b"a"));
        all.extend(bytes(&raw(2, b"b")));
        assert_eq!(parse(&all).iter().map(|task| task.pid).collect::<Vec<_>>(), [1, 2]);
        all.pop();
        assert_eq!(parse(&all).len(), 1);
        assert_eq!(parse(&all[..3]).len(), 0);
    }

    /// Reader that gives one byte at a time, with interruptions.
    struct Drip(Vec<u8>, bool);

    impl Read for Drip {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 && self.0.len().is_multiple_of(8) {
                return Err(ErrorKind::Interrupted.into());
            }
            let Some(byte) = self.0.pop() else { return Ok(0) };
            buffer[0] = byte;
            Ok(1)
        }
    }

    struct Refuses(ErrorKind);

    impl Read for Refuses {
        fn read(&mut self, _buffer: &mut [u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
    }

    #[test]
    fn short_reads_are_joined_and_refusals_are_errors() {
        let mut all = bytes(&raw(258, b"drip"));
        all.reverse();
        assert_eq!(parse(&read_all(&mut Drip(all, false)).unwrap())[0].pid, 258);
        assert!(read_all(&mut Refuses(ErrorKind::PermissionDenied)).is_err());
        assert!(read_all(&mut Refuses(ErrorKind::WouldBlock)).is_err());
        assert_eq!(read_all(&mut io::repeat(1)).unwrap().len(), MAX_TASKS * RECORD);
    }

    proptest! {
        #[test]
        fn any_bytes_make_reports(bytes in prop::collection::vec(any::<u8>(), 0..1000)) {
            prop_assert_eq!(parse(&bytes).len(), bytes.len() / RECORD);
        }
    }
}
