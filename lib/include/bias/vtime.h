/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Fairness: vtime in units of work.
 *
 * Problem
 * On unequal CPUs equal time is not equal progress. A task that ran 10 ms on a
 * core of 0.4 speed has done the work of 4 ms. If time were charged, a task on
 * a slow core would stay behind for good.
 *
 * Approach
 * A task is charged in reference time, the time that the reference CPU would
 * have needed for the same work (bias_reference_ns()), divided by its weight.
 * The task with the lowest vtime goes first, so a task that ran on a slow CPU
 * lags and is served next. Running tasks rotate over the fast cores when their
 * lag exceeds a threshold, for equal progress [VanCraeynest13].
 *
 * Invariants
 * (Tests are in lib/policy.) The charge for a run of a microsecond or more is
 * never zero, and decreases with weight and with cost. A sleeper gains one lag
 * limit at most. A slice never leaves [min, max].
 *
 * Limits
 * The work of a task without a profile is charged by the execute component.
 * clock.h defines where tasks start that wake or are new.
 */
#ifndef BIAS_VTIME_H
#define BIAS_VTIME_H

#include "cost.h"

/*
 * Weights are the kernel's times 1024, so that a small share of a large group
 * is not rounded away. The kernel's are 1 to 10000, and 100 for nice 0 and for
 * a cgroup's default.
 */
#define BIAS_WEIGHT_SHIFT  10
#define BIAS_WEIGHT_NICE_0 (100u << BIAS_WEIGHT_SHIFT)

/* Return true if vtime @a is before @b, modulo 2^64 as in the kernel's DSQs. */
static inline bool bias_vtime_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

/*
 * Return the vtime for @work_ns of reference time at @weight (shifted). A
 * weight of 0 counts as the smallest.
 */
static inline u64 bias_charge(u64 work_ns, u32 weight)
{
	return work_ns * BIAS_WEIGHT_NICE_0 / (weight ? weight : 1);
}

/*
 * Return where a waking task starts: at its own @vtime, but at most @lag_ns
 * behind @now.
 */
static inline u64 bias_wakeup_vtime(u64 vtime, u64 now, u64 lag_ns)
{
	return bias_vtime_before(vtime, now - lag_ns) ? now - lag_ns : vtime;
}

/*
 * Return true if a task of @vtime may preempt a running one of vtime @running
 * before its slice ends. It must lag by half a slice: between tasks that are
 * about level, switches would cost more than they mend.
 */
static inline bool bias_goes_before(u64 vtime, u64 running, u64 slice_ns)
{
	return bias_vtime_before(vtime + slice_ns / 2, running);
}

/*
 * Return where a task waits: at its own @vtime, but at most @ahead_ns ahead of
 * @now. Newcomers start at @now, and enough of them would starve it.
 */
static inline u64 bias_queue_vtime(u64 vtime, u64 now, u64 ahead_ns)
{
	return bias_vtime_before(now + ahead_ns, vtime) ? now + ahead_ns : vtime;
}

/*
 * Return what a task may be forgiven after a charge, if it was @earned before,
 * all in ns: so much that its progress is @unfairness_permille of that of an
 * equal task which is forgiven nothing, but at most @most.
 */
static inline u64 bias_earn(u64 earned, u64 charge, u32 unfairness_permille, u64 most)
{
	if (unfairness_permille > 1000)
		earned += charge - charge * 1000 / unfairness_permille;
	return earned < most ? earned : most;
}

/*
 * Return what is forgiven of a lead that is @excess too long, and take it from
 * @earned. What exceeds @most is forgiven in any case.
 */
static inline u64 bias_spend(u64 *earned, u64 excess, u64 most)
{
	u64 spent = excess < *earned ? excess : *earned;

	*earned -= spent;
	return excess - spent < most ? spent : excess - most;
}

/*
 * Return how far ahead [ns] a task of @weight (shifted) may wait: the charge
 * for two slices, so that its weight counts, but no less than two slices. Time
 * bounds its wait, see overdue.bpf.h.
 */
static inline u64 bias_ahead_ns(u64 slice_ns, u32 weight)
{
	u64 ahead = bias_charge(2 * slice_ns, weight);

	return ahead < 2 * slice_ns ? 2 * slice_ns : ahead;
}

/*
 * Return a slice [ns]: all of @slice_ns if no task waits, else a share of it.
 * @waiting tasks wait in a DSQ that @cpus CPUs serve. The slice is at least
 * @min_ns, but never more than @slice_ns.
 *
 * Only a CPU's part of the DSQ counts, rounded up: slices divided by the whole
 * DSQ would only add switches.
 */
static inline u64 bias_slice(u64 slice_ns, u64 min_ns, u32 waiting, u32 cpus)
{
	u64 share = slice_ns / (1ull + (waiting + (cpus ? cpus : 1) - 1ull) / (cpus ? cpus : 1));

	if (share >= min_ns)
		return share;
	return slice_ns < min_ns ? slice_ns : min_ns;
}

/*
 * Return the weight of a task as seen from the top of the cgroup tree. At each
 * level it is the part @weight of the level's active weight @active, times the
 * weight @group of the whole level. It is never zero. @active may be less than
 * @weight, even negative, while CPUs owe parts of it.
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
