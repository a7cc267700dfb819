// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of the invariants in `lib/include/bias/profile.h`, on the code that BPF compiles.

use bias_policy::ffi::*;
use proptest::prelude::*;

const BEST: bias_cost = bias_cost { permille: [BIAS_COST_BEST; 3] };
const SLOW: bias_cost = bias_cost { permille: [2500, 1580, 1000] };
const WINDOW: u64 = 500_000;
const BOUND: u64 = 1 << 40;

fn counts(cycles: u64, instructions: u64, external: u64, internal: u64) -> bias_counts {
    bias_counts { cycles, instructions, external, internal }
}

fn any_counts() -> impl Strategy<Value = bias_counts> {
    (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>()).prop_map(|(a, b, c, d)| counts(a, b, c, d))
}

fn valid_counts() -> impl Strategy<Value = bias_counts> {
    (1..BOUND, 0..BOUND, 0..BOUND, 0..BOUND).prop_map(|(a, b, c, d)| counts(a, b, c, d))
}

fn cost() -> impl Strategy<Value = bias_cost> {
    [any::<u32>(), any::<u32>(), any::<u32>()].prop_map(|permille| bias_cost { permille })
}

fn add(window: &mut bias_window, mut counts: bias_counts, ran_ns: u64, cost: &bias_cost) {
    c!(bias_counts_correct(&mut counts, 1000, 1000));
    c!(bias_window_add(window, &counts, ran_ns, cost));
}

fn stack_of(window: &bias_window) -> [u32; 3] {
    let mut stack = bias_stack::default();
    c!(bias_window_stack(window, &mut stack));
    stack.permille
}

/// Update a profile by one window with these shares of cycles, counted on a CPU of `cost`.
fn update(profile: &mut bias_profile, cycles: u64, external: u64, internal: u64, cost: &bias_cost) {
    let mut window = bias_window::default();
    add(&mut window, counts(cycles, WINDOW, external, internal), cycles, cost);
    let windows = c!(bias_window_full(&window, WINDOW, profile.windows > 0)).max(1);
    c!(bias_profile_update(profile, &mut window, windows, &SLOW, &BEST));
    assert_eq!(window, bias_window::default());
}

/// Return an interval of `ran_ns` at `mhz`. The task retires `ipc_permille` of an instruction per
/// cycle and stalls outside the core in the other cycles.
fn stretch(ran_ns: u64, mhz: u64, ipc_permille: u64) -> bias_counts {
    let cycles = ran_ns * mhz / 1000;
    let instructions = cycles * ipc_permille / 1000;
    counts(cycles, instructions, cycles - instructions, 0)
}

/// Add an interval as the kernel side does. Return the number of windows that it closed.
fn charge(profile: &mut bias_profile, window: &mut bias_window, counts: bias_counts, ran_ns: u64) -> u32 {
    add(window, counts, ran_ns, &BEST);
    let windows = c!(bias_window_full(window, WINDOW, profile.windows > 0));
    if windows > 0 {
        c!(bias_profile_update(profile, window, windows, &SLOW, &BEST));
    }
    windows
}

/// Return the profile of a task that executed without stalls for a second, and its open window.
fn executing(tick_ns: u64, mhz: u64) -> (bias_profile, bias_window) {
    let (mut profile, mut window) = Default::default();
    for _ in 0..1_000_000_000 / tick_ns {
        charge(&mut profile, &mut window, stretch(tick_ns, mhz, 1000), tick_ns);
    }
    assert_eq!(profile.stack.permille, [1000, 0, 0]);
    (profile, window)
}

const MS: u64 = 1_000_000;
const TICKS_MS: [u64; 3] = [1, 4, 10];

