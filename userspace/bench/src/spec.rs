// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Names that the command line accepts: kinds of workload, mixes of tasks, and lists of CPUs.
//!
//! The module only parses, and prints as the inverse. Every error is one line that shows a valid
//! form.
//!
//! # Problem
//! Command lines, plans, result files and tables name the same workloads, for years.
//!
//! # Approach
//! One enum is parsed from `NAME` or `NAME:PARAMETER`, and printed by the inverse. Kinds whose
//! parameter the user is meant to choose (`mixed`, `swp`, `phases`) always print it. Sizes are
//! printed only where they differ from the default.
//!
//! # Invariants
//! Parsing a printed kind gives the same kind. Every name alone is a valid kind.
//!
//! # Limits
//! A kind has at most one parameter.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Set of `chase`, `stalled`, `cachestress` and `swpmem`: 384 KiB, 1.5 times the last-level cache
/// that the asymmetric VM models. It is small enough that a modelled miss still hits the host's
/// caches and TLB. Larger sets take the host longer.
pub const DEFAULT_CHASE_BYTES: usize = 384 << 10;
/// Set of `stream`, all three arrays together.
pub const DEFAULT_STREAM_BYTES: usize = 3 << 19;
/// Multiplications after each load of `stalled`. A CPU of 60 MIPS with 600 ns per miss is then
/// stalled 50 % of the time.
pub const DEFAULT_MULTIPLIES: u32 = 16;
/// Share of computing in `mixed` and `swp`, percent: the middle one of the ratios 1.0, 0.8, 0.6.
const DEFAULT_PERCENT: u8 = 80;
/// Period of `phases`, milliseconds: one half computes, the other half chases.
const DEFAULT_PERIOD_MS: u32 = 2000;
/// Accepted periods of `phases`, milliseconds.
const PERIODS_MS: std::ops::RangeInclusive<u32> = 50..=5000;
/// Largest accepted set: 4 GiB.
const MAX_SET_BYTES: usize = 4 << 30;

/// A kind of workload with its parameter. Written `compute`, `float`, `chase`, `chase:4M`,
/// `stalled:20`, `branchy`, `stream:6M`, `mixed:80`, `phases:500`, `cachestress`, `swpcpu`,
/// `swpmem`, `swp:60`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WorkKind {
    /// Integer arithmetic in registers.
    Compute,
    /// Dependent loads along a random cycle through this many bytes.
    Chase {
        /// Size of the set.
        set_bytes: usize,
    },
    /// A chase with this many multiplications after each load.
    Stalled {
        /// Multiplications per load; more multiplications mean fewer stalls.
        multiplies: u32,
    },
    /// Unpredictable branches.
    Branchy,
    /// Sums over three long arrays.
    Stream {
        /// Size of the three arrays together.
        set_bytes: usize,
    },
    /// Floating-point arithmetic in registers.
    Float,
    /// Compute and chase, alternating in periods much shorter than a slice. The task as a whole is
    /// a blend of both.
    Mixed {
        /// Share of the work that is compute, percent.
        compute_percent: u8,
    },
    /// Compute for half a period of wall time, then chase for the other half, repeatedly.
    Phases {
        /// Length of a compute phase and a chase phase together, milliseconds.
        period_ms: u32,
    },
    /// Increments of every line of a buffer, each followed by a flush from the caches.
    CacheStress {
        /// Size of the buffer.
        set_bytes: usize,
    },
    /// Integer and floating-point arithmetic in registers: the CPU function of libswp's
    /// micro-benchmark [Werling18].
    SwpCpu,
    /// Indirect accesses, then pointer chasing: the memory functions of libswp's micro-benchmark.
    SwpMem {
        /// Size of all their data together.
        set_bytes: usize,
    },
    /// `swpcpu` and `swpmem` in one task, alternating within each step.
    Swp {
        /// Share of the work that is `swpcpu`, percent.
        cpu_percent: u8,
    },
}

impl WorkKind {
    /// Names of all kinds.
    pub const NAMES: [&str; 12] = [
        "compute",
        "chase",
        "stalled",
        "branchy",
        "stream",
        "float",
        "mixed",
        "phases",
        "cachestress",
        "swpcpu",
        "swpmem",
        "swp",
    ];

