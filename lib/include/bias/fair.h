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
 * Limits. Work is priced by the execute component until tasks have stacks of their own.
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

/*
 * How many tasks of nice 0 a CPU competition is taken to have at most, see bias_clock_advance(): the bound of
 * everybody's wait.
 */
#define BIAS_CLOCK_FLOOR 32

/*
 * How far the machine's vtime moves when @work_ns of reference time were done while tasks of @total weight
 * (shifted) compete for @nr_cpus CPUs: as far as each of them got on average, as in weighted fair queueing.
 * Never further than the work itself: who is alone and light pulls the clock along in another way. Never
 * slower than with BIAS_CLOCK_FLOOR tasks of nice 0 a CPU, so that huge weights do not stop it.
 */
static inline u64 bias_clock_advance(u64 work_ns, u64 total, u32 nr_cpus)
{
	u64 most = (u64)BIAS_CLOCK_FLOOR * BIAS_WEIGHT_NICE_0 * (nr_cpus ? nr_cpus : 1);

	if (total < BIAS_WEIGHT_NICE_0)
		total = BIAS_WEIGHT_NICE_0;
	return work_ns * BIAS_WEIGHT_NICE_0 / (total < most ? total : most);
}

/* For sums of time times weight, which have to fit: time counts in units of 2^BIAS_CLOCK_SHIFT ns there. */
#define BIAS_CLOCK_SHIFT 10

/* How far tasks that run are behind the machine's vtime, each times its weight (shifted), and their weights. */
struct bias_clock_lag {
	s64 behind;
	u64 weight;
};

/* What is to be known of tasks that run, from bias_clock_look(), summed up by bias_clock_see(). */
struct bias_clock_look {
	struct bias_clock_lag all;
	struct bias_clock_lag wanted; /* on CPUs that somebody waits for */
	s64 ahead;		      /* how far ahead [ns] the least of the latter began to run */
};

/* bias_clock_look.ahead of nobody. */
#define BIAS_CLOCK_NOBODY ((s64)(~0ull >> 2))

/* Of nobody. */
static inline struct bias_clock_look bias_clock_look(void)
{
	struct bias_clock_look look = {.ahead = BIAS_CLOCK_NOBODY};

	return look;
}

/* @mask, of which the compiler is to know nothing: it would make branches of it. */
static inline u64 bias_opaque(u64 mask)
{
	__asm__("" : "+r"(mask));
	return mask;
}

/* @value if it is negative, else 0; without a branch. */
static inline s64 bias_negative(s64 value)
{
	return value & (s64)bias_opaque((u64)(value >> 63));
}

/*
 * Add to @look who runs, of @weight (shifted), at @vtime, having begun its slice at @began; @now is the machine's vtime. @wanted: all bits
 * if somebody waits for its CPU, else none. No branches, for the verifier follows each of each CPU.
 *
 * Who is more than a slice ahead counts as a slice ahead: alone on a CPU it gets ahead for ever, and fast if its weight is small,
 * and the clock would run away with it from those who share a CPU.
 */
static inline void bias_clock_see(struct bias_clock_look *look, u64 now, u64 vtime, u64 began, u32 weight,
				  u64 slice_ns, u64 wanted)
{
	s64 lag = (s64)(now - vtime);
	s64 behind = ((lag - bias_negative(lag + (s64)slice_ns)) >> BIAS_CLOCK_SHIFT) * (s64)weight;
	s64 ahead = (s64)(((began - now) & wanted) | (~wanted & BIAS_CLOCK_NOBODY));

	look->all.behind += behind;
	look->all.weight += weight;
	look->wanted.behind += behind & (s64)wanted;
	look->wanted.weight += weight & wanted;
	look->ahead += bias_negative(ahead - look->ahead);
}

/*
 * Must the machine's vtime wait for what runs? The average of all that competes is what it should be, and it counts the work of
 * whoever competes at the moment: a sleeper that comes behind the average and is served at once sets the others back for good,
 * and when it sleeps again the clock would stay ahead of all there is. Then nobody is owed enough to go first, and newcomers
 * start behind everybody.
 *
 * What runs on CPUs that somebody waits for counts, if there are any: where nobody waits nothing is to be shared.
 */
static inline bool bias_clock_waits(const struct bias_clock_look *look, u64 slice_ns)
{
	/* Asked once: an answer that is known the second time makes the verifier follow the sum through all that it was made of. */
	u64 wanted = bias_opaque(look->wanted.weight ? ~0ull : 0);
	s64 behind = (look->wanted.behind & (s64)wanted) | (look->all.behind & (s64)~wanted);
	u64 weight = (look->wanted.weight & wanted) | (look->all.weight & ~wanted);

	return behind > (s64)((slice_ns / 8 >> BIAS_CLOCK_SHIFT) * weight);
}

/*
 * How far [ns] the machine's vtime has to hurry after those who run where others wait, a slice at most: who began a slice had the least
 * vtime of those who competed for its CPU, so if all began it ahead of the clock, that is behind all. It happens where others are of
 * much weight, alone on their CPUs, and slow the clock.
 */
static inline u64 bias_clock_hurries(const struct bias_clock_look *look, u64 slice_ns)
{
	if (look->ahead <= 0 || look->ahead == BIAS_CLOCK_NOBODY)
		return 0;
	return (u64)look->ahead < slice_ns ? (u64)look->ahead : slice_ns;
}

/*
 * Where the machine's vtime goes, at @now, when the least of what is seen to compete is at @least: there, but no more than a slice at
 * a time. What is seen may be wrong for a moment, for between two tasks, or while another scheduling class has it, a CPU
 * seems to run nothing; and a task of little weight that is alone on a CPU is a hundred seconds ahead after one.
 */
static inline u64 bias_clock_follow(u64 now, u64 least, u64 slice_ns)
{
	if (!bias_vtime_before(now, least))
		return now;
	return bias_vtime_before(now + slice_ns, least) ? now + slice_ns : least;
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
