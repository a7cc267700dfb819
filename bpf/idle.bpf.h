/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Search for an idle CPU.
 *
 * Problem
 * A waking task should find a CPU that is idle, fast and near, in a few hundred
 * instructions. Two threads of a core share its speed, so an idle thread whose
 * sibling is busy is worth less than an idle core.
 *
 * Approach
 * The kernel keeps masks of idle CPUs and of wholly idle cores. Each step picks
 * from one of them, for one class, in the LLC first and then in the NUMA node.
 * If the cores of a class are of two types, the better tier goes first. The
 * previous CPU goes before others that are equally good. The order is
 *
 *	whole fast core, whole slow core, fast thread, slow thread
 *
 * or, if a second thread adds more throughput than a slow core
 * (fast_sibling_first),
 *
 *	whole fast core, fast thread, whole slow core, slow thread
 *
 * Without SMT each CPU is a whole core. Whole cores of other nodes go before
 * threads of busy cores of the node, and after everything else. For a task
 * whose memory is on all nodes, a better core of another node goes first. A
 * slow-biased task takes its previous CPU if that is a whole idle core, and
 * else searches slow CPUs before fast ones. A per-CPU scratch mask intersects
 * the CPUs of a class with the affinity of a restricted task.
 *
 * Invariants
 * A CPU that is returned was idle and is allowed for the task. It is no longer
 * marked idle, so the caller must give it work or wake it. No thread of a busy
 * core is returned while a whole core of the same class idles in the same
 * domain. While a task is on its way to an idle CPU, no second one is sent.
 *
 * Limits
 * The kernel chooses among equally good CPUs. A wakee keeps its idle CPU if
 * that is only a few percent slower than the best. A tick moves it up. A task
 * wakes on a slow CPU of its node though fast ones of another node idle: its
 * memory stays behind.
 */
#ifndef BIAS_IDLE_BPF_H
#define BIAS_IDLE_BPF_H

#include "access.bpf.h"
#include "arrival.bpf.h"
#include "classify.bpf.h"

/* State that the core of an idle CPU must have. */
enum idle_need {
	NEED_CORE,   /* all threads idle */
	NEED_THREAD, /* any */
};

static __always_inline s32 pick_from(const struct cpumask *mask, enum idle_need need)
{
	return scx_bpf_pick_idle_cpu(mask, smt_active && need == NEED_CORE ? SCX_PICK_IDLE_CORE : 0);
}

/*
 * Pick an idle CPU of @tier for @p in @domain: an LLC, a node or the machine.
 * Return a negative error if there is none.
 */
static __always_inline s32 pick_idle_in(const struct task_struct *p, u32 domain, u32 tier,
					enum idle_need need)
{
	struct domain *d = bpf_map_lookup_elem(&domains, &domain);
	struct scratch_mask *scratch;
	struct bpf_cpumask *mask, *both;
	u32 zero = 0;

	if (!d)
		return -ENOENT;
	mask = mask_of(d, tier);
	if (!mask)
		return -ENOENT;
	if (!is_restricted(p))
		return pick_from(cast_mask(mask), need);
	scratch = bpf_map_lookup_elem(&scratches, &zero);
	if (!scratch || !(both = scratch->mask))
		return -ENOENT;
	if (!bpf_cpumask_and(both, cast_mask(mask), p->cpus_ptr))
		return -EBUSY;
	return pick_from(cast_mask(both), need);
}

/*
 * Pick an idle CPU of @tier for @p near @cpu: in its LLC, else in its node. A
 * global function: the verifier checks it once.
 */
__noinline int pick_near(struct task_struct *p __arg_trusted, s32 cpu, u32 tier, enum idle_need need)
{
	s32 near = pick_idle_in(p, llc_of(cpu), tier, need);

	if (near < 0 && nr_llcs > 1)
		near = pick_idle_in(p, home_domain(cpu), tier, need);
	return near;
}