proptest! {
    /// One tick of a fast core holds the instructions of many windows but little time. It must not
    /// replace a profile, because the average spans several windows.
    #[test]
    fn no_tick_replaces_a_profile_at_any_speed(mhz in 60u64..6000, tick in 0usize..3, ipc in 0u64..=1000) {
        let tick_ns = TICKS_MS[tick] * MS;
        let (mut profile, mut window) = executing(tick_ns, mhz);
        charge(&mut profile, &mut window, stretch(tick_ns, mhz, ipc), tick_ns);
        let stalls = 1000 - ipc as u32;
        prop_assert!(profile.stack.permille[2] <= stalls / 2 + 3, "{profile:?}");
        // A phase change still appears in time, as fast as at 60 MHz. Without instructions a window
        // takes 40 ms, and the first one holds a part of the phase before.
        for _ in 0..160 * MS / tick_ns {
            charge(&mut profile, &mut window, stretch(tick_ns, mhz, ipc), tick_ns);
        }
        prop_assert!(profile.stack.permille[2] + 3 >= stalls * 7 / 8, "{profile:?}");
    }

    /// At 60 MHz a window's instructions take about as long as the least time of a window. So only
    /// instructions and cycles decide when it closes.
    #[test]
    fn at_60_mhz_windows_close_by_instructions_and_cycles(
        stretches in prop::collection::vec((1u64..60_000_000, 0u64..=1000), 1..40),
    ) {
        let (mut profile, mut window) = Default::default();
        let (mut cycles, mut instructions) = (0, 0);
        for (ran_ns, ipc) in stretches {
            let counts = stretch(ran_ns, 60, ipc);
            prop_assume!(counts.cycles > 0);
            (cycles, instructions) = (cycles + counts.cycles, instructions + counts.instructions);
            let by_work = (instructions / WINDOW).max(cycles / (4 * WINDOW)).min(64) as u32;
            prop_assert_eq!(charge(&mut profile, &mut window, counts, ran_ns), by_work);
            if by_work > 0 {
                (cycles, instructions) = (0, 0);
            }
        }
    }

    /// A pure chase closes a window in time, at any clock and tick length.
    #[test]
    fn a_pure_chase_closes_a_window_in_time(mhz in 1u64..6000, tick in 0usize..3, known in any::<bool>()) {
        let tick_ns = TICKS_MS[tick] * MS;
        let (mut profile, mut window) = (bias_profile::default(), bias_window::default());
        profile.windows = u32::from(known);
        let bound = WINDOW * u64::from(BIAS_WINDOW_MAX_NS) / tick_ns + 1;
        let closed = (0..bound).any(|_| charge(&mut profile, &mut window, stretch(tick_ns, mhz, 1), tick_ns) > 0);
        prop_assert!(closed && profile.stack.permille[2] > 950, "{profile:?} {window:?}");
    }

    #[test]
    fn no_counts_divide_by_zero_or_overflow(counts in any_counts(), ran in any::<u64>(), cost in cost(), external in 0u32..=4000, internal in 0u32..=4000) {
        if c!(bias_counts_valid(&counts)) {
            let (mut window, mut counts) = (bias_window::default(), counts);
            c!(bias_counts_correct(&mut counts, external, internal));
            prop_assert!(counts.external + counts.internal <= counts.cycles);
            c!(bias_window_add(&mut window, &counts, ran, &cost));
            let total: u64 = window.ref_ns.iter().sum();
            prop_assert!(total <= ran.min(1 << 32));
            prop_assert_eq!(stack_of(&window).iter().sum::<u32>(), BIAS_STACK_SUM);
        }
    }

    #[test]
    fn counts_that_go_backwards_or_wrap_are_invalid(before in 1u64.., back in 1u64..1 << 40) {
        let wrapped = before.saturating_sub(back).wrapping_sub(before);
        prop_assume!(wrapped != 0);
        for counts in [counts(wrapped, 1, 0, 0), counts(1, wrapped, 0, 0), counts(1, 1, wrapped, 0), counts(1, 1, 0, wrapped)] {
            prop_assert!(!c!(bias_counts_valid(&counts)));
        }
        prop_assert!(!c!(bias_counts_valid(&counts(0, 1, 0, 0))));
    }

    /// Multiplexed counts are scaled to the whole interval. Shares stay, and no count leaves the
    /// valid range.
    #[test]
    fn multiplexing_scales_counts_and_keeps_their_shares(before in valid_counts(), running in 1u64..1 << 40, turns in 1u64..200) {
        let mut after = before;
        c!(bias_counts_scale(&mut after, running.saturating_mul(turns), running));
        prop_assert!(c!(bias_counts_valid(&after)));
        let ratio = after.cycles as f64 / before.cycles as f64;
        let expected = turns.min(u64::from(BIAS_MUX_MAX)) as f64;
        let cut = after.cycles == BOUND - 1 || running.saturating_mul(turns) >= BOUND;
        prop_assert!(cut || (ratio / expected - 1.0).abs() < 1e-9, "{ratio} {expected}");
        for (one, other) in [(before.external, after.external), (before.internal, after.internal)] {
            prop_assert!(other == BOUND - 1 || (other as f64 - one as f64 * ratio).abs() <= 1.0 + ratio || cut);
        }
    }

    /// A loop of a load, PAUSE and a branch spins, also where ticks take much of its time. Branches
    /// that all miss, a chain of loads from the second-level cache, and a wait for memory do not
    /// look like spinning.
    #[test]
    fn only_pauses_look_like_spinning(cycles in 200_000u64..1 << 36, ticks in 1u32..5, pause in 120u64..200, miss in 0u64..=20, load in 0u64..=15, memory in 0u64..500) {
        let kernel = u64::from(ticks) * u64::from(BIAS_TICK_INSTRUCTIONS);
        let all = cycles * u64::from(ticks);
        let of = |instructions: u64, external: u64, internal: u64| {
            let rounds = (all - kernel) / (instructions + external + internal);
            counts(all, rounds * instructions + kernel, rounds * external, rounds * internal)
        };
        prop_assert!(c!(bias_spins(&of(5, 0, pause), ticks)));
        prop_assert!(!c!(bias_spins(&of(3, 0, miss), ticks)));
        prop_assert!(!c!(bias_spins(&of(1, 0, load), ticks)));
        prop_assert!(!c!(bias_spins(&of(1, memory, memory.min(18)), ticks)));
        prop_assert!(!c!(bias_spins(&of(1, 100, 100), ticks)));
    }

    /// An interval that is hardly longer than a tick shows the kernel, not the task.
    #[test]
    fn a_short_interval_shows_no_spinning(cycles in 1u64..100_000) {
        prop_assert!(!c!(bias_spins(&counts(cycles, 0, 0, cycles), 1)));
    }

    /// A short run that was counted in full is usable, but a short part of a longer run is not.
    #[test]
    fn a_short_part_of_a_longer_run_is_not_usable(enabled in 0u64..1 << 40, running in 0u64..1 << 40) {
        let tells = c!(bias_mux_counted(enabled, running));
        prop_assert_eq!(tells, running >= enabled || running >= u64::from(BIAS_MUX_MIN_NS));
        prop_assert!(c!(bias_mux_counted(running, running)));
        prop_assert!(!c!(bias_mux_counted(30_000_000, 60_000)), "the kernel's own work would pass for execution");
    }

    #[test]
    fn counts_of_the_whole_time_or_of_none_are_not_scaled(before in valid_counts(), enabled in any::<u64>(), running in any::<u64>()) {
        let mut after = before;
        c!(bias_counts_scale(&mut after, enabled.min(running), running));
        prop_assert_eq!(after, before);
        c!(bias_counts_scale(&mut after, enabled, 0));
        prop_assert_eq!(after, before);
    }

    /// Sums of a window do not overflow for any number and length of intervals.
    #[test]
    fn windows_hold_many_intervals(all in prop::collection::vec((valid_counts(), any::<u64>(), cost()), 1..50)) {
        let mut window = bias_window::default();
        for (counts, ran, cost) in all {
            add(&mut window, counts, ran, &cost);
        }
        prop_assert_eq!(stack_of(&window).iter().sum::<u32>(), BIAS_STACK_SUM);
    }

    /// The same work gives the same stack on another CPU, within the rounding of shares.
    #[test]
    fn a_window_means_the_same_on_every_cpu(execute in 1_000u64..1_000_000, external in 0u64..1_000_000, internal in 0u64..1_000_000) {
        let mut windows = [bias_window::default(); 2];
        add(&mut windows[0], counts(execute + external + internal, WINDOW, external, internal), execute + external + internal, &BEST);
        // On the slow CPU each component takes its cost. Its counters count cycles of the same
        // length.
        let [e, x, i] = [execute * 2500 / 1000, external, internal * 1580 / 1000];
        add(&mut windows[1], counts(e + x + i, WINDOW, x, i), e + x + i, &SLOW);
        for (a, b) in stack_of(&windows[0]).iter().zip(stack_of(&windows[1])) {
            prop_assert!(a.abs_diff(b) <= 3, "{windows:?}");
        }
    }

    #[test]
    fn a_profile_moves_towards_each_window_and_never_past_it(shares in prop::collection::vec((0u64..=1000, 0u64..=1000), 2..20)) {
        let mut profile = bias_profile::default();
        for (i, (external, internal)) in shares.into_iter().enumerate() {
            let before = profile.stack.permille;
            let (external, internal) = (external, internal.min(1000 - external));
            update(&mut profile, 1_000_000, external * 1000, internal * 1000, &BEST);
            prop_assert_eq!(profile.stack.permille.iter().sum::<u32>(), BIAS_STACK_SUM);
            let seen = [1000 - external - internal, internal, external];
            for k in 0..3 {
                let (from, to, now) = (i64::from(before[k]), seen[k] as i64, i64::from(profile.stack.permille[k]));
                prop_assert!(now >= from.min(to) - 3 && now <= from.max(to) + 3, "{from} {to} {now}");
                // The first window counts in full.
                prop_assert!(i > 0 || (now - to).abs() <= 3);
            }
            prop_assert_eq!(profile.windows as usize, i + 1);
        }
    }

    #[test]
    fn biases_have_hysteresis(before in 0u32..3, speedup in 0u32..64_000, low in 1u32..32_000, width in 0u32..32_000) {
        let high = low + width;
        let kind = c!(bias_classify(before, speedup, low, high));
        if speedup == 0 {
            prop_assert_eq!(kind, BIAS_UNBIASED);
        } else if speedup >= high {
            prop_assert_eq!(kind, BIAS_FAST_BIASED);
        } else if speedup <= low {
            prop_assert_eq!(kind, BIAS_SLOW_BIASED);
        } else if kind != BIAS_UNBIASED {
            prop_assert_eq!(kind, before, "inside the band a bias is only kept");
            prop_assert!(speedup >= high - width / 4 || speedup <= low + width / 4);
        }
        // A second classification changes nothing.
        prop_assert_eq!(c!(bias_classify(kind, speedup, low, high)), kind);
    }

    #[test]
    fn the_average_stays_between_its_samples(speedups in prop::collection::vec(1000u32..=64_000, 1..200)) {
        let mut average = 0;
        for speedup in &speedups {
            average = c!(bias_average_step(average, *speedup));
        }
        let (least, most) = (speedups.iter().min().unwrap(), speedups.iter().max().unwrap());
        prop_assert!(average >> BIAS_AVERAGE_PLACES >= *least && average >> BIAS_AVERAGE_PLACES <= *most);
    }

    /// On a machine of equal tasks every task is unbiased, at any speedup.
    #[test]
    fn average_tasks_are_unbiased(speedup in 1000u32..=64_000) {
        let average = c!(bias_average_step(0, speedup));
        let (low, high) = (c!(bias_band_low(average)), c!(bias_band_high(average)));
        for before in 0..3 {
            prop_assert_eq!(c!(bias_classify(before, speedup, low, high)), BIAS_UNBIASED);
        }
    }

    #[test]
    fn gaining_more_is_a_strict_order(a in 0u32..64_000, b in 0u32..64_000, margin in 0u32..1000) {
        let more = |a, b| c!(bias_gains_more(a, b, margin));
        prop_assert!(!more(a, a));
        prop_assert!(!more(a, b) || !more(b, a));
        prop_assert!(!more(a, 0) && !more(0, a));
    }
}