    /// Return the wall time after which the kind repeats its behaviour; zero for kinds that never
    /// change. A measurement must cover whole periods, else its result depends on the phase that it
    /// saw.
    pub fn period(&self) -> Duration {
        match *self {
            WorkKind::Phases { period_ms } => Duration::from_millis(period_ms.into()),
            _ => Duration::ZERO,
        }
    }
}

impl FromStr for WorkKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, parameter) = match text.split_once(':') {
            Some((name, parameter)) => (name, Some(parameter)),
            None => (text, None),
        };
        let bytes = |default| parameter.map_or(Ok(default), parse_bytes);
        let percent = || parameter.map_or(Ok(DEFAULT_PERCENT), parse_percent);
        match name {
            "compute" | "branchy" | "float" | "swpcpu" if parameter.is_some() => {
                Err(format!("'{name}' takes no parameter"))
            }
            "compute" => Ok(WorkKind::Compute),
            "branchy" => Ok(WorkKind::Branchy),
            "float" => Ok(WorkKind::Float),
            "swpcpu" => Ok(WorkKind::SwpCpu),
            "chase" => Ok(WorkKind::Chase { set_bytes: bytes(DEFAULT_CHASE_BYTES)? }),
            "stream" => Ok(WorkKind::Stream { set_bytes: bytes(DEFAULT_STREAM_BYTES)? }),
            "cachestress" => Ok(WorkKind::CacheStress { set_bytes: bytes(DEFAULT_CHASE_BYTES)? }),
            "swpmem" => Ok(WorkKind::SwpMem { set_bytes: bytes(DEFAULT_CHASE_BYTES)? }),
            "mixed" => Ok(WorkKind::Mixed { compute_percent: percent()? }),
            "swp" => Ok(WorkKind::Swp { cpu_percent: percent()? }),
            "stalled" => match parameter.map_or(Ok(DEFAULT_MULTIPLIES), str::parse) {
                Ok(multiplies) if multiplies <= 100_000 => Ok(WorkKind::Stalled { multiplies }),
                _ => Err(format!("'{text}': multiplications per load are a number from 0 to 100000")),
            },
            "phases" => match parameter.map_or(Ok(DEFAULT_PERIOD_MS), str::parse) {
                Ok(period_ms) if PERIODS_MS.contains(&period_ms) => Ok(WorkKind::Phases { period_ms }),
                _ => Err(format!("'{text}': the period is a number of milliseconds from 50 to 5000")),
            },
            _ => Err(format!("unknown workload '{name}'; known are {}", WorkKind::NAMES.join(", "))),
        }
    }
}

impl fmt::Display for WorkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            WorkKind::Compute => f.write_str("compute"),
            WorkKind::Branchy => f.write_str("branchy"),
            WorkKind::Float => f.write_str("float"),
            WorkKind::SwpCpu => f.write_str("swpcpu"),
            WorkKind::Chase { set_bytes } => write_sized(f, "chase", set_bytes, DEFAULT_CHASE_BYTES),
            WorkKind::Stream { set_bytes } => write_sized(f, "stream", set_bytes, DEFAULT_STREAM_BYTES),
            WorkKind::CacheStress { set_bytes } => {
                write_sized(f, "cachestress", set_bytes, DEFAULT_CHASE_BYTES)
            }
            WorkKind::SwpMem { set_bytes } => write_sized(f, "swpmem", set_bytes, DEFAULT_CHASE_BYTES),
            WorkKind::Stalled { multiplies: DEFAULT_MULTIPLIES } => f.write_str("stalled"),
            WorkKind::Stalled { multiplies } => write!(f, "stalled:{multiplies}"),
            WorkKind::Mixed { compute_percent } => write!(f, "mixed:{compute_percent}"),
            WorkKind::Phases { period_ms } => write!(f, "phases:{period_ms}"),
            WorkKind::Swp { cpu_percent } => write!(f, "swp:{cpu_percent}"),
        }
    }
}

/// Write a name, and the size where it is not the default.
fn write_sized(f: &mut fmt::Formatter<'_>, name: &str, bytes: usize, default: usize) -> fmt::Result {
    if bytes == default { f.write_str(name) } else { write!(f, "{name}:{bytes}") }
}

