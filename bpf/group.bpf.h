/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * cpu.weight: a cgroup's share of the machine, however many tasks it has.
 *
 * Problem
 * DSQs hold tasks, but users give weights to nested cgroups. A group of weight
 * 100 with ten busy tasks deserves as much as one busy task outside.
 *
 * Approach
 * The tree is flattened: a task's weight from the top is, level by level, its
 * share of its group's active weight times the group's weight
 * (bias_group_weight()). The active weight is that of runnable tasks and active
 * child groups. What arrives at the top is the weight of all competing tasks:
 * each CPU counts a part, and only the sum has meaning.
 *
 * ops.runnable and ops.quiescent change the sums. The kernel also calls them
 * around a move between cgroups and a change of a task's weight, but ticks must
 * look for a changed group weight. A busy CPU owes its changes to one group
 * until its task sleeps, ticks or is of another group. Else wakers would write
 * it at each switch.
 *
 * Invariants
 * Tasks of the root group cost no atomics. A group's active weight returns to
 * zero with its last runnable task. Neither a deep hierarchy nor many groups
 * gain weight. A CPU without a SCHED_EXT task, or without a tick, owes nothing.
 *
 * Limits
 * Groups beyond MAX_GROUPS share the weight of one group below the root, and
 * each has at most its parent's share (statistics: groups_ignored). Below
 * MAX_LEVELS levels, tasks have the least weight. A share is off during a race,
 * and by what busy CPUs owe until they tick, MOST_OWED each.
 */
#ifndef BIAS_GROUP_BPF_H
#define BIAS_GROUP_BPF_H

#include "access.bpf.h"
#include "quota.bpf.h"

/* Levels that are walked inline; deeper ones cost another call. */
#define NEAR_LEVELS 4
#define MAX_LEVELS  256
#define ROOT_CSS_ID 1
/* Stands for all groups beyond the table, as a child of the root. */
#define OTHER_GROUPS (MAX_GROUPS - 1)

/* Return the index of @tg's sums, 0 for the root. */
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

/* Return @tg's weight, shifted. A weight of 100 has 1024 * 1024 shares. */
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

static __always_inline u32 weight_above(const struct task_group *tg, u32 id)
{
	return id == OTHER_GROUPS ? BIAS_WEIGHT_NICE_0 : group_weight(tg);
}

static __always_inline bool is_noted(const struct task_group *tg, u32 id)
{
	return READ_ONCE(groups[bounded(id, MAX_GROUPS)].serial) == tg->css.serial_nr;
}

/*
 * Note parent and weight of new groups from @tg, of index @id, upwards. The
 * kernel reuses ids: forget the quota that a removed group has used.
 */
static __always_inline void note_group(struct task_group *tg, u32 id)
{
	u32 level;

	bpf_for(level, 0, MAX_LEVELS) {
		struct group_ctx *group = &groups[bounded(id, MAX_GROUPS)];

		if (id == OTHER_GROUPS)
			group->weight = BIAS_WEIGHT_NICE_0;
		if (id == OTHER_GROUPS || is_noted(tg, id))
			break;
		WRITE_ONCE(group->weight, group_weight(tg));
		WRITE_ONCE(group->serial, tg->css.serial_nr);
		WRITE_ONCE(group->used_ns, 0);
		WRITE_ONCE(group->throttled_until_ns, 0);
		tg = tg->parent;
		id = tg ? group_id(tg) : 0;
		WRITE_ONCE(group->parent, id);
		if (!id)
			break;
	}
}

/*
 * Add @weight to the active weight of group @id, and update what it counts in
 * its parent, and so on. Of CPUs that race, the last exchange sees all changes.
 */
__noinline int add_to_group(u32 id, s64 weight)
{
	s64 change = 0, active, due;
	u32 step;

	/* Each level takes two steps, and one more for each race. */
	bpf_for(step, 0, 4 * MAX_LEVELS) {
		struct group_ctx *group = &groups[bounded(id, MAX_GROUPS)];

		if (!id) {
			cpu_ctx_of(bpf_get_smp_processor_id())->weight += weight;
			break;
		}
		/* An add whose result is used is a barrier also on arm64. */
		active = weight ? __sync_add_and_fetch(&group->active, weight) : READ_ONCE(group->active);
		weight = 0;
		due = active > 0 ? READ_ONCE(group->weight) : 0;
		if (READ_ONCE(group->counted) != due) {
			change += due - __sync_lock_test_and_set(&group->counted, due);
			continue;
		}
		if (!change)
			break;
		weight = change;
		change = 0;
		id = READ_ONCE(group->parent);
	}
	return 0;
}

