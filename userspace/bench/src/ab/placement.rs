// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Best and worst static placement: the bounds of a scheduler's throughput.
//!
//! # Problem
//! "Better than default" says little without the possible gain and loss. The best and the worst
//! fixed assignment of tasks to CPUs show both. [Koufaty10] compares with the best assignment, and
//! [Werling18] asks for an equivalent.
//!
//! # Approach
//! Exhaustive search. The STP of every assignment of tasks to classes is predicted from the speed
//! of each kind of task, alone on a fast and on a slow CPU. The tasks assigned to a class share its
//! CPUs evenly. Tasks of one kind are interchangeable, so only their number on fast CPUs matters.
//! Even large mixes therefore have few assignments.
//!
//! SMT siblings share a core. A task with a busy sibling CPU makes its kind's shared progress
//! ([`KindProgress`]). A task with a core to itself makes the full one. The best placement of a
//! class first takes a thread of each core, and then the siblings of as few cores as possible. The
//! cores that stay whole go to the tasks that lose most from a busy sibling. The worst placement
//! does the opposite.
//!
//! # Invariants
//! * In both placements, no CPU idles while another has two tasks of the mix. The worst placement
//!   is a wrong choice, not a refusal to work.
//! * With at most one task per CPU, no such placement has a higher prediction than the best or a
//!   lower one than the worst.
//! * Without siblings, the shared progress has no effect.
//!
//! # Limits
//! * Contention for caches and memory is not predicted.
//! * A kind without a speed on slow CPUs counts as equally fast there.
//! * One busy sibling counts like several, and the kind of its task does not matter.
//! * Mixes with more than [`MAX_ASSIGNMENTS`] assignments are refused.

use crate::solo::{self, Solo};
use crate::spec::WorkKind;
use crate::{Result, cpus};
use std::collections::BTreeMap;

/// Maximum number of assignments to search.
const MAX_ASSIGNMENTS: usize = 1_000_000;
/// Progress with a busy sibling over progress alone, for a kind without a measurement. Two
/// executing threads of a core then do 1.25 times the work of one. This is below 1, so a whole core
/// beats the sibling of a busy CPU.
const SHARED_DEFAULT: f64 = 0.625;

/// A class of CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// The fast CPUs.
    Fast,
    /// All others.
    Slow,
}

/// The cores of the two classes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classes {
    /// The CPUs of each fast core. Not empty.
    pub fast: Vec<Vec<usize>>,
    /// The CPUs of each slow core. May be empty.
    pub slow: Vec<Vec<usize>>,
}

impl Classes {
    /// Divide cores into classes. A core is fast if one of its CPUs is.
    pub fn of(cores: Vec<Vec<usize>>, fast_cpus: &[usize]) -> Self {
        let is_fast = |core: &Vec<usize>| core.iter().any(|cpu| fast_cpus.contains(cpu));
        let (fast, slow) = cores.into_iter().partition(is_fast);
        Classes { fast, slow }
    }

    /// Return the CPUs of each core of a class.
    pub fn cores(&self, class: Class) -> &[Vec<usize>] {
        match class {
            Class::Fast => &self.fast,
            Class::Slow => &self.slow,
        }
    }

    /// Return the number of CPUs of a class.
    pub fn cpus(&self, class: Class) -> usize {
        self.cores(class).iter().map(Vec::len).sum()
    }
}

/// Progress of each kind of task, where 1 is a task alone on a fast CPU.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KindProgress {
    /// Alone on a slow core.
    pub slow: BTreeMap<WorkKind, f64>,
    /// On a core whose other CPUs are busy, by class.
    pub shared: BTreeMap<(Class, WorkKind), f64>,
}

