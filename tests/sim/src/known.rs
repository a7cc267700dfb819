// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of promises that the scheduler breaks today.
//!
//! # Problem
//!
//! A test of a known defect fails until its repair. An ignored test would rot, and the repair could
//! come and go without notice.
//!
//! # Approach
//!
//! The body of the test returns an error that names the broken promise. [`known_defect`] passes
//! while it does. It fails as soon as the body succeeds, so the repair has to replace it by
//! [`holds`].
//!
//! # Limits
//!
//! A panic of the body is not a broken promise: it fails the test in both functions.

/// Run a test of a promise that holds.
///
/// # Panics
/// Panic with the error of `body`.
pub fn holds(body: impl FnOnce() -> Result<(), String>) {
    let result = body();
    assert!(result.is_ok(), "{}", result.err().unwrap_or_default());
}

/// Run a test of a promise that is broken at present, for the reason `cause`.
///
/// # Panics
/// Panic if `body` finds nothing broken.
pub fn known_defect(cause: &str, body: impl FnOnce() -> Result<(), String>) {
    let result = body();
    assert!(result.is_err(), "the promise holds now: call holds() instead of known_defect(\"{cause}\")");
    println!("known defect: {cause}: {}", result.err().unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_promise_passes_as_a_known_defect() {
        known_defect("it is broken", || Err("found".into()));
        holds(|| Ok(()));
    }

    #[test]
    #[should_panic(expected = "the promise holds now")]
    fn a_repaired_promise_fails_as_a_known_defect() {
        known_defect("it is broken", || Ok(()));
    }

    #[test]
    #[should_panic(expected = "what is broken")]
    fn a_promise_that_breaks_again_fails() {
        holds(|| Err("what is broken".into()));
    }
}
