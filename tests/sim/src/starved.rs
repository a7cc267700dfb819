// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Oracle of long waits: no runnable task waits for longer than the scheduler promises.
//!
//! # Approach
//!
//! The promise is one in time (`bpf/overdue.bpf.h`): a task waits in a DSQ of the scheduler for two
//! marks at most, then until the kernel's global DSQ is empty, and then there, in a FIFO. So each
//! other task may have two turns before it, on the CPUs that it may use, and a turn lasts a tick at
//! least.
//!
//! # Limits
//!
//! All tasks are assumed to compete for the CPUs that the task may use. All real-time work is
//! assumed to run there.

use crate::agent::slice_min_ns;
use crate::case::Disturbance;
use crate::kernel::Kernel;
use crate::kernel::task::TaskId;

/// Time in a DSQ of the scheduler, with a reserve [ns].
const MARKS_NS: u64 = 3_000_000_000;

impl Kernel {
    /// Return for how long `task` may wait at most, for a wait that ends now [ns].
    fn longest_wait_ns(&self, task: TaskId) -> u64 {
        let turns_ns = 2 * self.tasks.len() as u64 * (self.case.tick_ns + slice_min_ns());
        let wait_ns = MARKS_NS + turns_ns / self.tasks[task].allowed().count().max(1) as u64;
        let since_ns = self.now().saturating_sub(wait_ns);
        let taken_ns = self.case.disturbances.iter().map(|disturb| match disturb.what {
            Disturbance::RealTime { ns, .. } if disturb.at_ns + ns > since_ns => ns,
            _ => 0,
        });
        wait_ns + taken_ns.sum::<u64>()
    }

    /// Check that no task waits for ever. Waits for a quota do not count.
    pub(crate) fn audit_starved(&self) {
        let mut parked = self.watch.parked_ns.borrow_mut();
        parked.resize(self.tasks.len(), 0);
        for (task, parked_ns) in parked.iter_mut().enumerate() {
            if self.is_parked(task) {
                *parked_ns = self.now();
            }
            if !self.waits(task) {
                continue;
            }
            let waited_ns = self.now() - self.tasks[task].waiting_since_ns.get().max(*parked_ns);
            if waited_ns > MARKS_NS && waited_ns > self.longest_wait_ns(task) {
                self.broken("starved", format!("task {task} waits for {} ms", waited_ns / 1_000_000));
            }
        }
    }
}
