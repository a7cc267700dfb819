/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Capacity is a vector: what one unit of each kind of work costs on a CPU.
 *
 * Problem. A single number per CPU prices a memory-bound task as if it sped up like a compute-bound one.
 *
 * Approach. cost[c][k] is the time CPU c needs for one unit of component k, relative to the CPU that is
 * best at k, in permille: 1000 is the best CPU, 2500 needs two and a half times as long. A task is a CPI stack,
 * the shares of its cycles by component, in permille. Time is their product, and speedup is a ratio of times.
 *
 * Invariants. A cost is never below 1000 after bias_cost_sanitize(); shares sum to 1000 after
 * bias_stack_normalise(); for sane inputs no function divides by zero or overflows 64 bits.
 *
 * Limits. Components are taken as additive: overlap of misses with execution is priced as measured
 * when the stack was taken (seed 001, "CPI stack").
 */
#ifndef BIAS_CAPACITY_H
#define BIAS_CAPACITY_H

#include "types.h"

/* Components of a CPI stack. */
enum bias_component {
	BIAS_EXECUTE,	/* cycles that retire instructions */
	BIAS_INTERNAL,	/* stalls inside the core: mispredicted branches, TLB, private caches */
	BIAS_EXTERNAL,	/* stalls outside the core: shared caches, memory */
	BIAS_NR_COMPONENTS,
};

/* Costs are in permille of the best CPU and stay within these bounds. */
#define BIAS_COST_BEST 1000u
#define BIAS_COST_MAX  64000u

/* What one unit of each component costs on one CPU [permille of the best CPU]. */
struct bias_cost {
	u32 permille[BIAS_NR_COMPONENTS];
};

/* A CPI stack: shares of a task's cycles by component [permille], summing to 1000. */
struct bias_stack {
	u32 permille[BIAS_NR_COMPONENTS];
};

#endif
