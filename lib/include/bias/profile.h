/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Bias: from what a task stalls on to the CPUs that it belongs on.
 *
 * Problem
 * A task that waits for memory gains nothing from a fast core, one that
 * executes gains all of the difference. Counters show which it is while it runs
 * on any CPU, without a trial on both classes [Koufaty10].
 *
 * Approach
 *	window		Counts of intervals, as time by component on the
 *			reference CPU, added up until the window is full.
 *	profile		A running average, half of which is the last window.
 *			An interval that fills several counts for more.
 *	speedup		Predicted from the CPI stack and the costs of typical
 *			slow and fast CPUs (cost.h).
 *	bias		By a fixed band of speedups, or one around the average
 *			of running tasks, weighted by time; with hysteresis.
 *
 * A window of N instructions is full after BIAS_WINDOW_CPI * N cycles, too, so
 * that stalled tasks are classified as soon. It is not full before the lesser
 * of BIAS_WINDOW_MIN_NS * N and BIAS_WINDOW_ENOUGH_NS: a fast core executes N
 * in a fraction of a millisecond. A task's first window does not wait for that,
 * as any profile is better than none. BIAS_WINDOW_MAX_NS * N ends a window in
 * any case. Counters count stall cycles, not misses: overlapping misses stall
 * less, and such a task rightly counts as faster [VanCraeynest12].
 *
 * Invariants
 * Shares sum to 1000. No counts cause a division by zero or an overflow:
 * impossible ones (backwards, more stalls than cycles) are dropped or cut. A
 * profile moves towards each window and never past it. Bias changes only beyond
 * a threshold, and back only beyond the middle from there to the band's centre.
 *
 * Limits
 * A loop of dependent loads calibrates how external stalls convert. Other
 * misses overlap more on a core with a larger window: a task with much
 * memory-level parallelism gains more than predicted. Spinning shows only where
 * PAUSE takes long, not on AMD's Zen (40 to 65 cycles), nor with Arm's YIELD
 * (one). A loop of nothing but dependent divisions looks the same on old cores.
 */
#ifndef BIAS_PROFILE_H
#define BIAS_PROFILE_H

#include "cost.h"

struct bias_counts {
	u64 cycles;
	u64 instructions;
	u64 external; /* cycles stalled outside the core */
	u64 internal; /* cycles stalled inside the core */
};

#define BIAS_COUNTS_MAX	      (1ull << 40) /* more: backwards or wrapped */
#define BIAS_RAN_MAX_NS	      (1ull << 32) /* a longer interval is cut */
#define BIAS_WINDOW_CPI	      4
#define BIAS_WINDOW_MAX_NS    80      /* per instruction: 40 ms for 500 000 */
#define BIAS_WINDOW_MIN_NS    16      /* 8 ms, irrelevant below 60 MIPS */
#define BIAS_WINDOW_ENOUGH_NS 8000000 /* for a window of any size */

struct bias_window {
	u64 ref_ns[BIAS_NR_COMPONENTS]; /* by component, on reference CPU */
	u64 instructions;
	u64 cycles;
	u64 ran_ns;
};

enum bias_task_bias {
	BIAS_UNBIASED, /* unbiased, or unknown */
	BIAS_FAST_BIASED,
	BIAS_SLOW_BIASED,
};

struct bias_profile {
	struct bias_stack stack; /* on the reference CPU */
	u32 speedup_permille;	 /* slow over fast; 0 if unknown */
	u32 bias;		 /* enum bias_task_bias */
	u32 windows;		 /* own windows so far; 0 if inherited */
	u32 stable;		 /* windows in a row that agreed */
};

#define BIAS_STABLE_PERMILLE 50 /* of the speedup: less agrees */
#define BIAS_STABLE_WINDOWS  4

/* A short interval may have no instructions, but it has cycles. */
static inline bool bias_counts_valid(const struct bias_counts *counts)
{
	return counts->cycles && counts->cycles < BIAS_COUNTS_MAX && counts->instructions < BIAS_COUNTS_MAX &&
	       counts->external < BIAS_COUNTS_MAX && counts->internal < BIAS_COUNTS_MAX;
}

/*
 * Internal stalls per instruction of a task that spins. A loop of load and
 * PAUSE (140 cycles from Skylake on) has 28, a chain of loads from L2 16.
 */
#define BIAS_SPIN_CPI	       18
#define BIAS_TICK_INSTRUCTIONS 15000 /* with the programs that count */
#define BIAS_SPEEDUP_SPINS     1     /* published; no other task has it */

