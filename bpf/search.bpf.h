/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Searches for a running task that another CPU should run.
 *
 * Problem
 * A CPU that may request a task needs the best of many, within a callback.
 *
 * Approach
 * Each CPU publishes the vtime, speedup and affinity of its task, and whether a
 * tick has seen it. A search reads only that and takes no lock. Every second
 * one visits another node, for a CPU that runs a task that may leave its node
 * (leaves_node()) or none. It finds only such tasks.
 *
 * Invariants
 * The CPU that is found has no pending request. A task leaves its node only if
 * its memory is on all nodes, or if it hardly waits for memory. What a search
 * reads may be old: the CPU that carries out a request checks again.
 *
 * Limits
 * A search visits MAX_VISITS CPUs of its node, in turn, at first in its own
 * LLC. A CPU that was woken for a task finds that one if no other.
 */
#ifndef BIAS_SEARCH_BPF_H
#define BIAS_SEARCH_BPF_H

#include "access.bpf.h"
#include "queue.bpf.h"

/* @allowed has the first 64 CPUs of an affinity: most machines have no more. */
__noinline int may_migrate(u32 run_flags, s32 pid, u64 allowed, s32 cpu)
{
	struct task_struct *p;
	int allows;

	if (run_flags & RUN_ANYWHERE)
		return true;
	if (!(run_flags & RUN_MOVABLE))
		return false;
	if (cpu < 64)
		return allowed >> (cpu & 63) & 1;
	p = bpf_task_from_pid(pid);
	if (!p)
		return false;
	bpf_rcu_read_lock();
	allows = bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
	bpf_rcu_read_unlock();
	bpf_task_release(p);
	return allows;
}

#define LONG_RUN_PART 5 /* of sync_burst_ns: a longer run is worth a CPU */

/*
 * Return true if a search saw the CPU's task long before @now_ns, in the same
 * run: the task will probably run as long again. No start reads a clock for it.
 */
static __always_inline bool runs_long(struct cpu_ctx *cctx, u64 now_ns)
{
	u64 began_exec_ns = READ_ONCE(cctx->began_exec_ns);

	if (!(cctx->run_flags & RUN_BUSY))
		return false;
	if (cctx->watched_exec_ns == began_exec_ns)
		return now_ns > cctx->watched_ns + sync_burst_ns / LONG_RUN_PART;
	cctx->watched_exec_ns = began_exec_ns;
	cctx->watched_ns = now_ns;
	return false;
}

/*
 * Return true if the CPU's task is worth a migration and may run on @cpu. A
 * tick has seen it, or at @now_ns it has run for long. If @now_ns is 0, only
 * the tick counts: a swap stops two tasks, and a near tier gains little.
 */
static __always_inline bool could_move(struct cpu_ctx *cctx, s32 cpu, u64 now_ns)
{
	if (cctx->move_to || !((cctx->run_flags & RUN_TICKED) || (now_ns && runs_long(cctx, now_ns))))
		return false;
	return may_migrate(cctx->run_flags, cctx->run_pid, cctx->run_allowed, cpu);
}

#define UNFAIR_SPEEDUP_PERMILLE 1200 /* a task of less loses too little */
#define MAX_VISITS		4    /* the next search visits the next ones */

enum search {
	SEARCH_PULL,   /* any running task */
	SEARCH_ROTATE, /* a task with enough lag */
	SEARCH_GAIN,   /* a task that gains more */
};

/* Return true if @search of CPU @mine seeks the task of the worse CPU @cctx. */
static __always_inline bool is_sought(const struct cpu_ctx *cctx, enum search search,
				      const struct cpu_ctx *mine, u64 gap_ns)
{
	u64 theirs = cctx->run_vtime, ours = mine->run_vtime;

	if (search == SEARCH_PULL)
		return true;
	/* No gain swap while our task makes up for lag, unless it spins. */
	if (search == SEARCH_GAIN)
		return bias_gains_more(cctx->run_speedup, mine->run_speedup, gain_permille) &&
		       (mine->run_speedup == BIAS_SPEEDUP_SPINS ||
			!bias_vtime_before(ours + unfair_gap_ns / 2, theirs));
	/* Threads of a team that spin share the fast CPUs by gain swaps. */
	if (mine->run_spun && cctx->run_spun)
		return false;
	if (bias_gains_more(mine->run_speedup, cctx->run_speedup, gain_permille))
		return cctx->run_speedup >= UNFAIR_SPEEDUP_PERMILLE &&
		       bias_vtime_before(theirs + unfair_gap_ns, ours);
	return bias_vtime_before(theirs + gap_ns, ours);
}

/*
 * Return the lag [ns] at which a task rotates to @cpu: less while tasks wait or
 * soon after. A task of nice 0 waits two slices ahead of the global vtime at
 * most: none is seen to lag much more behind it.
 */
