// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Copies of the scheduler do not share anything, and equal cases give equal runs.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use bias_sim::case::Case;
use bias_sim::kernel::Kernel;
use bias_sim::random;
use bias_sim::unit::Image;

fn trace(seed: u64) -> String {
    let case = Case { trace: true, ..random::short(seed) };
    let kernel = Kernel::new(case, Image::Plain).unwrap();
    drop(kernel.run());
    kernel.trace_text()
}

/// Simulations at the same time in one process have globals of their own.
#[test]
fn simulations_do_not_share_globals() {
    let alone: Vec<String> = (0..8).map(trace).collect();
    let threads: Vec<_> = (0..8).map(|seed| std::thread::spawn(move || trace(seed))).collect();
    let together: Vec<String> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    for (seed, (alone, together)) in alone.iter().zip(&together).enumerate() {
        assert!(alone == together, "seed {seed} runs differently beside others");
        assert!(alone.lines().count() > 3, "seed {seed} has no trace");
    }
}

/// 100 seeds twice give byte-identical traces.
#[test]
fn equal_seeds_give_equal_traces() {
    let mut differ = 0;
    let mut before = String::new();
    for seed in 0..100 {
        let first = trace(seed);
        assert!(first == trace(seed), "seed {seed} gives two traces");
        differ += u32::from(first != before);
        before = first;
    }
    assert!(differ > 95, "seeds give the same traces");
}
