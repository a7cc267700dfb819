// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! One visit to one CPU: run every loop for its share of the time.

use super::counted::Records;
use super::meeting::Meeting;
use super::memory::Memory;
use super::sampler::Pace;
use super::settings::{Settings, VISIT};
use crate::failure::Failure;
use crate::loops::chase::Chase;
use crate::loops::kernels::{Branches, branches, execute};
use crate::loops::settle;
use crate::loops::thread;
use crate::pmu::Group;
use bias_policy::model::Loop;
use bias_policy::samples::median;
use bias_policy::table::COMPONENTS;
use std::time::Duration;

/// Fewest samples of a loop per visit.
const MIN_SAMPLES: usize = 2;
/// Most by which visits with the same clock differ in the time of a step. A governor changes clocks by
/// more, and may leave a low one for a whole visit.
const OTHER_CLOCK: f64 = 1.1;
/// Least stall, as a share of the time of the loop that stalls. It keeps ratios finite.
const MIN_STALL: f64 = 0.01;

/// Shares of a visit [permille]. The rest pays for migrating to the CPU and back.
///
/// A visit begins when the clock has settled. The memory loops come first, because they depend least
/// on a clock that still changes.
const SHARE_FAR: u32 = 210;
const SHARE_NEAR: u32 = 110;
const SHARE_MIDDLE: u32 = 110;
const SHARE_WARM_UP: u32 = 40;
const SHARE_RANDOM: u32 = 170;
const SHARE_STEADY: u32 = 120;
const SHARE_EXECUTE: u32 = 180;

/// Paces and samples of one CPU.
#[derive(Debug, Default)]
pub struct CpuState {
    far: Pace,
    near: Pace,
    middle: Pace,
    random: Pace,
    steady: Pace,
    execute: Pace,
    /// Time per step by component [ns]. The stalls are differences, see [`crate::loops::kernels`].
    pub samples_ns: [Vec<f64>; COMPONENTS],
    /// Each loop by itself, with its counts.
    pub records: Records,
    /// True if every visit ran ahead of ordinary tasks.
    pub realtime: Option<bool>,
}

/// References and parameters of a visit.
#[derive(Debug)]
pub struct Shared<'a> {
    /// The sets that the CPU loads from.
    pub memory: &'a Memory,
    /// The threads that run every loop together with this one, and the line of the far set to begin
    /// at, one of [`Chase::places`]. None for a CPU measured alone.
    pub together: Option<(&'a Meeting, usize)>,
    /// The CPU's counters.
    pub counters: Option<&'a Group>,
    /// Duration and number of visits.
    pub settings: &'a Settings,
    /// Index of the round, from 0.
    pub round: u32,
}

/// Measure every loop on `cpu` once, on the calling thread, and add the samples to `state`.
///
/// # Errors
/// The failures of [`thread::pin`].
pub fn visit(cpu: u32, state: &mut CpuState, shared: &Shared) -> Result<(), Failure> {
    let pinned = thread::pin(cpu);
    if let (Err(_), Some((meeting, _))) = (&pinned, shared.together) {
        meeting.cancel();
    }
    pinned?;
    let realtime = thread::realtime();
    // Dropped: it waits for the clock. An earlier visit shows what to wait for.
    settle::step_ns(median(&state.samples_ns[0]));
    let mut one = CpuState { realtime: Some(realtime), ..state.same_paces() };
    let near_ns = external(&mut one, shared);
    let second_ns = second_level(&mut one, shared, &near_ns);
    // Dropped: the CPU may still raise its clock after waiting for the far set.
    shared.samples(&mut one.execute, SHARE_WARM_UP, execute);
    internal(&mut one, shared, &second_ns);
    let CpuState { execute: pace, records, .. } = &mut one;
    let samples = records[Loop::Execute.index()]
        .visit(shared.counters, || shared.samples(pace, SHARE_EXECUTE, execute));
    one.samples_ns[0].extend(samples);
    state.add(one);
    Ok(())
}

