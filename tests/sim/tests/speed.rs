// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A small machine for 10 s, as in the figures of README.md.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use bias_sim::case::Case;
use bias_sim::command::figures::mixed;
use bias_sim::kernel::Kernel;
use bias_sim::unit::Image;

/// No rule breaks in a longer run, and tasks alternate.
#[test]
fn a_small_machine() {
    let case = Case { duration_ns: 10_000_000_000, ..mixed("4P+4E", 16, 1).unwrap() };
    let kernel = Kernel::new(case, Image::Plain).unwrap();
    assert_eq!(kernel.run(), Ok(()));
    assert!(kernel.counts_so_far().1 > 10_000);
}
