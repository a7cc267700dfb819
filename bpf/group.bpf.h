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
 * The kernel tells nothing of a changed weight, so a task that is charged compares what each of its
 * groups counts for with the group's weight, and corrects the sum above.
 *
 * Invariants. Tasks of the root group cost no atomics. A group's active weight returns to
 * zero with its last runnable task. Neither a deep hierarchy nor a great number of groups gains weight.
 *
 * Limits. Groups beyond MAX_GROUPS share one group's weight among them (statistics: groups_ignored),
 * and a task below MAX_LEVELS levels has the least weight there is. Sums are read without a lock: a
 * share is off for the length of a race, not for longer. cpu.max is not enforced.
 */
#ifndef BIAS_GROUP_BPF_H
#define BIAS_GROUP_BPF_H

#include "state.bpf.h"

/* Levels that are walked in a row; what is below them costs a call more. */
#define NEAR_LEVELS 4
#define MAX_LEVELS  256
#define ROOT_CSS_ID 1
/* Stands for all groups beyond the table, a child of the root. */
#define OTHER_GROUPS (MAX_GROUPS - 1)

/* The index of @tg's sums, 0 for the root. */
static __always_inline u32 group_id(const struct task_group *tg)
{
	u32 id = tg->css.id;

	if (id <= ROOT_CSS_ID)
		return 0;
	if (id >= OTHER_GROUPS) {
		stat_inc(BIAS_STAT_GROUPS_IGNORED);
		return OTHER_GROUPS;
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

/* What the group of index @id, which is @tg's, weighs in its parent. */
static __always_inline u32 weight_above(const struct task_group *tg, u32 id)
{
	return id == OTHER_GROUPS ? BIAS_WEIGHT_NICE_0 : group_weight(tg);
}

/* A walk from a task's group up to the root. */
struct group_walk {
	struct task_group *tg; /* the next level, NULL above the root's children */
	u64 weight;	       /* of what is below, in @tg */
};

static __always_inline void step_up(struct group_walk *walk, u32 id)
{
	walk->tg = id == OTHER_GROUPS ? NULL : walk->tg->parent;
}

/*
 * Count the walk's weight in its level, and go up if the level thereby comes to life or dies. Return
 * false if the levels above stay as they are.
 */
static __always_inline bool count_level(struct group_walk *walk, bool joins)
{
	struct group_ctx *group;
	s64 others;
	u32 id;

	if (!walk->tg || !(id = group_id(walk->tg))) {
		cpu_ctx_of(bpf_get_smp_processor_id())->weight += joins ? walk->weight : -walk->weight;
		return false;
	}
	group = &groups[bounded(id, MAX_GROUPS)];
	if (joins)
		others = __sync_fetch_and_add(&group->active, walk->weight);
	else
		others = __sync_fetch_and_add(&group->active, -walk->weight) - walk->weight;
	if (others > 0)
		return false;
	/* What is taken away later is what was counted, whatever the group's weight is by then. */
	if (joins)
		group->counted = weight_above(walk->tg, id);
	walk->weight = group->counted;
	step_up(walk, id);
	return true;
}

static __noinline void count_far_levels(struct task_group *tg, u64 weight, bool joins)
{
	struct group_walk walk = {.tg = tg, .weight = weight};
	u32 level;

	bpf_for(level, NEAR_LEVELS, MAX_LEVELS) {
		if (!count_level(&walk, joins))
			break;
	}
}

/*
 * Count @p's weight in its group, and the group in its parent if @p is the first, and so on; or take it away
 * again, the group with its last task.
 */
static __always_inline void group_count(const struct task_struct *p, const bool joins)
{
	struct group_walk walk = {.tg = group_of(p), .weight = (u64)p->scx.weight << BIAS_WEIGHT_SHIFT};

#pragma unroll
	for (int level = 0; level < NEAR_LEVELS; level++) {
		if (!count_level(&walk, joins))
			return;
	}
	count_far_levels(walk.tg, walk.weight, joins);
}

/*
 * @group, of @tg, is busy and counts for @counted in its parent, but weighs @weight by now: correct the
 * parent's sum. Of CPUs that race one does it. The group stays busy meanwhile, for a task of it runs.
 */
static __always_inline void count_again(struct group_ctx *group, struct task_group *tg, u64 counted,
					u64 weight)
{
	u32 above;

	if (__sync_val_compare_and_swap(&group->counted, counted, weight) != counted)
		return;
	tg = tg->parent;
	above = tg ? group_id(tg) : 0;
	if (above)
		__sync_fetch_and_add(&groups[bounded(above, MAX_GROUPS)].active, weight - counted);
	else
		cpu_ctx_of(bpf_get_smp_processor_id())->weight += weight - counted;
}

/* Scale the walk's weight by its level, and go up; return false at the top. @runs if the task runs. */
static __always_inline bool scale_level(struct group_walk *walk, bool runs)
{
	struct group_ctx *group;
	u32 id, weight;
	u64 counted;

	if (!walk->tg || !(id = group_id(walk->tg)))
		return false;
	group = &groups[bounded(id, MAX_GROUPS)];
	weight = weight_above(walk->tg, id);
	counted = READ_ONCE(group->counted);
	if (runs && counted != weight && id != OTHER_GROUPS)
		count_again(group, walk->tg, counted, weight);
	walk->weight = bias_group_weight(walk->weight, weight, group->active);
	step_up(walk, id);
	return true;
}

static __noinline u32 scale_far_levels(struct task_group *tg, u64 weight, bool runs)
{
	struct group_walk walk = {.tg = tg, .weight = weight};
	u32 level;

	bpf_for(level, NEAR_LEVELS, MAX_LEVELS) {
		if (!scale_level(&walk, runs))
			return walk.weight;
	}
	return 1;
}

/*
 * The weight of @p seen from the top of the tree, in units of 1 / 2^BIAS_WEIGHT_SHIFT. If @p @runs, sums
 * above its groups follow their weights.
 */
static __always_inline u32 effective_weight(const struct task_struct *p, bool runs)
{
	struct group_walk walk = {.tg = group_of(p), .weight = p->scx.weight << BIAS_WEIGHT_SHIFT};

#pragma unroll
	for (int level = 0; level < NEAR_LEVELS; level++) {
		if (!scale_level(&walk, runs))
			return walk.weight;
	}
	return scale_far_levels(walk.tg, walk.weight, runs);
}

#endif
