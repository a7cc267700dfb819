// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Swap planner: selects pairs of running tasks that should migrate to each other's CPU.
//!
//! # Problem
//!
//! On a balanced system every CPU is busy and no task waits. No queue forms, so dispatch never
//! corrects a bad start. A task that waits for memory stays on a fast CPU, and a task that executes
//! stays on a slow one. \[Koufaty10\] describes balanced systems under "Biased load balancing".
//! Each CPU's own search covers a part of a large machine, so the agent covers all of it.
//!
//! # Approach
//!
//! The agent periodically passes a snapshot of the running tasks. The planner returns the pairs of
//! tasks to swap between fast and slow CPUs.
//! * A task's progress on a CPU is the reference work that it does there in a given time:
//!   `bias_reference_ns(time, bias_time_permille(stack, cost))` of the C headers. Throughput is the
//!   sum of progress, that is, of relative speeds (STP). Weights do not count, as in the kernel
//!   side's own swaps: otherwise the two would undo each other's work.
//! * The cost of a CPU is the one in force: while a sibling is busy, the shared cost
//!   ([`crate::sharing`]). A swap leaves both its CPUs busy, so a plan changes no cost.
//! * The gain of a move compares the work in the expected residence on both CPUs. The new CPU's
//!   work excludes the time that the migration loses. The old CPU's work includes a margin
//!   (`min_gain_permille`). The gain of a swap is the sum of its two moves, and a plan contains
//!   only swaps of positive gain.
//! * When the CPUs of a class are equal, this sum splits into one part per task. So the planner
//!   sorts the tasks on fast CPUs by least loss and those on slow CPUs by most gain. It pairs the
//!   first of both lists until no pair gains. Where CPUs of a class differ, the sort key is an
//!   upper bound, the best that the other class offers. Each pair is then evaluated on its own
//!   CPUs.
//! * The planner skips a partner that may not run on the other CPU. A search tries the first few
//!   remaining partners. If none fits, it tries a section of the others, which advances with each
//!   plan. So no pair is overlooked forever, and a plan stays linear.
//! * The planner skips nodes where some task has been waiting, because their next dispatch chooses
//!   a task anyway.
//!
//! # Invariants
//!
//! Tests check all of these:
//! * No plan lowers predicted throughput, and none is longer than its limit. Each task and each CPU
//!   is in at most one swap of a plan.
//! * No swap violates an affinity or leaves a NUMA node.
//! * Only CPUs of the table and known, steady tasks that are not resting take part. With one class,
//!   or classes of equal cost, there is no plan.
//! * The same input gives the same plan, in any order of CPUs and tasks.
//! * On a system that does not change, repeated plans end. None swaps back an earlier swap, because
//!   each raises the same sum. At the end no permitted pair would gain. The end is reached after
//!   one empty plan per CPU, because the advancing section has then covered all partners.
//! * The final assignment is the best of all that keep one task per CPU and every task on its node,
//!   under three conditions. CPUs of a class on a node cost the same in each component, also with
//!   their siblings. No task is limited, unknown, unsteady or resting. Margin and cost of migration
//!   are zero. (In a better assignment, some task on a slow CPU would gain more from a fast CPU
//!   than some task there. That pair would gain.)
//! * With margin and cost of migration, the assignment falls short by less than a swap's threshold
//!   for each pair. With limits, or where CPUs of a class differ, it is a local optimum. No single
//!   swap between classes improves it, but a cycle of three might.
//!
//! # Limits
//!
//! * The planner does not swap tasks of about equal gain. Rotation on the BPF side
//!   (`bpf/move.bpf.h`) gives them equal progress, and homogeneous systems need nothing else.
//! * The BPF side's pull fills idle CPUs.
//! * Tasks are not swapped between CPUs of one class, nor between whole and shared cores of it.
//! * A sibling that idles after the snapshot leaves its core whole. The next plan sees that.
//! * The model does not predict contention for shared caches and memory bandwidth, which changes
//!   with a swap. [`crate::audit`] measures it.

mod input;
mod plan;
mod precheck;

#[cfg(test)]
mod system;
#[cfg(test)]
mod tests;

pub use input::{Limits, Runner, Snapshot, Waiting};
pub use plan::{Move, Plan, Swap, plan};
pub use precheck::{Outlook, Resident, precheck};

pub(crate) use plan::{normalised, time_permille};