/// Parse a share of 0 to 100.
fn parse_percent(text: &str) -> Result<u8, String> {
    let percent = text.parse::<u8>().ok().filter(|percent| *percent <= 100);
    percent.ok_or_else(|| format!("'{text}' is not a percentage; write 0 to 100, e.g. mixed:80"))
}

/// Parse a size such as `65536`, `256K`, `4M`, `1G` (powers of 1024), from 128 bytes to 4 GiB.
pub fn parse_bytes(text: &str) -> Result<usize, String> {
    let (digits, shift) = match text.char_indices().last() {
        Some((i, 'K' | 'k')) => (&text[..i], 10),
        Some((i, 'M' | 'm')) => (&text[..i], 20),
        Some((i, 'G' | 'g')) => (&text[..i], 30),
        _ => (text, 0),
    };
    let size = digits.parse::<usize>().ok().and_then(|n| n.checked_mul(1 << shift));
    size.filter(|n| (128..=MAX_SET_BYTES).contains(n))
        .ok_or_else(|| format!("'{text}' is not a size; write 128 to 4G, e.g. 512K"))
}

/// Largest number of tasks in a mix.
const MAX_TASKS: usize = 1024;

/// Tasks that run at the same time. Written `2compute+2chase:4M`; a missing count means 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mix(Vec<(usize, WorkKind)>);

impl Mix {
    /// Return the kind of every task, in order, one entry per task.
    pub fn tasks(&self) -> Vec<WorkKind> {
        self.0.iter().flat_map(|&(n, kind)| std::iter::repeat_n(kind, n)).collect()
    }

    /// Return each kind once, sorted.
    pub fn kinds(&self) -> Vec<WorkKind> {
        let mut kinds: Vec<WorkKind> = self.0.iter().map(|&(_, kind)| kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut groups = Vec::new();
        let mut total = 0usize;
        for part in text.split('+') {
            let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let (number, kind) = part.split_at(digits);
            let number: usize = if number.is_empty() { 1 } else { number.parse().unwrap_or(usize::MAX) };
            let kind =
                kind.parse::<WorkKind>().map_err(|e| format!("{e}; a mix reads like 2compute+2chase"))?;
            total = total.saturating_add(number);
            if number == 0 || total > MAX_TASKS {
                return Err(format!(
                    "'{text}': a mix has 1 to {MAX_TASKS} tasks, and each group at least one"
                ));
            }
            groups.push((number, kind));
        }
        Ok(Mix(groups))
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (number, kind)) in self.0.iter().enumerate() {
            write!(f, "{}{number}{kind}", if i > 0 { "+" } else { "" })?;
        }
        Ok(())
    }
}

/// Number of CPUs that the kernel's affinity mask of 1024 bits can name. CPU numbers are below it.
pub const MAX_CPUS: usize = 1024;

/// A list of CPUs such as `0-3,8`: sorted, without repetition, not empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CpuList(pub Vec<usize>);

