/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Access to the state, and what it says about a CPU or a task.
 *
 * Problem
 * An index needs a bound for the verifier, and clang may move that away.
 *
 * Approach
 * One accessor per array masks the index. A __noinline function, unless static,
 * is global: the verifier checks it once, not once per call and path. One
 * without a result returns 0.
 *
 * Invariants
 * Apart from write_if_changed(), only a statistic of the own CPU is written.
 *
 * Limits
 * Of a core with more than four threads, not all siblings are checked.
 */
#ifndef BIAS_ACCESS_BPF_H
#define BIAS_ACCESS_BPF_H

#include "state.bpf.h"

/*
 * Mask an index where clang cannot move the bound. An invalid one comes from a
 * wrong table of the agent, which must not end the scheduler.
 */
#define bounded(i, size)                                                                                     \
	({                                                                                                   \
		u64 ___i = (u32)(i);                                                                         \
		_Static_assert(((size) & ((size) - 1)) == 0, "a mask needs a power of two");                 \
		asm volatile("%0 &= %1" : "+r"(___i) : "i"((size) - 1));                                     \
		___i;                                                                                        \
	})

static __always_inline struct cpu_ctx *cpu_ctx_of(s32 cpu)
{
	return &cpu_ctxs[bounded(cpu, BIAS_MAX_CPUS)];
}

static __always_inline struct bias_cpu_info *cpu_info_of(s32 cpu)
{
	return &cpu_info[bounded(cpu, BIAS_MAX_CPUS)];
}

/* Return the context of @p: NULL for a kthread, or if memory was short. */
static __always_inline struct task_ctx *task_ctx_of(struct task_struct *p)
{
	return bpf_task_storage_get(&task_ctxs, p, NULL, 0);
}

static __always_inline bool is_running(const struct task_struct *p, s32 cpu)
{
	const struct cpu_ctx *cctx = cpu_ctx_of(cpu);

	return cctx->run_pid == p->pid && (cctx->run_flags & RUN_BUSY);
}

/* Spare the shared cache line a store that changes nothing. */
static __always_inline void write_if_changed(u32 *word, u32 value)
{
	if (READ_ONCE(*word) != value)
		WRITE_ONCE(*word, value);
}

/* Return the entry of @cpu in the table in force. */
static __always_inline const struct bias_speed *speed_of(s32 cpu)
{
	return &speeds[bounded(((u32)cpu << 1) | (READ_ONCE(table_seq) & 1),
			       BIAS_MAX_CPUS * BIAS_TABLE_COPIES)];
}

static __always_inline bool cpu_is_slow(s32 cpu)
{
	return two_classes && speed_of(cpu)->cpu_class == BIAS_SLOW;
}

static __always_inline enum bias_class class_of(s32 cpu)
{
	return cpu_is_slow(cpu) ? BIAS_SLOW : BIAS_FAST;
}

static __always_inline u32 tier_of(s32 cpu)
{
	return two_classes ? speed_of(cpu)->tier : 0;
}

/* Return true if a task of another class runs on @cpu, or is about to. */
static __always_inline bool is_taken(s32 cpu)
{
	const struct rq *rq = bpf_per_cpu_ptr(&runqueues, cpu);

	return rq && rq->nr_running != rq->scx.nr_running;
}

static __always_inline bool has_worse_tier(s32 cpu)
{
	return two_classes && tiers_used[READ_ONCE(table_seq) & 1] >> (tier_of(cpu) + 1);
}

static __always_inline bool is_near_tier(u32 tier)
{
	return near_tiers[READ_ONCE(table_seq) & 1] >> tier & 1;
}

static __always_inline u32 other_class(u32 cpu_class)
{
	return cpu_class == BIAS_FAST ? BIAS_SLOW : BIAS_FAST;
}

static __always_inline u32 llc_of(s32 cpu)
{
	return cpu_info_of(cpu)->llc;
}

/*
 * Visit up to @most other CPUs of the LLC of @self in @cpu, which starts as
 * @self: in the order of their numbers, as from a ring.
 */
#define for_each_near(i, cpu, self, most)                                                                    \
	bpf_for(i, 0, most)                                                                                  \
		if ((cpu = cpu_info_of(cpu)->next) == (self))                                                \
			break;                                                                               \
		else