impl KindProgress {
    /// Measure the kinds on a slow core, and with busy siblings on a core of each class that has
    /// any.
    pub fn measure(solo: &Solo, classes: &Classes, kinds: &[WorkKind]) -> Result<Self> {
        let mut progress = Self::default();
        let slow = classes.slow.first().and_then(|core| core.first());
        let siblings = |class| {
            let core = classes.cores(class).iter().find(|core| core.len() > 1)?;
            core.split_first().map(|(cpu, siblings)| (class, *cpu, siblings))
        };
        for kind in kinds {
            let rate = solo.rate(kind)?;
            if let Some(&cpu) = slow {
                progress.slow.insert(*kind, solo::alone(kind, cpu)? / rate);
            }
            for (class, cpu, siblings) in [Class::Fast, Class::Slow].into_iter().filter_map(siblings) {
                let shared = solo::with_busy_siblings(kind, cpu, siblings)? / rate;
                progress.shared.insert((class, *kind), shared);
            }
        }
        Ok(progress)
    }

    /// Return the progress of a task that has its core to itself.
    pub fn alone(&self, class: Class, kind: &WorkKind) -> f64 {
        match class {
            Class::Fast => 1.0,
            Class::Slow => self.slow.get(kind).copied().unwrap_or(1.0),
        }
    }

    /// Return the progress of a task whose sibling is busy. It never exceeds the progress alone.
    pub fn shared(&self, class: Class, kind: &WorkKind) -> f64 {
        let alone = self.alone(class, kind);
        self.shared.get(&(class, *kind)).map_or(alone * SHARED_DEFAULT, |shared| shared.min(alone))
    }
}

/// Return the online CPUs by class.
pub fn classes(solo: &Solo) -> Result<Classes> {
    Ok(Classes::of(cpus::cores(&cpus::online()?.0), &solo.fast_cpus))
}

/// A placement of every task, with its predicted throughput.
#[derive(Debug, Clone, PartialEq)]
pub struct Placement {
    /// The CPU of each task, in the order of the mix.
    pub pins: Vec<usize>,
    /// Predicted sum of the tasks' progress.
    pub stp: f64,
}

/// Return the best and the worst placement of `tasks`.
pub fn extremes(
    tasks: &[WorkKind],
    classes: &Classes,
    progress: &KindProgress,
) -> std::result::Result<(Placement, Placement), String> {
    let mut kinds: Vec<(WorkKind, usize)> = Vec::new();
    for kind in tasks {
        match kinds.iter_mut().find(|(known, _)| known == kind) {
            Some((_, count)) => *count += 1,
            None => kinds.push((*kind, 1)),
        }
    }
    let assignments = kinds.iter().try_fold(1usize, |n, (_, count)| n.checked_mul(count + 1));
    if assignments.is_none_or(|n| n > MAX_ASSIGNMENTS) {
        return Err(format!(
            "a mix of {} kinds has too many placements to search; use fewer kinds or tasks",
            kinds.len()
        ));
    }
    let search = |order| {
        let sides = [Class::Fast, Class::Slow]
            .map(|class| Side::new(classes, class, order, &kinds, progress, tasks.len()));
        let (stp, on_fast) =
            search(&kinds, classes, &sides, tasks.len(), order).ok_or("there is no CPU to place tasks on")?;
        Ok::<_, String>(Placement { pins: pins(tasks, &kinds, &on_fast, &sides), stp })
    };
    Ok((search(Order::Spread)?, search(Order::Packed)?))
}

/// Return the assignment with the highest STP (the lowest for [`Order::Packed`]): the number of
/// tasks of each kind on fast CPUs. None without CPUs.
fn search(
    kinds: &[(WorkKind, usize)],
    classes: &Classes,
    [fast, slow]: &[Side; 2],
    tasks: usize,
    order: Order,
) -> Option<(f64, Vec<usize>)> {
    let mut found: Option<(f64, Vec<usize>)> = None;
    let mut on_fast = vec![0; kinds.len()];
    loop {
        if works_everywhere(on_fast.iter().sum(), tasks, classes) {
            let on_slow: Vec<usize> = kinds.iter().zip(&on_fast).map(|((_, count), n)| count - n).collect();
            let of_kinds = fast.progress(&on_fast).into_iter().zip(slow.progress(&on_slow));
            let stp: f64 = of_kinds.map(|(fast, slow)| fast + slow).sum();
            let better = |value: f64| if order == Order::Spread { stp > value } else { stp < value };
            if found.as_ref().is_none_or(|(value, _)| better(*value)) {
                found = Some((stp, on_fast.clone()));
            }
        }
        if !next(&mut on_fast, kinds) {
            return found;
        }
    }
}

