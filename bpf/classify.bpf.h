/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Classification: on which class of CPUs a task belongs, and what overrules it.
 *
 * Problem
 * The fast CPUs should run the tasks that gain most from them, in any mix. Yet
 * a task that gains little must not wait for ever behind tasks that gain more.
 *
 * Approach
 * Each tick moves the average speedup by that of the running task, and with it
 * the band beyond which tasks have a bias. A task is classified whenever it is
 * queued, with hysteresis after each full window. A slow-biased task waits in
 * the slow DSQ and prefers an idle slow CPU. CPUs steal from the other class at
 * a lag of steal_lag_ns: no task is late by more than that and its DSQ's order.
 *
 * Invariants
 * Without counters and hints every task is unbiased, and only affinity sends it
 * to the slow DSQ. A CPU that may run a task serves the DSQ in which it waits.
 *
 * Limits
 * The average lags by about 32 ticks, counted over all CPUs. Under partial load
 * it is that of running tasks, not of all that could run.
 */
#ifndef BIAS_CLASSIFY_BPF_H
#define BIAS_CLASSIFY_BPF_H

#include "access.bpf.h"

/* CPUs may race: a lost step is small, and later ticks make up for it. */
__noinline int average_tick(s32 cpu)
{
	u32 speedup = cpu_ctx_of(cpu)->run_speedup, average, high;

	if (!speedup || speedup == BIAS_SPEEDUP_SPINS)
		return 0;
	average = bias_average_step(READ_ONCE(average_speedup), speedup);
	write_if_changed(&average_speedup, average);
	/* Write a fixed band, too: another CPU may write an adaptive one. */
	high = fixed_high;
	write_if_changed(&band_low, high ? fixed_low : bias_band_low(average));
	write_if_changed(&band_high, high ? high : bias_band_high(average));
	return 0;
}

/* Return the speedup [permille]: hinted, else predicted; 0 if unknown. */
static __always_inline u32 speedup_of(const struct task_ctx *tctx)
{
	return tctx->hint_speedup ?: tctx->profile.speedup_permille;
}

/* Return true if the task of @tctx needs no count of every interval. */
static __always_inline bool is_settled(const struct task_ctx *tctx)
{
	return bias_profile_stable(&tctx->profile) && !tctx->spun;
}

static __always_inline u32 bias_of(const struct task_ctx *tctx)
{
	if (!tctx)
		return BIAS_UNBIASED;
	return bias_classify(tctx->profile.bias, speedup_of(tctx), READ_ONCE(band_low), READ_ONCE(band_high));
}

static __always_inline void note_bias(struct task_ctx *tctx)
{
	u32 bias = bias_of(tctx);

	if (bias != tctx->profile.bias) {
		tctx->profile.bias = bias;
		stat_inc(BIAS_STAT_BIAS_CHANGES);
	}
}

/* Return true for the best or worst CPUs of a class with two unlike tiers. */
static __always_inline bool is_outer_tier(s32 cpu)
{
	u32 tier = tier_of(cpu);

	return tier == BIAS_NR_CLASSES * BIAS_CLASS_TIERS - 1 ||
	       (!tier && tiers_used[READ_ONCE(table_seq) & 1] >> 1 & 1 && !is_near_tier(1));
}

/*
 * Return by how much [ns] a task of the other class must lag more. On outer
 * tiers it is twice as much, so that CPUs between serve both classes.
 */
static __always_inline u64 cross_class_penalty_ns(s32 cpu, u32 cpu_class)
{
	if (cpu_class == class_of(cpu))
		return 0;
	return steal_lag_ns << is_outer_tier(cpu);
}

#endif
