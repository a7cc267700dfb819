// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of the invariants in `lib/include/bias/*.h`, on the code that BPF compiles.

use bias_policy::ffi::*;
use proptest::prelude::*;

fn stack() -> impl Strategy<Value = bias_stack> {
    [0u32..=4000, 0u32..=4000, 0u32..=4000].prop_map(|permille| bias_stack { permille })
}

fn cost() -> impl Strategy<Value = bias_cost> {
    [any::<u32>(), any::<u32>(), any::<u32>()].prop_map(|permille| bias_cost { permille })
}

fn sane_cost() -> impl Strategy<Value = bias_cost> {
    let one = BIAS_COST_BEST..=BIAS_COST_MAX;
    [one.clone(), one.clone(), one].prop_map(|permille| bias_cost { permille })
}

fn normal(mut stack: bias_stack) -> bias_stack {
    c!(bias_stack_normalise(&mut stack));
    stack
}

proptest! {
    #[test]
    fn shares_sum_after_normalising(stack in stack()) {
        prop_assert_eq!(normal(stack).permille.iter().sum::<u32>(), BIAS_STACK_SUM);
    }

    #[test]
    fn shares_sum_after_conversion_too(stack in stack(), cost in cost()) {
        let mut stack = normal(stack);
        c!(bias_stack_to_reference(&mut stack, &cost));
        prop_assert_eq!(stack.permille.iter().sum::<u32>(), BIAS_STACK_SUM);
    }

    #[test]
    fn converting_on_the_best_cpu_changes_nothing(stack in stack()) {
        let before = normal(stack);
        let mut after = before;
        c!(bias_stack_to_reference(&mut after, &bias_cost { permille: [BIAS_COST_BEST; 3] }));
        for (a, b) in before.permille.iter().zip(after.permille) {
            prop_assert!(a.abs_diff(b) <= 2, "{before:?} {after:?}");
        }
    }

    /// A stack that is counted on a CPU and then converted equals the stack on the reference CPU.
    #[test]
    fn conversion_undoes_a_cpu(stack in stack(), cost in sane_cost()) {
        let reference = normal(stack);
        let time: u64 = (0..3).map(|k| u64::from(reference.permille[k]) * u64::from(cost.permille[k])).sum();
        let mut seen = bias_stack {
            permille: std::array::from_fn(|k| {
                (u64::from(reference.permille[k]) * u64::from(cost.permille[k]) * 1_000_000 / time) as u32
            }),
        };
        c!(bias_stack_to_reference(&mut seen, &cost));
        for (a, b) in reference.permille.iter().zip(seen.permille) {
            prop_assert!(a.abs_diff(b) <= 3, "{reference:?} {seen:?}");
        }
    }

    #[test]
    fn time_lies_between_the_extremes_of_the_costs(stack in stack(), cost in sane_cost()) {
        let time = c!(bias_time_permille(&normal(stack), &cost));
        let least = cost.permille.iter().min().unwrap();
        let most = cost.permille.iter().max().unwrap();
        prop_assert!((*least..=*most).contains(&time));
    }

    #[test]
    fn no_input_divides_by_zero_and_a_dearer_cpu_is_no_faster(stack in stack(), a in cost(), b in cost()) {
        let speedup = c!(bias_speedup_permille(&normal(stack), &a, &a));
        prop_assert_eq!(speedup, BIAS_COST_BEST);
        let dearer = bias_cost { permille: std::array::from_fn(|k| a.permille[k].max(b.permille[k])) };
        prop_assert!(c!(bias_speedup_permille(&normal(stack), &dearer, &a)) >= BIAS_COST_BEST);
        let _ = c!(bias_speedup_permille(&stack, &a, &b));
    }

    #[test]
    fn pure_execution_speeds_up_by_the_execute_ratio(slow in sane_cost(), fast in sane_cost()) {
        let pure = normal(bias_stack::default());
        prop_assert_eq!(pure.permille, [BIAS_STACK_SUM, 0, 0]);
        let ratio = u64::from(slow.permille[0]) * 1000 / u64::from(fast.permille[0]);
        prop_assert_eq!(u64::from(c!(bias_speedup_permille(&pure, &slow, &fast))), ratio);
    }

    #[test]
    fn reference_time_shrinks_with_cost(ran in 0u64..1 << 50, a in any::<u32>(), b in any::<u32>()) {
        let (cheap, dear) = (a.min(b), a.max(b));
        prop_assert!(c!(bias_reference_ns(ran, dear)) <= c!(bias_reference_ns(ran, cheap)));
        prop_assert!(c!(bias_reference_ns(ran, cheap)) <= ran);
    }

    #[test]
    fn a_charge_is_never_free_and_falls_with_weight(work in 1000u64..1 << 40, a in 1u32..=10_000, b in 1u32..=10_000) {
        let (light, heavy) = (a.min(b) << BIAS_WEIGHT_SHIFT, a.max(b) << BIAS_WEIGHT_SHIFT);
        prop_assert!(c!(bias_charge(work, heavy)) > 0);
        prop_assert!(c!(bias_charge(work, light)) >= c!(bias_charge(work, heavy)));
        prop_assert_eq!(c!(bias_charge(work, BIAS_WEIGHT_NICE_0)), work);
    }

    #[test]
    fn a_sleeper_gains_one_lag_at_most(vtime in any::<u64>(), back in 0u64..1 << 62, lag in 0u64..1 << 40) {
        let now = vtime.wrapping_add(back);
        let start = c!(bias_wakeup_vtime(vtime, now, lag));
        prop_assert!(now.wrapping_sub(start) <= lag.max(back.min(lag)));
        prop_assert!(!c!(bias_vtime_before(start, vtime)), "no task goes back");
    }

    /// A sleeper that is always served immediately, as it is entitled to, must not drive the global
    /// vtime away from the running tasks. It would then have to wait, and new tasks would start
    /// behind all others.
    #[test]
    fn the_global_vtime_stays_with_the_running_tasks(burst_us in 100u64..3_000, sleep_us in 1_000u64..20_000, slice_us in 1_000u64..50_000) {
        let (burst, sleep, slice) = (burst_us * 1000, sleep_us * 1000, slice_us * 1000);
        let weight = |tasks: u64| tasks * u64::from(BIAS_WEIGHT_NICE_0);
        // Two CPUs of full speed run two tasks. The sleeper replaces one of them for its burst.
        let (mut clock, mut run, mut waits) = (1u64 << 40, [1u64 << 40; 2], false);
        let mut advance = |run: &mut [u64; 2], works: [u64; 2], more: u64, tasks: u64| {
            for (vtime, work) in run.iter_mut().zip(works) {
                *vtime += work;
            }
            let mut look = c!(bias_clock_scan(i64::MAX));
            for vtime in run.iter() {
                c!(bias_clock_add(&mut look, clock, *vtime, *vtime, BIAS_WEIGHT_NICE_0, slice, u64::MAX));
            }
            if !waits {
                clock += c!(bias_clock_advance(works.iter().sum::<u64>() + more, weight(tasks)));
            }
            waits = c!(bias_clock_holds(&look, slice));
            clock
        };
        for turn in 0..2_000 {
            let set_back = turn % 2;
            let works = [if set_back == 0 { 0 } else { burst }, if set_back == 1 { 0 } else { burst }];
            advance(&mut run, works, burst, 3);
            let now = advance(&mut run, [sleep; 2], 0, 2);
            let ahead = now as i64 - (run[0] / 2 + run[1] / 2) as i64;
            // The global vtime holds one round after it was found to lead.
            prop_assert!(ahead <= (slice / 8 + 2 * (burst + sleep)) as i64, "turn {turn}: {ahead} ns");
        }
    }

    /// Two tasks share a CPU by their weights, next to tasks that run alone on the other CPUs. A
    /// lone task of little weight gets ahead many times as fast as the global vtime, and one of
    /// large weight stays behind. Neither may drag the global vtime along. The two tasks would be
    /// further from it than the lag clamp, and their weights would not count. This holds even if
    /// some ticks see neither of the two.
    #[test]
    fn tasks_that_share_a_cpu_share_it_by_weight(weights in [25u32..=400, 25u32..=400], alone in prop::collection::vec(1u32..=10_000, 1..64), slice_us in 1_000u64..50_000, unseen in 2u64..9) {
        let slice = slice_us * 1000;
        let (tick, cpus) = (slice / 4, alone.len() as u32 + 1);
        let pair = weights.map(|weight| weight << BIAS_WEIGHT_SHIFT);
        let loners: Vec<u32> = alone.iter().map(|weight| weight << BIAS_WEIGHT_SHIFT).collect();
        let total: u64 = pair.iter().chain(&loners).map(|weight| u64::from(*weight)).sum();
        let start = 1u64 << 40;
        let (mut clock, mut waits, mut runs, mut began, mut beyond) = (start, false, 0, start, 0);
        let (mut vtimes, mut ran, mut ahead) = ([start; 2], [0u64; 2], vec![start; alone.len()]);
        for turn in 0..8_000u64 {
            ran[runs] += tick;
            vtimes[runs] += c!(bias_charge(tick, pair[runs]));
            ahead.iter_mut().zip(&loners).for_each(|(vtime, weight)| *vtime += c!(bias_charge(tick, *weight)));
            if !waits {
                clock += c!(bias_clock_advance(u64::from(cpus) * tick, total - beyond));
            }
            // Only the CPU of the two tasks is contended, so it alone counts.
            let mut look = c!(bias_clock_scan(bias_clock_part((total - beyond) as i64, cpus)));
            for (vtime, weight) in ahead.iter().zip(&loners) {
                c!(bias_clock_add(&mut look, clock, *vtime, *vtime, *weight, slice, 0));
            }
            c!(bias_clock_add(&mut look, clock, vtimes[runs], began, pair[runs], slice, u64::MAX));
            waits = c!(bias_clock_holds(&look, slice));
            beyond = look.beyond;
            if !waits {
                clock += c!(bias_clock_catch_up(&look, slice));
            }
            if turn % 4 != 3 {
                continue;
            }
            if !waits && turn / 4 % unseen == 0 {
                clock = c!(bias_clock_follow(clock, ahead.iter().copied().min().unwrap(), slice));
            }
            if vtimes[1 - runs] < vtimes[runs] {
                let vtime = c!(bias_wakeup_vtime(vtimes[runs], clock, 6 * slice));
                vtimes[runs] = c!(bias_queue_vtime(vtime, clock, bias_ahead_ns(slice, pair[runs])));
                runs = 1 - runs;
            }
            began = vtimes[runs];
        }
        let (got, due) = (ran[0] as f64 / ran[1] as f64, f64::from(weights[0]) / f64::from(weights[1]));
        prop_assert!((got / due - 1.0).abs() < 0.1, "{got} to 1, {due} is due");
        let far = vtimes.map(|vtime| vtime.abs_diff(clock) / slice);
        prop_assert!(far.iter().all(|slices| *slices <= 16), "the global vtime is {far:?} slices from the two");
    }

    /// A task that weighs more than a CPU's part counts only in the sum of weight beyond the parts.
    #[test]
    fn a_task_with_a_cpu_to_itself_does_not_move_the_global_vtime(most in 1u32..1 << 20, more in 1u32..1 << 20, weight in 1u32..1 << 20, away in -(1i64 << 40)..1 << 40, lag in -(1i64 << 30)..1 << 30) {
        let (now, slice) = (1u64 << 50, 10_000_000);
        let at = |off: i64| now.wrapping_add_signed(off);
        let mut scan = c!(bias_clock_scan(i64::from(most)));
        c!(bias_clock_add(&mut scan, now, at(lag), at(lag), weight.min(most), slice, u64::MAX));
        let (holds, catch_up) = (c!(bias_clock_holds(&scan, slice)), c!(bias_clock_catch_up(&scan, slice)));
        prop_assert_eq!(scan.beyond, 0);
        c!(bias_clock_add(&mut scan, now, at(away), at(away), most + more, slice, 0));
        prop_assert_eq!(scan.beyond, u64::from(more));
        prop_assert_eq!(c!(bias_clock_holds(&scan, slice)), holds);
        prop_assert_eq!(c!(bias_clock_catch_up(&scan, slice)), catch_up);
    }

    /// A wrong observation moves the global vtime by a slice at most, and never back.
    #[test]
    fn the_global_vtime_follows_by_a_slice_at_most(now in any::<u64>(), off in -(1i64 << 62)..1 << 62, slice in 1u64..1 << 40) {
        let least = now.wrapping_add(off as u64);
        let moved = c!(bias_clock_follow(now, least, slice)).wrapping_sub(now);
        prop_assert_eq!(moved, (off.max(0) as u64).min(slice));
    }

    /// A task that preempts another one is not preempted by it in return, at any vtime. Tasks of
    /// equal vtime do not preempt each other.
    #[test]
    fn preempting_needs_a_lag_of_half_a_slice(vtime in any::<u64>(), owed in 0u64..1 << 62, slice in 1_000u64..1_000_000_000) {
        let running = vtime.wrapping_add(owed);
        prop_assert_eq!(c!(bias_goes_before(vtime, running, slice)), owed > slice / 2);
        prop_assert!(!c!(bias_goes_before(running, vtime, slice)));
    }

    #[test]
    fn no_task_waits_further_ahead_than_allowed(now in any::<u64>(), ahead in 0u64..1 << 62, most in 0u64..1 << 40) {
        let vtime = c!(bias_queue_vtime(now.wrapping_add(ahead), now, most));
        prop_assert_eq!(vtime.wrapping_sub(now), ahead.min(most));
        let behind = now.wrapping_sub(ahead);
        prop_assert_eq!(c!(bias_queue_vtime(behind, now, most)), behind, "a task that is behind stays there");
    }

    /// A task that is forgiven everything that it earned progresses faster than one that is
    /// forgiven nothing, by exactly the requested factor.
    #[test]
    fn forgiveness_is_earned(charges in prop::collection::vec(1_000_000u64..1 << 34, 1..32), permille in 1_000u32..100_000) {
        let (mut earned, mut kept) = (0, 0);
        for charge in &charges {
            earned = c!(bias_earn(earned, *charge, permille, u64::MAX));
            kept += charge - c!(bias_spend(&raw mut earned, *charge, u64::MAX / 2));
        }
        let progress = charges.iter().sum::<u64>() as f64 / kept as f64;
        prop_assert!((progress * 1000.0 / f64::from(permille) - 1.0).abs() < 0.01, "{progress}");
    }

    /// Neither a lead that stays nor a saving exceeds the given limit.
    #[test]
    fn leads_and_savings_are_bounded(saved in 0u64..1 << 40, excess in 0u64..1 << 62, permille in 1_000u32..100_000, most in 0u64..1 << 40) {
        let mut earned = c!(bias_earn(saved, excess, permille, most));
        prop_assert!(earned <= most);
        let spent = c!(bias_spend(&raw mut earned, excess, most));
        prop_assert!(spent <= excess && excess - spent <= most);
    }

    /// The bound on a waiting task's vtime covers the charge of two whole slices, at any weight.
    #[test]
    fn no_charge_of_a_light_task_is_forgiven(slice in 1_000u64..1_000_000_000, weight in 1u32..=10_000) {
        let shifted = weight << BIAS_WEIGHT_SHIFT;
        let ahead = c!(bias_ahead_ns(slice, shifted));
        prop_assert!(ahead >= 2 * slice && ahead >= c!(bias_charge(2 * slice, shifted)));
        prop_assert!(ahead <= c!(bias_ahead_ns(slice, (weight / 2).max(1) << BIAS_WEIGHT_SHIFT)));
    }

    /// The global vtime advances as fast as the average of the competing tasks, and no faster than
    /// the work.
    #[test]
    fn the_global_vtime_moves_with_the_average(weights in prop::collection::vec(1u32..=10_000, 1..64), work in 1_000_000u64..1_000_000_000) {
        let shifted: Vec<u32> = weights.iter().map(|w| w << BIAS_WEIGHT_SHIFT).collect();
        let total: u64 = shifted.iter().map(|w| u64::from(*w)).sum();
        let advance = c!(bias_clock_advance(work, total));
        prop_assert!(advance <= work);
        // A task that gets its weight's share of the work stays level with the global vtime.
        let due = u128::from(work) * u128::from(shifted[0]) / u128::from(total);
        let charge = c!(bias_charge(due as u64, shifted[0]));
        let bounded = total < u64::from(BIAS_WEIGHT_NICE_0);
        prop_assert!(bounded || charge.abs_diff(advance) <= advance / 100 + 200_000, "{charge} against {advance}");
    }

    #[test]
    fn a_slice_stays_between_its_bounds(slice in 1u64..1 << 40, min in 1u64..1 << 40, waiting in any::<u32>(), cpus in any::<u32>()) {
        let got = c!(bias_slice(slice, min, waiting, cpus));
        prop_assert!(got <= slice && got >= min.min(slice));
    }

    /// Tasks that wait for one of many CPUs shorten a slice by one CPU's part of the DSQ. Even one
    /// waiting task shortens it.
    #[test]
    fn a_slice_is_shared_by_a_cpus_part_of_the_queue(slice in 1_000u64..1 << 40, cpus in 1u32..1024, each in 0u64..100) {
        let waiting = cpus * each as u32;
        prop_assert_eq!(c!(bias_slice(slice, 1, waiting, cpus)), (slice / (each + 1)).max(1));
        prop_assert_eq!(c!(bias_slice(slice, 1, waiting + 1, cpus)), (slice / (each + 2)).max(1));
    }

    /// The parts of a group's weight exceed it by at most the rounding up to 1, in any split.
    #[test]
    fn a_groups_tasks_share_its_weight(weights in prop::collection::vec(1u32..=10_000, 1..50), group in 1u32..=10_000) {
        let shifted: Vec<u32> = weights.iter().map(|w| w << BIAS_WEIGHT_SHIFT).collect();
        let active: i64 = shifted.iter().map(|w| i64::from(*w)).sum();
        let group = group << BIAS_WEIGHT_SHIFT;
        let sum: u64 = shifted.iter().map(|w| u64::from(c!(bias_group_weight(*w, group, active)))).sum();
        prop_assert!(sum <= u64::from(group) + weights.len() as u64);
        prop_assert!(sum + weights.len() as u64 >= u64::from(group));
    }

    /// The sum of a group may lack weight that CPUs have not added yet.
    #[test]
    fn a_task_never_weighs_more_than_its_group(weight in 1u32..=10_000, group in 1u32..=10_000, active in -1i64 << 40..1 << 40) {
        let (weight, group) = (weight << BIAS_WEIGHT_SHIFT, group << BIAS_WEIGHT_SHIFT);
        let scaled = c!(bias_group_weight(weight, group, active));
        prop_assert!((1..=group).contains(&scaled));
        prop_assert!(active > i64::from(weight) || scaled == group);
    }

    #[test]
    fn dsqs_have_distinct_ids(llc in 0u32..BIAS_MAX_LLCS, other in 0u32..BIAS_MAX_LLCS, cpu in 0u32..BIAS_MAX_CPUS) {
        let fast = c!(bias_dsq_shared(llc, BIAS_FAST));
        let slow = c!(bias_dsq_shared(other, BIAS_SLOW));
        let pinned = c!(bias_dsq_pinned(cpu));
        let parked = c!(bias_dsq_parked());
        prop_assert!(fast != slow && fast != pinned && slow != pinned);
        prop_assert!(![fast, slow, pinned].contains(&parked));
        prop_assert!(fast >> 32 == 0 && pinned >> 32 == 0, "the kernel's own ids have bit 63 set");
        prop_assert_eq!(fast == c!(bias_dsq_shared(other, BIAS_FAST)), llc == other);
    }
}

