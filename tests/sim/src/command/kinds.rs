// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tasks of the command: kinds of programs by name, and mixes of them.
//!
//! Names are those of bias-bench where the behaviour is alike. A size has no meaning here, because
//! a CPI stack stands for the effects of memory.

use super::failure::{Failure, Result};
use crate::load::{Op, Program, stacks};
use crate::rng::Rng;

/// Maximum number of tasks in a mix.
pub const MAX_TASKS: usize = 4096;

/// Kinds and their parameters, as messages and the help show them.
pub const KNOWN: &str = "compute, branchy, chase, mixed[:PERCENT], phases[:MS], server[:US]";

/// Requests of a server before its sleeps repeat.
const REQUESTS: usize = 64;

/// Shortest and longest sleep of a server [ns].
const SLEEP_NS: (u64, u64) = (1_000_000, 3_000_000);

/// Equal tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Kind with its parameter.
    pub kind: String,
    /// Number of tasks.
    pub tasks: usize,
    what: What,
}

/// What a task does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Busy([u32; 3]),
    /// Computes and waits for memory by turns, each for half of this time [ms].
    Phases(u64),
    /// Runs for this time [us] and sleeps.
    Server(u64),
}

/// Read a mix such as `2compute+chase`.
///
/// # Errors
/// Usage failure that shows the form of a mix.
pub fn parse(text: &str) -> Result<Vec<Group>> {
    let groups: Vec<Group> = text.split('+').map(group).collect::<Result<_>>()?;
    let tasks: usize = groups.iter().fold(0, |sum, group| sum.saturating_add(group.tasks));
    if tasks > MAX_TASKS || groups.iter().any(|group| group.tasks == 0) {
        return Err(Failure::usage(format!(
            "'{text}': a mix has 1 to {MAX_TASKS} tasks, and each part at least one"
        )));
    }
    Ok(groups)
}

fn group(text: &str) -> Result<Group> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, kind) = text.split_at(digits);
    let tasks = if number.is_empty() { 1 } else { number.parse().unwrap_or(usize::MAX) };
    Ok(Group { kind: kind.to_owned(), tasks, what: what(kind)? })
}

fn what(kind: &str) -> Result<What> {
    let (name, parameter) =
        kind.split_once(':').map_or((kind, None), |(name, parameter)| (name, Some(parameter)));
    let number = |default: u64, least: u64, most: u64, unit: &str| {
        let number = parameter.map_or(Some(default), |text| text.parse().ok());
        number
            .filter(|number| (least..=most).contains(number))
            .ok_or_else(|| Failure::usage(format!("'{kind}': {unit} are a number from {least} to {most}")))
    };
    match name {
        "compute" | "branchy" | "chase" if parameter.is_some() => {
            Err(Failure::usage(format!("'{kind}': {name} takes no parameter")))
        }
        "compute" => Ok(What::Busy(stacks::COMPUTE)),
        "branchy" => Ok(What::Busy(stacks::BRANCHES)),
        "chase" => Ok(What::Busy(stacks::CHASE)),
        "mixed" => Ok(What::Busy(blend(number(80, 0, 100, "percents of computing")? as u32))),
        "phases" => Ok(What::Phases(number(200, 2, 5000, "milliseconds of a period")?)),
        "server" => Ok(What::Server(number(200, 5, 100_000, "microseconds of a request")?)),
        _ => Err(Failure::usage(format!(
            "unknown task kind '{name}'; known are {KNOWN}; a mix reads like 2compute+2chase"
        ))),
    }
}

/// Return the stack of work that computes for `percent` of its time.
fn blend(percent: u32) -> [u32; 3] {
    let [_, internal, external] = stacks::CHASE.map(|part| part * (100 - percent) / 100);
    [1000 - internal - external, internal, external]
}

impl Group {
    /// Return the program of one task. `rng` decides sleeps.
    #[must_use]
    pub fn program(&self, rng: &Rng) -> Program {
        let run = |stack, work_ns| Op::Run { stack, work_ns };
        match self.what {
            What::Busy(stack) => Program::busy(stack),
            What::Phases(ms) => {
                let phases = [stacks::COMPUTE, stacks::CHASE];
                Program { ops: phases.map(|stack| run(stack, ms * 500_000)).to_vec(), repeat: true }
            }
            What::Server(us) => {
                let sleep = || Op::Sleep { ns: rng.within(SLEEP_NS.0, SLEEP_NS.1) };
                let ops = (0..REQUESTS).flat_map(|_| [run(stacks::MIXED, us * 1000), sleep()]);
                Program { ops: ops.collect(), repeat: true }
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_has_groups_of_tasks() {
        let groups = parse("2compute+chase+3server:50+mixed").unwrap();
        let seen: Vec<_> = groups.iter().map(|group| (group.tasks, group.kind.as_str())).collect();
        assert_eq!(seen, [(2, "compute"), (1, "chase"), (3, "server:50"), (1, "mixed")]);
        assert_eq!(groups[2].program(&Rng::new(1)).ops.len(), 2 * REQUESTS);
        for percent in 0..=100 {
            assert_eq!(blend(percent).iter().sum::<u32>(), 1000);
        }
        assert_eq!((blend(100), blend(0)), (stacks::COMPUTE, stacks::CHASE));
    }

    #[test]
    fn wrong_mixes_are_refused_with_the_valid_choices() {
        for (text, remedy) in [
            ("2computer", "known are compute"),
            ("", "known are compute"),
            ("0compute", "1 to 4096 tasks"),
            ("99999999999999999999compute", "1 to 4096 tasks"),
            ("compute:4", "no parameter"),
            ("mixed:101", "0 to 100"),
            ("server:x", "5 to 100000"),
        ] {
            let failure = parse(text).unwrap_err();
            assert!(failure.line.contains(remedy) && failure.code == 2, "{text}: {failure:?}");
        }
    }
}