/* Return true if a task spun throughout valid @counts with @ticks ticks. */
static inline bool bias_spins(const struct bias_counts *counts, u32 ticks)
{
	u64 kernel = (u64)ticks * BIAS_TICK_INSTRUCTIONS;

	/* Without branches, which would multiply the paths of the verifier. */
	return (counts->cycles > kernel * BIAS_SPIN_CPI / 2) &
	       (counts->internal > counts->cycles - counts->cycles / 8) &
	       (counts->internal + kernel * BIAS_SPIN_CPI > counts->instructions * BIAS_SPIN_CPI);
}

#define BIAS_MUX_MAX	64     /* largest factor for multiplexed counts */
#define BIAS_MUX_MIN_NS 500000 /* half of less is perf's rotation of groups */

static inline bool bias_mux_counted(u64 enabled_ns, u64 running_ns)
{
	return running_ns >= enabled_ns || running_ns >= BIAS_MUX_MIN_NS;
}

static inline void bias_counts_scale(struct bias_counts *counts, u64 enabled_ns, u64 running_ns)
{
	u64 *all[] = {&counts->cycles, &counts->instructions, &counts->external, &counts->internal};
	u64 factor;

	if (!running_ns || running_ns >= enabled_ns || enabled_ns >= BIAS_COUNTS_MAX)
		return;
	factor = (enabled_ns << 8) / running_ns;
	if (factor > BIAS_MUX_MAX << 8)
		factor = BIAS_MUX_MAX << 8;
	for (int i = 0; i < 4; i++) {
		u64 scaled = (*all[i] * factor) >> 8;

		*all[i] = scaled < BIAS_COUNTS_MAX ? scaled : BIAS_COUNTS_MAX - 1;
	}
}

static inline u64 bias_scaled(u64 count, u32 permille, u64 most)
{
	u64 scaled = count * permille / 1000;

	return scaled < most ? scaled : most;
}

/* Return @ran_ns * @cycles / @total. Cycles are below BIAS_COUNTS_MAX. */
static inline u64 bias_part_ns(u64 ran_ns, u64 cycles, u64 total)
{
	return (ran_ns * ((cycles << 16) / total)) >> 16;
}

static inline void bias_counts_correct(struct bias_counts *counts, u32 external_permille,
				       u32 internal_permille)
{
	counts->external = bias_scaled(counts->external, external_permille, counts->cycles);
	counts->internal =
	    bias_scaled(counts->internal, internal_permille, counts->cycles - counts->external);
}

static inline void bias_window_add(struct bias_window *window, const struct bias_counts *counts, u64 ran_ns,
				   const struct bias_cost *cost)
{
	u64 cycles = counts->cycles;
	u64 external_ns, internal_ns;

	if (ran_ns > BIAS_RAN_MAX_NS)
		ran_ns = BIAS_RAN_MAX_NS;
	external_ns = bias_part_ns(ran_ns, counts->external, cycles);
	internal_ns = bias_part_ns(ran_ns, counts->internal, cycles);
	window->ref_ns[BIAS_EXECUTE] +=
	    bias_reference_ns(ran_ns - external_ns - internal_ns, cost->permille[BIAS_EXECUTE]);
	window->ref_ns[BIAS_INTERNAL] += bias_reference_ns(internal_ns, cost->permille[BIAS_INTERNAL]);
	window->ref_ns[BIAS_EXTERNAL] += bias_reference_ns(external_ns, cost->permille[BIAS_EXTERNAL]);
	window->instructions += counts->instructions;
	window->cycles += cycles;
	window->ran_ns += ran_ns;
}

/* A window of too short a time must not replace a @known task's own profile. */
static inline u32 bias_window_full(const struct bias_window *window, u64 size, bool known)
{
	u64 windows, by_cycles, by_time, least_ns;

	if (!size)
		size = 1;
	windows = window->instructions / size;
	by_cycles = window->cycles / (size * BIAS_WINDOW_CPI);
	if (by_cycles > windows)
		windows = by_cycles;
	least_ns = size * BIAS_WINDOW_MIN_NS;
	by_time = window->ran_ns / (least_ns < BIAS_WINDOW_ENOUGH_NS ? least_ns : BIAS_WINDOW_ENOUGH_NS);
	if (known && by_time < windows)
		windows = by_time;
	by_time = window->ran_ns / (size * BIAS_WINDOW_MAX_NS);
	if (by_time > windows)
		windows = by_time;
	return windows < 64 ? windows : 64;
}

