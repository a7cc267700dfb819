/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The clock: the machine's vtime, where sleepers and newcomers start.
 *
 * Problem. It must be where those who compete are: behind them, and newcomers go first for as long as they come; ahead of them, and
 * newcomers wait until all have caught up, and those who run are further behind than is remembered (a few slices), so that
 * their weights are forgotten. Yet tasks may be confined to CPUs, and CPUs be in unequal demand.
 *
 * Approach. The clock moves with the work done, divided by the weight of all that competes, as in weighted fair queueing
 * (bias_clock_advance()). The least vtime of all would not do: it stands still while ever new tasks come, run briefly and go, and
 * whoever is ahead starves; found by a storm of forks in the VM. Nor would the most: a task of nice 19 alone on a CPU runs ahead
 * 66 times as fast. Then it is put right, at each tick, by a look at what runs (bias_clock_see()): it waits while that is behind
 * it on average, and hurries when all of that is ahead. What counts is CPUs that somebody waits for, if there are any: where nobody
 * waits nothing is to be shared, and whoever is alone there may be as far off as it likes.
 *
 * Invariants (tests in lib/policy). The clock never goes back; it stays with two that share a CPU, and these get their
 * shares, whatever runs on the others; nothing that is seen moves it by more than a slice.
 *
 * Limits. One clock for all: where several CPUs in unequal demand have tasks waiting that are confined to them, those of
 * the most wanted fall behind it, and further than is remembered they are all the same, whatever they weigh.
 */
#ifndef BIAS_CLOCK_H
#define BIAS_CLOCK_H

#include "fair.h"

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

#endif
