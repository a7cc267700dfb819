/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Bias: from what a task stalls on to the CPUs that it belongs on.
 *
 * Problem
 * A task that waits for memory gains nothing from a fast core, and a task that
 * executes gains all of the difference. Counters show which of the two a task
 * is while it runs, on any CPU. No trial on both classes of CPUs is needed
 * [Koufaty10].
 *
 * Approach
 *
 *	counts		What a CPU's counters show of one interval: cycles,
 *			instructions, cycles stalled outside and inside the
 *			core.
 *	window		Counts are converted to time by component on the
 *			reference CPU, and added up over intervals until the
 *			window is full. See below.
 *	profile		A running average of windows. Each new one counts for
 *			half, so windows before the last three weigh an
 *			eighth. An interval that fills several windows at once
 *			counts for more.
 *	speedup		Predicted from the CPI stack and the costs of typical
 *			slow and fast CPUs (cost.h).
 *	bias		Fast-biased, slow-biased or unbiased, by two thresholds
 *			with hysteresis. They are a band around the average
 *			speedup of running tasks, weighted by time, or fixed.
 *			A task that gains more than the average belongs on a
 *			fast CPU.
 *
 * A window of N instructions (500 000 by default) is full after
 *
 *	N instructions, or BIAS_WINDOW_CPI * N cycles, so that a task which
 *	hardly progresses is classified as soon as others,
 *
 * but not before
 *
 *	BIAS_WINDOW_MIN_NS * N, at most BIAS_WINDOW_ENOUGH_NS, because a fast
 *	core executes N instructions in a fraction of a millisecond,
 *
 * and in any case after
 *
 *	BIAS_WINDOW_MAX_NS * N.
 *
 * A task's first window does not wait for the least time: any profile is better
 * than none. A tick of 10 ms is one window on any fast CPU, so the average
 * spans several ticks.
 *
 * The counters count cycles in which the core stalls, not misses. Misses that
 * overlap with each other or with execution stall less, so the prediction
 * rightly treats such a task as faster [VanCraeynest12].
 *
 * Invariants
 * (Tests are in lib/policy.) Shares sum to 1000. No counts cause a division by
 * zero or an overflow. Impossible counts (backwards, more stalls than cycles)
 * are dropped or cut. A profile moves towards each window and never past it.
 * Bias changes only beyond a threshold. It changes back only beyond the middle
 * between the threshold and the centre of the band.
 *
 * Limits
 * A core with a larger window overlaps more of the same misses, which the
 * prediction ignores. A loop of dependent loads, which overlaps none,
 * calibrates how external stalls convert between cores. So a task with much
 * memory-level parallelism gains more than predicted.
 *
 * Spinning shows only where PAUSE takes long. It takes 40 to 65 cycles on AMD's
 * Zen, and Arm's YIELD takes one. A loop of nothing but dependent divisions
 * looks the same on old cores.
 */
#ifndef BIAS_PROFILE_H
#define BIAS_PROFILE_H

#include "cost.h"

/* Counts of one interval on one CPU. */
struct bias_counts {
	u64 cycles;
	u64 instructions;
	u64 external; /* cycles stalled outside the core */
	u64 internal; /* cycles stalled inside the core */
};

/*
 * Bound on each count of an interval. A counter that went backwards or wrapped
 * exceeds it.
 */
#define BIAS_COUNTS_MAX (1ull << 40)
/* Bound on an interval [ns]. A longer one is cut, which keeps its shares. */
#define BIAS_RAN_MAX_NS (1ull << 32)
/* Cycles per instruction of a window's size after which it closes. */
#define BIAS_WINDOW_CPI 4

/*
 * Time per instruction of a window's size after which it closes in any case
 * [ns]: 40 ms for 500 000 instructions.
 */
#define BIAS_WINDOW_MAX_NS 80
/*
 * Time per instruction of a window's size before which it does not close [ns]:
 * 8 ms for 500 000 instructions. It does not matter at 60 MIPS or less.
 */
#define BIAS_WINDOW_MIN_NS 16
/* Time that is enough for a window of any size [ns]. */
#define BIAS_WINDOW_ENOUGH_NS 8000000

/* A window that fills. */
struct bias_window {
	u64 ref_ns[BIAS_NR_COMPONENTS]; /* by component, on reference CPU */
	u64 instructions;
	u64 cycles;
	u64 ran_ns;
};

/* Bias of a task. */
enum bias_task_bias {
	BIAS_UNBIASED, /* unbiased, or unknown */
	BIAS_FAST_BIASED,
	BIAS_SLOW_BIASED,
};

/* What is known of a task. */
struct bias_profile {
	struct bias_stack stack; /* on the reference CPU */
	u32 speedup_permille;	 /* slow over fast; 0 if unknown */
	u32 bias;		 /* enum bias_task_bias */
	u32 windows;		 /* own windows so far; 0 if inherited */
	u32 stable;		 /* windows in a row that agreed */
};

/*
 * A window agrees with the profile if it changes the speedup by less [permille
 * of the speedup].
 */
#define BIAS_STABLE_PERMILLE 50
/* Windows in a row after which a profile is stable. */
#define BIAS_STABLE_WINDOWS 4

/*
 * Return true if @counts are possible. A short interval may have no
 * instructions, but it has cycles.
 */
