/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Bias: from what a task stalls on to where it belongs.
 *
 * Problem. A task that waits for memory gains nothing from a fast core, one that executes gains all of the
 * difference. Which of the two a task is can be counted while it runs, anywhere, without trying it on both kinds
 * of core (seed 001, "bias scheduling").
 *
 * Approach.
 *   counts	what the CPU's counters say of one stretch of running: cycles, instructions, cycles stalled outside
 *		the core and inside it.
 *   window	counts are turned into time by component on the reference CPU (the one that is best at
 *		everything) and added up until the window holds enough instructions: seed 001's sliding
 *		instruction window. A window also closes after BIAS_WINDOW_CPI times as many cycles, so that a
 *		task that hardly gets on is classified as soon in time as others; and after
 *		BIAS_WINDOW_MOST_NS for each instruction it should hold, whatever was done in it.
 *		A fast core does all that in a fraction of a millisecond. A window takes BIAS_WINDOW_LEAST_NS
 *		for each instruction at least, but no more than BIAS_WINDOW_ENOUGH_NS in all. Only the first
 *		window of a task does not wait for that: any glimpse is better than none.
 *   profile	the running average of windows: each new one counts for half, so what is older than three
 *		windows weighs an eighth. A stretch of several windows at once counts for as much more.
 *		A tick of 10 ms is one window on any fast CPU, so the average spans several ticks.
 *   speedup	predicted by the cost vectors of the slow and the fast CPUs (capacity.h).
 *   kind	FAST, SLOW or NEUTRAL by two thresholds with hysteresis. The thresholds are a band around
 *		the average speedup of what runs, weighted by time: who gains more than the average belongs on a
 *		fast CPU. Or they are fixed.
 *
 * Memory-level parallelism. Counted are cycles in which the core stalls, not misses: misses that overlap with
 * each other or with execution stall less, so such a task is priced as faster to run, as it should be (PIE,
 * ISCA'12). What is not predicted is that a core with a larger window overlaps more of the same misses: external
 * stalls are converted between cores by a loop of dependent loads, which overlaps none. A task with much
 * parallelism gains more than predicted.
 *
 * Invariants (tests in lib/policy). Shares sum to 1000. No counts, whatever they are, make a division by zero
 * or an overflow; counts that cannot be (backwards, more stalls than cycles) are dropped or cut. A profile moves
 * towards each window and never past it. A kind changes only beyond a threshold, and changes back only beyond
 * the middle between the threshold and the centre of the band.
 */
#ifndef BIAS_BIAS_H
#define BIAS_BIAS_H

#include "capacity.h"

/* What counters said of one stretch of running on one CPU. */
struct bias_counts {
	u64 cycles;
	u64 instructions;
	u64 external; /* cycles stalled outside the core */
	u64 internal; /* cycles stalled inside the core */
};

/* No stretch has more of anything: a counter that went backwards or wrapped looks like more. */
#define BIAS_COUNTS_MAX (1ull << 40)
/* No stretch is longer [ns]; a longer one is cut, which keeps its shares. */
#define BIAS_RAN_MAX_NS (1ull << 32)
/* A window closes after this many cycles per instruction it should hold. */
#define BIAS_WINDOW_CPI 4

/* It closes after this time for each instruction it should hold [ns], however little was done: 40 ms for 500 000. */
#define BIAS_WINDOW_MOST_NS 80
/* It does not close before this time for each instruction [ns]: 8 ms for 500 000, at 60 MIPS no restriction. */
#define BIAS_WINDOW_LEAST_NS 16
/* But time enough for any window [ns]. */
#define BIAS_WINDOW_ENOUGH_NS 8000000

/* A window that fills. */
struct bias_window {
	u64 ref_ns[BIAS_NR_COMPONENTS]; /* time on the reference CPU by component [ns] */
	u64 instructions;
	u64 cycles;
	u64 ran_ns;
};

/* Where a task belongs. */
enum bias_kind {
	BIAS_KIND_NEUTRAL, /* either way, or unknown */
	BIAS_KIND_FAST,
	BIAS_KIND_SLOW,
};

/* What is known of a task. */
struct bias_profile {
	struct bias_stack stack; /* on the reference CPU */
	u32 speedup_permille;	 /* slow over fast; 0 while nothing is known */
	u32 kind;		 /* enum bias_kind */
	u32 windows;		 /* closed, of its own; an inherited profile has none */
	u32 stable;		 /* windows in a row that changed the speedup by little */
};

/* A window that changes the speedup by less does not unsettle the profile [permille of the speedup]. */
#define BIAS_STABLE_PERMILLE 50
/* Windows in a row after which a profile is stable. */
#define BIAS_STABLE_WINDOWS 4

/* Can these counts be true? Instructions may be zero in a short stretch, cycles not. */
static inline bool bias_counts_valid(const struct bias_counts *counts)
{
	return counts->cycles && counts->cycles < BIAS_COUNTS_MAX && counts->instructions < BIAS_COUNTS_MAX &&
	       counts->external < BIAS_COUNTS_MAX && counts->internal < BIAS_COUNTS_MAX;
}

/* A group that counted for less of a stretch than one part in so many tells as much as one that counted for that. */
#define BIAS_TURNS_MAX 64
/* A shorter turn tells nothing [ns]: half of what is counted then is the kernel's own work of giving it. */
#define BIAS_TURN_MIN_NS 500000

/* Do counts tell something of a stretch of @enabled_ns of which they counted @running_ns? Short stretches counted in full do. */
static inline bool bias_turn_tells(u64 enabled_ns, u64 running_ns)
{
	return running_ns >= enabled_ns || running_ns >= BIAS_TURN_MIN_NS;
}

/*
 * Valid counts of events that took turns with others and counted for @running_ns of @enabled_ns only, estimated for the
 * whole.
 */
static inline void bias_counts_scale(struct bias_counts *counts, u64 enabled_ns, u64 running_ns)
{
	u64 *all[] = {&counts->cycles, &counts->instructions, &counts->external, &counts->internal};
	u64 factor;

	if (!running_ns || running_ns >= enabled_ns || enabled_ns >= BIAS_COUNTS_MAX)
		return;
	factor = (enabled_ns << 8) / running_ns;
	if (factor > BIAS_TURNS_MAX << 8)
		factor = BIAS_TURNS_MAX << 8;
	for (int i = 0; i < 4; i++) {
		u64 scaled = (*all[i] * factor) >> 8;

		*all[i] = scaled < BIAS_COUNTS_MAX ? scaled : BIAS_COUNTS_MAX - 1;
	}
}

/* @count corrected by what calibration found of its counter [permille], cut to @most. */
static inline u64 bias_scaled(u64 count, u32 permille, u64 most)
{
	u64 scaled = count * permille / 1000;

	return scaled < most ? scaled : most;
}

/* The part of @ran_ns that @cycles of @total are. Both cycles are below BIAS_COUNTS_MAX. */
static inline u64 bias_part_ns(u64 ran_ns, u64 cycles, u64 total)
{
	return (ran_ns * ((cycles << 16) / total)) >> 16;
}

/* Correct valid counts by what calibration found of the CPU's counters. Stalls beyond the cycles there were are cut. */
static inline void bias_counts_correct(struct bias_counts *counts, u32 external_permille,
				       u32 internal_permille)
{
	counts->external = bias_scaled(counts->external, external_permille, counts->cycles);
	counts->internal =
	    bias_scaled(counts->internal, internal_permille, counts->cycles - counts->external);
}

/* Add corrected counts of @ran_ns on a CPU of cost @cost to @window. */
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
 * How many windows of @size instructions @window holds; 0 while it is not full. @known: the task has a profile of its own,
 * which a window of too short a time must not replace.
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
	least_ns = size * BIAS_WINDOW_LEAST_NS;
	by_time = window->ran_ns / (least_ns < BIAS_WINDOW_ENOUGH_NS ? least_ns : BIAS_WINDOW_ENOUGH_NS);
	if (known && by_time < windows)
		windows = by_time;
	by_time = window->ran_ns / (size * BIAS_WINDOW_MOST_NS);
	if (by_time > windows)
		windows = by_time;
	return windows < 64 ? windows : 64;
}

