/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cpu.weight: a cgroup's share of the machine, whatever the number of its tasks.
 *
 * Problem. Queues hold tasks, but weights are given to cgroups, which are nested. A group of weight 100
 * with ten busy tasks deserves as much as one busy task outside.
 *
 * Approach. The tree is flattened: a task's weight, seen from the top, is its share of its group's
 * active weight times the group's weight, level by level (bias_group_weight()). A group's active weight
 * is the sum over what is runnable in it, tasks and child groups; a child counts from its first
 * runnable task to its last. Sums change in ops.runnable and ops.quiescent, which the kernel also calls
 * around a move between cgroups and a change of weight, so that what was added under one name and
 * weight is taken away under the same.
 *
 * What arrives at the top is the weight of all that competes. It is counted on the CPU that counts it, and
 * only the sum over all CPUs has a meaning (account.bpf.h).
 *
 * Invariants. Tasks of the root group cost no atomics. A group's active weight returns to
 * zero with its last runnable task.
 *
 * Limits. The first MAX_LEVELS levels and MAX_GROUPS ids count, deeper or later groups are taken as the
 * root (statistics: groups_ignored). Sums are read without a lock: a share is off for the length of a
 * race, not for longer. cpu.max is not enforced.
 */
#ifndef BIAS_GROUP_BPF_H
#define BIAS_GROUP_BPF_H

#include "state.bpf.h"

#define MAX_LEVELS  8
#define ROOT_CSS_ID 1

/* The css id of @tg's cgroup if its sums are kept, else 0: the root, or beyond the table. */
static __always_inline u32 group_id(const struct task_group *tg)
{
	u32 id = tg->css.id;

	if (id <= ROOT_CSS_ID)
		return 0;
	if (id >= MAX_GROUPS) {
		stat_inc(BIAS_STAT_GROUPS_IGNORED);
		return 0;
	}
	return id;
}

/*
 * The weight of @tg in our unit; the kernel keeps 1024 shares, scaled up by another 1024, for a weight
 * of 100.
 */
static __always_inline u32 group_weight(const struct task_group *tg)
{
	u64 weight = (tg->shares >> 10) * 100;

	return weight ? weight : 1;
}

static __always_inline struct task_group *group_of(const struct task_struct *p)
{
	if (!bpf_core_field_exists(p->sched_task_group) || !bpf_core_field_exists(struct task_group, shares))
		return NULL;
	return p->sched_task_group;
}

/*
 * Count @p's weight in its group, and the group in its parent if @p is the first, and so on; or take it away
 * again, the group with its last task.
 */
static __always_inline void group_count(const struct task_struct *p, const bool joins)
{
	struct task_group *tg = group_of(p);
	u64 weight = (u64)p->scx.weight << BIAS_WEIGHT_SHIFT;

#pragma unroll
	for (int level = 0; level < MAX_LEVELS; level++) {
		struct group_ctx *group;
		s64 others;
		u32 id;

		if (!tg || !(id = group_id(tg)))
			break;
		group = &groups[bounded(id, MAX_GROUPS)];
		if (joins)
			others = __sync_fetch_and_add(&group->active, weight);
		else
			others = __sync_fetch_and_add(&group->active, -weight) - weight;
		if (others > 0)
			return;
		/* What is taken away later is what was counted, whatever the group's weight is by then. */
		if (joins)
			group->counted = group_weight(tg);
		weight = group->counted;
		tg = tg->parent;
	}
	cpu_ctx_of(bpf_get_smp_processor_id())->weight += joins ? weight : -weight;
}

/* The weight of @p seen from the top of the tree, in units of 1 / 2^BIAS_WEIGHT_SHIFT. */
static __always_inline u32 effective_weight(const struct task_struct *p)
{
	struct task_group *tg = group_of(p);
	u32 weight = p->scx.weight << BIAS_WEIGHT_SHIFT;

#pragma unroll
	for (int level = 0; level < MAX_LEVELS; level++) {
		u32 id;

		if (!tg || !(id = group_id(tg)))
			break;
		weight = bias_group_weight(weight, group_weight(tg), groups[bounded(id, MAX_GROUPS)].active);
		tg = tg->parent;
	}
	return weight;
}

#endif