/// A loop without stalls gains the full ratio, and one that is 93 % stalled gains almost nothing.
#[test]
fn speedups_of_known_stacks() {
    for (external, expected) in [(0, 2500), (500, 1750), (930, 1105), (1000, 1000)] {
        let mut profile = bias_profile::default();
        update(&mut profile, 1_000_000, external * 1000, 0, &BEST);
        assert!(profile.speedup_permille.abs_diff(expected) <= 5, "{external}: {}", profile.speedup_permille);
    }
}

/// A phase change appears within three windows, and a steady task is stable after a few.
#[test]
fn a_phase_change_is_seen_within_three_windows() {
    let mut profile = bias_profile::default();
    for _ in 0..6 {
        update(&mut profile, 600_000, 0, 0, &BEST);
    }
    assert!(c!(bias_profile_stable(&profile)));
    for _ in 0..3 {
        update(&mut profile, 600_000, 560_000, 0, &BEST);
        assert!(!c!(bias_profile_stable(&profile)));
    }
    assert!(profile.speedup_permille < 1350, "{}", profile.speedup_permille);
}

/// One interval of several windows counts as that many.
#[test]
fn a_long_interval_replaces_the_profile() {
    let mut profile = bias_profile::default();
    for _ in 0..3 {
        update(&mut profile, 600_000, 0, 0, &BEST);
    }
    let mut window = bias_window::default();
    add(&mut window, counts(WINDOW * 40, WINDOW * 5, WINDOW * 36, 0), 100 * MS, &BEST);
    assert_eq!(c!(bias_window_full(&window, WINDOW, true)), 10, "by its cycles, four to an instruction");
    c!(bias_profile_update(&mut profile, &mut window, 10, &SLOW, &BEST));
    assert!(profile.stack.permille[2] > 895);
}