/* The shares of a window [permille]; pure execution for an empty one. */
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

/* @from moved towards @to by the weight of @windows: a half, three quarters, seven eighths, all of the way. */
static inline u32 bias_towards(u32 from, u32 to, u32 windows)
{
	u32 left;

	if (windows >= 4)
		return to;
	/* Unsigned: BPF before version 4 of its instructions has no signed division. */
	left = (to > from ? to - from : from - to) >> windows;
	return to > from ? to - left : to + left;
}

static inline u32 bias_difference(u32 a, u32 b)
{
	return a > b ? a - b : b - a;
}

/*
 * Take the closed @window of @windows >= 1 windows' length into @profile, predict its speedup between CPUs of cost
 * @slow and @fast, and empty the window.
 */
static inline void bias_profile_update(struct bias_profile *profile, struct bias_window *window, u32 windows,
				       const struct bias_cost *slow, const struct bias_cost *fast)
{
	struct bias_stack seen;
	u32 before = profile->speedup_permille;

	bias_window_stack(window, &seen);
	/* What is inherited is a guess, the first window is not. */
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
 * The kind of a task of @speedup, 0 if unknown, that was of kind @before, by thresholds @low <= @high [permille]. A
 * quarter of the band is hysteresis.
 */
static inline u32 bias_classify(u32 before, u32 speedup, u32 low, u32 high)
{
	u32 margin = high > low ? (high - low) / 4 : 0;

	if (!speedup)
		return BIAS_KIND_NEUTRAL;
	if (speedup >= high || (before == BIAS_KIND_FAST && speedup >= high - margin))
		return BIAS_KIND_FAST;
	if (speedup <= low || (before == BIAS_KIND_SLOW && speedup <= low + margin))
		return BIAS_KIND_SLOW;
	return BIAS_KIND_NEUTRAL;
}

/* Half the width of the band around the average speedup [permille of it]. */
#define BIAS_BAND_PERMILLE 50
/* Each tick of a CPU moves the average by this share (1 in 2^n) of the difference. */
#define BIAS_AVERAGE_SHIFT 5
/* The average is kept with this many binary places. */
#define BIAS_AVERAGE_PLACES 8

/* The average speedup after a tick saw a task of @speedup run; 0 is no average yet. Kept with binary places. */
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
	/* Rounded up, so that a task at the average is never beyond the band. */
	return ((u64)(average >> BIAS_AVERAGE_PLACES) * (1000 + BIAS_BAND_PERMILLE) + 999) / 1000 + 1;
}

/* Does a task of speedup @a gain clearly more from a fast CPU than one of @b? Never if one is unknown. */
static inline bool bias_gains_more(u32 a, u32 b, u32 margin_permille)
{
	return a && b && (u64)a * 1000 > (u64)b * (1000 + margin_permille);
}

#endif