/* Weight that a CPU owes to a group at most. */
#define MOST_OWED (2ll * BIAS_WEIGHT_NICE_0)

__noinline int settle_weight(s32 cpu)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	s64 owed = cctx->owed_weight;

	if (!owed)
		return 0;
	cctx->owed_weight = 0;
	return add_to_group(cctx->owed_group, owed);
}

static __always_inline void group_count(const struct task_struct *p, const bool joins)
{
	s32 cpu = bpf_get_smp_processor_id();
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	s64 weight = (s64)p->scx.weight << BIAS_WEIGHT_SHIFT;
	struct task_group *tg = group_of(p);
	u32 id = tg ? group_id(tg) : 0;

	if (!joins)
		weight = -weight;
	if (id) {
		if (!is_noted(tg, id))
			note_group(tg, id);
		if (cctx->owed_group != id) {
			settle_weight(cpu);
			cctx->owed_group = id;
		}
		cctx->owed_weight += weight;
	} else {
		cctx->weight += weight;
	}
	if ((cctx->run_flags & (RUN_BUSY | RUN_UNTICKED)) != RUN_BUSY || cctx->owed_weight > MOST_OWED ||
	    cctx->owed_weight < -MOST_OWED)
		settle_weight(cpu);
}

/* Count the changed weights of @p's groups in their parents. */
__noinline int follow_weights(struct task_struct *p __arg_trusted)
{
	struct task_group *tg = group_of(p);
	u32 level;

	bpf_for(level, 0, MAX_LEVELS) {
		u32 id = tg ? group_id(tg) : 0;
		s64 *weight = &groups[bounded(id, MAX_GROUPS)].weight, now;

		if (!id)
			break;
		now = weight_above(tg, id);
		if (READ_ONCE(*weight) != now) {
			WRITE_ONCE(*weight, now);
			add_to_group(id, 0);
		}
		tg = tg->parent;
	}
	return 0;
}

struct group_walk {
	struct task_group *tg; /* next level; NULL above the root's children */
	u64 weight;	       /* weight from below, in @tg */
};

/* Go up a level, and charge @ran_ns there. Return false at the top. */
static __always_inline bool scale_level(struct group_walk *walk, u64 ran_ns)
{
	struct group_ctx *group;
	u32 id, weight;

	if (!walk->tg || !(id = group_id(walk->tg)))
		return false;
	group = &groups[bounded(id, MAX_GROUPS)];
	weight = weight_above(walk->tg, id);
	if (ran_ns && id != OTHER_GROUPS && has_quota(walk->tg))
		charge_quota(group, walk->tg, ran_ns);
	walk->weight = bias_group_weight(walk->weight, weight, READ_ONCE(group->active));
	walk->tg = walk->tg->parent;
	return true;
}

static __noinline u32 scale_far_levels(struct task_group *tg, u64 weight, u64 ran_ns)
{
	struct group_walk walk = {.tg = tg, .weight = weight};
	u32 level;

	bpf_for(level, NEAR_LEVELS, MAX_LEVELS) {
		if (!scale_level(&walk, ran_ns))
			return walk.weight;
	}
	return 1;
}

/* Return @p's weight from the top, shifted. Charge its quotas with @ran_ns. */
static __always_inline u32 effective_weight(const struct task_struct *p, u64 ran_ns)
{
	struct group_walk walk = {.tg = group_of(p), .weight = p->scx.weight << BIAS_WEIGHT_SHIFT};

#pragma unroll
	for (int level = 0; level < NEAR_LEVELS; level++) {
		if (!scale_level(&walk, ran_ns))
			return walk.weight;
	}
	return scale_far_levels(walk.tg, walk.weight, ran_ns);
}

#endif
