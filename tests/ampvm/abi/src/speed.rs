// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Speeds and their changes as text.

use std::fmt;
use std::str::FromStr;

use crate::layout::{MAX_MIPS_MILLI, MIN_MIPS_MILLI};

/// Error in the text of a machine or of a speed, in one line that also says how to correct it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SpecError(pub(crate) String);

/// Return a number with up to three decimals, in thousandths.
pub(crate) fn milli(text: &str) -> Option<u32> {
    let (whole, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || fraction.len() > 3 || !digits(whole) || !digits(fraction) {
        return None;
    }
    let thousandths: u32 = format!("{fraction:0<3}").parse().ok()?;
    whole.parse::<u32>().ok()?.checked_mul(1000)?.checked_add(thousandths)
}

/// Return a speed in MIPS as MIPS/1000.
///
/// # Errors
/// The text is not a number of at most three decimals, or outside the range that the message names.
pub fn parse_mips(text: &str) -> Result<u32, SpecError> {
    milli(text).filter(|speed| (MIN_MIPS_MILLI..=MAX_MIPS_MILLI).contains(speed)).ok_or_else(|| {
        SpecError(format!("\"{text}\" is not a speed in MIPS, 0.1 to 10000 with up to three decimals"))
    })
}

/// A change of one vCPU's speed at some time. Its text is `CPU:MIPS@SECONDS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpeedChange {
    /// Virtual time since the start of the model [ms].
    pub at_ms: u32,
    /// The vCPU.
    pub cpu: usize,
    /// Its new speed in MIPS/1000.
    pub mips_milli: u32,
}

impl FromStr for SpeedChange {
    type Err = SpecError;
    fn from_str(text: &str) -> Result<Self, SpecError> {
        let parse = || {
            let (cpu, rest) = text.split_once(':')?;
            let (mips, seconds) = rest.split_once('@')?;
            Some(Self { at_ms: milli(seconds)?, cpu: cpu.parse().ok()?, mips_milli: parse_mips(mips).ok()? })
        };
        parse().ok_or_else(|| {
            SpecError(format!("\"{text}\" is not CPU:MIPS@SECONDS with 0.1 to 10000 MIPS, such as 1:12@3.5"))
        })
    }
}

impl fmt::Display for SpeedChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [mips, seconds] = [self.mips_milli, self.at_ms].map(|milli| f64::from(milli) / 1000.0);
        write!(f, "{}:{mips}@{seconds}", self.cpu)
    }
}
