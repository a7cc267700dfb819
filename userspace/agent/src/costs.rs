// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The costs of the CPUs during a run: their owner, and the only path on which they reach the
//! kernel side.
//!
//! # Problem
//! Recalibration and the audit of swaps change the costs of CPUs. The status, systemd, the planner
//! and the kernel side must agree on the result.
//!
//! # Approach
//! Both writers set their factors in [`Live::costs`]. [`Live::publish`] computes the table from
//! these and gives it to the kernel side. Readers read [`Live::table`], the table that the kernel
//! side accepted last.
//!
//! # Invariants
//! Tests check these:
//! * The table of [`Live::table`] is the last one that the kernel side accepted.
//! * While factors do not change, nothing is published. A refused table is published again.

use anyhow::Result;
use bias_policy::costs::Costs;
use bias_policy::table::CapacityTable;
use tracing::warn;

/// The costs of a run.
#[derive(Debug)]
pub struct Live {
    /// The parts of the costs.
    pub costs: Costs,
    /// The table in force, and the version of the costs that it was computed from.
    in_force: CapacityTable,
    version: u64,
    failure: Option<String>,
}

impl Live {
    /// Start with a calibrated table that is in force.
    #[must_use]
    pub fn new(calibrated: CapacityTable) -> Self {
        let costs = Costs::new(calibrated);
        Self { in_force: costs.calibrated().clone(), version: costs.version(), costs, failure: None }
    }

    /// Return the table in force.
    #[must_use]
    pub fn table(&self) -> &CapacityTable {
        &self.in_force
    }

    /// Return the reason why the last table could not be put in force; None if it could.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Put the present costs in force through `write` if they have changed. Return true if that
    /// succeeded. After a failure the old table must still be in force.
    pub fn publish(&mut self, write: impl FnOnce(&CapacityTable) -> Result<()>) -> bool {
        if self.version == self.costs.version() {
            return false;
        }
        let table = self.costs.effective();
        match write(&table) {
            Ok(()) => {
                (self.in_force, self.version, self.failure) = (table, self.costs.version(), None);
                true
            }
            Err(error) => {
                if self.failure.is_none() {
                    warn!("the kernel side keeps its capacity table: {error:#}");
                }
                self.failure = Some(format!("{error:#}"));
                false
            }
        }
    }
}
