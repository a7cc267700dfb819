// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The cores of one class: which of its tasks have a core to themselves.

use super::{Class, Classes, KindProgress};
use crate::spec::WorkKind;

/// The way in which the tasks of a class occupy its cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// As few tasks as possible share a core, and those lose least by it: the best placement.
    Spread,
    /// As many tasks as possible share a core, and those lose most by it: the worst placement.
    Packed,
}

/// Return the number of tasks on each core of `sizes` CPUs, for at most as many tasks as CPUs.
pub(super) fn occupancy(sizes: &[usize], tasks: usize, order: Order) -> Vec<usize> {
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
pub(super) struct Side<'a> {
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
    pub(super) fn new(
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
    pub(super) fn progress(&self, counts: &[usize]) -> Vec<f64> {
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
    pub(super) fn pool(&self, counts: &[usize]) -> CpuPool {
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
pub(super) struct CpuPool {
    /// Tasks of each kind without a CPU: on whole cores and on shared ones.
    left: Vec<(usize, usize)>,
    whole: Vec<usize>,
    shared: Vec<usize>,
    /// Number of CPUs of `whole` and of `shared` handed out.
    used: (usize, usize),
}

impl CpuPool {
    /// Return the CPU of the next task of a kind; None if the class has no more tasks of it.
    pub(super) fn next(&mut self, kind: usize) -> Option<usize> {
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
