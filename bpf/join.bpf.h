/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Which shared DSQ a task joins, and with which vtime.
 *
 * Problem
 * The tasks in one DSQ may be far behind the global vtime, and those in another
 * one ahead of it: a class of CPUs is in more demand, or a slow LLC. A wakee
 * that starts a slice behind the global vtime then waits behind a crowd, for
 * tens of milliseconds. So does a task whose bias changes.
 *
 * Approach
 * Each DSQ has a clock: the vtime of the last task that a CPU took from it. A
 * wakee starts a slice behind that clock, if it is behind the global one, and
 * only while tasks wait. A task that joins another DSQ keeps its lag or its
 * lead, as the default scheduler does at a migration.
 *
 * The bias of a task selects the class of its DSQ. In an LLC that has no CPU of
 * that class, the DSQ would be served last. The agent names another LLC of the
 * node as its home.
 *
 * Invariants
 * While tasks wait in a DSQ, its clock does not go back. A wakee starts at most
 * MAX_LAG_SLICES and a slice behind the global vtime.
 *
 * Limits
 * Unless they wake, tasks compete by the global vtime alone. A lost race costs
 * a clock one step.
 */
#ifndef BIAS_JOIN_BPF_H
#define BIAS_JOIN_BPF_H

#include "access.bpf.h"
#include "classify.bpf.h"
#include "idle.bpf.h"

/*
 * Largest lag of a task that did not sleep [slices]. It may exceed a sleeper's
 * one slice because other tasks kept this task from CPUs that it could have
 * used.
 */
#define MAX_LAG_SLICES 6

static __always_inline struct llc_ctx *llc_ctx_of(u32 llc)
{
	return &llc_ctxs[bounded(llc, BIAS_MAX_LLCS)];
}

/* Return true if tasks wait in @llc's shared DSQs, approximately. */
static __always_inline bool shared_waiting(u32 llc)
{
	return READ_ONCE(llc_ctx_of(llc)->waiting);
}

/* Return true if a task that is pinned to @cpu waits in its DSQ. */
static __always_inline bool pinned_waiting(s32 cpu, const struct cpu_ctx *cctx)
{
	return READ_ONCE(cctx->pinned_used) && scx_bpf_dsq_nr_queued(bias_dsq_pinned(cpu)) > 0;
}

/* A shared DSQ's index: two for each LLC. */
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
 * Return the index of the shared DSQ that @p of @tctx, of a CPU in @llc, waits
 * in: that of its bias. If the LLC has no CPU of that class, a biased task goes
 * to an LLC of the node that has one, and other tasks wait here. A restricted
 * task waits where it may run.
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

/*
 * Return the index of the shared DSQ that @p of @cpu waits in. This function
 * and those below are global for the verifier, as take_from_llc() is.
 */
__noinline u32 queue_from(struct task_struct *p __arg_trusted, s32 cpu)
{
	return queue_of(p, task_ctx_of(p), llc_of(cpu));
}

/* Return the word of waiting_llcs that has the bit of @llc. */
static __always_inline u64 *waiting_word(u32 llc)
{
	return &waiting_llcs[bounded(llc / 64, BIAS_MAX_LLCS / 64)];
}

/* Return true if a task waits in any shared DSQ, approximately. */
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

/* Advance the clock of DSQ @queue to a task of @vtime, which starts to run. */
static __always_inline void note_taken(u32 queue, u64 vtime)
{
	u64 *clock = taken_vtime_of(queue);

	if (bias_vtime_before(READ_ONCE(*clock), vtime))
		WRITE_ONCE(*clock, vtime);
}

/*
 * Return where the tasks of DSQ @queue are: at the vtime of the last one that
 * was taken, or at the global one if that is lower or no task waits.
 */
static __always_inline u64 queue_now(u32 queue)
{
	u64 now = READ_ONCE(vtime_now), taken;

	if (scx_bpf_dsq_nr_queued(queue_dsq(queue)) <= 0)
		return now;
	taken = READ_ONCE(*taken_vtime_of(queue));
	return bias_vtime_before(taken, now) ? bias_wakeup_vtime(taken, now, MAX_LAG_SLICES * slice_ns) : now;
}

/*
 * Return the vtime with which the task of @tctx and @vtime joins DSQ @queue. If
 * it was in another one before, it keeps its lag there. So it gains nothing by
 * the way, and loses nothing.
 */
static __always_inline u64 vtime_in(struct task_ctx *tctx, u32 queue, u64 vtime)
{
	u32 before;

	if (!tctx || tctx->queue == queue + 1)
		return vtime;
	before = tctx->queue;
	tctx->queue = queue + 1;
	return before ? vtime - queue_now(before - 1) + queue_now(queue) : vtime;
}

/* Return the index of the DSQ whose tasks @p, which wakes on @cpu, joins. */
static __always_inline u32 queue_joined(struct task_struct *p, const struct task_ctx *tctx, s32 cpu)
{
	return is_pinned(p) ? queue_index(llc_of(cpu), class_of(cpu)) : queue_of(p, tctx, llc_of(cpu));
}

/* Return where the tasks are that @p, which wakes on @cpu, joins. */
__noinline u64 joined_now(struct task_struct *p __arg_trusted, s32 cpu)
{
	return queue_now(queue_joined(p, task_ctx_of(p), cpu));
}

/*
 * Return the vtime of @p, which wakes on @cpu while tasks wait. If it was in
 * another DSQ before, it keeps its lag there.
 */
__noinline u64 joined_vtime(struct task_struct *p __arg_trusted, s32 cpu)
{
	struct task_ctx *tctx = task_ctx_of(p);
	u32 queue = queue_joined(p, tctx, cpu);

	return bias_wakeup_vtime(vtime_in(tctx, queue, p->scx.dsq_vtime), queue_now(queue), slice_ns);
}

/* Return where the tasks are that @p, which wakes on @cpu, competes with. */
static __always_inline u64 competing_now(struct task_struct *p, s32 cpu)
{
	return any_waiting() ? joined_now(p, cpu) : READ_ONCE(vtime_now);
}

#endif
