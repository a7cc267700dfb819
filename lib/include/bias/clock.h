/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Global vtime: where tasks start that wake or are new.
 *
 * Problem
 * The global vtime must stay with the tasks that compete. If it is behind,
 * newcomers go first as long as they keep coming. If it is ahead, newcomers
 * wait for all others, whose lag exceeds the limit beyond which weights do not
 * matter. Yet affinity may confine tasks, and CPUs differ in demand.
 *
 * Approach
 * The global vtime advances by the work done, divided by the weight of all
 * competing tasks, as in weighted fair queueing [Demers89]. The lowest vtime
 * would stand still while short new tasks keep coming, and starve any task
 * ahead. The highest may be a lone nice 19, 100 times as fast as nice 0.
 *
 * Each tick corrects it: it holds while the running tasks are behind it on
 * average, and catches up when all are ahead. If any CPU is contended, only
 * tasks on contended CPUs count. A task alone on a CPU, or of more weight than
 * a CPU's part, may be any distance away.
 *
 * Invariants
 * The global vtime never goes back. It stays with two tasks that share a CPU,
 * which get their shares in any case. Observations move it a slice at most.
 *
 * Limits
 * If tasks are confined to CPUs in unequal demand, some get ahead of it and
 * others fall behind. Then only partition.bpf.h keeps their weights.
 */
#ifndef BIAS_CLOCK_H
#define BIAS_CLOCK_H

#include "vtime.h"

/*
 * Return the average progress of competing tasks of @total weight (shifted), at
 * most @work_ns: a light task alone moves the global vtime in another way.
 */
static inline u64 bias_clock_advance(u64 work_ns, u64 total)
{
	return work_ns * BIAS_WEIGHT_NICE_0 / (total < BIAS_WEIGHT_NICE_0 ? BIAS_WEIGHT_NICE_0 : total);
}

#define BIAS_CLOCK_SHIFT 10 /* times in sums are in 2^10 ns, to fit */

/* Sums over tasks: lag times weight (shifted), and weight. */
struct bias_clock_lag {
	s64 behind;
	u64 weight;
};

struct bias_clock_scan {
	struct bias_clock_lag all;
	struct bias_clock_lag contended; /* on contended CPUs only */
	/* Least lead [ns] with which one of the latter began its slice. */
	s64 ahead;
	s64 most;   /* largest weight of a task that counts */
	u64 beyond; /* what others weigh beyond that */
};

#define BIAS_CLOCK_NONE ((s64)(~0ull >> 2)) /* more than any weight or lead */

/* @most is bias_clock_part() while tasks wait, else BIAS_CLOCK_NONE. */
static inline struct bias_clock_scan bias_clock_scan(s64 most)
{
	struct bias_clock_scan scan = {.ahead = BIAS_CLOCK_NONE, .most = most};

	return scan;
}

/* Hide @mask's value from the compiler, which would make branches of it. */
static inline u64 bias_opaque(u64 mask)
{
	__asm__("" : "+r"(mask));
	return mask;
}

/* Return @value if it is negative, else 0, without a branch. */
static inline s64 bias_negative(s64 value)
{
	return value & (s64)bias_opaque((u64)(value >> 63));
}

/*
 * Add a running task of @weight (shifted) at @vtime, whose slice began at
 * @began. @contended is all ones or 0: the verifier would follow a branch on
 * each CPU. A task more than a slice ahead counts as a slice ahead. Else the
 * global vtime would follow a light task alone on a CPU, away from those that
 * share one. A task of more weight than a CPU's part has a CPU to itself
 * [Chandra00] and would be behind without limit. It counts only on a contended
 * CPU, where affinity confines it.
 */
static inline void bias_clock_add(struct bias_clock_scan *scan, u64 now, u64 vtime, u64 began, u32 weight,
				  u64 slice_ns, u64 contended)
{
	s64 over = bias_negative(scan->most - (s64)weight) & (s64)~contended;
	u64 counts = ~bias_opaque((u64)(over >> 63));
	s64 lag = (s64)(now - vtime);
	s64 behind =
	    ((lag - bias_negative(lag + (s64)slice_ns)) >> BIAS_CLOCK_SHIFT) * (s64)(weight & counts);
	s64 ahead;

	scan->beyond -= (u64)over;
	weight &= counts;
	ahead = (s64)(((began - now) & contended) | (~contended & BIAS_CLOCK_NONE));

	scan->all.behind += behind;
	scan->all.weight += weight;
	scan->contended.behind += behind & (s64)contended;
	scan->contended.weight += weight & contended;
	scan->ahead += bias_negative(ahead - scan->ahead);
}

/*
 * Return true if the running tasks are behind by an eighth of a slice on
 * average. A sleeper that wakes behind and runs at once sets the others back.
 * When it sleeps, the global vtime would be ahead of all: none could go first.
 */
static inline bool bias_clock_holds(const struct bias_clock_scan *scan, u64 slice_ns)
{
	/* At a second test the verifier would track all terms of the sum. */
	u64 contended = bias_opaque(scan->contended.weight ? ~0ull : 0);
	s64 behind = (scan->contended.behind & (s64)contended) | (scan->all.behind & (s64)~contended);
	u64 weight = (scan->contended.weight & contended) | (scan->all.weight & ~contended);

	return behind > (s64)((slice_ns / 8 >> BIAS_CLOCK_SHIFT) * weight);
}

/*
 * Return how far [ns] to catch up. A task that begins a slice has the lowest
 * vtime of its CPU. If all begin ahead, heavy tasks alone slowed the clock.
 */
static inline u64 bias_clock_catch_up(const struct bias_clock_scan *scan, u64 slice_ns)
{
	if (scan->ahead <= 0 || scan->ahead == BIAS_CLOCK_NONE)
		return 0;
	return (u64)scan->ahead < slice_ns ? (u64)scan->ahead : slice_ns;
}

/* Return a CPU's part of @sum, what all tasks weigh less `beyond`. */
static inline s64 bias_clock_part(s64 sum, u32 busy)
{
	return busy && sum > 0 ? (s64)((u64)sum / busy) : BIAS_CLOCK_NONE;
}

/*
 * Move to @least, the lowest vtime seen, but by a slice at most. A CPU seems
 * idle between two tasks. A light task alone on a CPU is 100 s ahead after 1 s.
 */
static inline u64 bias_clock_follow(u64 now, u64 least, u64 slice_ns)
{
	if (!bias_vtime_before(now, least))
		return now;
	return bias_vtime_before(now + slice_ns, least) ? now + slice_ns : least;
}

#endif
