/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Tasks that have waited for too long.
 *
 * Problem
 * A DSQ bounds no time. A tick of 4 ms charges a task of nice 19 with 400 ms.
 * Then 80 tasks of nice 0 run for 32 s before it, and the kernel ends the
 * scheduler. A bound on the lead cannot foresee how many tasks come and how
 * slow their vtime is. It takes the weight from light tasks where few wait.
 *
 * Approach
 * The stamp of the kernel's watchdog bounds waits in time. A task that has not
 * run since the last mark but one, set each OVERDUE_NS, is overdue. The next
 * CPU of its LLC that dispatches moves it to the kernel's global DSQ, which
 * CPUs serve before ops.dispatch. Searches begin at the end, at light tasks.
 *
 * Invariants
 * While its LLC's CPUs dispatch and one may run it, a task waits 2 * OVERDUE_NS
 * and a slice at most, then until the global DSQ has drained, and there a turn
 * of each task before it. No vtime changes.
 *
 * Limits
 * While tasks wait in the global DSQ, a FIFO, CPUs do not dispatch and unpark
 * none. Weights lose their effect from 125 tasks a CPU on at 100 ticks a
 * second, 1250 at 1000. Then turns, of a tick at least, come after OVERDUE_NS
 * only. A search visits MAX_LOOKED tasks of a DSQ.
 */
#ifndef BIAS_OVERDUE_BPF_H
#define BIAS_OVERDUE_BPF_H

#include "access.bpf.h"
#include "join.bpf.h"

#define OVERDUE_NS 1250000000ull
#define MAX_LOOKED 1024

/* Set a mark at @now [jiffies], if it is time. Only one CPU calls this. */
static __always_inline void mark_overdue(u64 now)
{
	u64 now_ns = bpf_ktime_get_ns();

	if (now_ns - marked_ns < OVERDUE_NS)
		return;
	marked_ns = now_ns;
	WRITE_ONCE(overdue_before, marked);
	marked = now;
}

/* Return true if @p has not run since @before [jiffies]. */
static __always_inline bool is_overdue(const struct task_struct *p, u64 before)
{
	return (s64)(p->scx.runnable_at - before) < 0;
}

/*
 * Move overdue tasks among the last @most of @dsq to the global DSQ. The
 * verifier does not know @most, or it would follow each step of the loop.
 */
__noinline int move_to_global(u64 dsq, u64 before, u32 most)
{
	struct task_struct *p;
	u32 looked = 0;

	bpf_for_each(scx_dsq, p, dsq, SCX_DSQ_ITER_REV) {
		s32 cpu = scx_bpf_task_cpu(p);

		if (++looked > most)
			break;
		if (!is_overdue(p, before) || !scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_GLOBAL, 0))
			continue;
		scx_bpf_kick_cpu(cpu, kick_for_waiting(cpu));
		stat_inc(BIAS_STAT_OVERDUE);
	}
	return 0;
}

static __always_inline void move_pinned_to_global(s32 cpu, u64 before)
{
	if (pinned_waiting(cpu, cpu_ctx_of(cpu)))
		move_to_global(bias_dsq_pinned(cpu), before, MAX_LOOKED);
}

/* Search the pinned DSQs of all of @cpu's LLC, too: one may not dispatch. */
__noinline int look_for_overdue(s32 cpu)
{
	u32 llc = llc_of(cpu);
	struct llc_ctx *lctx = llc_ctx_of(llc);
	u64 before = READ_ONCE(overdue_before), looked = READ_ONCE(lctx->looked_before);
	s32 other = cpu;
	u32 i;

	if (looked == before || __sync_val_compare_and_swap(&lctx->looked_before, looked, before) != looked)
		return 0;
	if (READ_ONCE(lctx->used[BIAS_FAST]))
		move_to_global(bias_dsq_shared(llc, BIAS_FAST), before, MAX_LOOKED);
	if (READ_ONCE(lctx->used[BIAS_SLOW]))
		move_to_global(bias_dsq_shared(llc, BIAS_SLOW), before, MAX_LOOKED);
	move_pinned_to_global(cpu, before);
	for_each_near(i, other, cpu, nr_cpus)
		move_pinned_to_global(other, before);
	return 0;
}

#endif
