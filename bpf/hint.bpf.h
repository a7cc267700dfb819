/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Hints of marked programs, see bias/hint.h.
 *
 * Problem
 * A thread that begins another section of its code belongs on another class of
 * CPUs at once, tens of milliseconds before counters show it.
 *
 * Approach
 * The thread stores its hint in its process's memory, whose address the agent
 * puts into a map. On the wrong class of CPUs it then calls sched_yield().
 * Yields, ticks and stops read it: the memory of the current task is mapped.
 *
 * At a yield to a fast CPU, an idle one pulls the thread, or it swaps with a
 * task that gains clearly less. At one to a slow CPU it swaps with a task that
 * gains clearly more: a fast CPU that no such task wants is never worse. A hint
 * replaces the speedup, but not the charge rate: a wrong one gains no work.
 *
 * Invariants
 * A read of user memory never faults in a page and never waits. Whatever it
 * reads is one of three hints. A hint moves no task that is pinned, or that
 * fairness keeps: a swap needs what a gain swap needs (move.bpf.h).
 *
 * Limits
 * Without a yield, a hint counts from the next tick on. A new table of costs
 * takes effect with the next change of a hint. Hints of threads in another pid
 * namespace do not count, because the pids differ.
 */
#ifndef BIAS_HINT_BPF_H
#define BIAS_HINT_BPF_H

#include "access.bpf.h"
#include "classify.bpf.h"
#include "move.bpf.h"

/* Return the table's address, or 0. Read the map only after a change. */
static __always_inline u64 hint_table_of(const struct task_struct *p, struct task_ctx *tctx, u32 epoch)
{
	u32 tgid = p->tgid;
	u64 *table;

	if (tctx->hint_epoch != epoch) {
		table = bpf_map_lookup_elem(&hint_tables, &tgid);
		tctx->hint_table = table ? *table : 0;
		tctx->hint_epoch = epoch;
	}
	return tctx->hint_table;
}

/* Read the hint of @p if @p is current. */
__noinline int read_hint(struct task_struct *p __arg_trusted, s32 cpu)
{
	u32 epoch = READ_ONCE(hints_epoch), pid = p->pid, word = 0, hint = BIAS_HINT_NONE;
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	const struct bias_cost *costs;
	struct task_ctx *tctx;
	u64 table;

	if (!epoch || (p->flags & PF_KTHREAD) || bpf_get_current_task_btf() != p)
		return 0;
	tctx = task_ctx_of(p);
	if (!tctx)
		return 0;
	table = hint_table_of(p, tctx, epoch);
	if (!table && !tctx->hint)
		return 0;
	if (table && (!limited || tctx->inside) &&
	    !bpf_probe_read_user(&word, sizeof(word), (void *)(table + pid % BIAS_HINT_SLOTS * sizeof(word))))
		hint = bias_hint_of(word, pid);
	if (hint == tctx->hint)
		return 0;
	costs = class_costs[READ_ONCE(table_seq) & 1];
	tctx->hint = hint;
	tctx->hint_speedup = bias_hinted_speedup(hint, &costs[BIAS_SLOW], &costs[BIAS_FAST]);
	stat_inc(BIAS_STAT_HINTS);
	if (cctx->run_pid == pid)
		WRITE_ONCE(cctx->run_speedup, speedup_of(tctx));
	return 0;
}

/* Return the fast CPU whose task gains least, and clearly less, or -1. */
__noinline int search_to_hint(s32 cpu)
{
	const struct cpu_ctx *mine = cpu_ctx_of(cpu);
	u32 nr = nr_cpus, node = cpu_info_of(cpu)->node, speedup = mine->run_speedup, i;
	s32 found = -1;

	if (!nr || nr > BIAS_MAX_CPUS)
		return -1;
	bpf_for(i, 1, nr < MAX_SCAN ? nr : MAX_SCAN) {
		s32 fast = bounded(((u32)cpu + i) % nr, BIAS_MAX_CPUS);
		const struct cpu_ctx *cctx = cpu_ctx_of(fast);

		if (cpu_is_slow(fast) || cpu_info_of(fast)->node != node || cctx->move_to ||
		    !(cctx->run_flags & RUN_MOVABLE) || !cctx->run_speedup ||
		    !is_sought(mine, SEARCH_GAIN, cctx, 0) || (found >= 0 && cctx->run_speedup >= speedup))
			continue;
		speedup = cctx->run_speedup;
		found = fast;
	}
	return found;
}

/* Return true if @p is at a mark that may move it: @cpu must dispatch. */
__noinline int follow_hint(struct task_struct *p __arg_trusted, s32 cpu)
{
	const struct task_ctx *tctx = task_ctx_of(p);
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	s32 to;

	if (!tctx || !tctx->hint || !moving || cctx->run_pid != p->pid || !(cctx->run_flags & RUN_MOVABLE) ||
	    cctx->move_to)
		return false;
	/* The program says that the section is worth a migration. */
	cctx->run_flags |= RUN_TICKED;
	if (!cpu_is_slow(cpu)) {
		if (tctx->hint == BIAS_HINT_SLOW)
			swap_for_gain(cpu, cctx);
		return true;
	}
	if (tctx->hint != BIAS_HINT_FAST || wake_better(p, cpu))
		return true;
	to = search_to_hint(cpu);
	if (to < 0)
		return true;
	/* No kick: @cpu is about to dispatch. */
	WRITE_ONCE(cctx->move_to, (to + 1) | MOVE_SWAP | MOVE_GAIN);
	stat_inc(BIAS_STAT_HINT_SWAP);
	return true;
}

#endif