impl FromStr for CpuList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("'{text}' is not a list of CPUs; write 0-3,8 with numbers below {MAX_CPUS}");
        let mut cpus = Vec::new();
        for part in text.trim().split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: usize = first.parse().map_err(|_| bad())?;
            let last: usize = last.parse().map_err(|_| bad())?;
            if first > last || last >= MAX_CPUS {
                return Err(bad());
            }
            cpus.extend(first..=last);
        }
        cpus.sort_unstable();
        cpus.dedup();
        Ok(CpuList(cpus))
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_slice();
        let mut separator = "";
        while let Some(&first) = rest.first() {
            let run = rest.iter().enumerate().take_while(|&(i, &cpu)| cpu == first + i).count();
            match run {
                1 => write!(f, "{separator}{first}")?,
                _ => write!(f, "{separator}{first}-{}", first + run - 1)?,
            }
            rest = &rest[run..];
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_kind() -> impl Strategy<Value = WorkKind> {
        let size = 128usize..=MAX_SET_BYTES;
        prop_oneof![
            Just(WorkKind::Compute),
            Just(WorkKind::Branchy),
            Just(WorkKind::Float),
            Just(WorkKind::SwpCpu),
            size.clone().prop_map(|set_bytes| WorkKind::Chase { set_bytes }),
            size.clone().prop_map(|set_bytes| WorkKind::Stream { set_bytes }),
            size.clone().prop_map(|set_bytes| WorkKind::CacheStress { set_bytes }),
            size.prop_map(|set_bytes| WorkKind::SwpMem { set_bytes }),
            (0u32..=100_000).prop_map(|multiplies| WorkKind::Stalled { multiplies }),
            (0u8..=100).prop_map(|compute_percent| WorkKind::Mixed { compute_percent }),
            (0u8..=100).prop_map(|cpu_percent| WorkKind::Swp { cpu_percent }),
            PERIODS_MS.prop_map(|period_ms| WorkKind::Phases { period_ms }),
        ]
    }

    proptest! {
        #[test]
        fn a_kind_survives_printing(kind in any_kind()) {
            prop_assert_eq!(kind.to_string().parse(), Ok(kind));
        }
    }

    #[test]
    fn every_name_alone_is_a_kind_of_that_name() {
        for name in WorkKind::NAMES {
            let printed = name.parse::<WorkKind>().unwrap().to_string();
            assert_eq!(printed.split(':').next(), Some(name));
            assert_eq!(printed.parse::<WorkKind>(), name.parse());
        }
    }

    #[test]
    fn wrong_parameters_are_refused_with_the_remedy() {
        for (text, remedy) in [
            ("mixed:101", "0 to 100"),
            ("mixed:", "0 to 100"),
            ("swp:-1", "0 to 100"),
            ("phases:49", "from 50 to 5000"),
            ("phases:5001", "from 50 to 5000"),
            ("phases:2s", "from 50 to 5000"),
            ("cachestress:1", "128 to 4G"),
            ("float:2", "takes no parameter"),
            ("swpcpu:80", "takes no parameter"),
            ("cpu", "known are compute"),
        ] {
            let error = text.parse::<WorkKind>().unwrap_err();
            assert!(error.contains(remedy) && !error.contains('\n'), "{text}: {error}");
        }
    }

    #[test]
    fn only_phases_have_a_period() {
        let with: Vec<&str> = WorkKind::NAMES
            .into_iter()
            .filter(|name| name.parse::<WorkKind>().unwrap().period() > Duration::ZERO)
            .collect();
        assert_eq!(with, ["phases"]);
    }

    #[test]
    fn a_mix_parses_into_its_tasks() {
        let mix: Mix = "2compute+chase:4M+stalled:30".parse().unwrap();
        assert_eq!(mix.tasks().len(), 4);
        assert_eq!(mix.tasks()[3], WorkKind::Stalled { multiplies: 30 });
        assert_eq!(mix.kinds().len(), 3);
        assert_eq!(mix.to_string(), "2compute+1chase:4194304+1stalled:30");
    }

    #[test]
    fn wrong_specs_are_refused_with_the_remedy() {
        for (text, remedy) in [
            ("2computer", "known are compute"),
            ("", "a mix reads like"),
            ("0compute", "1 to 1024 tasks"),
            ("99999999999999999999compute", "1 to 1024 tasks"),
            ("600compute+600chase", "1 to 1024 tasks"),
            ("compute:4", "takes no parameter"),
            ("chase:1", "128 to 4G"),
            ("chase:-1", "128 to 4G"),
            ("chase:4Mé", "128 to 4G"),
            ("stalled:x", "from 0 to 100000"),
        ] {
            let error = text.parse::<Mix>().unwrap_err();
            assert!(error.contains(remedy) && !error.contains('\n'), "{text}: {error}");
        }
    }

    #[test]
    fn cpu_lists() {
        assert_eq!("0-2,8".parse(), Ok(CpuList(vec![0, 1, 2, 8])));
        assert_eq!("3,1,1-2\n".parse(), Ok(CpuList(vec![1, 2, 3])));
        for bad in ["", "a", "3-1", "0-1024", "1,,2", "-1", "0-99999999999999999999"] {
            assert!(bad.parse::<CpuList>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_cpu_list_survives_printing(mut cpus in proptest::collection::vec(0usize..MAX_CPUS, 1..40)) {
            cpus.sort_unstable();
            cpus.dedup();
            let list = CpuList(cpus);
            prop_assert_eq!(list.to_string().parse(), Ok(list));
        }

        #[test]
        fn parsing_never_panics(text in "\\PC{0,20}") {
            let _ = (text.parse::<Mix>(), text.parse::<CpuList>(), text.parse::<WorkKind>());
        }
    }
}
