// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Effect of SMT siblings on each other: the visits of a CPU alone, to all CPUs of a core at once.
//!
//! # Problem
//! A core's second thread adds a fraction of the first one's throughput. The fraction differs by
//! core type and by component.
//!
//! # Approach
//! After the CPUs were measured alone, one core of each class is visited with a thread on each of
//! its CPUs. These threads run every loop together ([`Meeting`]). The factor of a component is the
//! time per step together over the same CPU's time alone, as the mean of the core's CPUs. It stands
//! for all CPUs of the class that have siblings. The threads follow the memory loop's set from
//! evenly spaced lines, so that none finds in a cache what another has just loaded.
//!
//! # Invariants
//! A core that cannot be measured gets [`SHARED_DEFAULT`], with a warning. It never ends the
//! calibration.
//!
//! # Limits
//! Cores of a class are assumed to be alike.

use super::meeting::Meeting;
use super::memory::{Memory, Sets};
use super::settings::{Calibration, Settings};
use super::worker::{self, CpuState, Shared};
use crate::failure::Failure;
use crate::loops::thread::join;
use bias_policy::samples::median;
use bias_policy::sharing::{SHARED_DEFAULT, shared_permille};
use bias_policy::table::{COMPONENTS, CapacityTable, Class, CpuCapacity};
use std::thread::Builder;
use tracing::warn;

/// Visits to each core that is measured. Few suffice: the result is a ratio of two means, and no
/// class depends on it.
const ROUNDS: u32 = 3;

/// Measure a core of each class and put the factors into the table. `states` are of the table's
/// CPUs, in the same order.
pub(super) fn measure(calibration: &mut Calibration, states: &[CpuState], sets: &Sets, settings: &Settings) {
    for class in [Class::Fast, Class::Slow] {
        let table = &calibration.table;
        let Some(core) = first_core(table, class) else { continue };
        let members: Vec<Member<'_>> = table
            .cpus
            .iter()
            .zip(states.iter().zip(&calibration.samples))
            .filter(|(entry, _)| entry.core == core)
            .map(|(entry, (state, alone))| Member { entry, paces: state, alone: &alone.times })
            .collect();
        let factors = factors(&members, sets, settings).unwrap_or_else(|failure| {
            warn!("the SMT siblings of core {core} cannot be measured together: {}", failure.message);
            SHARED_DEFAULT
        });
        take_over(&mut calibration.table, class, factors);
    }
}

/// Return the core that stands for a class: the first one with several CPUs, of which the first has
/// the class.
fn first_core(table: &CapacityTable, class: Class) -> Option<u32> {
    let first = |entry: &&CpuCapacity| class_of(table, entry) == class && table.has_sibling(entry);
    table.cpus.iter().find(first).map(|entry| entry.core)
}

/// Return the class of a CPU's core. Noise may put siblings into different classes.
fn class_of(table: &CapacityTable, entry: &CpuCapacity) -> Class {
    table.core(entry.core).next().map_or(entry.class, |first| first.class)
}

/// Set the factors of all CPUs with siblings on cores of the class.
fn take_over(table: &mut CapacityTable, class: Class, factors: [u32; COMPONENTS]) {
    let of_class = |entry: &CpuCapacity| class_of(table, entry) == class && table.has_sibling(entry);
    let chosen: Vec<bool> = table.cpus.iter().map(of_class).collect();
    for (entry, _) in table.cpus.iter_mut().zip(chosen).filter(|(_, chosen)| *chosen) {
        entry.shared_permille = factors;
    }
}

/// A CPU of the core that is measured.
struct Member<'a> {
    entry: &'a CpuCapacity,
    /// Number of steps that fill a chunk, from the visits alone.
    paces: &'a CpuState,
    /// Samples of the visits alone [ns per step].
    alone: &'a [Vec<f64>; COMPONENTS],
}

/// Measure the factors of a core.
fn factors(members: &[Member<'_>], sets: &Sets, settings: &Settings) -> Result<[u32; COMPONENTS], Failure> {
    let unknown = || Failure::runtime("their core or its memory is not known; calibrate again");
    let first = members.first().ok_or_else(unknown)?.entry;
    let memory = sets.get(first.llc, first.node).ok_or_else(unknown)?;
    let mut states: Vec<CpuState> = members.iter().map(|member| member.paces.same_paces()).collect();
    let starts = memory.far.places(members.len());
    for round in 0..settings.rounds.min(ROUNDS) {
        let shared = CoreVisit { memory, starts: &starts, settings, round };
        visit(members, &mut states, &shared)?;
    }
    let mut factors = SHARED_DEFAULT;
    for (component, factor) in factors.iter_mut().enumerate() {
        let of = |(member, state): (&Member<'_>, &CpuState)| {
            shared_permille(median(&member.alone[component])?, median(&state.samples_ns[component])?)
        };
        let all: Option<Vec<u32>> = members.iter().zip(&states).map(of).collect();
        let all = all.ok_or_else(|| Failure::runtime("a loop gave no usable time; calibrate again"))?;
        *factor = all.iter().sum::<u32>() / all.len().max(1) as u32;
    }
    Ok(factors)
}

/// Parameters that all CPUs of a visit share.
struct CoreVisit<'a> {
    memory: &'a Memory,
    /// The line of the set where each CPU begins.
    starts: &'a [usize],
    settings: &'a Settings,
    round: u32,
}

/// Visit all CPUs of the core once.
fn visit(members: &[Member<'_>], states: &mut [CpuState], visit: &CoreVisit<'_>) -> Result<(), Failure> {
    let meeting = &Meeting::of(members.len());
    let CoreVisit { memory, starts, settings, round } = *visit;
    std::thread::scope(|scope| {
        let threads: Vec<_> = members
            .iter()
            .zip(states)
            .zip(starts)
            .map(|((member, state), start)| {
                let together = Some((meeting, *start));
                let shared = Shared { memory, together, counters: None, settings, round };
                let cpu = member.entry.cpu;
                let thread = Builder::new().spawn_scoped(scope, move || worker::visit(cpu, state, &shared));
                thread.map_err(|error| {
                    meeting.cancel();
                    Failure::runtime(format!("no thread can be had ({error}); raise the limit of processes"))
                })
            })
            .collect();
        // Join all threads before the first error is returned.
        let results: Vec<_> = threads.into_iter().map(|thread| thread.and_then(join)).collect();
        results.into_iter().collect()
    })
}

#[cfg(test)]
#[path = "siblings_tests.rs"]
mod tests;