/// Advance to the next assignment. Return false after the last one.
fn next(on_fast: &mut [usize], kinds: &[(WorkKind, usize)]) -> bool {
    for (value, (_, count)) in on_fast.iter_mut().zip(kinds) {
        if *value < *count {
            *value += 1;
            return true;
        }
        *value = 0;
    }
    false
}

/// Return true if no CPU idles while another has two tasks.
fn works_everywhere(fast_tasks: usize, tasks: usize, classes: &Classes) -> bool {
    let slow_tasks = tasks - fast_tasks;
    let (fast, slow) = (classes.cpus(Class::Fast), classes.cpus(Class::Slow));
    let fits = |tasks: usize, cpus: usize| tasks <= cpus;
    let full = |tasks: usize, cpus: usize| tasks >= cpus;
    if slow == 0 {
        return slow_tasks == 0;
    }
    (fits(fast_tasks, fast) && fits(slow_tasks, slow)) || (full(fast_tasks, fast) && full(slow_tasks, slow))
}

/// Return a CPU for each task. The first tasks of a kind are those on fast CPUs.
fn pins(
    tasks: &[WorkKind],
    kinds: &[(WorkKind, usize)],
    on_fast: &[usize],
    [fast, slow]: &[Side; 2],
) -> Vec<usize> {
    let on_slow: Vec<usize> = kinds.iter().zip(on_fast).map(|((_, count), n)| count - n).collect();
    let (mut fast, mut slow) = (fast.pool(on_fast), slow.pool(&on_slow));
    let place = |kind: &WorkKind| {
        let index = kinds.iter().position(|(known, _)| known == kind)?;
        fast.next(index).or_else(|| slow.next(index))
    };
    tasks.iter().filter_map(place).collect()
}

/// The way in which the tasks of a class occupy its cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// As few tasks as possible share a core, and those lose least by it: the best placement.
    Spread,
    /// As many tasks as possible share a core, and those lose most by it: the worst placement.
    Packed,
}

/// Return the number of tasks on each core of `sizes` CPUs, for at most as many tasks as CPUs.
fn occupancy(sizes: &[usize], tasks: usize, order: Order) -> Vec<usize> {
    let mut left = tasks;
    let mut take = |most: usize| {
        let taken = most.min(left);
        left -= taken;
        taken
    };
    let mut largest: Vec<usize> = (0..sizes.len()).collect();
    largest.sort_by_key(|&core| std::cmp::Reverse(sizes[core]));
    let mut on: Vec<usize> = match order {
        Order::Spread => sizes.iter().map(|_| take(1)).collect(),
        Order::Packed => vec![0; sizes.len()],
    };
    for &core in &largest {
        on[core] += take(sizes[core] - on[core]);
    }
    // A packed task that has its core to itself gets company from a core with a task to spare.
    let lonely = (0..on.len()).find(|&core| on[core] == 1 && sizes[core] > 1);
    let donor = (0..on.len()).find(|&core| on[core] > 2);
    if let (Order::Packed, Some(lonely), Some(donor)) = (order, lonely, donor) {
        on[lonely] += 1;
        on[donor] -= 1;
    }
    on
}

/// The CPUs of a class, and the progress that each kind makes there.
struct Side<'a> {
    cores: &'a [Vec<usize>],
    cpus: usize,
    /// Share of the CPUs that have no sibling.
    single: f64,
    order: Order,
    /// Progress of each kind, alone on a core and with a busy sibling.
    of_kinds: Vec<(f64, f64)>,
    /// Indices of the kinds in the order in which they get cores to themselves.
    first_alone: Vec<usize>,
    /// Number of tasks that have a core to themselves, by the number of tasks up to `cpus`.
    alone: Vec<usize>,
}

