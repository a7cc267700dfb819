/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Preemption: which running task makes way for a wakee, and when a wakee waits
 * for its waker's CPU.
 *
 * Problem
 * A wakeup that finds no idle CPU takes one from a running task, or waits. The
 * wrong victim costs a task its fast CPU, and a pair of tasks its cache.
 *
 * Approach
 * If the wakee gains less than the task on its previous CPU, a task that gains
 * clearly less should be the victim instead. This keeps kthreads and daemons
 * off busy fast CPUs: housekeeping belongs on slow CPUs [Grant06]. Slow CPUs
 * nominate themselves as victims at their ticks.
 *
 * Any other wakee with enough lag preempts a task that is far enough ahead of
 * it. It preempts on its previous CPU if that is fast or the wakee is
 * slow-biased. Otherwise it chooses another CPU of its LLC whose task is far
 * enough ahead. If there is none, the wakee waits in a DSQ. The first CPU whose
 * task gets ahead of it takes it at its next tick.
 *
 * A task that uses less than its share, a frame at a time, lags only by its
 * sleep. A part of that is forgiven, so that it preempts (forgive_sleep()).
 *
 * A waker that sleeps at once leaves its CPU to its wakee (keep_with_waker()).
 *
 * Invariants
 * A wakee preempts only a task that is at least half a slice ahead of it, and
 * only if no other one is about to run there. A pinned kthread also preempts a
 * task that is less than a slice behind it.
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

/*
 * Nominate the slow CPU @cpu as victim at its tick, if its task gains less than
 * that of the present victim.
 */
static __always_inline void nominate_victim(s32 cpu, const struct cpu_ctx *cctx)
{
	u32 victim = READ_ONCE(victim_cpu);

	if (victim != cpu + 1 &&
	    (!victim || !cpu_is_slow(victim - 1) || cctx->run_speedup < cpu_ctx_of(victim - 1)->run_speedup))
		WRITE_ONCE(victim_cpu, cpu + 1);
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
	return tctx && bias_gains_more(running, speedup_of(tctx), gain_permille);
}

/*
 * Return where @p should wake while @prev is busy: on the nominated slow CPU if
 * its task and @p both gain clearly less than @prev's. Else return @prev.
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

/* CPUs that a search for a victim visits at most, @prev included. */
#define MAX_VICTIMS 8

/*
 * Return true if a wakee of @vtime preempts the task on @cpu. A task in the
 * local DSQ is about to run: of several wakees at once, each should preempt
 * another CPU.
 */
static __always_inline bool should_preempt(u64 vtime, s32 cpu)
{
	const struct cpu_ctx *cctx = cpu_ctx_of(cpu);

	return (cctx->run_flags & RUN_BUSY) && bias_goes_before(vtime, cctx->run_vtime, slice_ns) &&
	       !scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu);
}

/*
 * Return a CPU of @prev's LLC whose task @p preempts, a wakee of @vtime, or
 * @prev if there is none. This function is global so that the verifier checks
 * it once.
 */
