// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! One visit to a CPU: every loop runs for its share of the time, in many short chunks, while the
//! CPU's events count.
//!
//! # Problem
//! A tick, an interrupt or a preemption lengthens the loop that it interrupts. On slow or emulated
//! CPUs a fixed number of steps may take seconds.
//!
//! The scale of a counter must be found on the machine itself, under loops with known stalls. This
//! must not make the calibration longer.
//!
//! The effect of siblings on each other shows only while all of them run. A thread that begins late
//! or ends early leaves the others a whole core.
//!
//! # Approach
//! The number of steps is chosen once per loop and CPU so that a chunk takes about two milliseconds
//! ([`Pace`]). Chunks are short against the 4 to 10 ms between ticks, so most contain none, and the
//! median drops those that do. The clock is CLOCK_MONOTONIC (`Instant`), not the thread's CPU time.
//! Reading the latter is a system call, and the preemptions that it would leave out are outliers
//! anyway.
//!
//! A visit reads the CPU's counters before and after each loop ([`LoopRecord`]). The differences of
//! all visits are added up, and the times are kept for the median.
//!
//! CPUs of one core are visited together ([`Meeting`]). All threads wait for each other before a
//! loop. After it, each continues the loop, untimed, until all have finished. The first wait
//! sleeps, so that a SCHED_FIFO thread does not keep another one from getting to its CPU.
//!
//! # Invariants
//! A sample is nanoseconds per step. The first chunk of a loop is never a sample. A visit adds no
//! counts if its counters could not be read, ran backwards or were never scheduled: sums and their
//! durations belong together. Without counters nothing is read. A thread that cannot take part
//! cancels the meeting, and then all others return immediately. So no thread waits for one that is
//! absent.
//!
//! # Limits
//! The sums include what interrupts count meanwhile. They also include the chunks that find a
//! loop's pace, which run the same loop.

use super::memory::Memory;
use super::settings::{Settings, VISIT};
use super::settle;
use crate::affinity::{join, pin, realtime};
use crate::failure::Failure;
use crate::loops::{Branches, Chase, branches, execute};
use crate::pmu::{Delta, Group, Role};
use bias_policy::model::{Counts, LOOPS, Loop, LoopSample};
use bias_policy::samples::{median, summarise};
use bias_policy::table::COMPONENTS;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Fewest samples of a loop per visit.
const MIN_SAMPLES: usize = 2;
/// Most by which visits with the same clock differ in the time of a step. A governor changes clocks
/// by more, and may leave a low one for a whole visit.
const OTHER_CLOCK: f64 = 1.1;
/// Least stall, as a share of the time of the loop that stalls. It keeps ratios finite.
const MIN_STALL: f64 = 0.01;

/// Shares of a visit [permille]. The rest pays for migrating to the CPU and back.
///
/// A visit begins when the clock has settled. The memory loops come first, because they depend
/// least on a clock that still changes.
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
    /// Time per step by component [ns]. The stalls are differences, see [`crate::loops`].
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

/// Visit CPUs at the same time, each on a thread of its own.
///
/// # Errors
/// Those of the visits. Runtime failure when a thread cannot be started.
pub fn visit_all<'a>(
    visits: impl Iterator<Item = (u32, &'a mut CpuState, Shared<'a>)>,
) -> Result<(), Failure> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = visits
            .map(|(cpu, state, shared)| {
                let meeting = shared.together.map(|(meeting, _)| meeting);
                let thread = Builder::new().spawn_scoped(scope, move || visit(cpu, state, &shared));
                thread.map_err(|error| {
                    meeting.into_iter().for_each(Meeting::cancel);
                    Failure::runtime(format!("cannot start a thread ({error}); raise the limit of processes"))
                })
            })
            .collect();
        // Join all threads before the first error is returned.
        let results: Vec<_> = threads.into_iter().map(|thread| thread.and_then(join)).collect();
        results.into_iter().collect()
    })
}

/// Measure every loop on `cpu` once, on the calling thread, and add the samples to `state`.
///
/// # Errors
/// The failures of [`pin`].
fn visit(cpu: u32, state: &mut CpuState, shared: &Shared) -> Result<(), Failure> {
    let pinned = pin(cpu);
    if let (Err(_), Some((meeting, _))) = (&pinned, shared.together) {
        meeting.cancel();
    }
    pinned?;
    let realtime = realtime();
    // The result is dropped: this only waits for the clock. An earlier visit gives the target.
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
    /// Add the results of a visit. Visits with another clock do not mix: the faster ones count.
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

/// Most steps of a chunk: a bound for loops that take no time by a broken clock.
const MAX_STEPS: u64 = 1 << 40;
/// Trials after which the current number of steps is accepted.
const MAX_TRIALS: u32 = 24;

/// The number of steps of a loop that fills a chunk on one CPU.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pace {
    /// Steps per chunk; 0 before the first call of `find`.
    steps: u64,
}

