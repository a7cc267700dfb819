/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Fairness: virtual time in units of work.
 *
 * Problem. On unequal CPUs equal time is not equal progress: a task that ran 10 ms on a core of 0.4
 * speed has done the work of 4 ms. Charged by time, whoever sits on a slow core stays behind for good.
 *
 * Approach. A task is charged in reference time, the time the best CPU would have needed for the same
 * work (bias_reference_ns()), divided by its weight. Whoever has the least vtime goes first, so a task
 * that ran slow is behind and is the next to be served; among running tasks the fast cores rotate when
 * the gap exceeds a threshold ("equal progress", Van Craeynest et al., PACT'13).
 *
 * Invariants (tests in lib/policy). A charge is never zero for a run of a microsecond or more,
 * decreases in weight and in cost; a sleeper gains at most one lag; a slice never leaves [min, max].
 *
 * Limits. Work is priced by the execute component until tasks have stacks of their own. Where sleepers and newcomers start is
 * the machine's vtime: clock.h.
 */
#ifndef BIAS_FAIR_H
#define BIAS_FAIR_H

#include "capacity.h"

/*
 * Weights are the kernel's (100 for nice 0 and for a cgroup's default, 1 to 10000) times 1024, so that
 * a small share of a large group is not rounded away.
 */
#define BIAS_WEIGHT_SHIFT  10
#define BIAS_WEIGHT_NICE_0 (100u << BIAS_WEIGHT_SHIFT)

/* vtime differences are taken modulo 2^64, as the kernel's queues do. */
static inline bool bias_vtime_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

/* vtime for @work_ns of reference time at @weight (shifted); zero counts as the smallest. */
static inline u64 bias_charge(u64 work_ns, u32 weight)
{
	return work_ns * BIAS_WEIGHT_NICE_0 / (weight ? weight : 1);
}

/* Where a waking task may start: its own vtime, but no more than @lag_ns behind @now. */
static inline u64 bias_wakeup_vtime(u64 vtime, u64 now, u64 lag_ns)
{
	return bias_vtime_before(vtime, now - lag_ns) ? now - lag_ns : vtime;
}

/*
 * Does a task of @vtime go before one that runs, of vtime @running, without waiting for the end of its slice? Only if
 * half a slice is owed to it: between tasks that are about level, switches would cost more than they mend.
 */
static inline bool bias_goes_before(u64 vtime, u64 running, u64 slice_ns)
{
	return bias_vtime_before(vtime + slice_ns / 2, running);
}

/* How far ahead of @now a task may wait: newcomers start at @now, and enough of them would starve it. */
static inline u64 bias_queue_vtime(u64 vtime, u64 now, u64 ahead_ns)
{
	return bias_vtime_before(now + ahead_ns, vtime) ? now + ahead_ns : vtime;
}

/*
 * How far ahead [ns] a task of @weight (shifted) may wait: what two slices cost it, so that its weight is honoured,
 * but no more than BIAS_MOST_AHEAD slices, so that the least of all is not forgotten.
 */
#define BIAS_MOST_AHEAD 16

static inline u64 bias_ahead_ns(u64 slice_ns, u32 weight)
{
	u64 ahead = bias_charge(2 * slice_ns, weight);
	u64 least = 2 * slice_ns, most = BIAS_MOST_AHEAD * slice_ns;

	return ahead < least ? least : ahead < most ? ahead : most;
}

/*
 * A slice [ns]: the whole one when nothing waits, a share of it when @waiting tasks do in a queue that @cpus CPUs serve,
 * never below @min_ns. A CPU's part of the queue counts, rounded up: slices cut by the whole queue would only be switches.
 */
static inline u64 bias_slice(u64 slice_ns, u64 min_ns, u32 waiting, u32 cpus)
{
	u64 share = slice_ns / (1ull + (waiting + (cpus ? cpus : 1) - 1ull) / (cpus ? cpus : 1));

	if (share >= min_ns)
		return share;
	return slice_ns < min_ns ? slice_ns : min_ns;
}

/*
 * The weight of a task seen from the top of the cgroup tree: at each level its own part @weight of the
 * level's active weight @active, times the weight @group of the level as a whole. Never zero.
 */
static inline u32 bias_group_weight(u32 weight, u32 group, u64 active)
{
	u64 share;

	if (active < weight)
		active = weight;
	if (!active)
		return 1;
	share = (u64)weight * group / active;
	return share ? share : 1; /* share <= group, so it fits */
}

#endif
