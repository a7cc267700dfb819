/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Search for an idle CPU.
 *
 * Problem
 * A wakee should find a CPU that is idle, fast and near, in a few hundred
 * instructions. A thread whose sibling is busy is worth less than an idle core.
 *
 * Approach
 * The kernel keeps masks of idle CPUs and of wholly idle cores. The order is
 *
 *	whole fast core, whole slow core, fast thread, slow thread
 *
 * or fast threads second, if they add more throughput than slow cores. Each
 * step tries the better tier first, and in it the previous CPU, its LLC and its
 * node. Whole cores of other nodes go before threads of busy cores, and right
 * after those of this node for a task whose memory is on all nodes. A
 * slow-biased task takes its previous CPU if that is a whole idle core, else it
 * tries slow CPUs first.
 *
 * Invariants
 * A returned CPU was idle and is allowed. It has lost its idle mark, so the
 * caller gives it work or wakes it. No thread of a busy core is returned while
 * a whole core of its class idles in the same domain.
 *
 * Limits
 * The kernel chooses among equally good CPUs. A wakee keeps an idle CPU that is
 * a few percent slower than the best, until a tick moves it up. It wakes on a
 * slow CPU though fast ones of other nodes idle: its memory stays behind.
 */
#ifndef BIAS_IDLE_BPF_H
#define BIAS_IDLE_BPF_H

#include "access.bpf.h"
#include "arrival.bpf.h"
#include "classify.bpf.h"

enum idle_need {
	NEED_CORE,   /* all threads idle */
	NEED_THREAD, /* any */
};

static __always_inline s32 pick_from(const struct cpumask *mask, enum idle_need need)
{
	return scx_bpf_pick_idle_cpu(mask, smt_active && need == NEED_CORE ? SCX_PICK_IDLE_CORE : 0);
}

/* Pick in an LLC, a node or the machine. A search returns < 0 if none idles. */
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

static __always_inline bool nothing_idles(void)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	bool empty = bpf_cpumask_empty(idle);

	scx_bpf_put_idle_cpumask(idle);
	return empty;
}

/* Idle marks of busy or offline CPUs that a search passes over. */
#define MAX_STALE_MARKS 4

/* The kernel leaves the idle mark of an offline CPU, which does not wake. */
static __always_inline bool is_offline(s32 cpu)
{
	return READ_ONCE(cpu_ctx_of(cpu)->is_offline);
}

/* A pinned wakee leaves the idle mark of its CPU, which is about to be busy. */
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

static __always_inline s32 claim_prev(const struct task_struct *p, s32 prev, enum idle_need need)
{
	if ((need == NEED_CORE && !core_is_idle(prev)) || !claim_if_idle(p, prev))
		return -1;
	stat_inc(BIAS_STAT_SELECT_PREV);
	return prev;
}

enum idle_where {
	WHERE_NEAR, /* the previous CPU, its LLC, its node */
	WHERE_FAR,  /* the machine */
};

__noinline int find_in_tier(struct task_struct *p __arg_trusted, s32 prev, u32 tier, enum idle_where where,
			    enum idle_need need)
{
	s32 cpu;

	if (where == WHERE_FAR)
		return pick_idle_in(p, nr_llcs, tier, need);
	cpu = tier_of(prev) == tier ? claim_prev(p, prev, need) : -1;
	return cpu < 0 ? pick_near(p, prev, tier, need) : cpu;
}

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

/* Pick a whole core, of class @first if possible, or a thread worth more. */
static __always_inline s32 find_core(struct task_struct *p, s32 prev, u32 first, enum idle_where where)
{
	s32 cpu = find_in_class(p, prev, first, where, NEED_CORE);

	if (cpu < 0 && smt_active && first == BIAS_FAST && sibling_beats_slow_core())
		cpu = find_in_class(p, prev, first, where, NEED_THREAD);
	if (cpu < 0 && two_classes)
		cpu = find_in_class(p, prev, other_class(first), where, NEED_CORE);
	return cpu;
}

static __always_inline s32 find_thread(struct task_struct *p, s32 prev, u32 first, enum idle_where where)
{
	s32 cpu = find_in_class(p, prev, first, where, NEED_THREAD);

	if (cpu < 0 && two_classes)
		cpu = find_in_class(p, prev, other_class(first), where, NEED_THREAD);
	return cpu;
}

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
 * Announce task @pid to the claimed @cpu. Fail if another task is on its way,
 * or if @cpu is offline: the kernel would send the task to a busy CPU.
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

static __always_inline bool prefers_slow(struct task_struct *p)
{
	return two_classes && counting && bias_of(task_ctx_of(p)) == BIAS_SLOW_BIASED;
}

static __always_inline s32 find_idle(struct task_struct *p, s32 prev)
{
	u32 tier = tier_of(prev);
	s32 cpu;

	/* Most wakeups end here. Only below the best tiers, the bias counts. */
	if (!tier || is_near_tier(tier) || prefers_slow(p)) {
		cpu = claim_prev(p, prev, NEED_CORE);
		if (cpu >= 0)
			return announce_to(cpu, p->pid);
	}
	if (nothing_idles())
		return -1;
	return announce_to(find_from_class(p, prev, prefers_slow(p) ? BIAS_SLOW : BIAS_FAST), p->pid);
}

#endif