static __always_inline bool may_run_on_tier(const struct task_struct *p, struct domain *d, u32 tier)
{
	struct bpf_cpumask *mask = mask_of(d, tier);

	return mask && bpf_cpumask_intersects(cast_mask(mask), p->cpus_ptr);
}

/* Return true if @p may run on any CPU of @cpu_class. */
static __always_inline bool may_run_on_class(const struct task_struct *p, u32 cpu_class)
{
	u32 machine = nr_llcs, tier = cpu_class * BIAS_CLASS_TIERS;
	struct domain *d;

	if (!is_restricted(p))
		return true;
	d = bpf_map_lookup_elem(&domains, &machine);
	return !d || may_run_on_tier(p, d, tier) || may_run_on_tier(p, d, tier + 1);
}

static __always_inline bool claim_if_idle(const struct task_struct *p, s32 cpu)
{
	return (!is_restricted(p) || bpf_cpumask_test_cpu(cpu, p->cpus_ptr)) &&
	       scx_bpf_test_and_clear_cpu_idle(cpu);
}

/* Return true if every thread of @cpu's core idles. */
static __always_inline bool core_is_idle(s32 cpu)
{
	const struct cpumask *cores;
	bool idle;

	if (!smt_active)
		return true;
	cores = scx_bpf_get_idle_smtmask();
	idle = bpf_cpumask_test_cpu(cpu, cores);
	scx_bpf_put_idle_cpumask(cores);
	return idle;
}

/* Return true if no CPU idles, so that every search would fail. */
static __always_inline bool nothing_idles(void)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	bool empty = bpf_cpumask_empty(idle);

	scx_bpf_put_idle_cpumask(idle);
	return empty;
}

/* Idle marks of CPUs that are not idle which a search passes over. */
#define MAX_STALE_MARKS 4

/*
 * Return true if @cpu is offline. The kernel leaves the idle mark of a CPU that
 * goes offline, but such a CPU does not wake.
 */
static __always_inline bool is_offline(s32 cpu)
{
	return READ_ONCE(cpu_ctx_of(cpu)->is_offline);
}

/*
 * Pick any idle CPU for @p. Return a negative error if there is none. A pinned
 * wakee leaves the mark of its CPU, which is about to be busy.
 */
static __always_inline s32 pick_any_idle(const struct task_struct *p)
{
	s32 cpu = -1, i;

	bpf_for(i, 0, MAX_STALE_MARKS) {
		cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
		if (cpu < 0 || (!is_offline(cpu) && !scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu)))
			break;
		cpu = -1;
	}
	return cpu;
}

/* Claim @prev for @p if it idles, and if its core meets @need. */
static __always_inline s32 claim_prev(const struct task_struct *p, s32 prev, enum idle_need need)
{
	if ((need == NEED_CORE && !core_is_idle(prev)) || !claim_if_idle(p, prev))
		return -1;
	stat_inc(BIAS_STAT_SELECT_PREV);
	return prev;
}

/* Where a step searches for an idle CPU. */
enum idle_where {
	WHERE_NEAR, /* the previous CPU, its LLC, its node */
	WHERE_FAR,  /* the machine */
};

/* Pick an idle CPU of @tier for @p. A global function as pick_near() is. */
__noinline int find_in_tier(struct task_struct *p __arg_trusted, s32 prev, u32 tier, enum idle_where where,
			    enum idle_need need)
{
	s32 cpu;

	if (where == WHERE_FAR)
		return pick_idle_in(p, nr_llcs, tier, need);
	cpu = tier_of(prev) == tier ? claim_prev(p, prev, need) : -1;
	return cpu < 0 ? pick_near(p, prev, tier, need) : cpu;
}

/* Pick an idle CPU of @cpu_class for @p, of the better tier if possible. */
static __always_inline s32 find_in_class(struct task_struct *p, s32 prev, u32 cpu_class,
					 enum idle_where where, enum idle_need need)
{
	u32 tier = cpu_class * BIAS_CLASS_TIERS;
	s32 cpu = find_in_tier(p, prev, tier, where, need);

