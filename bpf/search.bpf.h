/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Searches for a running task that another CPU should run.
 *
 * Problem
 * A CPU that may request a task needs the best one of many, on machines of any
 * size, within the time that a callback may take.
 *
 * Approach
 * Each CPU publishes what others need to know of its task: vtime, speedup,
 * affinity, and whether a tick has seen it. A search reads that and nothing
 * else, so it takes no lock.
 *
 * Every second search visits another node. It finds only tasks that may leave
 * theirs (leaves_node()), for a CPU that runs such a task or none.
 *
 * Invariants
 * A search returns only a CPU without a pending request. A task leaves its node
 * only if its memory is on all nodes, or if it hardly waits for memory. What it
 * has read may be old: the CPU that carries out a request checks again.
 *
 * Limits
 * A search visits MAX_VISITS CPUs of its node, in turn, and the first one
 * begins in its own LLC. A CPU that was woken for a task finds that one if no
 * other.
 */
#ifndef BIAS_SEARCH_BPF_H
#define BIAS_SEARCH_BPF_H

#include "access.bpf.h"
#include "queue.bpf.h"

/*
 * Return true if the running task with @pid and @run_flags may run on @cpu. A
 * CPU publishes the first 64 CPUs of its affinity, @allowed, because most
 * machines have no more. This function is global so that the verifier checks it
 * once.
 */
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

/*
 * Return true if the task on the CPU of @cctx is worth a migration and may run
 * on @cpu, as far as is published. False if a request is pending there.
 */
static __always_inline bool could_move(const struct cpu_ctx *cctx, s32 cpu)
{
	if (cctx->move_to || !(cctx->run_flags & RUN_TICKED))
		return false;
	return may_migrate(cctx->run_flags, cctx->run_pid, cctx->run_allowed, cpu);
}

/*
 * A task on a slow CPU with a lower speedup does not replace a task that gains
 * clearly more [permille]: it loses too little.
 */
#define UNFAIR_SPEEDUP_PERMILLE 1200

/*
 * CPUs of worse tiers that a search visits. The next search visits the next
 * ones, so that its work does not grow with the machine.
 */
#define MAX_VISITS 4

/* Purpose of a search. */
enum search {
	SEARCH_PULL,   /* any running task */
	SEARCH_ROTATE, /* a task with enough lag */
	SEARCH_GAIN,   /* a task that gains more */
};

/*
 * Return true if the task of worse CPU @cctx suits @search, compared with the
 * task of the better CPU @mine. @gap_ns is rotation_gap_ns().
 */
static __always_inline bool is_sought(const struct cpu_ctx *cctx, enum search search,
				      const struct cpu_ctx *mine, u64 gap_ns)
{
	u64 theirs = cctx->run_vtime, ours = mine->run_vtime;

	if (search == SEARCH_PULL)
		return true;
	/*
	 * No gain swap while the fast CPU's task makes up for time on slow
	 * CPUs, unless it spins.
	 */
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
 * Return the lag [ns] that makes a task rotate to @cpu, the CPU of @cctx. It is
 * smaller while tasks wait, and if the task of @cpu has waited less than a
 * slice ago. Tasks wait two slices ahead of the global vtime at most, so no
 * task is seen to lag much further behind them.
 */
static __always_inline u64 rotation_gap_ns(s32 cpu, const struct cpu_ctx *cctx)
{
	if (slice_ns < rotate_gap_ns && (cctx->ran_ns < slice_ns || shared_waiting(llc_of(cpu))))
		return slice_ns;
	return rotate_gap_ns;
}

/*
 * Return the LLC whose CPUs @cpu searches next: its own, which stands for its
 * node, or by turns that of another node.
 */
static __always_inline u32 searched_llc(s32 cpu, struct cpu_ctx *mine)
{
	u32 own = llc_of(cpu);

	if (nr_nodes < 2 || ((mine->run_flags & RUN_BUSY) && !(mine->run_flags & RUN_ROAMS)) ||
	    ++mine->looked_far % 2)
		return own;
	return (own + mine->looked_far / 2) % nr_llcs;
}

/*
 * Return the CPU of a worse tier whose task is the best that @search finds for
 * @cpu, or -1. The task that gains most is best, and among about equal ones the
 * one with the largest lag.
 */
static __always_inline s32 search_slow(s32 cpu, enum search search)
{
	const struct slow_list *list = &slow_lists[READ_ONCE(table_seq) & 1];
	struct cpu_ctx *mine = cpu_ctx_of(cpu);
	const struct slow_group *group = &list->groups[bounded(searched_llc(cpu, mine), BIAS_MAX_LLCS)];
	u32 nr = group->worse[bounded(tier_of(cpu), BIAS_NR_TIERS)], start = group->start;
	u32 speedup = 0, most, i, node = cpu_info_of(cpu)->node;
	bool spins = mine->run_speedup == BIAS_SPEEDUP_SPINS;
	u64 gap_ns = rotation_gap_ns(cpu, mine);
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

		if (!could_move(cctx, cpu) || !is_sought(cctx, search, mine, gap_ns))
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

/*
 * Pick the CPU whose task shares a core and gains most from @cpu, which is a
 * whole idle core. Tasks of fast CPUs go first, because sharing costs them
 * more. Return -1 if there is none.
 */
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
		    !could_move(cpu_ctx_of(other), cpu) || !core_is_shared(other))
			continue;
		found = other;
		if (!slow)
			break;
	}
	return found;
}

/*
 * Callbacks call searches as global functions to save work for the verifier, as
 * with take_from_llc().
 */
__noinline int search_to_unshare(s32 cpu)
{
	return search_shared(cpu);
}

__noinline int search_to_pull(s32 cpu)
{
	s32 from = search_slow(cpu, SEARCH_PULL), offered = (s32)cpu_ctx_of(cpu)->offered - 1;

	if (from < 0 && offered >= 0 && tier_of(offered) > tier_of(cpu) &&
	    could_move(cpu_ctx_of(offered), cpu))
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
