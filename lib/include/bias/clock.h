/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Global vtime: where tasks start that wake or are new.
 *
 * Problem
 * The global vtime must stay with the tasks that compete. If it is behind them,
 * newcomers go first for as long as they keep coming. If it is ahead, newcomers
 * wait until all others have caught up. The running tasks are then further
 * behind it than the lag limit of a few slices, and their weights no longer
 * matter. Yet affinity may confine tasks to CPUs, and some CPUs may be in more
 * demand than others.
 *
 * Approach
 * The global vtime advances by the work done, divided by the weight of all
 * competing tasks, as in weighted fair queueing [Demers89]
 * (bias_clock_advance()).
 *
 * The lowest vtime of all tasks would not do. It stands still while new tasks
 * keep coming, run briefly and end, and any task ahead of it starves. Nor would
 * the highest: a task of nice 19 alone on a CPU advances 100 times as fast as
 * one of nice 0.
 *
 * Each tick corrects the global vtime by the running tasks (bias_clock_add()).
 * It holds while they are behind it on average, and catches up when all of them
 * are ahead. If any CPU is contended, only tasks on contended CPUs count. On an
 * uncontended CPU there is nothing to share, and a task alone there may be any
 * distance away. So may a task that weighs more than a CPU's part of the total.
 *
 * Invariants
 * (Tests are in lib/policy.) The global vtime never goes back. It stays with
 * two tasks that share a CPU, and these get their shares, regardless of the
 * other CPUs. No observation moves it by more than a slice.
 *
 * Limits
 * There is one global vtime. If tasks wait on several CPUs in unequal demand,
 * and are confined to them, those of the least contended CPUs get ahead of it,
 * see partition.bpf.h. Those of the most contended CPUs fall behind. Beyond the
 * lag limit all such tasks are equal, regardless of weight.
 */
#ifndef BIAS_CLOCK_H
#define BIAS_CLOCK_H

#include "vtime.h"

/*
 * Return how far the global vtime advances after @work_ns of reference time,
 * while tasks of @total weight (shifted) compete. It is the average progress of
 * these tasks, as in weighted fair queueing [Demers89].
 *
 * It never exceeds the work itself: a light task that is alone moves the global
 * vtime in another way.
 */
static inline u64 bias_clock_advance(u64 work_ns, u64 total)
{
	return work_ns * BIAS_WEIGHT_NICE_0 / (total < BIAS_WEIGHT_NICE_0 ? BIAS_WEIGHT_NICE_0 : total);
}

/*
 * Unit of time, 2^BIAS_CLOCK_SHIFT ns, in sums of time times weight, so that
 * these fit.
 */
#define BIAS_CLOCK_SHIFT 10

/*
 * How far running tasks are behind the global vtime, each times its weight
 * (shifted), and the sum of their weights.
 */
struct bias_clock_lag {
	s64 behind;
	u64 weight;
};

/*
 * Summary of the running tasks: bias_clock_scan() starts it, and
 * bias_clock_add() adds a task.
 */
struct bias_clock_scan {
	struct bias_clock_lag all;
	struct bias_clock_lag contended; /* on contended CPUs only */
	/*
	 * Least distance [ns] ahead of the global vtime at which one of the
	 * latter began its slice.
	 */
	s64 ahead;
	s64 most;   /* largest weight of a task that counts */
	u64 beyond; /* what others weigh beyond that */
};

/* More than any task weighs, and than any is ahead. */
#define BIAS_CLOCK_NONE ((s64)(~0ull >> 2))

/*
 * Return an empty summary of tasks that weigh at most @most: a CPU's part of
 * the weight of all tasks while tasks wait, else BIAS_CLOCK_NONE.
 */
static inline struct bias_clock_scan bias_clock_scan(s64 most)
{
	struct bias_clock_scan scan = {.ahead = BIAS_CLOCK_NONE, .most = most};

	return scan;
}

/*
 * Return @mask, but hide its value from the compiler, which would make branches
 * of it.
 */
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
 * Add a running task of @weight (shifted) to @scan. It is at @vtime and began
 * its slice at @began; @now is the global vtime. @contended is all ones if its
 * CPU is contended, else 0. There is no branch, because the verifier would
 * follow each of them for each CPU.
 *
 * A task more than a slice ahead counts as a slice ahead. Alone on a CPU a task
 * gets ahead without limit, and fast if its weight is small. The global vtime
 * would follow it, away from the tasks that share a CPU.
 *
 * A task that weighs more than a CPU's part has a CPU to itself, and competes
 * with no other task [Chandra00]. It does not count, and would be behind
 * without limit. On a contended CPU it does: affinity confines it there.
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
 * Return true if the global vtime must hold: the running tasks are more than an
 * eighth of a slice behind it on average.
 *
 * The global vtime follows the average of the tasks that compete at the moment.
 * A sleeper that wakes behind the average and runs at once sets the others back
 * for good. When it sleeps again, the global vtime would stay ahead of all
 * tasks. No task would then have enough lag to go first, and newcomers would
 * start behind all others.
 *
 * If any CPU is contended, only tasks on contended CPUs count: elsewhere there
 * is nothing to share.
 */
static inline bool bias_clock_holds(const struct bias_clock_scan *scan, u64 slice_ns)
{
	/*
	 * Test once. If the verifier knew the result at a second test, it would
	 * track the sum through all of its terms.
	 */
	u64 contended = bias_opaque(scan->contended.weight ? ~0ull : 0);
	s64 behind = (scan->contended.behind & (s64)contended) | (scan->all.behind & (s64)~contended);
	u64 weight = (scan->contended.weight & contended) | (scan->all.weight & ~contended);

	return behind > (s64)((slice_ns / 8 >> BIAS_CLOCK_SHIFT) * weight);
}

/*
 * Return how far [ns] the global vtime catches up with the tasks on contended
 * CPUs, a slice at most.
 *
 * A task that begins a slice has the lowest vtime of those that compete for its
 * CPU. If all such tasks began ahead of the global vtime, it is behind all
 * tasks. This happens if heavy tasks, alone on their CPUs, slow it down.
 */
static inline u64 bias_clock_catch_up(const struct bias_clock_scan *scan, u64 slice_ns)
{
	if (scan->ahead <= 0 || scan->ahead == BIAS_CLOCK_NONE)
		return 0;
	return (u64)scan->ahead < slice_ns ? (u64)scan->ahead : slice_ns;
}

/*
 * Return a CPU's part of the weight of all tasks: they weigh @sum, less what
 * single tasks weigh beyond such a part, and @busy CPUs run them.
 */
static inline s64 bias_clock_part(s64 sum, u32 busy)
{
	return busy && sum > 0 ? (s64)((u64)sum / busy) : BIAS_CLOCK_NONE;
}

/*
 * Return where the global vtime goes from @now: to @least, the lowest vtime
 * seen among competing tasks, but by a slice at most.
 *
 * What is seen may be wrong for a moment. Between two tasks, or while another
 * scheduling class has it, a CPU seems to run no task. A light task that is
 * alone on a CPU is 100 s ahead after 1 s.
 */
static inline u64 bias_clock_follow(u64 now, u64 least, u64 slice_ns)
{
	if (!bias_vtime_before(now, least))
		return now;
	return bias_vtime_before(now + slice_ns, least) ? now + slice_ns : least;
}

#endif
