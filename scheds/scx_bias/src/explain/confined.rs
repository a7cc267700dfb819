// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tasks that are confined to fast CPUs although they gain next to nothing there.
//!
//! An administrator who pins a program to the fastest CPUs costs the others more than the program
//! gains, if it mostly waits for memory (\[Reif20\], section 5.2). scx_bias may not migrate such a
//! task, so it names it.
//!
//! A prediction is an average of few windows. A program that starts disturbs those of others for
//! some tens of milliseconds, `status` as well. A task that would count if it gained a little less
//! is therefore judged once more after [`SETTLE`].

use std::ops::RangeInclusive;
use std::time::Duration;

use bias_agent::affinity;
use bias_agent::bpf::TaskReport;
use bias_agent::control::Machine;
use bias_agent::cpulist;
use bias_agent::figures::ratio;
use bias_policy::table::Class;
use serde::Serialize;

use super::words::cut;

/// A task up to this speedup takes a fast CPU for next to nothing [permille].
const LITTLE_PERMILLE: u32 = 1100;
/// A task above [`LITTLE_PERMILLE`], but not above this, may only be disturbed [permille].
const DOUBTFUL_PERMILLE: u32 = 1300;
/// Time in which the windows of a disturbed task are replaced.
pub const SETTLE: Duration = Duration::from_millis(300);
/// A task that ran on fast CPUs for less than this is no burden [ms].
const MIN_MS: f64 = 1000.0;
/// Windows of its own after which a prediction counts. Whether it is stable does not matter: one
/// window that interrupts disturb makes it unstable for some time.
const MIN_WINDOWS: u32 = 8;
/// Columns of a name at most.
const NAME_MAX: usize = 15;

/// Such a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Confined {
    /// Pid of the thread.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Predicted time on a slow CPU over time on a fast one [permille].
    pub speedup_permille: u32,
}

/// Return the confined ones of `tasks`, which may run now.
pub fn find_now<'a>(tasks: impl IntoIterator<Item = &'a TaskReport>, machine: &Machine) -> Vec<Confined> {
    find(tasks, machine, 0..=LITTLE_PERMILLE, allowed_now)
}

/// Return true if one of `tasks` may be confined, but was disturbed.
pub fn are_doubtful(tasks: &[TaskReport], machine: &Machine) -> bool {
    !find(tasks, machine, LITTLE_PERMILLE + 1..=DOUBTFUL_PERMILLE, allowed_now).is_empty()
}

fn allowed_now(pid: u32) -> Option<Vec<u32>> {
    affinity::allowed_to_thread(i32::try_from(pid).ok()?).ok()
}

/// Return the confined ones of `tasks` with such gains [permille]. `allowed` returns the CPUs that
/// a thread may use, None if it has ended.
fn find<'a>(
    tasks: impl IntoIterator<Item = &'a TaskReport>,
    machine: &Machine,
    gains: RangeInclusive<u32>,
    allowed: impl Fn(u32) -> Option<Vec<u32>>,
) -> Vec<Confined> {
    let slow = cpus(machine, Some(Class::Slow));
    let judge = |task: &TaskReport| {
        let speedup_permille =
            task.speedup_permille.filter(|gain| gains.contains(gain) && task.windows >= MIN_WINDOWS)?;
        if slow.is_empty() || task.fast_ms < MIN_MS || allowed(task.pid)?.iter().any(|cpu| slow.contains(cpu))
        {
            return None;
        }
        Some(Confined { pid: task.pid, name: task.name.clone(), speedup_permille })
    };
    tasks.into_iter().filter_map(judge).collect()
}

/// Return the CPUs of a class, or all, in ascending order.
fn cpus(machine: &Machine, class: Option<Class>) -> Vec<u32> {
    let of_class = machine.classes.iter().filter(|entry| class.is_none_or(|class| entry.class == class));
    let mut cpus: Vec<u32> = of_class.flat_map(|entry| entry.cpus.iter().copied()).collect();
    cpus.sort_unstable();
    cpus
}

/// Name the first of `confined`, what it gains, the remedy, and the number of the others.
pub fn sentence(confined: &[Confined], machine: &Machine) -> Option<String> {
    let first = confined.first()?;
    let others = match confined.len() - 1 {
        0 => String::new(),
        more => format!(" ({more} more tasks are confined like it)"),
    };
    Some(format!(
        "{} ({}) may use fast CPUs only and gains {}x there; `taskset -pc {} {}` lets it make way for others{others}.",
        cut(&first.name, NAME_MAX),
        first.pid,
        ratio(first.speedup_permille),
        cpulist::format(&cpus(machine, None)),
        first.pid
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::tests::machine;

    fn task(pid: u32, speedup: u32, fast_ms: f64, slow_ms: f64) -> TaskReport {
        let speedup_permille = Some(speedup);
        TaskReport { pid, speedup_permille, windows: 8, fast_ms, slow_ms, ..TaskReport::default() }
    }

    fn found(tasks: &[TaskReport], allowed: &dyn Fn(u32) -> Option<Vec<u32>>) -> Vec<u32> {
        find(tasks, &machine(), 0..=LITTLE_PERMILLE, allowed).iter().map(|task| task.pid).collect()
    }

    #[test]
    fn only_a_confined_task_that_gains_little_is_named() {
        let (fast, all) = (cpus(&machine(), Some(Class::Fast)), cpus(&machine(), None));
        let confined = |_| Some(fast.clone());
        let one = task(7, 1020, 5000.0, 0.0);
        assert_eq!(found(std::slice::from_ref(&one), &confined), [7]);
        assert!(found(std::slice::from_ref(&one), &|_| Some(all.clone())).is_empty());
        // It has ended.
        assert!(found(std::slice::from_ref(&one), &|_| None).is_empty());
        for other in [
            task(8, 1500, 5000.0, 0.0),
            task(8, 1020, 500.0, 9000.0),
            TaskReport { windows: 7, ..one.clone() },
            TaskReport { speedup_permille: None, ..one.clone() },
        ] {
            assert!(found(std::slice::from_ref(&other), &confined).is_empty(), "{other:?}");
        }
        assert!(find([&one], &Machine { classes: Vec::new() }, 0..=LITTLE_PERMILLE, confined).is_empty());
    }

    #[test]
    fn a_disturbed_task_is_doubtful() {
        // This thread runs on CPUs that the machine lists as fast only.
        let mut machine = machine();
        machine.classes[0].cpus = affinity::allowed().unwrap_or_default();
        machine.classes[1].cpus = vec![9999];
        let doubtful = |gain| are_doubtful(&[task(std::process::id(), gain, 5000.0, 0.0)], &machine);
        assert_eq!([1100, 1101, 1300, 1301].map(doubtful), [false, true, true, false]);
    }

    #[test]
    fn the_sentence_names_the_task_the_gain_and_the_remedy() {
        assert_eq!(sentence(&[], &machine()), None);
        let of = |pid| Confined { pid, name: "a\nb".into(), speedup_permille: 1020 };
        let text = sentence(&[of(7), of(8)], &machine()).unwrap_or_default();
        assert!(text.starts_with("a?b (7) may use fast CPUs only and gains 1.02x there"), "{text}");
        assert!(text.contains("taskset -pc 0-3 7") && text.contains("(1 more"), "{text}");
    }
}
