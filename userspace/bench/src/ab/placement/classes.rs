// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The classes of CPUs, and the progress of each kind of task there.

use crate::solo::{self, Solo};
use crate::spec::WorkKind;
use crate::{Result, cpus};
use std::collections::BTreeMap;

/// Progress with a busy sibling, of the progress alone, of a kind that was not measured. Two
/// executing threads of a core then do 1.25 times the work of one. This is below 1, so a whole core
/// beats the sibling of a busy CPU.
pub(super) const SHARED_DEFAULT: f64 = 0.625;

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
pub(in crate::ab) fn classes(solo: &Solo) -> Result<Classes> {
    Ok(Classes::of(cpus::cores(&cpus::online()?.0), &solo.fast_cpus))
}
