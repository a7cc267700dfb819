/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Finding an idle CPU.
 *
 * Problem. A waking task should find a CPU that is idle, fast and near, in a few hundred instructions.
 *
 * Approach. The kernel keeps masks of idle CPUs; it is asked to pick from the mask of one class in one
 * domain, the LLC first, the machine then, whole cores before siblings. A task that may not run
 * everywhere is matched with its affinity in a per-CPU scratch mask. A fast CPU is better than a slow
 * one, and of the same class the previous one is best; a task of SLOW bias takes its previous CPU, then
 * any slow one.
 *
 * Invariants. A CPU that is returned was idle, is allowed for the task, and is no longer marked idle:
 * the caller must give it work or wake it.
 *
 * Limits. Which of several equally good CPUs is taken is the kernel's choice. NUMA nodes are respected
 * only in that an LLC never spans two.
 */
#ifndef BIAS_IDLE_BPF_H
#define BIAS_IDLE_BPF_H

#include "state.bpf.h"
#include "place.bpf.h"

static __always_inline s32 pick_from(const struct cpumask *mask)
{
	if (smt_active) {
		s32 cpu = scx_bpf_pick_idle_cpu(mask, SCX_PICK_IDLE_CORE);

		if (cpu >= 0)
			return cpu;
	}
	return scx_bpf_pick_idle_cpu(mask, 0);
}

/*
 * An idle CPU of @class_ in @domain (an LLC, or nr_llcs for the machine) that @p may run on, or a
 * negative error.
 */
static __always_inline s32 pick_idle_in(const struct task_struct *p, u32 domain, u32 class_)
{
	struct domain *d = bpf_map_lookup_elem(&domains, &domain);
	struct scratch *scratch;
	struct bpf_cpumask *mask, *both;
	u32 zero = 0;

	if (!d)
		return -ENOENT;
	mask = class_ == BIAS_SLOW ? d->mask[BIAS_SLOW] : d->mask[BIAS_FAST];
	if (!mask)
		return -ENOENT;
	if (!is_restricted(p))
		return pick_from(cast_mask(mask));
	scratch = bpf_map_lookup_elem(&scratches, &zero);
	if (!scratch || !(both = scratch->mask))
		return -ENOENT;
	if (!bpf_cpumask_and(both, cast_mask(mask), p->cpus_ptr))
		return -EBUSY;
	return pick_from(cast_mask(both));
}

/* An idle CPU of @class_ for @p, in the LLC @llc if there is one, else anywhere. */
static __always_inline s32 pick_idle(const struct task_struct *p, u32 llc, u32 class_)
{
	s32 cpu = pick_idle_in(p, llc, class_);

	if (cpu < 0 && nr_llcs > 1)
		cpu = pick_idle_in(p, nr_llcs, class_);
	return cpu;
}

/* May @p run on any CPU of @class_? */
static __always_inline bool may_run_on_class(const struct task_struct *p, u32 class_)
{
	u32 machine = nr_llcs;
	struct domain *d;
	struct bpf_cpumask *mask;

	if (!is_restricted(p))
		return true;
	d = bpf_map_lookup_elem(&domains, &machine);
	if (!d)
		return true;
	mask = class_ == BIAS_SLOW ? d->mask[BIAS_SLOW] : d->mask[BIAS_FAST];
	return !mask || bpf_cpumask_intersects(cast_mask(mask), p->cpus_ptr);
}

static __always_inline bool claim_if_idle(const struct task_struct *p, s32 cpu)
{
	return (!is_restricted(p) || bpf_cpumask_test_cpu(cpu, p->cpus_ptr)) &&
	       scx_bpf_test_and_clear_cpu_idle(cpu);
}

/* @prev if it is idle, counted; or -1. */
static __always_inline s32 claim_prev(const struct task_struct *p, s32 prev)
{
	if (!claim_if_idle(p, prev))
		return -1;
	stat_inc(BIAS_STAT_SELECT_PREV);
	return prev;
}

/* An idle CPU of @class_ near @prev, counted; or a negative error. */
static __always_inline s32 pick_near(const struct task_struct *p, s32 prev, u32 class_)
{
	s32 cpu = pick_idle(p, llc_of(prev), class_);

	if (cpu >= 0)
		stat_inc(class_ == BIAS_SLOW ? BIAS_STAT_SELECT_SLOW : BIAS_STAT_SELECT_FAST);
	return cpu;
}

/* An idle CPU for @p, which gains little from fast ones and leaves them to others; or a negative error. */
static __always_inline s32 find_idle_slow_first(const struct task_struct *p, s32 prev)
{
	s32 cpu = claim_prev(p, prev);

	if (cpu < 0)
		cpu = pick_near(p, prev, BIAS_SLOW);
	return cpu < 0 ? pick_near(p, prev, BIAS_FAST) : cpu;
}

/* An idle CPU for @p that last ran on @prev; or a negative error. */
static __always_inline s32 find_idle(struct task_struct *p, s32 prev)
{
	bool prev_slow = cpu_is_slow(prev);
	s32 cpu;

	if (two_classes && counting && kind_of(task_ctx_of(p)) == BIAS_KIND_SLOW)
		return find_idle_slow_first(p, prev);
	cpu = prev_slow ? -1 : claim_prev(p, prev);
	if (cpu < 0)
		cpu = pick_near(p, prev, BIAS_FAST);
	if (cpu < 0 && prev_slow)
		cpu = claim_prev(p, prev);
	return cpu < 0 && two_classes ? pick_near(p, prev, BIAS_SLOW) : cpu;
}

#endif