impl Shared<'_> {
    /// Return samples of a loop for its share of the visit [ns per step]. Threads that are measured
    /// together run the loop at the same time.
    fn samples(&self, pace: &mut Pace, share: u32, mut run: impl FnMut(u64)) -> Vec<f64> {
        let Settings { chunk, .. } = *self.settings;
        if let Some((meeting, _)) = self.together {
            meeting.wait();
        }
        let samples = pace.samples(chunk, self.settings.share(share), MIN_SAMPLES, &mut run);
        if let Some((meeting, _)) = self.together {
            meeting.wait_doing(|| {
                let _ = pace.sample(&mut run);
            });
        }
        samples
    }
}

impl CpuState {
    /// Add what a visit measured. Visits with another clock do not mix: the faster ones count.
    fn add(&mut self, visit: Self) {
        let Some(new) = median(&visit.samples_ns[0]) else { return };
        let realtime = self.realtime.unwrap_or(true) && visit.realtime.unwrap_or(true);
        match median(&self.samples_ns[0]) {
            Some(kept) if new > kept * OTHER_CLOCK => {}
            Some(kept) if kept <= new * OTHER_CLOCK => {
                for (all, new) in self.samples_ns.iter_mut().zip(&visit.samples_ns) {
                    all.extend(new);
                }
                for (all, new) in self.records.iter_mut().zip(&visit.records) {
                    all.add(new);
                }
            }
            _ => *self = visit,
        }
        self.realtime = Some(realtime);
    }

    /// Return a state without samples that keeps the paces.
    pub fn same_paces(&self) -> Self {
        let Self { far, near, middle, random, steady, execute, .. } = *self;
        Self { far, near, middle, random, steady, execute, ..Self::default() }
    }
}

/// Measure external stalls. Return the times of the loop without stalls [ns per step].
fn external(state: &mut CpuState, shared: &Shared) -> Vec<f64> {
    let CpuState { far, near, records, .. } = state;
    let memory = shared.memory;
    let follow = |chase: &Chase, at: &mut usize, pace: &mut Pace, share| {
        shared.samples(pace, share, |steps| *at = chase.run(*at, steps))
    };
    let without = records[Loop::NearChase.index()]
        .visit(shared.counters, || follow(&memory.near, &mut 0, near, SHARE_NEAR));
    let record = &mut records[Loop::FarChase.index()];
    let mut visit =
        |at: &mut usize| record.visit(shared.counters, || follow(&memory.far, at, far, SHARE_FAR));
    let with = match shared.together {
        Some((_, mut start)) => visit(&mut start),
        None => memory.in_turn(visit),
    };
    state.samples_ns[2].extend(stalls(&with, &without));
    without
}

/// Return how long loads from the second-level cache stall [ns per step], address translation
/// included. Nothing if no set hits that cache.
fn second_level(state: &mut CpuState, shared: &Shared, near_ns: &[f64]) -> Vec<f64> {
    let Some(middle) = &shared.memory.middle else { return Vec::new() };
    let mut at = 0;
    let with = shared.samples(&mut state.middle, SHARE_MIDDLE, |steps| at = middle.run(at, steps));
    stalls(&with, near_ns)
}

/// Measure internal stalls. A step has eight mispredicted branches or so, and sixteen loads from
/// the second-level cache, which took `second_ns`: about as long as each other on current cores.
fn internal(state: &mut CpuState, shared: &Shared, second_ns: &[f64]) {
    let run = |kind, pace: &mut Pace, share| {
        let mut chunk = u64::from(shared.round) << 32;
        shared.samples(pace, share, |steps| {
            chunk += 1;
            branches(kind, chunk, steps);
        })
    };
    let CpuState { random, steady, records, .. } = state;
    let with = records[Loop::RandomBranches.index()]
        .visit(shared.counters, || run(Branches::Random, random, SHARE_RANDOM));
    let without = records[Loop::SteadyBranches.index()]
        .visit(shared.counters, || run(Branches::Steady, steady, SHARE_STEADY));
    let of_branches = stalls(&with, &without);
    let second = second_ns.iter().cycle().chain(std::iter::repeat(&0.0));
    state.samples_ns[1].extend(of_branches.iter().zip(second).map(|(branches, second)| branches + second));
}

