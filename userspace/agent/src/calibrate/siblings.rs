// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Effect of SMT siblings on each other: the visits of a CPU alone, to all CPUs of a core together.
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
//! evenly spaced lines, so that no thread hits lines that another has just loaded.
//!
//! # Invariants
//! A core that cannot be measured gets [`SHARED_DEFAULT`], with a warning. It never ends the
//! calibration.
//!
//! # Limits
//! Cores of a class are assumed to be alike.

use super::memory::Sets;
use super::settings::{Calibration, Settings};
use super::visit::{CpuState, Meeting, Shared, visit_all};
use crate::failure::Failure;
use bias_policy::samples::median;
use bias_policy::sharing::{SHARED_DEFAULT, shared_permille};
use bias_policy::table::{COMPONENTS, CapacityTable, Class, CpuCapacity};
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

/// Return the core that stands for a class: the first one with several CPUs whose first CPU has the
/// class.
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
        let meeting = &Meeting::of(members.len());
        let visits = members.iter().zip(&mut states).zip(&starts).map(|((member, state), start)| {
            let together = Some((meeting, *start));
            (member.entry.cpu, state, Shared { memory, together, counters: None, settings, round })
        });
        visit_all(visits)?;
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::memory::Sizes;
    use super::super::settings::Conditions;
    use super::super::{calibrate, evaluate};
    use super::*;
    use crate::pmu::Counters;
    use crate::topology::{Cpu, Topology};
    use bias_policy::classes::{CpuSamples, SplitRule};
    use bias_policy::table::{SHARED_MAX, SHARED_NONE};
    use std::time::Duration;

    const NONE: [u32; COMPONENTS] = [SHARED_NONE; COMPONENTS];

    fn brief() -> Settings {
        Settings {
            rounds: 1,
            visit: Some(Duration::from_millis(5)),
            chunk: Duration::from_micros(50),
            external_bytes: Some(1 << 20),
            ..Settings::default()
        }
    }

    /// A calibration of CPUs on these cores. CPUs of an odd core are twice as slow.
    fn calibration(cores: &[u32]) -> Calibration {
        let cpus: Vec<Cpu> =
            (0..).zip(cores).map(|(cpu, core)| Cpu { cpu, core: *core, llc: 0, node: 0 }).collect();
        let times =
            |core: u32| (0..40).map(|i| f64::from((1 + core % 2) * (100 + i % 5))).collect::<Vec<_>>();
        let samples = cpus
            .iter()
            .map(|cpu| CpuSamples { cpu: cpu.cpu, times: [times(cpu.core), times(0), times(0)] })
            .collect();
        evaluate(&cpus, samples, Conditions::made_up(), SplitRule::default()).unwrap()
    }

    #[test]
    fn two_cpus_that_play_siblings_are_measured_together() {
        let mut topology = Topology::read().unwrap();
        topology.cpus.truncate(2);
        for cpu in &mut topology.cpus {
            cpu.core = 0;
        }
        let calibration = calibrate(&topology, &brief(), &Counters::default(), &|_, _| ()).unwrap();
        let bounds =
            if topology.cpus.len() == 2 { SHARED_NONE..=SHARED_MAX } else { SHARED_NONE..=SHARED_NONE };
        for entry in &calibration.table.cpus {
            assert!(entry.shared_permille.iter().all(|factor| bounds.contains(factor)), "{entry:?}");
            assert_eq!(entry.shared_permille, calibration.table.cpus[0].shared_permille);
        }
    }

    #[test]
    fn siblings_that_cannot_be_measured_get_default_factors() {
        // CPUs that no machine has.
        let mut calibration = calibration(&[0, 0, 2]);
        for (entry, cpu) in calibration.table.cpus.iter_mut().zip([1000, 1001, 1002]) {
            (entry.cpu, entry.shared_permille) = (cpu, NONE);
        }
        let states: Vec<CpuState> = (0..3).map(|_| CpuState::default()).collect();
        let real = Topology::read().unwrap().cpus[0].cpu;
        let sets =
            Sets::build(&[Cpu { cpu: real, core: 0, llc: 0, node: 0 }], Sizes { middle: None, far: 4096 })
                .unwrap();
        measure(&mut calibration, &states, &sets, &brief());
        let factors: Vec<_> = calibration.table.cpus.iter().map(|entry| entry.shared_permille).collect();
        assert_eq!(factors, [SHARED_DEFAULT, SHARED_DEFAULT, NONE]);
    }

    #[test]
    fn a_core_stands_for_its_class_and_for_cpus_with_siblings_only() {
        let mut table = calibration(&[0, 0, 2, 3, 3, 5, 6, 6]).table;
        for entry in &mut table.cpus {
            entry.shared_permille = NONE;
        }
        assert_eq!((first_core(&table, Class::Fast), first_core(&table, Class::Slow)), (Some(0), Some(3)));
        take_over(&mut table, Class::Fast, [1700, 1100, 1000]);
        take_over(&mut table, Class::Slow, [1400, 1100, 1000]);
        let execute: Vec<u32> = table.cpus.iter().map(|entry| entry.shared_permille[0]).collect();
        assert_eq!(execute, [1700, 1700, 1000, 1400, 1400, 1000, 1700, 1700]);
        assert_eq!(first_core(&calibration(&[0, 1]).table, Class::Fast), None);
    }
}
