/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Weights of tasks that share an affinity.
 *
 * Problem
 * Where demand is low, all tasks get ahead of the global vtime, and elsewhere
 * behind. Limits keep tasks from starving once these parts of the machine mix.
 * But tasks that are cut to the same limit are equal, regardless of weight.
 *
 * Approach
 * Restricted tasks of one affinity, even of one CPU, are a partition. If one
 * exceeds a limit, it is cut, and the partition's lead changes by as much. Each
 * task moves by that change when it is enqueued next, so that differences stay.
 *
 * Invariants
 * The limits of clamp_vtime() hold. A task that joins keeps its vtime.
 *
 * Limits
 * Size, first CPU and first 64 CPUs identify a partition. While two use one
 * slot, each starts again all the time, and its tasks are only cut. Waiting
 * tasks keep their vtime: a change that is large beside a slice blurs weights.
 * Overlapping affinities are partitions of their own.
 */
#ifndef BIAS_PARTITION_BPF_H
#define BIAS_PARTITION_BPF_H

#include "access.bpf.h"

#define SPREAD	 0x9e3779b97f4a7c15ull /* 2^64 over the golden ratio */
#define TAKEN_NS (1ull << 48)	       /* added when another takes the slot */

static __always_inline u64 partition_key(const struct task_struct *p)
{
	u64 first, size = p->nr_cpus_allowed;

	if (!is_restricted(p))
		return 0;
	first = bpf_cpumask_first(p->cpus_ptr);
	return (p->cpus_ptr->bits[0] ^ first << 32 ^ size << 48) * SPREAD;
}

static __always_inline struct partition *partition_of(u64 key)
{
	return &partitions[(key >> 32) % NR_PARTITIONS];
}

/* Move @p, which is enqueued, by the change of its partition's lead. */
__noinline int follow_partition(struct task_struct *p __arg_trusted)
{
	u64 key = partition_key(p), lead_ns, grown_ns;
	struct task_ctx *tctx;
	struct partition *part;

	if (!key)
		return 0;
	tctx = task_ctx_of(p);
	if (!tctx)
		return 0;
	part = partition_of(key);
	if (READ_ONCE(part->key) != key) {
		WRITE_ONCE(part->key, key);
		__sync_fetch_and_add(&part->lead_ns, TAKEN_NS);
	}
	lead_ns = READ_ONCE(part->lead_ns);
	grown_ns = lead_ns - tctx->partition_lead_ns;
	if (tctx->partition == key && grown_ns && grown_ns + TAKEN_NS / 2 < TAKEN_NS)
		scx_bpf_task_set_dsq_vtime(p, p->scx.dsq_vtime - grown_ns);
	tctx->partition = key;
	tctx->partition_lead_ns = lead_ns;
	return 0;
}

/*
 * Add @excess_ns, by which @p is set back, to its partition's lead. What
 * exceeds the charge for its run on @cpu is a lead of @p alone.
 */
__noinline int lead_partition(struct task_struct *p __arg_trusted, s32 cpu, s64 excess_ns)
{
	const struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	s64 most_ns = cctx->run_pid == p->pid ? bias_charge(cctx->ran_ns, cctx->run_weight) : 0;
	u64 key = partition_key(p);
	struct task_ctx *tctx;

	if (!key)
		return 0;
	tctx = task_ctx_of(p);
	if (!tctx || tctx->partition != key)
		return 0;
	if (excess_ns > most_ns)
		excess_ns = most_ns;
	__sync_fetch_and_add(&partition_of(key)->lead_ns, excess_ns);
	tctx->partition_lead_ns += excess_ns;
	return 0;
}

#endif
