// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of the invariants in `lib/include/bias/swap.h`.

use bias_policy::ffi::*;
use proptest::prelude::*;

fn add(work: &mut bias_work, instructions: u64, ran_ns: u64, class: u32) {
    c!(bias_work_add(work, instructions, ran_ns, class));
}

const FAST: usize = BIAS_FAST as usize;
const SLOW: usize = BIAS_SLOW as usize;
const WINDOW_NS: u64 = 200_000_000;

proptest! {
    #[test]
    fn a_steady_rate_is_kept_and_the_past_is_bounded(stretch_ns in 10_000u64..50_000_000, mips in 1u64..10_000, stretches in 1usize..2000) {
        let mut work = bias_work::default();
        let instructions = stretch_ns * mips / 1000;
        for _ in 0..stretches {
            add(&mut work, instructions, stretch_ns, BIAS_FAST);
            prop_assert!(work.ran_ns[FAST] <= WINDOW_NS + stretch_ns);
        }
        let rate = |instructions: u64, ran_ns: u64| instructions as f64 / ran_ns as f64;
        let error = rate(work.instructions[FAST], work.ran_ns[FAST]) / rate(instructions, stretch_ns) - 1.0;
        // Each halving loses up to one instruction to rounding. At least half of an interval's
        // instructions remain.
        prop_assert!(error.abs() <= 4.0 / instructions.max(1) as f64 + 1e-6, "{error}");
    }

    #[test]
    fn each_class_has_a_sum_that_the_other_leaves_alone(stretches in prop::collection::vec((0u64..1 << 40, 1u64..1 << 32, prop::bool::ANY), 1..50)) {
        let (mut work, mut alone) = (bias_work::default(), [bias_work::default(); 2]);
        for (instructions, ran_ns, slow) in stretches {
            let class = if slow { BIAS_SLOW } else { BIAS_FAST };
            add(&mut work, instructions, ran_ns, class);
            add(&mut alone[class as usize], instructions, ran_ns, class);
        }
        for class in [FAST, SLOW] {
            prop_assert_eq!(work.instructions[class], alone[class].instructions[class]);
            prop_assert_eq!(work.ran_ns[class], alone[class].ran_ns[class]);
        }
        c!(bias_work_forget(&mut work, BIAS_SLOW));
        prop_assert_eq!((work.instructions[SLOW], work.ran_ns[SLOW]), (0, 0));
        prop_assert_eq!(work.ran_ns[FAST], alone[FAST].ran_ns[FAST]);
    }

    #[test]
    fn a_new_speed_takes_over(before in 1u64..1000, after in 1u64..1000, stretch_ns in 1_000_000u64..20_000_000) {
        let mut work = bias_work::default();
        for _ in 0..100 {
            add(&mut work, stretch_ns * before / 1000, stretch_ns, BIAS_SLOW);
        }
        for _ in 0..(6 * WINDOW_NS / stretch_ns) {
            add(&mut work, stretch_ns * after / 1000, stretch_ns, BIAS_SLOW);
        }
        let now = work.instructions[SLOW] as f64 / work.ran_ns[SLOW] as f64 * 1000.0;
        // Six halvings of a window leave less than a fiftieth of the difference.
        let tolerance = (before as f64 - after as f64).abs() / 50.0 + 0.01 * after as f64 + 0.1;
        prop_assert!((now - after as f64).abs() <= tolerance, "{now} for {after}");
    }
}