/// Return samples of following a chase, as time per step [ns].
pub fn run_chase(chase: &Chase, pace: &mut Pace, settings: &Settings, share: u32) -> Vec<f64> {
    let mut at = 0;
    pace.samples(settings.chunk, settings.share(share), MIN_SAMPLES, |steps| at = chase.run(at, steps))
}

/// Return the time spent stalled: each sample of the loop that stalls, less the median of the same
/// loop without stalls.
fn stalls(with: &[f64], without: &[f64]) -> Vec<f64> {
    let base = median(without).unwrap_or(0.0);
    with.iter().map(|time| (time - base).max(time * MIN_STALL)).collect()
}

impl Settings {
    /// Return a share of a visit.
    fn share(&self, permille: u32) -> Duration {
        self.visit.unwrap_or(VISIT.0) * permille / 1000
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::memory::Sizes;
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn stalls_are_what_the_plain_loop_does_not_explain() {
        assert_eq!(stalls(&[650.0, 640.0], &[50.0, 40.0, 900.0]), [600.0, 590.0]);
        assert_eq!(stalls(&[100.0], &[200.0]), [1.0]);
        assert_eq!(stalls(&[100.0], &[]), [100.0]);
    }

    proptest! {
        #[test]
        fn visits_at_a_low_clock_do_not_count(low in vec(any::<bool>(), 1..9), at in 0usize..9) {
            let mut low = low;
            let high = at % low.len();
            low[high] = false;
            let mut state = CpuState::default();
            for (number, &low) in (1..).zip(&low) {
                let step_ns = if low { 1.3 } else { 1.0 } + f64::from(number) * 1e-3;
                let mut visit = CpuState { realtime: Some(true), ..CpuState::default() };
                visit.samples_ns = [vec![step_ns; 3], vec![step_ns; 2], vec![step_ns]];
                visit.records[0].samples_ns = vec![step_ns];
                state.add(visit);
            }
            let counted = low.iter().filter(|low| !**low).count();
            prop_assert_eq!(state.samples_ns.each_ref().map(Vec::len), [3 * counted, 2 * counted, counted]);
            prop_assert!(state.samples_ns.iter().flatten().all(|step_ns| *step_ns < 1.1));
            prop_assert_eq!((state.records[0].samples_ns.len(), state.realtime), (counted, Some(true)));
        }
    }

    #[test]
    fn shares_leave_time_for_the_rest() {
        let sum = SHARE_FAR
            + SHARE_NEAR
            + SHARE_MIDDLE
            + SHARE_WARM_UP
            + SHARE_RANDOM
            + SHARE_STEADY
            + SHARE_EXECUTE;
        assert!(sum < 1000);
    }

    #[test]
    fn a_visit_gives_samples_of_every_component() {
        let settings = Settings {
            visit: Some(Duration::from_millis(5)),
            chunk: Duration::from_micros(50),
            ..Settings::default()
        };
        let memory = Memory::new(Sizes { middle: Some(64 << 10), far: 1 << 20 }).unwrap();
        let shared =
            Shared { memory: &memory, together: None, counters: None, settings: &settings, round: 0 };
        let cpu = crate::topology::Topology::read().unwrap().cpus[0].cpu;
        let mut state = CpuState::default();
        std::thread::scope(|scope| scope.spawn(|| visit(cpu, &mut state, &shared)).join().unwrap()).unwrap();
        assert!(state.realtime.is_some());
        for samples in &state.samples_ns {
            assert!(
                samples.len() >= MIN_SAMPLES && samples.iter().all(|sample| *sample > 0.0),
                "{samples:?}"
            );
        }
        assert!(
            state
                .records
                .iter()
                .all(|record| record.samples_ns.len() >= MIN_SAMPLES && record.counted.is_none())
        );
    }
}
