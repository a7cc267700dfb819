// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The parts that `cargo xtask test` prepares for the tests that it runs.
//!
//! # Problem
//! Each scenario needs the packages, the programs and the emulation. A check of cargo's builds and
//! of 28 packages takes seconds, in each of many scenarios.
//!
//! # Approach
//! `cargo xtask test` prepares all of them before it runs tests, and passes their paths in the
//! environment. A test that runs without it prepares everything itself.

use std::path::PathBuf;
use std::sync::{LazyLock, OnceLock};

use serde::{Deserialize, Serialize};

/// Variable that holds [`Prepared`] as JSON.
const VARIABLE: &str = "BIAS_VM_PREPARED";

/// The parts that are installed and current.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Prepared {
    /// Directory of the programs, and of the emulation's parts.
    pub programs: PathBuf,
    /// The program of `cargo xtask`.
    pub xtask: PathBuf,
}

static OF_PROCESS: OnceLock<Prepared> = OnceLock::new();
static OF_ENVIRONMENT: LazyLock<Option<Prepared>> = LazyLock::new(|| {
    let text = std::env::var(VARIABLE).ok()?;
    serde_json::from_str(&text).ok()
});

/// Return the prepared parts, or `None` if this process must prepare everything itself.
#[must_use]
pub fn prepared() -> Option<&'static Prepared> {
    OF_PROCESS.get().or(OF_ENVIRONMENT.as_ref())
}

impl Prepared {
    /// Make this process use them, too.
    pub fn rely(&self) {
        // A second call would set the same parts.
        let _ = OF_PROCESS.set(self.clone());
    }

    /// Return the name and the value of the variable for the tests.
    #[must_use]
    pub fn variable(&self) -> (&'static str, String) {
        (VARIABLE, serde_json::to_string(self).unwrap_or_default())
    }
}