static inline void bias_window_stack(const struct bias_window *window, struct bias_stack *stack)
{
	u64 sum = 0;

	for (int k = 0; k < BIAS_NR_COMPONENTS; k++)
		sum += window->ref_ns[k];
	if (!sum)
		sum = 1;
	for (int k = 0; k < BIAS_NR_COMPONENTS; k++)
		stack->permille[k] = window->ref_ns[k] * BIAS_STACK_SUM / sum;
	bias_stack_normalise(stack);
}

/* Move @from towards @to: half of the way by one window, all of it by four. */
static inline u32 bias_towards(u32 from, u32 to, u32 windows)
{
	u32 left;

	if (windows >= 4)
		return to;
	left = (to > from ? to - from : from - to) >> windows;
	return to > from ? to - left : to + left;
}

static inline u32 bias_difference(u32 a, u32 b)
{
	return a > b ? a - b : b - a;
}

/* Add a closed @window, as long as @windows >= 1 windows, and empty it. */
static inline void bias_profile_update(struct bias_profile *profile, struct bias_window *window, u32 windows,
				       const struct bias_cost *slow, const struct bias_cost *fast)
{
	struct bias_stack seen;
	u32 before = profile->speedup_permille;

	bias_window_stack(window, &seen);
	/* The first window replaces an inherited profile, which is a guess. */
	if (!profile->windows)
		windows = 4;
	for (int k = 0; k < BIAS_NR_COMPONENTS; k++)
		profile->stack.permille[k] =
		    bias_towards(profile->stack.permille[k], seen.permille[k], windows);
	bias_stack_normalise(&profile->stack);
	profile->speedup_permille = bias_speedup_permille(&profile->stack, slow, fast);
	if ((u64)bias_difference(before, profile->speedup_permille) * 1000 <
	    (u64)BIAS_STABLE_PERMILLE * profile->speedup_permille) {
		if (profile->stable < BIAS_STABLE_WINDOWS)
			profile->stable++;
	} else {
		profile->stable = 0;
	}
	if (profile->windows < ~0u)
		profile->windows++;
	for (int k = 0; k < BIAS_NR_COMPONENTS; k++)
		window->ref_ns[k] = 0;
	window->instructions = 0;
	window->cycles = 0;
	window->ran_ns = 0;
}

static inline bool bias_profile_stable(const struct bias_profile *profile)
{
	return profile->stable >= BIAS_STABLE_WINDOWS;
}

/* Classify by thresholds [permille]. A quarter of the band is hysteresis. */
static inline u32 bias_classify(u32 before, u32 speedup, u32 low, u32 high)
{
	u32 margin = high > low ? (high - low) / 4 : 0;

	if (!speedup)
		return BIAS_UNBIASED;
	if (speedup >= high || (before == BIAS_FAST_BIASED && speedup >= high - margin))
		return BIAS_FAST_BIASED;
	if (speedup <= low || (before == BIAS_SLOW_BIASED && speedup <= low + margin))
		return BIAS_SLOW_BIASED;
	return BIAS_UNBIASED;
}

#define BIAS_BAND_PERMILLE  50 /* half of the band around the average */
#define BIAS_AVERAGE_SHIFT  5  /* a tick moves the average by 2^-n of the way */
#define BIAS_AVERAGE_PLACES 8

static inline u32 bias_average_step(u32 average, u32 speedup)
{
	u32 target = speedup << BIAS_AVERAGE_PLACES;

	if (!average)
		return target;
	if (target > average)
		return average + ((target - average) >> BIAS_AVERAGE_SHIFT);
	return average - ((average - target) >> BIAS_AVERAGE_SHIFT);
}

static inline u32 bias_band_low(u32 average)
{
	return (u64)(average >> BIAS_AVERAGE_PLACES) * (1000 - BIAS_BAND_PERMILLE) / 1000;
}

static inline u32 bias_band_high(u32 average)
{
	/* Round up, so that a task at the average is never beyond the band. */
	return ((u64)(average >> BIAS_AVERAGE_PLACES) * (1000 + BIAS_BAND_PERMILLE) + 999) / 1000 + 1;
}

/* Return true if @a is clearly more than @b, and both are known (not 0). */
static inline bool bias_gains_more(u32 a, u32 b, u32 margin_permille)
{
	return a && b && (u64)a * 1000 > (u64)b * (1000 + margin_permille);
}

#endif
