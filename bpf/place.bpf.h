/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Placement by bias: the class of CPUs that a task belongs on, and how far
 * fairness overrules it.
 *
 * Problem
 * The fast CPUs should run the tasks that gain most from them, in any mix. Yet
 * a task that gains little must not wait for ever behind tasks that gain more.
 *
 * Approach
 * Each tick moves the average speedup by that of the running task. The band
 * beyond which tasks have a bias moves with the average. Bias is evaluated
 * whenever a task is queued. A slow-biased task waits in the slow DSQ and
 * prefers an idle slow CPU. All other tasks wait in the fast DSQ. A CPU serves
 * the DSQ of its own class first, but steals from the other if the lag there
 * exceeds borrow_gap_ns. So DSQs of any lengths advance together. No task is
 * late by more than that gap and the order of its own DSQ. Where no DSQ fills,
 * move.bpf.h swaps running tasks.
 *
 * A task that wakes while no CPU idles preempts another one for a moment. If
 * the wakee gains less than the task on its previous CPU, a task that gains
 * clearly less should be the victim instead. This keeps kthreads and daemons
 * off busy fast CPUs: housekeeping belongs on slow CPUs [Grant06]. Slow CPUs
 * nominate themselves as victims at their ticks.
 *
 * Any other wakee with enough lag preempts a task that is far enough ahead of
 * it. It preempts on its previous CPU if that is fast or the wakee is
 * slow-biased. Otherwise it chooses the CPU of its LLC whose task is furthest
 * ahead, usually a fast one. If no task is far enough ahead, the wakee waits in
 * a DSQ. The first CPU whose task gets ahead of it takes it at its next tick.
 *
 * Invariants
 * Without counters every task is unbiased, and only affinity can send a task to
 * the slow DSQ. A CPU that may run a task serves the DSQ in which the task
 * waits.
 *
 * Limits
 * The average lags by about 32 ticks, counted over all CPUs. Under partial load
 * it is the average of running tasks, not of all tasks that could run. A search
 * for a victim visits MAX_DISPLACE CPUs of one LLC.
 */
#ifndef BIAS_PLACE_BPF_H
#define BIAS_PLACE_BPF_H

#include "state.bpf.h"

/*
 * Move the average and the band at a tick that saw the task of @cctx run. CPUs
 * may race: a lost step is small, and later ticks make up for it.
 */
static __always_inline void average_tick(const struct cpu_ctx *cctx)
{
	u32 average, high;

	if (!cctx->run_speedup)
		return;
	average = bias_average_step(READ_ONCE(average_speedup), cctx->run_speedup);
	WRITE_ONCE(average_speedup, average);
	/*
	 * Write a fixed band, too: the agent may have fixed it while another
	 * CPU wrote an adaptive one.
	 */
	high = fixed_high;
	WRITE_ONCE(band_low, high ? fixed_low : bias_band_low(average));
	WRITE_ONCE(band_high, high ? high : bias_band_high(average));
}

/* Evaluate, store and return the bias of the task of @tctx. */
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

/*
 * Nominate the slow CPU @cpu as victim at its tick, if its task gains less than
 * that of the present victim.
 */
static __always_inline void offer_spare(s32 cpu, const struct cpu_ctx *cctx)
{
	u32 spare = READ_ONCE(spare_cpu);

	if (spare != cpu + 1 &&
	    (!spare || !cpu_is_slow(spare - 1) || cctx->run_speedup < cpu_ctx_of(spare - 1)->run_speedup))
		WRITE_ONCE(spare_cpu, cpu + 1);
}

/*
 * Return true if @p gains less than the task of speedup @running, which runs
 * where @p would wake.
 */
static __always_inline bool gains_less(struct task_struct *p, u32 running)
{
	struct task_ctx *tctx;

	/*
	 * Kthreads are not counted. They are short, and their speed matters
	 * little.
	 */
	if (p->flags & PF_KTHREAD)
		return true;
	tctx = task_ctx_of(p);
	return tctx && bias_gains_more(running, tctx->profile.speedup_permille, gain_permille);
}

/*
 * Return where @p should wake while @prev is busy: on the nominated slow CPU if
 * its task and @p both gain clearly less than @prev's. Else return @prev.
 */
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

/* CPUs that a search for a victim visits at most, @prev included. */
#define MAX_DISPLACE 16

/* Return true if a wakee of @vtime preempts the task on the CPU of @cctx. */
static __always_inline bool displaces(u64 vtime, const struct cpu_ctx *cctx)
{
	return (cctx->run_flags & RUN_BUSY) && bias_goes_before(vtime, cctx->run_vtime, slice_ns);
}

/*
 * Return the CPU of @prev's LLC whose task is furthest ahead of @p, a wakee of
 * @vtime, and far enough to be preempted. Return @prev if there is none.
 */
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

/*
 * Return the CPU on which to enqueue @p, which slept on @prev and finds no idle
 * CPU.
 */
static __always_inline s32 busy_cpu_for(struct task_struct *p, s32 prev)
{
	u64 vtime = bias_wakeup_vtime(p->scx.dsq_vtime, vtime_now, slice_ns);
	s32 cpu = counting ? least_disturbed(p, prev) : prev;

	/*
	 * A wakee less than half a slice behind the global vtime preempts no
	 * task elsewhere. Most wakeups end here.
	 */
	if (cpu != prev || !bias_goes_before(vtime, vtime_now, slice_ns))
		return cpu;
	if (displaces(vtime, cpu_ctx_of(prev)) &&
	    (!cpu_is_slow(prev) || kind_of(task_ctx_of(p)) == BIAS_KIND_SLOW))
		return prev;
	return most_ahead(p, prev, vtime);
}

/*
 * Return the cross-class penalty [ns] that @cpu adds to the vtime of a task of
 * class @class_. A task of the other class goes first only if its lag exceeds
 * the gap.
 */
static __always_inline u64 class_handicap(s32 cpu, u32 class_)
{
	u32 own = class_of(cpu);

	return class_ == own ? 0 : borrow_gap_ns;
}

#endif
