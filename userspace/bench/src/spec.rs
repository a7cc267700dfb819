// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Names that the command line accepts: kinds of workload, mixes of tasks, and lists of CPUs.
//!
//! The module only parses, and prints as the inverse. Every error is one line that shows a valid
//! form.

mod kind;

pub use kind::{DEFAULT_CHASE_BYTES, DEFAULT_MULTIPLIES, DEFAULT_STREAM_BYTES, WorkKind, parse_bytes};
use std::fmt;
use std::str::FromStr;

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

    #[test]
    fn a_mix_reads_as_it_is_written() {
        let mix: Mix = "2compute+chase:4M+stalled:30".parse().unwrap();
        assert_eq!(mix.tasks().len(), 4);
        assert_eq!(mix.tasks()[3], WorkKind::Stalled { multiplies: 30 });
        assert_eq!(mix.kinds().len(), 3);
        assert_eq!(mix.to_string(), "2compute+1chase:4194304+1stalled:30");
    }

    #[test]
    fn wrong_specs_are_refused_with_what_is_right() {
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
