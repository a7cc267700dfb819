/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Classification: the class of CPUs that a task belongs on, and how far
 * fairness overrules it.
 *
 * Problem
 * The fast CPUs should run the tasks that gain most from them, in any mix. Yet
 * a task that gains little must not wait for ever behind tasks that gain more.
 *
 * Approach
 * Each tick moves the average speedup by that of the running task. The band
 * beyond which tasks have a bias moves with the average. Bias is evaluated
 * whenever a task is queued, and kept for hysteresis after each full window. A
 * slow-biased task waits in the slow DSQ and prefers an idle slow CPU. All
 * other tasks wait in the fast DSQ. A CPU serves the DSQ of its own class
 * first, but steals from the other if the lag there exceeds steal_lag_ns. So
 * DSQs of any lengths advance together. No task is late by more than that gap
 * and the order of its own DSQ. Where no DSQ fills, move.bpf.h swaps running
 * tasks.
 *
 * Invariants
 * Without counters every task is unbiased, and only affinity can send a task to
 * the slow DSQ. A CPU that may run a task serves the DSQ in which the task
 * waits.
 *
 * Limits
 * The average lags by about 32 ticks, counted over all CPUs. Under partial load
 * it is the average of running tasks, not of all tasks that could run.
 */
#ifndef BIAS_CLASSIFY_BPF_H
#define BIAS_CLASSIFY_BPF_H

#include "access.bpf.h"

/*
 * Move the average and the band at a tick that saw the task of @cpu run. CPUs
 * may race: a lost step is small, and later ticks make up for it. Return 0.
 * This function is global so that the verifier checks it once.
 */
__noinline int average_tick(s32 cpu)
{
	u32 speedup = cpu_ctx_of(cpu)->run_speedup, average, high;

	if (!speedup || speedup == BIAS_SPEEDUP_SPINS)
		return 0;
	average = bias_average_step(READ_ONCE(average_speedup), speedup);
	write_if_changed(&average_speedup, average);
	/*
	 * Write a fixed band, too: the agent may have fixed it while another
	 * CPU wrote an adaptive one.
	 */
	high = fixed_high;
	write_if_changed(&band_low, high ? fixed_low : bias_band_low(average));
	write_if_changed(&band_high, high ? high : bias_band_high(average));
	return 0;
}

/*
 * Return the speedup of the task of @tctx [permille]: that of its hint, or else
 * the predicted one, 0 if unknown.
 */
static __always_inline u32 speedup_of(const struct task_ctx *tctx)
{
	return tctx->hint_speedup ?: tctx->profile.speedup_permille;
}

/* Return true if the task of @tctx needs no count of every interval. */
static __always_inline bool is_settled(const struct task_ctx *tctx)
{
	return bias_profile_stable(&tctx->profile) && !tctx->spun;
}

/* Return the bias of the task of @tctx. */
static __always_inline u32 bias_of(const struct task_ctx *tctx)
{
	if (!tctx)
		return BIAS_UNBIASED;
	return bias_classify(tctx->profile.bias, speedup_of(tctx), READ_ONCE(band_low), READ_ONCE(band_high));
}

/* Keep the bias of the task of @tctx, for hysteresis, after a full window. */
static __always_inline void note_bias(struct task_ctx *tctx)
{
	u32 bias = bias_of(tctx);

	if (bias != tctx->profile.bias) {
		tctx->profile.bias = bias;
		stat_inc(BIAS_STAT_BIAS_CHANGES);
	}
}

/*
 * Return true if @cpu is of the tier of its class that is least like the other
 * class, and the other tier of its class has CPUs too: the best of all CPUs, or
 * the worst.
 */
static __always_inline bool is_outer_tier(s32 cpu)
{
	u32 tier = tier_of(cpu);

	return tier == BIAS_NR_CLASSES * BIAS_CLASS_TIERS - 1 ||
	       (!tier && tiers_used[READ_ONCE(table_seq) & 1] >> 1 & 1 && !is_near_tier(1));
}

/*
 * Return the cross-class penalty [ns] that @cpu adds to the vtime of a task of
 * class @cpu_class. A task of the other class goes first only if its lag
 * exceeds the penalty. CPUs of an outer tier wait twice as long, so that those
 * between them serve the tasks of both classes.
 */
static __always_inline u64 cross_class_penalty_ns(s32 cpu, u32 cpu_class)
{
	if (cpu_class == class_of(cpu))
		return 0;
	return steal_lag_ns << is_outer_tier(cpu);
}

#endif
