/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Fairness: vtime in units of work.
 *
 * Problem
 * On unequal CPUs equal time is not equal progress: 10 ms at 0.4 speed do the
 * work of 4 ms. If time were charged, a task on a slow core would stay behind.
 *
 * Approach
 * A task is charged in reference time, the time that the reference CPU needs
 * for the same work, divided by its weight. The lowest vtime goes first, so a
 * task that ran on a slow CPU is next. Running tasks rotate [VanCraeynest13].
 *
 * Invariants
 * A charge for a microsecond or more is never zero, and falls with weight and
 * cost. A sleeper gains one lag limit at most. A slice never leaves [min, max].
 *
 * Limits
 * The work of a task without a profile is charged by the execute component.
 */
#ifndef BIAS_VTIME_H
#define BIAS_VTIME_H

#include "cost.h"

/* Kernel weights (1 to 10000) times 1024: a small share of a group survives. */
#define BIAS_WEIGHT_SHIFT  10
#define BIAS_WEIGHT_NICE_0 (100u << BIAS_WEIGHT_SHIFT)

/* Return true if vtime @a is before @b, modulo 2^64 as in the kernel's DSQs. */
static inline bool bias_vtime_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

/* Return the vtime for @work_ns of reference time at @weight (shifted). */
static inline u64 bias_charge(u64 work_ns, u32 weight)
{
	return work_ns * BIAS_WEIGHT_NICE_0 / (weight ? weight : 1);
}

/* A waking task starts at most @lag_ns behind @now. */
static inline u64 bias_wakeup_vtime(u64 vtime, u64 now, u64 lag_ns)
{
	return bias_vtime_before(vtime, now - lag_ns) ? now - lag_ns : vtime;
}

/* Preempt for half a slice of lag: for less, switches cost too much. */
static inline bool bias_goes_before(u64 vtime, u64 running, u64 slice_ns)
{
	return bias_vtime_before(vtime + slice_ns / 2, running);
}

/* Newcomers start at @now, and would starve a task further ahead of it. */
static inline u64 bias_queue_vtime(u64 vtime, u64 now, u64 ahead_ns)
{
	return bias_vtime_before(now + ahead_ns, vtime) ? now + ahead_ns : vtime;
}

/*
 * Return what may be forgiven after @charge, at most @most: so much that a task
 * makes @unfairness_permille of an equal one's progress. All are in ns.
 */
static inline u64 bias_earn(u64 earned, u64 charge, u32 unfairness_permille, u64 most)
{
	if (unfairness_permille > 1000)
		earned += charge - charge * 1000 / unfairness_permille;
	return earned < most ? earned : most;
}

/* Forgive of @excess what was @earned, and in any case what exceeds @most. */
static inline u64 bias_spend(u64 *earned, u64 excess, u64 most)
{
	u64 spent = excess < *earned ? excess : *earned;

	*earned -= spent;
	return excess - spent < most ? spent : excess - most;
}

/* The charge for two slices: weight counts. overdue.bpf.h bounds the wait. */
static inline u64 bias_ahead_ns(u64 slice_ns, u32 weight)
{
	u64 ahead = bias_charge(2 * slice_ns, weight);

	return ahead < 2 * slice_ns ? 2 * slice_ns : ahead;
}

/*
 * Return a share of @slice_ns for each task of a CPU's part of the DSQ. Shares
 * of the whole DSQ would only add switches.
 */
static inline u64 bias_slice(u64 slice_ns, u64 min_ns, u32 waiting, u32 cpus)
{
	u64 share = slice_ns / (1ull + (waiting + (cpus ? cpus : 1) - 1ull) / (cpus ? cpus : 1));

	if (share >= min_ns)
		return share;
	return slice_ns < min_ns ? slice_ns : min_ns;
}

/*
 * Return a task's weight one level up: its part of the level's @active weight,
 * times @group. While CPUs owe parts, @active may be less, even negative.
 */
static inline u32 bias_group_weight(u32 weight, u32 group, s64 active)
{
	u64 share;

	if (active < (s64)weight)
		active = weight;
	if (!active)
		return 1;
	share = (u64)weight * group / (u64)active;
	return share ? share : 1; /* share <= group, so it fits */
}

#endif
