/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Costs: what a unit of work of each component costs on a CPU.
 *
 * Problem
 * With one figure per CPU, memory-bound tasks speed up like compute-bound ones.
 *
 * Approach
 * A CPU has one cost per component k: the time for a unit of k, relative to the
 * CPU that is best at k [permille]. A task is a CPI stack, the shares of its
 * cycles by component [permille]. Its time is the sum over k of
 * stack[k] * cost[k] / 1000, and its speedup a ratio of two times.
 *
 * Invariants
 * A cost is at least 1000 after bias_cost_sanitize(). Shares sum to 1000 after
 * bias_stack_normalise(). Sane inputs cause no division by zero or overflow.
 *
 * Limits
 * Components are additive: misses that overlap with execution cost what they
 * cost when the CPI stack was measured [Koufaty10].
 */
#ifndef BIAS_COST_H
#define BIAS_COST_H

#include "types.h"

enum bias_component {
	BIAS_EXECUTE,  /* cycles that retire instructions */
	BIAS_INTERNAL, /* stalls in the core: branches, TLB, private caches */
	BIAS_EXTERNAL, /* stalls outside the core: shared caches, memory */
	BIAS_NR_COMPONENTS,
};

#define BIAS_COST_BEST 1000u /* permille of the reference CPU */
#define BIAS_COST_MAX  64000u

struct bias_cost {
	u32 permille[BIAS_NR_COMPONENTS];
};

struct bias_stack {
	u32 permille[BIAS_NR_COMPONENTS];
};

#define BIAS_STACK_SUM 1000u

/* Limit @permille to the bounds of a cost, so that it can be a divisor. */
static inline u32 bias_cost_sanitize(u32 permille)
{
	if (permille < BIAS_COST_BEST)
		return BIAS_COST_BEST;
	if (permille > BIAS_COST_MAX)
		return BIAS_COST_MAX;
	return permille;
}

/* Return the time on a CPU of @cost of work with reference CPI stack @stack. */
static inline u32 bias_time_permille(const struct bias_stack *stack, const struct bias_cost *cost)
{
	u64 sum = 0;

	for (int k = 0; k < BIAS_NR_COMPONENTS; k++)
		sum += (u64)stack->permille[k] * bias_cost_sanitize(cost->permille[k]);
	return sum / BIAS_STACK_SUM;
}

/* Return the time on @slow over that on @fast [permille]; 1000 if empty. */
static inline u32 bias_speedup_permille(const struct bias_stack *stack, const struct bias_cost *slow,
					const struct bias_cost *fast)
{
	u64 on_fast = bias_time_permille(stack, fast);

	if (!on_fast)
		return BIAS_COST_BEST;
	return (u64)bias_time_permille(stack, slow) * BIAS_COST_BEST / on_fast;
}

/* An empty stack becomes pure execution. The largest share absorbs rounding. */
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

static inline void bias_stack_to_reference(struct bias_stack *stack, const struct bias_cost *cost)
{
	for (u32 k = 0; k < BIAS_NR_COMPONENTS; k++)
		stack->permille[k] =
		    (u64)stack->permille[k] * BIAS_COST_MAX / bias_cost_sanitize(cost->permille[k]);
	bias_stack_normalise(stack);
}

/* Convert @ran_ns to reference time [ns]. Runs of 200 days overflow. */
static inline u64 bias_reference_ns(u64 ran_ns, u32 cost_permille)
{
	return ran_ns * BIAS_COST_BEST / bias_cost_sanitize(cost_permille);
}

#endif