	if (cpu < 0)
		cpu = find_in_tier(p, prev, tier + 1, where, need);
	if (cpu >= 0 && cpu != prev)
		stat_inc(cpu_class == BIAS_SLOW ? BIAS_STAT_SELECT_SLOW : BIAS_STAT_SELECT_FAST);
	return cpu;
}

/* Pick a whole idle core, or a thread that is worth more, of class @first. */
static __always_inline s32 find_core(struct task_struct *p, s32 prev, u32 first, enum idle_where where)
{
	s32 cpu = find_in_class(p, prev, first, where, NEED_CORE);

	if (cpu < 0 && smt_active && first == BIAS_FAST && sibling_beats_slow_core())
		cpu = find_in_class(p, prev, first, where, NEED_THREAD);
	if (cpu < 0 && two_classes)
		cpu = find_in_class(p, prev, other_class(first), where, NEED_CORE);
	return cpu;
}

/* Pick any idle CPU, of class @first if possible. */
static __always_inline s32 find_thread(struct task_struct *p, s32 prev, u32 first, enum idle_where where)
{
	s32 cpu = find_in_class(p, prev, first, where, NEED_THREAD);

	if (cpu < 0 && two_classes)
		cpu = find_in_class(p, prev, other_class(first), where, NEED_THREAD);
	return cpu;
}

/*
 * Pick an idle CPU for @p, which last ran on @prev. Try class @first, then the
 * other one. Return a negative error if there is none.
 */
static __always_inline s32 find_from_class(struct task_struct *p, s32 prev, u32 first)
{
	s32 cpu = -1;

	if (two_classes && roams(p)) {
		cpu = find_in_class(p, prev, first, WHERE_NEAR, NEED_CORE);
		if (cpu < 0)
			cpu = find_in_class(p, prev, first, WHERE_FAR, NEED_CORE);
	}
	if (cpu < 0)
		cpu = find_core(p, prev, first, WHERE_NEAR);
	if (cpu < 0 && nr_nodes > 1)
		cpu = find_core(p, prev, first, WHERE_FAR);
	if (cpu < 0 && smt_active)
		cpu = find_thread(p, prev, first, WHERE_NEAR);
	if (cpu < 0 && smt_active && nr_nodes > 1)
		cpu = find_thread(p, prev, first, WHERE_FAR);
	return cpu;
}

/*
 * Announce task @pid to the claimed @cpu. Return @cpu, or a negative error if
 * another task is on its way: the second one to arrive would wait for a slice.
 * So too if @cpu is offline: the kernel would send the task to a busy one. A
 * global function, as take_from_llc() is.
 */
__noinline int announce_to(s32 cpu, s32 pid)
{
	if (cpu < 0 || is_offline(cpu))
		return -1;
	if (announce_arrival(cpu_ctx_of(cpu), pid))
		return cpu;
	/* The CPU has lost its idle mark. It needs a kick if none arrives. */
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	return -1;
}

/*
 * Pick an idle CPU for @p, which last ran on @prev, and announce @p there.
 * Return a negative error if there is none.
 */
static __always_inline s32 find_idle(struct task_struct *p, s32 prev)
{
	u32 first = BIAS_FAST;
	s32 cpu;

	if (two_classes && counting && bias_of(task_ctx_of(p)) == BIAS_SLOW_BIASED)
		first = BIAS_SLOW;
	/* Most wakeups end here. */
	if (first == BIAS_SLOW || !tier_of(prev) || is_near_tier(tier_of(prev))) {
		cpu = claim_prev(p, prev, NEED_CORE);
		if (cpu >= 0)
			return announce_to(cpu, p->pid);
	}
	return nothing_idles() ? -1 : announce_to(find_from_class(p, prev, first), p->pid);
}

#endif
