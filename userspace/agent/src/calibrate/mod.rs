// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Calibration: measure the time that each CPU needs for a unit of work of each component.
//!
//! # Problem
//! The CPU speed that firmware or sysfs reports is often absent, only a rank, or one figure for all
//! three components. Ticks, other tasks, frequency ramps and neighbours disturb a measurement. It
//! must take seconds only.
//!
//! # Approach
//! Loops ([`crate::loops`]) stand for the components: integer work in registers, unpredictable
//! branches with dependent loads from the second-level cache, and dependent loads beyond the
//! caches. A stall is the difference to the same loop without stalls.
//!
//! Each CPU is visited in several rounds, in alternating order, so that slow drift of the machine
//! affects all CPUs alike. A visit ([`visit`]) begins once the CPU's clock has settled
//! ([`settle`]). It lasts some fifty milliseconds and consists of chunks of two milliseconds. The
//! cost is the ratio of medians.
//!
//! CPUs are measured one at a time while the budget allows. Beyond that, CPUs of different cores
//! are measured in parallel ([`settings`]). A last step measures what SMT siblings take from each
//! other ([`siblings`]). The raw samples are kept, because the classes are decided on them.
//! Counters, where present, are read around every loop. [`bias_policy::model`] fits scales to the
//! counts and predicts the loops' times. The counts over the two loops that stall also show which
//! events are dead, so that these need no probe.
//!
//! # Invariants
//! No sample is invented, and only warm-ups are dropped. A CPU that cannot be measured is an error,
//! never a guess.
//!
//! # Limits
//! A CPU that is busy with real-time work during all rounds is measured as slow.

mod memory;
mod settings;
pub(crate) mod settle;
mod siblings;
mod visit;

pub use settings::{Calibration, Conditions, Settings, VISIT};

use crate::affinity::{on_cpu, realtime};
use crate::counter_model::{CounterModel, CounterSet};
use crate::failure::Failure;
use crate::loops::{self, Chase};
use crate::pmu::{Counters, Group, PerfEvent, Probed, Role};
use crate::topology::{Cpu, Topology};
use bias_policy::classes::{CpuSamples, SplitRule, split};
use bias_policy::model::{CpuLoops, Loop, Model, fit};
use bias_policy::samples::{median, summarise};
use bias_policy::sharing::SHARED_DEFAULT;
use bias_policy::table::{COMPONENTS, CapacityTable, Component, CpuCapacity, SHARED_NONE, costs_from_times};
use memory::{NEAR_BYTES, Sets, Sizes, choose_far, choose_middle};
use settings::{batches, lanes, visit_length};
use std::time::{Duration, Instant};
use visit::{CpuState, LoopRecord, Pace, Records, Shared, run_chase, visit_all};

