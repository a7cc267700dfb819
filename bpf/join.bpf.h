/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Which shared DSQ a task joins, and with which vtime.
 *
 * Problem
 * Where a class of CPUs is in more demand, or an LLC is slow, tasks are far
 * behind the global vtime. A wakee that starts a slice behind it then waits
 * behind a crowd, for tens of milliseconds. So does a task whose bias changes.
 *
 * Approach
 * Each shared DSQ has a clock: the vtime of the last task that a CPU took from
 * it. A wakee starts a slice behind that, if it is behind the global vtime. For
 * a pinned one, the task that runs on its CPU stands for the clock. A task
 * keeps its lag or lead in a DSQ of the other class. Bias selects the class of
 * the DSQ. An LLC without CPUs of that class would serve it last: the agent
 * names a home LLC of the node.
 *
 * Invariants
 * The clock of a DSQ does not go back while tasks wait. A wakee starts at most
 * MAX_LAG_SLICES and a slice behind the global vtime.
 *
 * Limits
 * Unless they wake, tasks compete by global vtime. Races cost a clock a step.
 */
#ifndef BIAS_JOIN_BPF_H
#define BIAS_JOIN_BPF_H

#include "access.bpf.h"
#include "classify.bpf.h"
#include "idle.bpf.h"

#define MAX_LAG_SLICES 6 /* without a sleep: others kept CPUs from it */

static __always_inline struct llc_ctx *llc_ctx_of(u32 llc)
{
	return &llc_ctxs[bounded(llc, BIAS_MAX_LLCS)];
}

static __always_inline bool shared_waiting(u32 llc)
{
	return READ_ONCE(llc_ctx_of(llc)->waiting);
}

static __always_inline bool pinned_waiting(s32 cpu, const struct cpu_ctx *cctx)
{
	return READ_ONCE(cctx->pinned_used) && scx_bpf_dsq_nr_queued(bias_dsq_pinned(cpu)) > 0;
}

static __always_inline u32 queue_index(u32 llc, u32 cpu_class)
{
	return llc * BIAS_NR_CLASSES + cpu_class;
}

static __always_inline u32 queue_llc(u32 queue)
{
	return queue / BIAS_NR_CLASSES;
}

static __always_inline u32 queue_class(u32 queue)
{
	return queue % BIAS_NR_CLASSES;
}

static __always_inline u64 queue_dsq(u32 queue)
{
	return bias_dsq_shared(queue_llc(queue), queue_class(queue));
}

static __always_inline u64 *taken_vtime_of(u32 queue)
{
	return &llc_ctx_of(queue_llc(queue))->taken_vtime[queue_class(queue)];
}

/*
 * A biased task for whose class @llc has no CPU waits in another LLC of the
 * node. A restricted task waits where it may run.
 */
static __always_inline u32 queue_of(struct task_struct *p, const struct task_ctx *tctx, u32 llc)
{
	const struct slow_list *list = &slow_lists[READ_ONCE(table_seq) & 1];
	const u32 *homes = list->groups[bounded(llc, BIAS_MAX_LLCS)].home;
	u32 bias, cpu_class, home;

	if (!two_classes)
		return queue_index(llc, BIAS_FAST);
	bias = bias_of(tctx);
	cpu_class = bias == BIAS_SLOW_BIASED ? BIAS_SLOW : BIAS_FAST;
	home = homes[bounded(cpu_class, BIAS_NR_CLASSES)];
	if (home == llc + 1)
		return queue_index(llc, may_run_on_class(p, cpu_class) ? cpu_class : other_class(cpu_class));
	if (!home || bias == BIAS_UNBIASED || is_restricted(p))
		return queue_index(llc, other_class(cpu_class));
	return queue_index(home - 1, cpu_class);
}

__noinline u32 queue_from(struct task_struct *p __arg_trusted, s32 cpu)
{
	return queue_of(p, task_ctx_of(p), llc_of(cpu));
}

static __always_inline u64 *waiting_word(u32 llc)
{
	return &waiting_llcs[bounded(llc / 64, BIAS_MAX_LLCS / 64)];
}

static __always_inline bool any_waiting(void)
{
	u64 waiting = 0;

	if (nr_llcs == 1)
		return shared_waiting(0);
#pragma unroll
	for (int i = 0; i < BIAS_MAX_LLCS / 64; i++)
		waiting |= READ_ONCE(waiting_llcs[i]);
	return waiting;
}

static __always_inline void note_taken(u32 queue, u64 vtime)
{
	u64 *clock = taken_vtime_of(queue);

	if (bias_vtime_before(READ_ONCE(*clock), vtime))
		WRITE_ONCE(*clock, vtime);
}

/* Return @queue's clock, or the global vtime if lower. */
static __always_inline u64 queue_now(u32 queue)
{
	u64 now = READ_ONCE(vtime_now), taken = READ_ONCE(*taken_vtime_of(queue));

	return bias_vtime_before(taken, now) ? bias_wakeup_vtime(taken, now, MAX_LAG_SLICES * slice_ns) : now;
}

/*
 * Let the task of @tctx keep in @queue the lag that it had in a DSQ of the
 * other class. Those of one class are near each other: CPUs take tasks that lag
 * from other LLCs. A task that moves would collect the steps of their clocks.
 */
static __always_inline u64 vtime_in(struct task_ctx *tctx, u32 queue, u64 vtime)
{
	u32 before;

	if (!tctx || tctx->queue == queue + 1)
		return vtime;
	before = tctx->queue;
	tctx->queue = queue + 1;
	if (!before || queue_class(before - 1) == queue_class(queue))
		return vtime;
	return vtime - queue_now(before - 1) + queue_now(queue);
}

/*
 * A pinned wakee starts at most a slice behind the global vtime. Where that is
 * ahead of @cpu's tasks, it starts after another slice of the running one: if
 * these are heavy, they would need long to reach the global vtime.
 */
static __always_inline u64 pinned_vtime(const struct task_struct *p, s32 cpu)
{
	const struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	u64 next = cctx->run_vtime + bias_charge(slice_ns, cctx->run_weight), start = vtime_now - slice_ns;

	if ((cctx->run_flags & RUN_BUSY) && bias_vtime_before(next, start))
		start = next;
	return bias_wakeup_vtime(p->scx.dsq_vtime, start, 0);
}

/* Return the vtime of @p, which wakes on @cpu. */
__noinline u64 joined_vtime(struct task_struct *p __arg_trusted, s32 cpu)
{
	struct task_ctx *tctx;
	u32 queue;

	if (is_pinned(p))
		return pinned_vtime(p, cpu);
	tctx = task_ctx_of(p);
	queue = queue_of(p, tctx, llc_of(cpu));
	return bias_wakeup_vtime(vtime_in(tctx, queue, p->scx.dsq_vtime), queue_now(queue), slice_ns);
}

#endif