impl Pace {
    /// Find the number of steps that takes about `chunk`, by growing it, or confirm an earlier
    /// result.
    ///
    /// A disturbance during the search makes chunks too short. Short chunks are worse than noisy
    /// ones: below the timing granularity of a hypervisor or emulator they show a speed that does
    /// not exist. So the search tries its choice and corrects it until a chunk takes between half
    /// and three times `chunk`.
    ///
    /// `time` runs the given number of steps and returns their duration.
    fn find(&mut self, chunk: Duration, mut time: impl FnMut(u64) -> Duration) {
        let mut steps = self.steps.max(1);
        for _ in 0..MAX_TRIALS {
            let elapsed = time(steps);
            let fits = (chunk / 2..=chunk * 3).contains(&elapsed) || steps == MAX_STEPS;
            if fits && steps == self.steps {
                return;
            }
            // Far from the target the estimate is poor: approach it by at most a factor of sixteen.
            let factor = (chunk.as_nanos() as f64 / elapsed.as_nanos().max(1) as f64).clamp(1.0 / 16.0, 16.0);
            steps = ((steps as f64 * factor) as u64).clamp(1, MAX_STEPS);
            self.steps = steps;
        }
    }

    /// Run one chunk and return the time per step [ns].
    pub fn sample(&self, mut run: impl FnMut(u64)) -> f64 {
        let steps = self.steps.max(1);
        time(steps, &mut run).as_nanos() as f64 / steps as f64
    }

    /// Return samples of `run` [ns per step] for `budget` in all, at least `least` of them.
    ///
    /// The chunks that find the pace come out of the budget and are dropped. The last of them is a
    /// full chunk, so no sample is cold.
    pub fn samples(
        &mut self,
        chunk: Duration,
        budget: Duration,
        least: usize,
        mut run: impl FnMut(u64),
    ) -> Vec<f64> {
        let start = Instant::now();
        self.find(chunk, |steps| time(steps, &mut run));
        let mut samples = Vec::new();
        while samples.len() < least || start.elapsed() < budget {
            samples.push(self.sample(&mut run));
        }
        samples
    }
}

fn time(steps: u64, run: &mut impl FnMut(u64)) -> Duration {
    let start = Instant::now();
    run(steps);
    start.elapsed()
}

/// One loop on one CPU over all visits.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoopRecord {
    /// Time per step [ns].
    pub samples_ns: Vec<f64>,
    /// Sum of the counts of all visits; None if no visit was counted.
    pub counted: Option<Delta>,
}

/// All loops on one CPU, by [`Loop::index`].
pub type Records = [LoopRecord; LOOPS];

impl LoopRecord {
    /// Run a loop of a visit and read the counters around it. Keep both and return the samples.
    pub fn visit(&mut self, group: Option<&Group>, run: impl FnOnce() -> Vec<f64>) -> Vec<f64> {
        let read = || group.and_then(|group| group.read().ok());
        let before = read();
        let samples = run();
        if let Some((before, after)) = before.zip(read()) {
            self.count(&after.since(&before));
        }
        self.samples_ns.extend(&samples);
        samples
    }

    /// Add the samples and counts of another record of the loop.
    pub fn add(&mut self, other: &Self) {
        self.samples_ns.extend(&other.samples_ns);
        self.counted = match (self.counted, other.counted) {
            (Some(sum), Some(other)) => Some(sum.plus(&other)),
            (one, other) => one.or(other),
        };
    }

    fn count(&mut self, delta: &Delta) {
        let Some(scaled) = delta.scaled().filter(|delta| !delta.backwards) else { return };
        self.counted = Some(self.counted.map_or(scaled, |sum| sum.plus(&scaled)));
    }

    /// Return cycles per millisecond; None if no cycles were counted.
    #[must_use]
    pub fn khz(&self) -> Option<u64> {
        let delta = self.counted.filter(|delta| delta.enabled > 0)?;
        let khz = u128::from(delta.count(Role::Cycles)?) * 1_000_000 / u128::from(delta.enabled);
        u64::try_from(khz).ok().filter(|khz| *khz > 0)
    }

    /// Return median, spread and counts of all visits.
    pub fn sample(&self) -> LoopSample {
        let (step_ns, spread_permille) =
            summarise(&self.samples_ns).map_or((0.0, 0), |summary| (summary.median, summary.spread_permille));
        let counts = self.counted.map(|delta| Counts {
            ran_ns: delta.enabled,
            cycles: delta.count(Role::Cycles).unwrap_or(0),
            instructions: delta.count(Role::Instructions).unwrap_or(0),
            external: delta.count(Role::External),
            internal: delta.count(Role::Internal),
        });
        LoopSample { step_ns, spread_permille, counts }
    }
}

/// Time between two checks whether all have arrived; short against a chunk.
const LOOK_EVERY: Duration = Duration::from_micros(20);

/// A group of threads that meet repeatedly.
#[derive(Debug)]
pub struct Meeting {
    parties: usize,
    /// Arrivals since the first meeting.
    arrived: AtomicUsize,
    cancelled: AtomicBool,
}

impl Meeting {
    /// Return a meeting of `parties` threads.
    #[must_use]
    pub fn of(parties: usize) -> Self {
        Self { parties: parties.max(1), arrived: AtomicUsize::new(0), cancelled: AtomicBool::new(false) }
    }

