/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Tasks on their way to another CPU.
 *
 * Problem
 * The kernel inserts a task into another CPU's local DSQ in a later interrupt,
 * a wakee after ops.select_cpu. Meanwhile that CPU may take or get another
 * task. The second waits for a tick: no CPU searches the local DSQ of another.
 *
 * Approach
 * The sender or waker announces the task in the target's cpu_ctx. Meanwhile an
 * idle CPU takes no task from a DSQ, and one that starts there all the same
 * leaves at once. If the announced task comes late, or another one, too, the
 * next CPU about to idle preempts the task that started first.
 *
 * Invariants
 * At most one announced task is on its way to a CPU, until it starts or is
 * enqueued again, or for ARRIVAL_NS. A change of affinity cancels the way.
 *
 * Limits
 * A pinned wakee is not announced: it waits for the announced task and a tick.
 * An insertion that takes longer than ARRIVAL_NS may cost a tick, too.
 */
#ifndef BIAS_ARRIVAL_BPF_H
#define BIAS_ARRIVAL_BPF_H

#include "access.bpf.h"

#define ARRIVAL_NS 400000 /* longest way: CPUs of a VM see each other late */

/* An announcement has the task's pid above the time in units of 1024 ns. */
static __always_inline u64 announcement(s32 pid)
{
	return (u64)pid << 32 | (u32)(bpf_ktime_get_ns() >> 10);
}

static __always_inline bool is_recent(u64 arrival)
{
	return arrival && (u32)(bpf_ktime_get_ns() >> 10) - (u32)arrival < ARRIVAL_NS >> 10;
}

static __always_inline bool task_arrives(const struct cpu_ctx *cctx)
{
	return is_recent(READ_ONCE(cctx->arrival));
}

/* Return false if another task is on its way to the CPU or has started. */
static __always_inline bool announce_arrival(struct cpu_ctx *cctx, s32 pid)
{
	u64 arrival = READ_ONCE(cctx->arrival);

	if (is_recent(arrival) ||
	    __sync_val_compare_and_swap(&cctx->arrival, arrival, announcement(pid)) != arrival)
		return false;
	if (!(READ_ONCE(cctx->run_flags) & RUN_BUSY))
		return true;
	WRITE_ONCE(cctx->arrival, 0);
	return false;
}

/* End the announcement of @p, which is enqueued on the CPU of @cctx instead. */
static __always_inline void forget_arrival(const struct task_struct *p, struct cpu_ctx *cctx)
{
	if (READ_ONCE(cctx->arrival) >> 32 == p->pid)
		WRITE_ONCE(cctx->arrival, 0);
}

/*
 * Preempt @p, which starts on @cpu, if another task is on its way there. Return
 * true if @p is the announced task, or if that one is late.
 */
static __always_inline bool ends_arrival(struct task_struct *p, s32 cpu, struct cpu_ctx *cctx)
{
	u64 arrival = READ_ONCE(cctx->arrival);
	bool comes = arrival >> 32 == p->pid;

	if (!arrival)
		return false;
	if (!comes && is_recent(arrival)) {
		if (!(p->flags & PF_KTHREAD) || (cctx->run_flags & RUN_MOVABLE))
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		return false;
	}
	WRITE_ONCE(cctx->arrival, 0);
	/* Another task comes still, or came as well. */
	if (!comes || scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu) > 0)
		WRITE_ONCE(late_cpu, cpu + 1);
	return true;
}

/* Let the task that came late run, and the one before it come to idle @cpu. */
static __always_inline void rescue_late(s32 cpu)
{
	s32 late = (s32)READ_ONCE(late_cpu) - 1;

	/* The task that came late to this CPU has run, or did not come. */
	if (late == cpu)
		WRITE_ONCE(late_cpu, 0);
	if (late < 0 || late == cpu || scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | late) <= 0)
		return;
	WRITE_ONCE(late_cpu, 0);
	scx_bpf_kick_cpu(late, SCX_KICK_PREEMPT);
}

#endif