/// Measure every online CPU while its events of `counters` run. `progress` gets the number of
/// visits done and in total.
///
/// # Errors
/// Runtime failure when a thread cannot run on a CPU, when memory is short, or when a loop gave no
/// usable time. Kernel failure when no CPU is online or a CPU number is out of range.
pub fn calibrate(
    topology: &Topology,
    settings: &Settings,
    counters: &Counters,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Calibration, Failure> {
    let start = Instant::now();
    let cpus = &topology.cpus;
    let sizes = choose_sizes(topology, settings)?;
    let sets = Sets::build(cpus, sizes)?;
    let visit =
        settings.visit.unwrap_or_else(|| visit_length(cpus.len(), settings.rounds, settings.budget, VISIT));
    let lanes = lanes(cpus.len(), visit * settings.rounds, settings.budget);
    let settings = &Settings { visit: Some(visit), ..settings.clone() };
    let batches = batches(cpus, lanes);
    let mut states: Vec<CpuState> = cpus.iter().map(|_| CpuState::default()).collect();
    let total = cpus.len() * settings.rounds as usize;
    let mut done = 0;
    for round in 0..settings.rounds {
        let mut order: Vec<&Vec<usize>> = batches.iter().collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for batch in order {
            let members = states.iter_mut().zip(cpus).enumerate().filter(|(at, _)| batch.contains(at));
            visit_all(members.filter_map(|(_, (state, Cpu { cpu, llc, node, .. }))| {
                let (memory, counters) = (sets.get(*llc, *node)?, counters.cpu(*cpu));
                Some((*cpu, state, Shared { memory, together: None, counters, settings, round }))
            }))?;
            done += batch.len();
            progress(done, total);
        }
    }
    let realtime = states.iter().all(|state| state.realtime == Some(true));
    let conditions = Conditions {
        rounds: settings.rounds,
        visit_us: visit.as_micros() as u64,
        chunk_us: settings.chunk.as_micros() as u64,
        external_bytes: sizes.far as u64,
        lanes,
        realtime,
        took_ms: 0,
    };
    let samples = states
        .iter_mut()
        .zip(cpus)
        .map(|(state, cpu)| CpuSamples { cpu: cpu.cpu, times: std::mem::take(&mut state.samples_ns) });
    let mut calibration = evaluate(cpus, samples.collect(), conditions, settings.rule)?;
    siblings::measure(&mut calibration, &states, &sets, settings);
    calibration.conditions.took_ms = start.elapsed().as_millis() as u64;
    Ok(with_counters(calibration, cpus, counters, &states))
}

/// Add the model of the counters, the clocks and the counts. `states` are of `cpus`, in the same
/// order.
fn with_counters(
    calibration: Calibration,
    cpus: &[Cpu],
    counters: &Counters,
    states: &[CpuState],
) -> Calibration {
    let counted: Vec<_> = cpus
        .iter()
        .zip(states)
        .map(|(cpu, state)| (cpu.cpu, counters.cpu(cpu.cpu), &state.records))
        .collect();
    Calibration {
        model: model(&calibration.table, &counted),
        clocks: cpus
            .iter()
            .zip(states)
            .filter_map(|(cpu, state)| Some((cpu.cpu, state.records[Loop::Execute.index()].khz()?)))
            .collect(),
        seen: counted.iter().filter_map(|(_, group, records)| seen((*group)?, records)).collect(),
        ..calibration
    }
}

/// Return the counts of one CPU's calibration for [`Counters::probe_at_start`]; None
/// without counters of external stalls.
fn seen(group: &Group, records: &Records) -> Option<Probed> {
    let event = group.event(Role::External)?.id();
    let external = records[Loop::FarChase.index()].counted?;
    let internal = records[Loop::RandomBranches.index()].counted?;
    Some(Probed { cpu: group.cpu(), event, external, internal })
}

/// Fit the scales of the counters in `cpus`, each with the times and counts of its CPU's loops;
/// None if no CPU has counters.
fn model(table: &CapacityTable, cpus: &[(u32, Option<&Group>, &Records)]) -> Option<CounterModel> {
    let counted = cpus.iter().any(|(_, group, _)| group.is_some());
    let nominal =
        |group: Option<&Group>, role| group.and_then(|group| group.unit(role)).map(|u| u.nominal_permille());
    let loops = cpus.iter().map(|(cpu, group, records)| CpuLoops {
        cpu: *cpu,
        external_nominal: nominal(*group, Role::External),
        internal_nominal: nominal(*group, Role::Internal),
        loops: records.each_ref().map(LoopRecord::sample),
    });
    counted.then(|| named(&fit(table, &loops.collect::<Vec<_>>()), cpus))
}

/// Group the model's CPUs by the events that their counters count.
fn named(model: &Model, cpus: &[(u32, Option<&Group>, &Records)]) -> CounterModel {
    let mut sets: Vec<CounterSet> = Vec::new();
    for (fitted, (_, group, _)) in model.cpus.iter().zip(cpus) {
        let Some(group) = group else { continue };
        let event = |role| group.event(role).map(PerfEvent::id);
        let (external, internal) = (event(Role::External), event(Role::Internal));
        match sets.iter_mut().find(|set| set.external == external && set.internal == internal) {
            Some(set) => set.cpus.push(*fitted),
            None => sets.push(CounterSet { external, internal, cpus: vec![*fitted] }),
        }
    }
    CounterModel { errors: model.errors, loops: model.loops.clone(), sets }
}

/// Compute table and classes from samples, without counters. The samples are in the order of
/// `cpus`.
///
/// # Errors
/// Runtime failure when a CPU has no usable sample.
pub fn evaluate(
    cpus: &[Cpu],
    samples: Vec<CpuSamples>,
    conditions: Conditions,
    rule: SplitRule,
) -> Result<Calibration, Failure> {
    let split = split(&samples, rule);
    let mut costs = vec![[0; COMPONENTS]; cpus.len()];
    let mut spreads = vec![[0; COMPONENTS]; cpus.len()];
    for component in Component::ALL {
        let at = component.index();
        let summaries: Option<Vec<_>> = samples.iter().map(|cpu| summarise(&cpu.times[at])).collect();
        let times =
            summaries.as_ref().map(|all| all.iter().map(|summary| summary.median).collect::<Vec<_>>());
        let (Some(summaries), Some(column)) = (summaries, times.and_then(|times| costs_from_times(&times)))
        else {
            return Err(Failure::runtime(format!(
                "the {} kernel gave no usable time on some CPU; calibrate again on a quieter machine",
                component.name()
            )));
        };
        for (row, (cost, summary)) in column.into_iter().zip(summaries).enumerate() {
            costs[row][at] = cost;
            spreads[row][at] = summary.spread_permille;
        }
    }
    let entries = cpus.iter().zip(&split.classes).zip(costs.into_iter().zip(spreads));
    let entries = entries.map(|((cpu, class), (cost_permille, spread_permille))| CpuCapacity {
        cpu: cpu.cpu,
        core: cpu.core,
        llc: cpu.llc,
        node: cpu.node,
        class: *class,
        cost_permille,
        spread_permille,
        shared_permille: if cpus.iter().filter(|other| other.core == cpu.core).count() > 1 {
            SHARED_DEFAULT
        } else {
            [SHARED_NONE; COMPONENTS]
        },
    });
    let table = CapacityTable::new(entries.collect()).map_err(|error| Failure::runtime(error.to_string()))?;
    Ok(Calibration { table, split, samples, conditions, model: None, seen: Vec::new(), clocks: Vec::new() })
}

/// Measure the execute time of a few CPUs: (CPU, ns per step). This suffices to check a stored
/// table, whose samples give the expected time.
///
/// At most [`SPOT_CPUS`] CPUs are measured, spread over the machine, each until its clock has
/// settled.
///
/// # Errors
/// Runtime failure when a thread cannot run on a CPU.
pub fn spot_check(topology: &Topology, stored: &[CpuSamples]) -> Result<Vec<(u32, f64)>, Failure> {
    let every = topology.cpus.len().div_ceil(SPOT_CPUS).max(1);
    let cpus = topology.cpus.iter().step_by(every);
    let measured = cpus.map(|cpu| {
        let of_cpu = stored.iter().find(|samples| samples.cpu == cpu.cpu);
        let expected_ns = of_cpu.and_then(|samples| median(&samples.times[0]));
        let step_ns = || {
            realtime();
            settle::step_ns(expected_ns).unwrap_or(0.0)
        };
        on_cpu(cpu.cpu, || Ok((cpu.cpu, step_ns())))
    });
    measured.collect()
}

/// Most CPUs that a spot check measures.
const SPOT_CPUS: usize = 16;

/// Choose the sizes of the memory loops' sets by measuring on the first CPU.
fn choose_sizes(topology: &Topology, settings: &Settings) -> Result<Sizes, Failure> {
    let first =
        topology.cpus.first().ok_or_else(|| Failure::kernel("no CPU is online; mount sysfs on /sys"))?;
    let brief = Settings { visit: Some(Duration::from_millis(8)), ..settings.clone() };
    on_cpu(first.cpu, || {
        realtime();
        settle::step_ns(None);
        let step_ns =
            |chase: &Chase| median(&run_chase(chase, &mut Pace::default(), &brief, 500)).unwrap_or(0.0);
        // Time of the loop without stalls, so that a slow CPU is not mistaken for slow memory.
        let plain = step_ns(&Chase::new(NEAR_BYTES)?);
        let mut of_size = |bytes| {
            let chase = Chase::new(bytes)?;
            // One untimed round, so that cold pages do not count.
            let lines = (bytes / loops::LINE_BYTES) as u64;
            let _ = chase.run(0, lines / loops::LOADS_PER_STEP);
            Ok(step_ns(&chase))
        };
        let middle = choose_middle(plain, &mut of_size)?;
        let stall_ns = |bytes| Ok((of_size(bytes)? - plain) / loops::LOADS_PER_STEP as f64);
        let far = match settings.external_bytes {
            Some(bytes) => bytes,
            None => choose_far(topology.llc_bytes, stall_ns)?,
        };
        Ok(Sizes { middle, far })
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use bias_policy::table::Class;
    use std::sync::Mutex;

    #[test]
    fn samples_become_costs_spreads_and_classes() {
        let times = |factor: f64| (0..40).map(|i| factor * (100.0 + f64::from(i % 5))).collect::<Vec<_>>();
        let samples = [1.0, 2.5]
            .iter()
            .zip(0..)
            .map(|(f, cpu)| CpuSamples { cpu, times: [times(*f), times(1.0), times(1.0)] });
        let calibration =
            evaluate(&Topology::flat(2).cpus, samples.collect(), Conditions::made_up(), SplitRule::default())
                .unwrap();
        let slow = calibration.table.get(1).unwrap();
        assert_eq!((slow.cost_permille, slow.class), ([2500, 1000, 1000], Class::Slow));
        assert!(slow.spread_permille[0] > 0 && slow.spread_permille[0] < 50);
    }

    #[test]
    fn a_cpu_without_samples_is_an_error_not_a_guess() {
        let samples = vec![CpuSamples { cpu: 0, times: Default::default() }];
        let failure = evaluate(&Topology::flat(1).cpus, samples, Conditions::made_up(), SplitRule::default())
            .unwrap_err();
        assert!(failure.message.contains("execute kernel"));
    }

    #[test]
    fn calibrates_this_machine() {
        let topology = Topology::read().unwrap();
        let settings = Settings {
            rounds: 2,
            visit: Some(Duration::from_millis(4)),
            chunk: Duration::from_micros(50),
            external_bytes: Some(1 << 20),
            ..Settings::default()
        };
        let told = Mutex::new(Vec::new());
        let calibration = calibrate(&topology, &settings, &Counters::default(), &|done, total| {
            told.lock().unwrap().push((done, total));
        })
        .unwrap();
        assert!(calibration.model.is_none() && calibration.seen.is_empty());
        assert_eq!(calibration.table.cpus.len(), topology.cpus.len());
        assert_eq!(calibration.conditions.external_bytes, 1 << 20);
        let visits = topology.cpus.len() * 2;
        assert_eq!(told.into_inner().unwrap().last(), Some(&(visits, visits)));
    }

    #[test]
    fn a_missing_cpu_is_an_error() {
        let topology = Topology {
            cpus: vec![Cpu { cpu: 1000, core: 0, llc: 0, node: 0 }],
            possible: vec![1000],
            llc_bytes: 0,
        };
        let settings = Settings { external_bytes: Some(4096), ..Settings::default() };
        let failure = calibrate(&topology, &settings, &Counters::default(), &|_, _| ()).unwrap_err();
        assert!(failure.message.contains("CPU 1000"));
    }
}
