//! Swap planner: which pairs of running tasks should change places.
//!
//! Problem. On a balanced system, every CPU busy and nothing waiting, no queue forms, so dispatch never corrects a bad start: a task that
//! waits for memory stays on a fast CPU and one that executes on a slow one (seed 001, "Biased load balancing", balanced systems). Each
//! CPU's own search sees a part of a large machine; somebody has to look at all of it.
//!
//! Approach. Periodically the agent hands over what runs where, and gets the pairs of tasks to exchange between fast and slow CPUs.
//! * A task's progress on a CPU is the reference work it does there in a given time: `bias_reference_ns(time, bias_time_permille(stack,
//!   cost))` of the C headers. Throughput is the sum of progress times weight; equal weights make it the sum of relative speeds (STP).
//! * What a move is worth is the work in the expected residence at the new place, less the time that a migration loses, minus the work in
//!   that time at the old place plus a margin of it (`min_gain_permille`). A swap is worth the sum of its two moves, and is planned only if
//!   that is positive.
//! * This sum splits into a part of each task when CPUs of a class are equal. So the tasks on fast CPUs are sorted by least loss, those on
//!   slow ones by most gain, and the first of one list goes with the first of the other until nothing is gained. Where CPUs inside a class differ, the
//!   lists are sorted by the best that the other class offers, a bound, and each pair is priced on its own CPUs.
//! * A partner that may not move there is passed over. A search looks at the first few partners that are left and, if none will do, at a
//!   stretch of the others that moves on with each plan, so that no pair is overlooked for ever and a plan stays linear.
//! * CPUs for which some task has been waiting are left alone: their next dispatch decides anew who runs there.
//!
//! Invariants (tests beside this module).
//! * No plan lowers predicted throughput; none is longer than its limit; each task and each CPU is in one swap of a plan at most.
//! * No swap leaves an affinity, a cgroup's CPUs or a NUMA node (unless both tasks may). Only online CPUs, known and steady tasks, and tasks
//!   that are not resting take part. One class, or classes of equal cost: no plan.
//! * The same input gives the same plan, in whatever order CPUs and tasks are listed.
//! * On a system that does not change, repeated plans end, and none swaps back what another did: each raises the same sum. Where they end,
//!   no permitted pair would gain. (They have ended when as many plans as there are CPUs found nothing; the moving stretch has then been everywhere.)
//! * This is the best assignment of all that keep one task a CPU and every task on its node, if CPUs of a class cost the same in each
//!   component on a node, no task is limited, unknown, unsteady or resting, and neither a margin nor a cost of migration is set. (If another
//!   were better, some task on a slow CPU would gain more from a fast one than some task there, and that pair would gain.) With margin and
//!   cost, it falls short by less than a swap's threshold for each pair. With limits, or where CPUs of a class differ, it is a local optimum:
//!   no single swap between classes improves it, a cycle of three might.
//!
//! Limits. Tasks of about equal gain are not swapped: giving them equal progress is rotation, which the BPF side does
//! (`bpf/move.bpf.h`), and on homogeneous systems there is nothing else to do. CPUs that idle are filled by its idle pull. Tasks are not exchanged
//! between CPUs of one class. The price is the model's: contention for shared caches and memory bandwidth changes with a swap and is not
//! predicted; [`crate::audit`] finds out.

mod candidate;
mod cpuset;
mod input;
mod pair;
mod plan;
mod price;
mod seats;

#[cfg(test)]
mod brute;
#[cfg(test)]
mod limits_tests;
#[cfg(test)]
mod plan_tests;
#[cfg(test)]
mod testkit;

pub use cpuset::CpuSet;
pub use input::{Allowed, Cpu, Group, Limits, Runner, Snapshot, State, WEIGHT_DEFAULT, WEIGHT_MAX};
pub use pair::{EXPLORED, FIRST_TRIED};
pub use plan::{Move, Plan, Swap, plan};

pub(crate) use price::{normalised, time_permille};
