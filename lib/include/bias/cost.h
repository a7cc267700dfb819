/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Costs: what a unit of work of each component costs on a CPU.
 *
 * Problem
 * A single figure per CPU treats a memory-bound task as if it sped up like a
 * compute-bound one.
 *
 * Approach
 * A CPU has one cost per component k: the time for a unit of k, relative to the
 * CPU that is best at k [permille]. 1000 is the best CPU, and 2500 takes two
 * and a half times as long. A task is a CPI stack, the shares of its cycles by
 * component [permille]. Its time is
 *
 *	sum over k of stack[k] * cost[k] / 1000
 *
 * and its speedup is a ratio of two times.
 *
 * Invariants
 * A cost is at least 1000 after bias_cost_sanitize(). Shares sum to 1000 after
 * bias_stack_normalise(). For sane inputs no function divides by zero or
 * overflows 64 bits.
 *
 * Limits
 * Components are additive: misses that overlap with execution cost what they
 * cost when the CPI stack was measured [Koufaty10].
 */
#ifndef BIAS_COST_H
#define BIAS_COST_H

#include "types.h"

/* Components of a CPI stack. */
enum bias_component {
	BIAS_EXECUTE, /* cycles that retire instructions */
	/* Stalls in the core: mispredicted branches, TLB, private caches. */
	BIAS_INTERNAL,
	/* Stalls outside the core: shared caches, memory. */
	BIAS_EXTERNAL,
	BIAS_NR_COMPONENTS,
};

/* Bounds of a cost [permille of the reference CPU]. */
#define BIAS_COST_BEST 1000u
#define BIAS_COST_MAX  64000u

/* Cost of a unit of each component on one CPU [permille of the best CPU]. */
struct bias_cost {
	u32 permille[BIAS_NR_COMPONENTS];
};

/* CPI stack: shares of a task's cycles by component [permille], sum 1000. */
struct bias_stack {
	u32 permille[BIAS_NR_COMPONENTS];
};

#define BIAS_STACK_SUM 1000u

/*
 * Return @permille limited to the bounds of a cost, so that it can be a
 * divisor.
 */
static inline u32 bias_cost_sanitize(u32 permille)
{
	if (permille < BIAS_COST_BEST)
		return BIAS_COST_BEST;
	if (permille > BIAS_COST_MAX)
		return BIAS_COST_MAX;
	return permille;
}

/*
 * Return the time of a unit of work on a CPU with cost @cost [permille of the
 * time on the reference CPU]. @stack is the work's CPI stack on the reference
 * CPU.
 */
static inline u32 bias_time_permille(const struct bias_stack *stack, const struct bias_cost *cost)
{
	u64 sum = 0;

	for (int k = 0; k < BIAS_NR_COMPONENTS; k++)
		sum += (u64)stack->permille[k] * bias_cost_sanitize(cost->permille[k]);
	return sum / BIAS_STACK_SUM;
}

/*
 * Return how many times faster the work of @stack runs on @fast than on @slow
 * [permille]; 1000 for an empty CPI stack.
 */
static inline u32 bias_speedup_permille(const struct bias_stack *stack, const struct bias_cost *slow,
					const struct bias_cost *fast)
{
	u64 on_fast = bias_time_permille(stack, fast);

	if (!on_fast)
		return BIAS_COST_BEST;
	return (u64)bias_time_permille(stack, slow) * BIAS_COST_BEST / on_fast;
}

/*
 * Make the shares of @stack sum to BIAS_STACK_SUM. An empty CPI stack becomes
 * pure execution, as is assumed for an unknown task. The largest share absorbs
 * the rounding.
 */
static inline void bias_stack_normalise(struct bias_stack *stack)
{
	u64 sum = 0;
	u32 left = BIAS_STACK_SUM, largest = 0;

	for (u32 k = 0; k < BIAS_NR_COMPONENTS; k++)
		sum += stack->permille[k];
	if (!sum) {
		stack->permille[BIAS_EXECUTE] = BIAS_STACK_SUM;
		return;
	}
	for (u32 k = 0; k < BIAS_NR_COMPONENTS; k++) {
		stack->permille[k] = (u64)stack->permille[k] * BIAS_STACK_SUM / sum;
		left -= stack->permille[k];
		if (stack->permille[k] > stack->permille[largest])
			largest = k;
	}
	/* Variable indices cost the verifier work, and a switch does not. */
	if (largest == BIAS_EXTERNAL)
		stack->permille[BIAS_EXTERNAL] += left;
	else if (largest == BIAS_INTERNAL)
		stack->permille[BIAS_INTERNAL] += left;
	else
		stack->permille[BIAS_EXECUTE] += left;
}

/*
 * Convert a CPI stack measured on a CPU with cost @cost to the reference CPU:
 * divide each share by its component's cost, then normalise.
 */
static inline void bias_stack_to_reference(struct bias_stack *stack, const struct bias_cost *cost)
{
	for (u32 k = 0; k < BIAS_NR_COMPONENTS; k++)
		stack->permille[k] =
		    (u64)stack->permille[k] * BIAS_COST_MAX / bias_cost_sanitize(cost->permille[k]);
	bias_stack_normalise(stack);
}

/*
 * Return the work done in @ran_ns on a CPU whose cost for it is @cost_permille,
 * as time on the reference CPU [ns]. It overflows only for runs of 200 days.
 */
static inline u64 bias_reference_ns(u64 ran_ns, u32 cost_permille)
{
	return ran_ns * BIAS_COST_BEST / bias_cost_sanitize(cost_permille);
}

#endif