proptest! {
    /// Whatever a program writes, its hint predicts no more than the costs allow a task.
    #[test]
    fn any_hint_predicts_a_possible_speedup(
        word in any::<u32>(), pid in 1u32..1 << 22, slow in sane_cost(), fast in sane_cost()
    ) {
        let hint = c!(bias_hint_of(word, pid));
        let speedup = c!(bias_hinted_speedup(hint, &slow, &fast));
        let pure = |component: u32| {
            let mut stack = bias_stack { permille: [0; 3] };
            stack.permille[component as usize] = BIAS_STACK_SUM;
            c!(bias_speedup_permille(&stack, &slow, &fast))
        };
        prop_assert!([0, pure(BIAS_EXECUTE), pure(BIAS_EXTERNAL)].contains(&speedup));
        prop_assert!(word >> 2 == pid || speedup == 0);
    }

    #[test]
    fn a_thread_reads_its_own_hint_only(pid in 1u32..1 << 22, other in 1u32..1 << 22, hint in 0u32..4) {
        let word = pid << 2 | hint;
        prop_assert_eq!(c!(bias_hint_of(word, pid)), if hint == 3 { BIAS_HINT_NONE } else { hint });
        prop_assert!(pid == other || c!(bias_hint_of(word, other)) == BIAS_HINT_NONE);
    }
}

/// The BPF object, the agent and this crate agree on the size of a shared struct. A field that only
/// one side has shows up here.
#[test]
fn the_shared_structs_have_their_documented_sizes() {
    assert_eq!(size_of::<bias_cost>(), 12);
    assert_eq!(size_of::<bias_stack>(), 12);
    assert_eq!(size_of::<bias_cpu_info>(), 32);
    assert_eq!(size_of::<bias_speed>() * BIAS_TABLE_COPIES as usize, 64);
}
