/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Preemption: which task a wakee preempts, and which waker keeps its wakee.
 *
 * Problem
 * A wakeup that finds no idle CPU takes one from a running task, or waits. The
 * wrong victim costs a task its fast CPU, and a pair of tasks its cache.
 *
 * Approach
 * A wakee that gains less than the task on its previous CPU preempts a nominee.
 * That is a task that gains clearly less, on a slow CPU that nominated itself
 * at a tick. So kthreads and daemons keep off busy fast CPUs [Grant06].
 *
 * Any other wakee preempts a task far enough ahead of it. A fast previous CPU,
 * or any of a slow-biased wakee, goes before others of the LLC. Or the wakee
 * waits until a CPU ticks whose task is ahead. forgive_sleep() helps a task
 * that uses less than its share, a frame at a time: it lags by its sleep only.
 *
 * Invariants
 * A wakee preempts only a task half a slice ahead of it or more, where no other
 * is about to run. A pinned kthread preempts even a task up to a slice behind.
 *
 * Limits
 * A search for a victim visits MAX_VICTIMS CPUs of one LLC.
 */
#ifndef BIAS_PREEMPT_BPF_H
#define BIAS_PREEMPT_BPF_H

#include "access.bpf.h"
#include "classify.bpf.h"
#include "optin.bpf.h"
#include "queue.bpf.h"
#include "search.bpf.h"

static __always_inline void nominate_victim(s32 cpu, const struct cpu_ctx *cctx)
{
	u32 victim = READ_ONCE(victim_cpu);

	if (victim != cpu + 1 &&
	    (!victim || !cpu_is_slow(victim - 1) || cctx->run_speedup < cpu_ctx_of(victim - 1)->run_speedup))
		WRITE_ONCE(victim_cpu, cpu + 1);
}

static __always_inline bool gains_less(struct task_struct *p, u32 running)
{
	struct task_ctx *tctx;

	/* Kthreads are not counted: short, and their speed matters little. */
	if (p->flags & PF_KTHREAD)
		return true;
	tctx = task_ctx_of(p);
	return tctx && bias_gains_more(running, speedup_of(tctx), gain_permille);
}

/*
 * Return the nominated CPU if its task and @p gain clearly less than the task
 * on @prev, else @prev.
 */
static __always_inline s32 nominated_victim(struct task_struct *p, s32 prev)
{
	s32 victim = (s32)READ_ONCE(victim_cpu) - 1;
	u32 running = cpu_ctx_of(prev)->run_speedup;

	if (victim < 0 || cpu_is_slow(prev) || !cpu_is_slow(victim) ||
	    cpu_info_of(victim)->node != cpu_info_of(prev)->node ||
	    !bias_gains_more(running, cpu_ctx_of(victim)->run_speedup, gain_permille) ||
	    !bpf_cpumask_test_cpu(victim, p->cpus_ptr) || scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | victim) ||
	    !gains_less(p, running))
		return prev;
	return victim;
}

#define MAX_VICTIMS 8

/* A task in the local DSQ is about to run: other wakees take other CPUs. */
static __always_inline bool should_preempt(u64 vtime, s32 cpu)
{
	const struct cpu_ctx *cctx = cpu_ctx_of(cpu);

	return (cctx->run_flags & RUN_BUSY) && bias_goes_before(vtime, cctx->run_vtime, slice_ns) &&
	       !scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu);
}

__noinline s32 find_victim(struct task_struct *p __arg_trusted, s32 prev, u64 vtime)
{
	s32 cpu = prev;
	u32 i;

	for_each_near(i, cpu, prev, MAX_VICTIMS) {
		if (should_preempt(vtime, cpu) && bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			return cpu;
	}
	return prev;
}

/*
 * A sleep forgives one in FORGIVE_PART of its time, up to a part of the last
 * run. Else a task that sleeps six times as long would run at no charge.
 */
#define FORGIVE_PART 6

__noinline int forgive_sleep(struct task_struct *p __arg_trusted)
{
	struct task_ctx *tctx = task_ctx_of(p);
	u64 forgiven_ns;

	if (!tctx || !tctx->slept_ns)
		return 0;
	forgiven_ns = (bpf_ktime_get_ns() - tctx->slept_ns) / FORGIVE_PART;
	if (forgiven_ns > tctx->forgivable_ns)
		forgiven_ns = tctx->forgivable_ns;
	tctx->slept_ns = 0;
	scx_bpf_task_set_dsq_vtime(p, p->scx.dsq_vtime -
					  bias_charge(forgiven_ns, p->scx.weight << BIAS_WEIGHT_SHIFT));
	return 0;
}

static __always_inline s32 pick_victim_cpu(struct task_struct *p, s32 prev)
{
	u64 vtime = p->scx.dsq_vtime, now = READ_ONCE(vtime_now);
	s32 cpu = counting ? nominated_victim(p, prev) : prev;

	/*
	 * While no task waits, running tasks lead the global vtime by up to
	 * the rotation gap. Most wakeups end here.
	 */
	if (two_classes && !any_waiting())
		now += rotate_gap_ns;
	if (cpu != prev || !bias_goes_before(vtime, now, slice_ns))
		return cpu;
	if (should_preempt(vtime, prev) &&
	    (!cpu_is_slow(prev) || bias_of(task_ctx_of(p)) == BIAS_SLOW_BIASED))
		return prev;
	return find_victim(p, prev, vtime);
}

#define SYNC_TIMED_EVERY 4

/* Time a synchronous wakeup: account_stop() sees how long the waker runs on. */
static __always_inline void note_sync(struct cpu_ctx *cctx)
{
	if (!(++cctx->sync_wakeups % SYNC_TIMED_EVERY))
		cctx->woke_ns = bpf_ktime_get_ns();
}

/*
 * Return true if the waker on @cpu may leave it to @p. The CPU's tasks must
 * tend to sleep soon, and at once after a wakeup. No waiting task may be more
 * than a slice behind @p. If any waiting task sent @p to a DSQ, partners would
 * wait for each other there. While partners wake each other here, the kernel
 * does not call ops.dispatch, so the DSQ would never drain.
 */
static __always_inline bool keep_with_waker(struct task_struct *p, s32 cpu)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);

	return cctx->burst_ns < sync_burst_ns && cctx->after_ns < sync_burst_ns / LONG_RUN_PART &&
	       !(cctx->run_flags & (RUN_TICKED | RUN_UNTICKED)) &&
	       (!is_restricted(p) || bpf_cpumask_test_cpu(cpu, p->cpus_ptr)) &&
	       !scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu) &&
	       !due_before(cpu, cctx, p->scx.dsq_vtime - slice_ns);
}

/* Return true if @p is less than a slice ahead of the CPU's running task. */
static __always_inline bool is_level(const struct task_struct *p, const struct cpu_ctx *cctx)
{
	return !(cctx->run_flags & RUN_BUSY) ||
	       bias_vtime_before(p->scx.dsq_vtime, cctx->run_vtime + slice_ns);
}

/* While local tasks wait, the kernel does not call ops.dispatch, to unpark. */
static __always_inline bool may_go_first(const struct task_struct *p, s32 cpu, const struct cpu_ctx *cctx)
{
	return !shared_waiting(llc_of(cpu)) && !pinned_waiting(cpu, cctx) && is_level(p, cctx) &&
	       (READ_ONCE(nr_parked) <= 0 || !scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu));
}

#endif