static __always_inline u64 rotation_gap_ns(s32 cpu, const struct cpu_ctx *cctx)
{
	if (slice_ns < rotate_gap_ns && (cctx->ran_ns < slice_ns || shared_waiting(llc_of(cpu))))
		return slice_ns;
	return rotate_gap_ns;
}

/* Return @cpu's LLC, which stands for its node, or by turns one elsewhere. */
static __always_inline u32 searched_llc(s32 cpu, struct cpu_ctx *mine)
{
	u32 own = llc_of(cpu);

	if (nr_nodes < 2 || ((mine->run_flags & RUN_BUSY) && !(mine->run_flags & RUN_ROAMS)) ||
	    ++mine->looked_far % 2)
		return own;
	return (own + mine->looked_far / 2) % nr_llcs;
}

/* Of tasks that gain about equally, the one that lags most is best. */
static __always_inline s32 search_slow(s32 cpu, enum search search)
{
	const struct slow_list *list = &slow_lists[READ_ONCE(table_seq) & 1];
	struct cpu_ctx *mine = cpu_ctx_of(cpu);
	const struct slow_group *group = &list->groups[bounded(searched_llc(cpu, mine), BIAS_MAX_LLCS)];
	u32 nr = group->worse[bounded(tier_of(cpu), BIAS_NR_TIERS)], start = group->start;
	u32 speedup = 0, most, i, node = cpu_info_of(cpu)->node;
	bool spins = mine->run_speedup == BIAS_SPEEDUP_SPINS;
	u64 gap_ns = rotation_gap_ns(cpu, mine);
	u64 now_ns = search == SEARCH_PULL ? bpf_ktime_get_ns() : 0;
	s32 found = -1;
	u64 vtime = 0;

	if (!nr || nr > BIAS_MAX_CPUS)
		return -1;
	most = nr < MAX_VISITS ? nr : MAX_VISITS;
	/* Threads that spin tick at once. Each begins at another CPU. */
	if (spins)
		start += cpu;
	if (most < nr) {
		start += mine->looked_slow;
		mine->looked_slow = (mine->looked_slow + most) % nr;
	}
	bpf_for(i, 0, most) {
		s32 slow = list->cpus[bounded(group->first + (start + i) % nr, BIAS_MAX_CPUS)];
		struct cpu_ctx *cctx = cpu_ctx_of(slow);

		if (!could_move(cctx, cpu, is_near_tier(tier_of(slow)) ? 0 : now_ns) ||
		    !is_sought(cctx, search, mine, gap_ns))
			continue;
		if (nr_nodes > 1 && !(cctx->run_flags & RUN_ROAMS) && cpu_info_of(slow)->node != node)
			continue;
		if (found >= 0 && !bias_gains_more(cctx->run_speedup, speedup, gain_permille) &&
		    (bias_gains_more(speedup, cctx->run_speedup, gain_permille) ||
		     !bias_vtime_before(cctx->run_vtime, vtime)))
			continue;
		vtime = cctx->run_vtime;
		speedup = cctx->run_speedup;
		found = slow;
		if (spins)
			break;
	}
	return found;
}

/* Tasks of fast CPUs go first, because sharing a core costs them more. */
static __always_inline s32 search_shared(s32 cpu)
{
	u32 nr = nr_cpus, node = cpu_info_of(cpu)->node, i;
	bool fast_too = !cpu_is_slow(cpu) || !sibling_beats_slow_core();
	s32 found = -1;

	if (!nr || nr > BIAS_MAX_CPUS)
		return -1;
	bpf_for(i, 1, nr < MAX_SCAN ? nr : MAX_SCAN) {
		s32 other = bounded(((u32)cpu + i) % nr, BIAS_MAX_CPUS);
		bool slow = cpu_is_slow(other);

		if ((found >= 0 && slow) || (!slow && !fast_too) || cpu_info_of(other)->node != node ||
		    !could_move(cpu_ctx_of(other), cpu, 0) || !core_is_shared(other))
			continue;
		found = other;
		if (!slow)
			break;
	}
	return found;
}

/* Global wrappers, so that no callback inlines a search. */
__noinline int search_to_unshare(s32 cpu)
{
	return search_shared(cpu);
}

__noinline int search_to_pull(s32 cpu)
{
	s32 from = search_slow(cpu, SEARCH_PULL), offered = (s32)cpu_ctx_of(cpu)->offered - 1;

	if (from < 0 && offered >= 0 && tier_of(offered) > tier_of(cpu) &&
	    could_move(cpu_ctx_of(offered), cpu, 0))
		from = offered;
	write_if_changed(&cpu_ctx_of(cpu)->offered, 0);
	return from;
}

__noinline int search_to_gain(s32 cpu)
{
	return search_slow(cpu, SEARCH_GAIN);
}

__noinline int search_to_rotate(s32 cpu)
{
	return search_slow(cpu, SEARCH_ROTATE);
}

#endif
