/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Placement by bias: which class of CPUs a task belongs on, and how far fairness overrules that.
 *
 * Problem. The fast CPUs should run whoever gains most from them, whatever the mix; yet a task that gains little
 * must not wait for ever behind ones that gain more.
 *
 * Approach. At each tick the speedup of the running task moves the machine's average, and with it the band beyond
 * which tasks are FAST or SLOW. Kinds are told anew whenever a task is queued. A SLOW task waits in the slow
 * queue and prefers an idle slow CPU, all others wait in the fast queue; a CPU serves its own class's queue
 * first. What belongs to the other class goes first all the same if it is further behind than borrow_gap_ns: so
 * two queues of any lengths advance together, and nobody is more than that gap and the queue's own order late.
 * Where no queue forms, move.bpf.h swaps who runs.
 *
 * Who wakes on a full machine displaces somebody for a moment. If it gains less itself than who runs where it slept, that should be
 * whoever gains least, not whoever happens to run where it slept: kernel threads and daemons are so kept off the
 * fast CPUs while these are busy (seed 002: noise on one slow core). Slow CPUs offer themselves at their ticks.
 * Any other sleeper that is owed enough goes where somebody is ahead by enough to make way for it: where it slept, or, from a
 * slow CPU, where somebody is ahead the most, which fast CPUs' tasks are. Should all be behind, it waits in a queue, and the first CPU whose task gets ahead of it takes it at the next tick.
 *
 * Invariants. Without counters every task is NEUTRAL, there is one queue in use, and nothing here changes anything.
 * A task waits only in queues of CPUs it may run on.
 *
 * Limits. The average lags by some 32 ticks of one CPU. Under partial load it is the average of what runs, not of
 * what could.
 */
#ifndef BIAS_PLACE_BPF_H
#define BIAS_PLACE_BPF_H

#include "state.bpf.h"

/* A tick saw the task of @cctx run: move the average and the band. CPUs may race; a lost step comes again. */
static __always_inline void average_tick(const struct cpu_ctx *cctx)
{
	u32 average, high;

	if (!cctx->run_speedup)
		return;
	average = bias_average_step(READ_ONCE(average_speedup), cctx->run_speedup);
	WRITE_ONCE(average_speedup, average);
	/* Fixed ones are written, too: the agent may have fixed them while another CPU wrote those that adapt. */
	high = fixed_high;
	WRITE_ONCE(band_low, high ? fixed_low : bias_band_low(average));
	WRITE_ONCE(band_high, high ? high : bias_band_high(average));
}

/* The kind of the task of @tctx, told anew. */
static __always_inline u32 kind_of(struct task_ctx *tctx)
{
	u32 kind;

	if (!tctx || !tctx->profile.speedup_permille)
		return BIAS_KIND_NEUTRAL;
	kind = bias_classify(tctx->profile.kind, tctx->profile.speedup_permille, READ_ONCE(band_low),
			     READ_ONCE(band_high));
	if (kind != tctx->profile.kind) {
		tctx->profile.kind = kind;
		stat_inc(BIAS_STAT_KIND_CHANGES);
	}
	return kind;
}

/* Slow CPU @cpu ticks: is it the one to disturb? */
static __always_inline void offer_spare(s32 cpu, const struct cpu_ctx *cctx)
{
	u32 spare = READ_ONCE(spare_cpu);

	if (spare != cpu + 1 &&
	    (!spare || !cpu_is_slow(spare - 1) || cctx->run_speedup < cpu_ctx_of(spare - 1)->run_speedup))
		WRITE_ONCE(spare_cpu, cpu + 1);
}

/* Would @p, woken on a CPU where a task of speedup @running runs, be the one to gain less there? */
static __always_inline bool gains_less(struct task_struct *p, u32 running)
{
	struct task_ctx *tctx;

	/* Kernel threads are not counted; they are short, and nobody waits for their speed. */
	if (p->flags & PF_KTHREAD)
		return true;
	tctx = task_ctx_of(p);
	return tctx && bias_gains_more(running, tctx->profile.speedup_permille, gain_permille);
}

/* Where @p should wake instead of the busy @prev: a slow CPU whose task gains clearly less, or @prev. */
static __always_inline s32 least_disturbed(struct task_struct *p, s32 prev)
{
	s32 spare = (s32)READ_ONCE(spare_cpu) - 1;
	u32 running = cpu_ctx_of(prev)->run_speedup;

	if (spare < 0 || cpu_is_slow(prev) || !cpu_is_slow(spare) ||
	    cpu_info_of(spare)->node != cpu_info_of(prev)->node ||
	    !bias_gains_more(running, cpu_ctx_of(spare)->run_speedup, gain_permille) ||
	    !bpf_cpumask_test_cpu(spare, p->cpus_ptr) || scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | spare) ||
	    !gains_less(p, running))
		return prev;
	return spare;
}

/* How many CPUs a sleeper looks at for somebody to displace. */
#define MAX_DISPLACE 16

/* Does a sleeper of @vtime displace who runs on the CPU of @cctx? */
static __always_inline bool displaces(u64 vtime, const struct cpu_ctx *cctx)
{
	return (cctx->run_flags & RUN_BUSY) && bias_goes_before(vtime, cctx->run_vtime, slice_ns);
}

/* The CPU of @prev's LLC whose task is furthest ahead of @p, a sleeper of @vtime, and makes way for it; or @prev. */
static __always_inline s32 most_ahead(struct task_struct *p, s32 prev, u64 vtime)
{
	u32 nr = nr_cpus, i;
	u64 most = vtime;
	s32 found = prev;

	if (!nr || nr > BIAS_MAX_CPUS)
		return prev;
	bpf_for(i, 1, nr < MAX_DISPLACE ? nr : MAX_DISPLACE) {
		s32 cpu = bounded(((u32)prev + i) % nr, BIAS_MAX_CPUS);
		const struct cpu_ctx *cctx = cpu_ctx_of(cpu);

		if (llc_of(cpu) != llc_of(prev) || !displaces(vtime, cctx) ||
		    !bias_vtime_before(most, cctx->run_vtime) || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		most = cctx->run_vtime;
		found = cpu;
	}
	return found;
}

/* Where @p, which slept on @prev and finds no idle CPU, should be enqueued. */
static __always_inline s32 busy_cpu_for(struct task_struct *p, s32 prev)
{
	u64 vtime = bias_wakeup_vtime(p->scx.dsq_vtime, vtime_now, slice_ns);
	s32 cpu = counting ? least_disturbed(p, prev) : prev;

	/* Who is not owed more than the average displaces nobody elsewhere; most wakeups end here. */
	if (cpu != prev || !bias_goes_before(vtime, vtime_now, slice_ns))
		return cpu;
	if (displaces(vtime, cpu_ctx_of(prev)) &&
	    (!cpu_is_slow(prev) || kind_of(task_ctx_of(p)) == BIAS_KIND_SLOW))
		return prev;
	return most_ahead(p, prev, vtime);
}

/*
 * How far ahead in vtime a task of class @class_ counts on @cpu when it is compared with others: who belongs to
 * the other class goes first only if it is behind by more than the gap.
 */
static __always_inline u64 class_handicap(s32 cpu, u32 class_)
{
	u32 own = class_of(cpu);

	return class_ == own ? 0 : borrow_gap_ns;
}

#endif