/* The verifier must see a constant offset for each mask. */
static __always_inline struct bpf_cpumask *mask_of(struct domain *d, u32 tier)
{
	switch (tier) {
	case 0:
		return d->mask[0];
	case 1:
		return d->mask[1];
	case 2:
		return d->mask[2];
	default:
		return d->mask[3];
	}
}

/* Return the domain to search after @cpu's LLC: its node, else the machine. */
static __always_inline u32 home_domain(s32 cpu)
{
	if (nr_nodes < 2)
		return nr_llcs;
	return nr_llcs + 1 + llc_ctxs[bounded(llc_of(cpu), BIAS_MAX_LLCS)].node;
}

static __always_inline bool sibling_beats_slow_core(void)
{
	return fast_sibling_first[READ_ONCE(table_seq) & 1];
}

#define MAX_SIBLINGS 3

/* Return true if a SCHED_EXT task runs on a sibling of @cpu. */
static __always_inline bool core_is_shared(s32 cpu)
{
	u32 sibling = cpu;

	if (!smt_active)
		return false;
#pragma unroll
	for (int i = 0; i < MAX_SIBLINGS; i++) {
		sibling = cpu_info_of(sibling)->sibling;
		if (sibling == cpu)
			return false;
		if (READ_ONCE(cpu_ctx_of(sibling)->run_flags) & RUN_BUSY)
			return true;
	}
	return false;
}

/* A CPU without a tick would not notice a task that waits (nohz.bpf.h). */
static __always_inline u64 kick_for_waiting(s32 cpu)
{
	if (nohz_full && (READ_ONCE(cpu_ctx_of(cpu)->run_flags) & RUN_UNTICKED))
		return SCX_KICK_PREEMPT;
	return SCX_KICK_IDLE;
}

static __always_inline void stat_add(enum bias_stat stat, u64 n)
{
	cpu_ctx_of(bpf_get_smp_processor_id())->stats[stat] += n;
}

static __always_inline void stat_inc(enum bias_stat stat)
{
	stat_add(stat, 1);
}

/* task_struct has this field only with CONFIG_PREEMPT_RCU. */
struct task_struct___preempt_rcu {
	int rcu_read_lock_nesting;
} __attribute__((preserve_access_index));

/*
 * Return true if @p itself called migrate_disable(). The depth of @programs, 2
 * if ops.cpu_release calls ops.enqueue, may count for the current task, too:
 * always with preemptible RCU, before 6.18 also without it. Patched kernels
 * differ, as scx_lib_init_probe() finds out. is_migration_disabled() reads the
 * kernel's configuration, which Debian hides in VMs.
 */
static __always_inline bool cannot_migrate(const struct task_struct *p, u32 programs)
{
	if (!bpf_core_field_exists(p->migration_disabled) || !p->migration_disabled)
		return false;
	if (p->migration_disabled > programs)
		return true;
	if (bpf_core_field_exists(((struct task_struct___preempt_rcu *)p)->rcu_read_lock_nesting) ||
	    (LINUX_KERNEL_VERSION < KERNEL_VERSION(6, 18, 0) && __scx_prolog_disables_migration))
		return bpf_get_current_task_btf() != p;
	return true;
}

static __always_inline bool is_pinned_within(const struct task_struct *p, u32 programs)
{
	return p->nr_cpus_allowed == 1 || cannot_migrate(p, programs);
}

static __always_inline bool is_pinned(const struct task_struct *p)
{
	return is_pinned_within(p, 1);
}

static __always_inline bool is_restricted(const struct task_struct *p)
{
	return p->nr_cpus_allowed < nr_cpus;
}

#define POLICY_INTERLEAVE	   3 /* from include/uapi/linux/mempolicy.h */
#define POLICY_WEIGHTED_INTERLEAVE 6

/*
 * Return true if the memory policy of @p prefers no node. One that is freed
 * meanwhile reads as garbage, at the cost of a migration.
 */
static __always_inline bool roams(const struct task_struct *p)
{
	const struct mempolicy *policy;

	if (nr_nodes < 2 || !bpf_core_field_exists(p->mempolicy))
		return false;
	policy = p->mempolicy;
	return policy && (policy->mode == POLICY_INTERLEAVE || policy->mode == POLICY_WEIGHTED_INTERLEAVE);
}

#endif
