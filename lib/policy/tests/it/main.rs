// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of the C headers, through the functions that Rust calls.

#![allow(missing_docs, clippy::unwrap_used)]

/// Call a wrapper, which reads and writes only its arguments.
macro_rules! c {
    ($call:expr) => {
        // SAFETY: pure functions over values and over references that live across the call.
        unsafe { $call }
    };
}

mod bias;
mod headers;
mod quota;
mod swap;