__noinline s32 find_victim(struct task_struct *p __arg_trusted, s32 prev, u64 vtime)
{
	u32 nr = nr_cpus, i;

	if (!nr || nr > BIAS_MAX_CPUS)
		return prev;
	bpf_for(i, 1, nr < MAX_VICTIMS ? nr : MAX_VICTIMS) {
		s32 cpu = bounded(((u32)prev + i) % nr, BIAS_MAX_CPUS);

		/* Other LLCs' CPUs write what they publish under their own. */
		if (llc_of(cpu) == llc_of(prev) && should_preempt(vtime, cpu) &&
		    bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			return cpu;
	}
	return prev;
}

/*
 * A task that sleeps is forgiven one in FORGIVE_PART of that time, but no more
 * than a part of its last run (account_stop()): else a task that sleeps six
 * times as long as it runs would run at no charge, whatever its weight.
 */
#define FORGIVE_PART 6

/*
 * Set back the vtime of the wakee @p, which finds no idle CPU, for its sleep
 * after a run that was not brief. Return 0. This function is global so that the
 * verifier checks it once.
 */
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

/*
 * Return the CPU on which to enqueue @p, which slept on @prev and finds no idle
 * CPU.
 */
static __always_inline s32 pick_victim_cpu(struct task_struct *p, s32 prev)
{
	bool waiting = any_waiting();
	u64 now = waiting ? joined_now(p, prev) : READ_ONCE(vtime_now);
	u64 vtime = bias_wakeup_vtime(p->scx.dsq_vtime, now, slice_ns);
	s32 cpu = counting ? nominated_victim(p, prev) : prev;

	/*
	 * A wakee less than half a slice behind the global vtime preempts no
	 * task elsewhere. Most wakeups end here. While no task waits, running
	 * tasks lead the global vtime by as much as rotation allows.
	 */
	if (!waiting && two_classes)
		now += rotate_gap_ns;
	if (cpu != prev || !bias_goes_before(vtime, now, slice_ns))
		return cpu;
	if (should_preempt(vtime, prev) &&
	    (!cpu_is_slow(prev) || bias_of(task_ctx_of(p)) == BIAS_SLOW_BIASED))
		return prev;
	return find_victim(p, prev, vtime);
}

/*
 * A waker may keep its wakee if it runs on for less than this part of
 * sync_burst_ns. A longer run is worth another CPU for the wakee.
 */
#define SYNC_AFTER_PART 5

/* One in SYNC_TIMED_EVERY synchronous wakeups is timed. */
#define SYNC_TIMED_EVERY 4

/*
 * Note when the running task of @cctx makes a synchronous wakeup, if this one
 * is timed. account_stop() computes for how long the task ran on.
 */
static __always_inline void note_sync(struct cpu_ctx *cctx)
{
	if (!(++cctx->sync_wakeups % SYNC_TIMED_EVERY))
		cctx->woke_ns = bpf_ktime_get_ns();
}

/*
 * Return true if the waker on @cpu may leave its CPU to @p. The CPU's tasks
 * must tend to sleep soon, and at once after they wake another task. No waiting
 * task may be more than a slice behind @p.
 *
 * While partners wake each other here, the kernel does not call ops.dispatch. A
 * stricter rule, by which any waiting task sends @p to a DSQ, would separate
 * the partners. They would wait for each other there, and the DSQ would never
 * drain.
 */
static __always_inline bool keep_with_waker(struct task_struct *p, s32 cpu)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);

	return cctx->burst_ns < sync_burst_ns && cctx->after_ns < sync_burst_ns / SYNC_AFTER_PART &&
	       !(cctx->run_flags & (RUN_TICKED | RUN_UNTICKED)) &&
	       (!is_restricted(p) || bpf_cpumask_test_cpu(cpu, p->cpus_ptr)) &&
	       !scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu) &&
	       !due_before(cpu, cctx,
			   bias_wakeup_vtime(p->scx.dsq_vtime, competing_now(p, cpu), slice_ns) - slice_ns);
}

/*
 * Return true if @p, which wakes on the CPU of @cctx, is less than a slice ahead
 * of the task that runs there.
 */
static __always_inline bool is_level(const struct task_struct *p, const struct cpu_ctx *cctx)
{
	return !(cctx->run_flags & RUN_BUSY) ||
	       bias_vtime_before(p->scx.dsq_vtime, cctx->run_vtime + slice_ns);
}

/*
 * Return true if @p, which wakes on @cpu, may go to its local DSQ. No task may
 * wait for @cpu, and @p must be level with the running task.
 */
static __always_inline bool may_go_first(const struct task_struct *p, s32 cpu, const struct cpu_ctx *cctx)
{
	return !shared_waiting(llc_of(cpu)) && !pinned_waiting(cpu, cctx) && is_level(p, cctx);
}

#endif
