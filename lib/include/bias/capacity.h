/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Capacity is a vector: what one unit of each kind of work costs on a CPU.
 *
 * Problem. A single number per CPU prices a memory-bound task as if it sped up like a compute-bound
 * one.
 *
 * Approach. cost[c][k] is the time CPU c needs for one unit of component k, relative to the CPU that is
 * best at k, in permille: 1000 is the best CPU, 2500 needs two and a half times as long. A task is a
 * CPI stack, the shares of its cycles by component, in permille. Time is their product, and speedup is
 * a ratio of times.
 *
 * Invariants. A cost is never below 1000 after bias_cost_sanitize(); shares sum to 1000 after
 * bias_stack_normalise(); for sane inputs no function divides by zero or overflows 64 bits.
 *
 * Limits. Components are taken as additive: overlap of misses with execution is priced as measured when
 * the stack was taken (seed 001, "CPI stack").
 */
#ifndef BIAS_CAPACITY_H
#define BIAS_CAPACITY_H

#include "types.h"

/* Components of a CPI stack. */
enum bias_component {
	BIAS_EXECUTE,  /* cycles that retire instructions */
	BIAS_INTERNAL, /* stalls inside the core: mispredicted branches, TLB, private caches */
	BIAS_EXTERNAL, /* stalls outside the core: shared caches, memory */
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

#define BIAS_STACK_SUM 1000u

/* A cost that can be divided by: anything below the best or above the bound is brought to it. */
static inline u32 bias_cost_sanitize(u32 permille)
{
	if (permille < BIAS_COST_BEST)
		return BIAS_COST_BEST;
	if (permille > BIAS_COST_MAX)
		return BIAS_COST_MAX;
	return permille;
}

/*
 * Time of one unit of work with stack @stack on a CPU with cost @cost [permille of the time it would
 * take on a CPU that is best at everything]: the design's sum over k of stack[k] * cost[k]. @stack is
 * as seen on the reference CPU.
 */
static inline u32 bias_time_permille(const struct bias_stack *stack, const struct bias_cost *cost)
{
	u64 sum = 0;

	for (int k = 0; k < BIAS_NR_COMPONENTS; k++)
		sum += (u64)stack->permille[k] * bias_cost_sanitize(cost->permille[k]);
	return sum / BIAS_STACK_SUM;
}

/* How many times faster @stack's work runs on @fast than on @slow [permille]; 1000 for an empty stack. */
static inline u32 bias_speedup_permille(const struct bias_stack *stack, const struct bias_cost *slow,
					const struct bias_cost *fast)
{
	u64 on_fast = bias_time_permille(stack, fast);

	if (!on_fast)
		return BIAS_COST_BEST;
	return (u64)bias_time_permille(stack, slow) * BIAS_COST_BEST / on_fast;
}

/*
 * Make the shares of @stack sum to BIAS_STACK_SUM. An empty stack becomes pure execution, the
 * assumption for a task about which nothing is known. Rounding is given to the largest share.
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
	/* Variable indices cost the verifier; a switch costs nothing. */
	if (largest == BIAS_EXTERNAL)
		stack->permille[BIAS_EXTERNAL] += left;
	else if (largest == BIAS_INTERNAL)
		stack->permille[BIAS_INTERNAL] += left;
	else
		stack->permille[BIAS_EXECUTE] += left;
}

/*
 * Convert a stack measured on a CPU with cost @cost to the reference CPU: each share shrinks by what
 * that component costs there, then the shares are made to sum again (design, "Bias is their product").
 */
static inline void bias_stack_to_reference(struct bias_stack *stack, const struct bias_cost *cost)
{
	for (u32 k = 0; k < BIAS_NR_COMPONENTS; k++)
		stack->permille[k] =
		    (u64)stack->permille[k] * BIAS_COST_MAX / bias_cost_sanitize(cost->permille[k]);
	bias_stack_normalise(stack);
}

/*
 * Work done in @ran_ns on a CPU whose cost for that work is @cost_permille, as the time the best CPU
 * would have needed [ns]. Overflows only for runs of 200 days.
 */
static inline u64 bias_reference_ns(u64 ran_ns, u32 cost_permille)
{
	return ran_ns * BIAS_COST_BEST / bias_cost_sanitize(cost_permille);
}

#endif
