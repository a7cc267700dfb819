//! What SMT siblings take from each other: the same visits as alone, to all CPUs of a core at once.
//!
//! Problem. A core's second thread is worth a fraction of the first, and how much differs by kind of core and kind of work.
//!
//! Approach. After the CPUs were measured alone, one core of each class is visited with a thread on each of its CPUs, which run every loop together
//! ([`Meeting`]). The factor of a component is the time per step together over the same CPU's time alone, the mean of the core's CPUs. It stands for all
//! CPUs of the class that have siblings. The threads follow the one cycle of the memory kernel's set from places that are evenly apart, so that none
//! finds in a cache what another has just loaded.
//!
//! Invariants. What cannot be measured is replaced by [`SHARED_DEFAULT`], with a warning; it never ends the calibration.
//!
//! Limits. Cores of a class are taken to be alike.

use super::meeting::Meeting;
use super::memory::{Memory, Sets};
use super::worker::{self, CpuState, Shared};
use super::{Calibration, Settings, join};
use crate::failure::Failure;
use bias_policy::samples::median;
use bias_policy::sharing::{SHARED_DEFAULT, shared_permille};
use bias_policy::table::{COMPONENTS, CapacityTable, Class, CpuCapacity};
use std::thread::Builder;
use tracing::warn;

/// Visits to each core that is measured: what is found is a ratio of two means, and no class depends on it.
const ROUNDS: u32 = 3;

/// Measures a core of each class and puts the factors into the table. `states` are of the table's CPUs, in the same order.
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

/// The core that stands for a class: the first of several CPUs whose first CPU is of the class.
fn first_core(table: &CapacityTable, class: Class) -> Option<u32> {
    let first = |entry: &&CpuCapacity| class_of(table, entry) == class && table.has_sibling(entry);
    table.cpus.iter().find(first).map(|entry| entry.core)
}

/// The class of a CPU's core. Noise may put siblings into different classes.
fn class_of(table: &CapacityTable, entry: &CpuCapacity) -> Class {
    table.core(entry.core).next().map_or(entry.class, |first| first.class)
}

/// All CPUs with siblings on cores of the class have these factors.
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
    /// How many steps fill a chunk, from the visits alone.
    paces: &'a CpuState,
    /// What was measured alone [ns per step].
    alone: &'a [Vec<f64>; COMPONENTS],
}

/// The factors of a core.
fn factors(members: &[Member<'_>], sets: &Sets, settings: &Settings) -> Result<[u32; COMPONENTS], Failure> {
    let unknown = || Failure::runtime("their core or its memory is not known; calibrate again");
    let first = members.first().ok_or_else(unknown)?.entry;
    let memory = sets.get(first.llc, first.node).ok_or_else(unknown)?;
    let mut states: Vec<CpuState> = members.iter().map(|member| member.paces.same_paces()).collect();
    let starts = memory.far.places(members.len());
    for round in 0..settings.rounds.min(ROUNDS) {
        let shared = Visit { memory, starts: &starts, settings, round };
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

/// What all CPUs of a visit have in common.
struct Visit<'a> {
    memory: &'a Memory,
    /// Where in the set each begins.
    starts: &'a [usize],
    settings: &'a Settings,
    round: u32,
}

/// One visit to all CPUs of the core.
fn visit(members: &[Member<'_>], states: &mut [CpuState], visit: &Visit<'_>) -> Result<(), Failure> {
    let meeting = &Meeting::of(members.len());
    let Visit { memory, starts, settings, round } = *visit;
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
        // All are joined before the first error is returned.
        let results: Vec<_> = threads.into_iter().map(|thread| thread.and_then(join)).collect();
        results.into_iter().collect()
    })
}

#[cfg(test)]
#[path = "siblings_tests.rs"]
mod tests;