impl<'a> Side<'a> {
    /// Prepare for up to `tasks` tasks of `kinds`.
    fn new(
        classes: &'a Classes,
        class: Class,
        order: Order,
        kinds: &[(WorkKind, usize)],
        progress: &KindProgress,
        tasks: usize,
    ) -> Self {
        let (cores, cpus) = (classes.cores(class), classes.cpus(class));
        let sizes: Vec<usize> = cores.iter().map(Vec::len).collect();
        let alone = |n| occupancy(&sizes, n, order).into_iter().filter(|&on| on == 1).count();
        let of_kinds: Vec<(f64, f64)> = kinds
            .iter()
            .map(|(kind, _)| (progress.alone(class, kind), progress.shared(class, kind)))
            .collect();
        let loss = |kind: &usize| of_kinds[*kind].0 - of_kinds[*kind].1;
        let mut first_alone: Vec<usize> = (0..kinds.len()).collect();
        first_alone.sort_by(|a, b| match order {
            Order::Spread => loss(b).total_cmp(&loss(a)),
            Order::Packed => loss(a).total_cmp(&loss(b)),
        });
        let single = sizes.iter().filter(|&&size| size == 1).count() as f64 / cpus.max(1) as f64;
        let alone = (0..=tasks.min(cpus)).map(alone).collect();
        Side { cores, cpus, single, order, of_kinds, first_alone, alone }
    }

    /// Split the tasks of each kind: return those that have a core to themselves. None if there are
    /// more tasks than CPUs.
    fn alone(&self, counts: &[usize]) -> Option<Vec<usize>> {
        let mut left = *self.alone.get(counts.iter().sum::<usize>())?;
        let mut alone = vec![0; counts.len()];
        for &kind in &self.first_alone {
            alone[kind] = counts[kind].min(left);
            left -= alone[kind];
        }
        Some(alone)
    }

    /// Return the predicted progress of the tasks of each kind, summed per kind.
    fn progress(&self, counts: &[usize]) -> Vec<f64> {
        let alone = self.alone(counts);
        let share = (self.cpus as f64 / counts.iter().sum::<usize>().max(1) as f64).min(1.0);
        let each = counts.iter().zip(&self.of_kinds).enumerate();
        each.map(|(kind, (&count, &(whole, shared)))| match &alone {
            Some(alone) => {
                let n = alone[kind];
                n as f64 * share * whole + (count - n) as f64 * share * shared
            }
            // All CPUs are busy, so only those without siblings are whole.
            None => count as f64 * share * (self.single * whole + (1.0 - self.single) * shared),
        })
        .collect()
    }

    /// Return the CPUs for these tasks.
    fn pool(&self, counts: &[usize]) -> CpuPool {
        let Some(alone) = self.alone(counts) else {
            let all: Vec<usize> = self.cores.concat();
            return CpuPool {
                left: counts.iter().map(|&n| (0, n)).collect(),
                whole: vec![],
                used: (0, 0),
                shared: all,
            };
        };
        let sizes: Vec<usize> = self.cores.iter().map(Vec::len).collect();
        let on = occupancy(&sizes, counts.iter().sum(), self.order);
        let cpus = |wanted: fn(usize) -> bool| {
            let cores = self.cores.iter().zip(&on).filter(move |(_, on)| wanted(**on));
            cores.flat_map(|(cpus, &on)| cpus.iter().copied().take(on)).collect::<Vec<_>>()
        };
        let left = alone.iter().zip(counts).map(|(&alone, &count)| (alone, count - alone)).collect();
        CpuPool { left, whole: cpus(|on| on == 1), used: (0, 0), shared: cpus(|on| on > 1) }
    }
}

/// CPUs that are handed out to the tasks of one class.
struct CpuPool {
    /// Tasks of each kind without a CPU: on whole cores and on shared ones.
    left: Vec<(usize, usize)>,
    whole: Vec<usize>,
    shared: Vec<usize>,
    /// Number of CPUs of `whole` and of `shared` handed out.
    used: (usize, usize),
}

impl CpuPool {
    /// Return the CPU of the next task of a kind; None if the class has no more tasks of it.
    fn next(&mut self, kind: usize) -> Option<usize> {
        let (cpus, used, left) = match self.left.get_mut(kind)? {
            (left @ 1.., _) => (&self.whole, &mut self.used.0, left),
            (_, left @ 1..) => (&self.shared, &mut self.used.1, left),
            _ => return None,
        };
        *left -= 1;
        *used += 1;
        cpus.get((*used - 1) % cpus.len().max(1)).copied()
    }
}

#[cfg(test)]
mod tests;
