/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Tasks that run alone on a CPU of nohz_full, without a tick.
 *
 * Problem
 * The kernel stops the tick of such a CPU while one task runs. A SCHED_EXT task
 * must start with an infinite slice for that, but then no tick ends its slice,
 * charges it, or notices that others wait.
 *
 * Approach
 * A task qualifies if nothing would move it for speed: it is pinned, or all
 * CPUs are alike. If its slice ends while none waits, it is put back as the
 * last one and starts again with an infinite slice. A task that is queued for
 * the CPU or its LLC has it kicked. If the first one still goes first, it
 * starts again with a tick.
 *
 * Invariants
 * While a task waits in the DSQs of a CPU, that CPU ticks, but for a jiffy.
 *
 * Limits
 * A task without ticks is not counted. It is charged when it stops and at the
 * kernel's remote tick once a second, but for a slice at most: it was alone.
 * Ticks enforce cpu.max, so any cgroup with it ends the mode, within a second.
 */
#ifndef BIAS_NOHZ_BPF_H
#define BIAS_NOHZ_BPF_H

#include "access.bpf.h"
#include "queue.bpf.h"

static __always_inline bool may_untick(struct task_struct *p, s32 cpu, const struct cpu_ctx *cctx)
{
	u32 used = tiers_used[READ_ONCE(table_seq) & 1];

	if (!cpu_info_of(cpu)->nohz_full || READ_ONCE(quotas_seen) || (p->flags & PF_KTHREAD))
		return false;
	if (p->nr_cpus_allowed != 1 && (smt_active || (used & (used - 1))))
		return false;
	return !shared_waiting(llc_of(cpu)) && !pinned_waiting(cpu, cctx);
}

/* Return true if @p must start again, to begin or to cease to tick. */
static __always_inline bool change_ticking(struct task_struct *p, s32 cpu, struct cpu_ctx *cctx)
{
	bool untick;

	if (!nohz_full)
		return false;
	untick = may_untick(p, cpu, cctx);
	if (untick == !!(cctx->run_flags & RUN_UNTICKED))
		return false;
	cctx->untick_pid = untick ? p->pid : 0;
	return true;
}

static __always_inline void start_unticked(struct task_struct *p, struct cpu_ctx *cctx)
{
	if (!nohz_full || !cctx->untick_pid)
		return;
	if (cctx->untick_pid == p->pid) {
		scx_bpf_task_set_slice(p, SCX_SLICE_INF);
		cctx->run_flags |= RUN_UNTICKED;
		stat_inc(BIAS_STAT_UNTICKED);
	}
	cctx->untick_pid = 0;
}

/* Only the kernel's remote tick asks. */
static __always_inline bool must_tick(struct task_struct *p, s32 cpu, const struct cpu_ctx *cctx)
{
	return nohz_full && (cctx->run_flags & RUN_UNTICKED) && !may_untick(p, cpu, cctx);
}

#endif
