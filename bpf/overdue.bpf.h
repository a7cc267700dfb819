/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Tasks that have waited for too long.
 *
 * Problem
 * A DSQ orders tasks and bounds no time. A tick of 4 ms charges a task of nice
 * 19 with 400 ms. Then 80 tasks of nice 0 on its CPU go first until each has
 * run for 400 ms, in all for 32 s, and the kernel ends the scheduler. A bound
 * on the lead in vtime would not help: it cannot foresee how many tasks come,
 * nor how slowly their vtime advances, and it takes the weight from light tasks
 * where few wait.
 *
 * Approach
 * Waits are bounded in time, by the stamp that the kernel's watchdog reads. A
 * mark is set each OVERDUE_NS. A task that has not run since the mark before
 * the last one is overdue. The next CPU of an LLC that dispatches looks through
 * the LLC's DSQs. It moves overdue tasks to the kernel's global DSQ, which
 * CPUs serve before they call ops.dispatch. Light tasks wait at the end of a
 * DSQ, so the search begins there.
 *
 * Invariants
 * While CPUs of its LLC dispatch and one of them may run it, a task waits in a
 * DSQ of the LLC for 2 * OVERDUE_NS and a slice at most, and then in the global
 * DSQ for a turn of each task that is overdue. No vtime changes.
 *
 * Limits
 * While tasks wait in the global DSQ, CPUs do not dispatch, so that no parked
 * task comes back. The global DSQ is a FIFO. If so many tasks wait that each
 * has its turn after OVERDUE_NS only, weights lose their effect. A turn lasts a
 * tick at least, so these are 125 tasks a CPU at 100 ticks a second, and 1250
 * at 1000.
 *
 * A search visits MAX_LOOKED tasks of a DSQ.
 */
#ifndef BIAS_OVERDUE_BPF_H
#define BIAS_OVERDUE_BPF_H

#include "access.bpf.h"
#include "join.bpf.h"

/* Time between two marks. */
#define OVERDUE_NS 1250000000ull

/* Tasks of a DSQ that a search visits. */
#define MAX_LOOKED 1024

/* Set a mark at @now [jiffies], if it is time. One CPU does so, at a tick. */
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
 * Move those of the last @most tasks of @dsq to the global DSQ that became
 * runnable before @before [jiffies]. Return 0. This function is global so that
 * the verifier checks it once. It does not know @most, or it would follow each
 * step of the loop.
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

/*
 * Look for overdue tasks in the shared DSQs of @llc, and in the DSQs of the
 * tasks that are pinned to its CPUs: one of these CPUs may not dispatch. Return
 * 0. A global function, as above.
 */
__noinline int look_for_overdue(u32 llc)
{
	struct llc_ctx *lctx = llc_ctx_of(llc);
	u64 before = READ_ONCE(overdue_before), looked = READ_ONCE(lctx->looked_before);
	u32 i;

	if (looked == before || __sync_val_compare_and_swap(&lctx->looked_before, looked, before) != looked)
		return 0;
	if (READ_ONCE(lctx->used[BIAS_FAST]))
		move_to_global(bias_dsq_shared(llc, BIAS_FAST), before, MAX_LOOKED);
	if (READ_ONCE(lctx->used[BIAS_SLOW]))
		move_to_global(bias_dsq_shared(llc, BIAS_SLOW), before, MAX_LOOKED);
	bpf_for(i, 0, nr_cpus) {
		if (llc_of(i) == llc && pinned_waiting(i, cpu_ctx_of(i)))
			move_to_global(bias_dsq_pinned(i), before, MAX_LOOKED);
	}
	return 0;
}

#endif