static inline bool bias_counts_valid(const struct bias_counts *counts)
{
	return counts->cycles && counts->cycles < BIAS_COUNTS_MAX && counts->instructions < BIAS_COUNTS_MAX &&
	       counts->external < BIAS_COUNTS_MAX && counts->internal < BIAS_COUNTS_MAX;
}

/*
 * Stall cycles inside the core, per instruction, from which on a task spins.
 * Code that waits for another thread repeats a load and PAUSE, which takes 140
 * cycles on Intel's cores from Skylake on: 28 per instruction. A chain of loads
 * from the second-level cache has 16.
 */
#define BIAS_SPIN_CPI 18
/* Instructions of a tick, with the programs that count. An interval has one. */
#define BIAS_TICK_INSTRUCTIONS 15000
/* Speedup that a CPU publishes of a task that spins. No other task has it. */
#define BIAS_SPEEDUP_SPINS 1

/*
 * Return true if @counts, which are valid and include @ticks ticks, are those
 * of a task that spun throughout.
 */
static inline bool bias_spins(const struct bias_counts *counts, u32 ticks)
{
	u64 kernel = (u64)ticks * BIAS_TICK_INSTRUCTIONS;

	/* Without branches, which would multiply the paths of the verifier. */
	return (counts->cycles > kernel * BIAS_SPIN_CPI / 2) &
	       (counts->internal > counts->cycles - counts->cycles / 8) &
	       (counts->internal + kernel * BIAS_SPIN_CPI > counts->instructions * BIAS_SPIN_CPI);
}

/* Largest factor by which multiplexed counts are scaled. */
#define BIAS_MUX_MAX 64
/*
 * A group that ran for less time shows nothing [ns]: half of its counts would
 * come from the kernel's own work of rotating groups.
 */
#define BIAS_MUX_MIN_NS 500000

/*
 * Return true if counts over @running_ns represent an interval of @enabled_ns.
 * Short intervals that were counted in full do.
 */
static inline bool bias_mux_counted(u64 enabled_ns, u64 running_ns)
{
	return running_ns >= enabled_ns || running_ns >= BIAS_MUX_MIN_NS;
}

/*
 * Scale valid counts of multiplexed events, which counted for @running_ns of
 * @enabled_ns, to the whole interval.
 */
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

/* Return @count times a calibrated scale [permille], cut to @most. */
static inline u64 bias_scaled(u64 count, u32 permille, u64 most)
{
	u64 scaled = count * permille / 1000;

	return scaled < most ? scaled : most;
}

/*
 * Return the part of @ran_ns that @cycles are of @total. Both cycles are below
 * BIAS_COUNTS_MAX.
 */
static inline u64 bias_part_ns(u64 ran_ns, u64 cycles, u64 total)
{
	return (ran_ns * ((cycles << 16) / total)) >> 16;
}

/*
 * Correct valid counts by the calibrated scales of the CPU's counters. Stalls
 * that exceed the cycles are cut.
 */
static inline void bias_counts_correct(struct bias_counts *counts, u32 external_permille,
				       u32 internal_permille)
{
	counts->external = bias_scaled(counts->external, external_permille, counts->cycles);
	counts->internal =
	    bias_scaled(counts->internal, internal_permille, counts->cycles - counts->external);
}

/* Add corrected counts over @ran_ns on a CPU of cost @cost to @window. */
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

/*
 * Return how many windows of @size instructions @window holds, 0 while it is
 * not full. @known is true if the task has a profile of its own, which a window
 * of too short a time must not replace.
 */
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

/*
 * Compute the CPI stack of a window [permille]. An empty window is pure
 * execution.
 */
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

/*
 * Return @from moved towards @to by the weight of @windows windows: a half,
 * three quarters, seven eighths, or all of the way.
 */
static inline u32 bias_towards(u32 from, u32 to, u32 windows)
{
	u32 left;

	if (windows >= 4)
		return to;
	/*
	 * Unsigned: BPF instruction sets before version 4 lack signed division.
	 */
	left = (to > from ? to - from : from - to) >> windows;
	return to > from ? to - left : to + left;
}

static inline u32 bias_difference(u32 a, u32 b)
{
	return a > b ? a - b : b - a;
}

/*
 * Add a closed @window, as long as @windows >= 1 windows, to @profile. Predict
 * the speedup between CPUs of cost @slow and @fast, and empty the window.
 */
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

/*
 * Return the bias of a task with @speedup (0 if unknown) and the bias @before,
 * by thresholds @low <= @high [permille]. A quarter of the band is hysteresis.
 */
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

/* Half the width of the band around the average speedup [permille of it]. */
#define BIAS_BAND_PERMILLE 50
/* Each tick of a CPU moves the average by the difference / 2^n. */
#define BIAS_AVERAGE_SHIFT 5
/* Binary places with which the average is kept. */
#define BIAS_AVERAGE_PLACES 8

/*
 * Return the average speedup, with binary places, after a tick that saw a task
 * of @speedup. An @average of 0 means none yet.
 */
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

/*
 * Return true if a task of speedup @a gains clearly more from a fast CPU than
 * one of @b. False if either is unknown.
 */
static inline bool bias_gains_more(u32 a, u32 b, u32 margin_permille)
{
	return a && b && (u64)a * 1000 > (u64)b * (1000 + margin_permille);
}

#endif
