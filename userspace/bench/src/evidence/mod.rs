// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Claims of the documents, and the recorded runs behind them.
//!
//! # Problem
//! A figure that is typed into a document outlives the code and the machine that gave it. Its
//! reader can neither distrust it nor repeat it.
//!
//! # Approach
//! `docs/claims.toml` lists the claims ([`claims`]), each with the comparison that decides it. A
//! run keeps what it measured ([`crate::tree`]). `bias-bench record` turns it into a record in
//! `docs/results/`: the run, its plan, its rows, and the samples beside it ([`record`]).
//! `bias-bench results` writes docs/results.md, and the figures in all other documents, from the
//! records ([`pages`]).
//!
//! # Invariants
//! * A record is read only if its samples give its rows again.
//! * A record comes from a complete run of a tree without changes.
//! * A claim is *stale* if the scheduler's code differs from what was measured, and *void* if the
//!   machine's does. Comments and tests do not count.
//!
//! # Limits
//! A forged sample is not found. Figures outside of the marks in a document are not checked.

pub mod claims;
pub mod pages;
pub mod record;
mod standing;

pub use standing::{Backed, Evidence, Standing};