    /// End all present and future waits.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
    }

    /// Wait until all have arrived. Return false if the meeting is cancelled.
    pub fn wait(&self) -> bool {
        self.wait_doing(|| std::thread::sleep(LOOK_EVERY))
    }

    /// Like [`Self::wait`], but call `meanwhile` while a thread is missing.
    pub fn wait_doing(&self, mut meanwhile: impl FnMut()) -> bool {
        let before = self.arrived.fetch_add(1, Ordering::AcqRel);
        let all = (before / self.parties + 1) * self.parties;
        while self.arrived.load(Ordering::Acquire) < all {
            if self.cancelled.load(Ordering::Acquire) {
                return false;
            }
            meanwhile();
        }
        !self.cancelled.load(Ordering::Acquire)
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
    fn stalls_are_the_time_beyond_the_plain_loop() {
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

    #[test]
    fn without_time_the_least_number_of_samples_is_taken() {
        let mut calls = 0;
        let mut pace = Pace::default();
        let samples = pace.samples(Duration::ZERO, Duration::ZERO, 3, |_| calls += 1);
        assert!(samples.len() == 3 && calls > 3);
    }

    #[test]
    fn a_disturbance_while_finding_does_not_leave_chunks_short() {
        let chunk = Duration::from_millis(2);
        let mut pace = Pace::default();
        let mut calls = 0;
        pace.find(chunk, |steps| {
            calls += 1;
            // The first call is delayed by more than a chunk; later ones take a microsecond per
            // step.
            if calls == 1 { chunk * 2 } else { Duration::from_micros(steps) }
        });
        assert!((1000..=6000).contains(&pace.steps), "{} steps of 1 us", pace.steps);
    }

    #[test]
    fn repeated_disturbances_end_within_the_trials() {
        // Every third call is delayed. The search still ends, and no chunk is shorter than half of
        // the request.
        let chunk = Duration::from_millis(2);
        let mut pace = Pace::default();
        let mut calls = 0;
        pace.find(chunk, |steps| {
            calls += 1;
            Duration::from_micros(steps) + if calls % 3 == 0 { chunk * 10 } else { Duration::ZERO }
        });
        assert!(
            calls <= MAX_TRIALS && pace.steps >= 1000,
            "{} steps of 1 us after {calls} calls",
            pace.steps
        );
    }

    #[test]
    fn a_loop_that_takes_no_time_does_not_hang() {
        let mut pace = Pace::default();
        pace.find(Duration::from_secs(3600), |steps| time(steps, &mut |_| {}));
        assert!(pace.steps > 0);
    }

    fn delta(counts: [Option<u64>; 4]) -> Delta {
        Delta { counts, enabled: 1000, running: 500, backwards: false }
    }

    #[test]
    fn visits_are_added_up_and_scaled() {
        let mut record = LoopRecord::default();
        record.count(&delta([Some(10), Some(20), Some(3), None]));
        record.samples_ns = vec![5.0];
        let mut other = LoopRecord::default();
        other.count(&delta([Some(10), Some(20), Some(4), None]));
        other.samples_ns = vec![6.0, 900.0];
        record.add(&other);
        let sample = record.sample();
        assert_eq!(sample.step_ns, 6.0);
        let counts = sample.counts.unwrap();
        assert_eq!(
            (counts.ran_ns, counts.cycles, counts.external, counts.internal),
            (2000, 40, Some(14), None)
        );
        assert_eq!(record.khz(), Some(20_000));
    }

    #[test]
    fn untrusted_counts_add_nothing() {
        let mut record = LoopRecord::default();
        record.count(&Delta { running: 0, ..delta([Some(1); 4]) });
        record.count(&Delta { backwards: true, ..delta([Some(1); 4]) });
        assert_eq!((record.counted, record.khz()), (None, None));
        assert_eq!(record.visit(None, || vec![1.0]), [1.0]);
        assert_eq!((record.samples_ns.len(), record.sample().counts), (1, None));
    }

    #[test]
    fn all_begin_together_and_none_stops_before_the_last() {
        let (meeting, finished) = (Meeting::of(3), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for late in 0..3 {
                let (meeting, finished) = (&meeting, &finished);
                scope.spawn(move || {
                    for round in 0..20 {
                        assert!(meeting.wait());
                        assert!(finished.load(Ordering::SeqCst) <= round * 3 + 2);
                        std::thread::sleep(Duration::from_micros(100 * late));
                        finished.fetch_add(1, Ordering::SeqCst);
                        assert!(meeting.wait_doing(std::thread::yield_now));
                        assert!(finished.load(Ordering::SeqCst) >= round * 3 + 3);
                    }
                });
            }
        });
    }

    #[test]
    fn no_thread_waits_for_a_cancelled_meeting() {
        let meeting = Meeting::of(2);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| meeting.wait());
            meeting.cancel();
            assert!(!waits.join().unwrap());
        });
        assert!(!meeting.wait());
    }
}
