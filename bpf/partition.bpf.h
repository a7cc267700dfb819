/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Weights of tasks that share an affinity.
 *
 * Problem
 * In a part of the machine with little demand, all tasks get ahead of the
 * global vtime, and in one with much demand behind it. No task may wait far
 * ahead of it, or it would starve once the parts mix, and none may be far
 * behind. But if each task is cut to the same limit, all of them are equal, and
 * their weights do not count.
 *
 * Approach
 * Restricted tasks of one affinity are a partition, also those of one CPU. If
 * one of them exceeds a limit, it is cut, and the partition's lead changes by
 * that much. Every task of the partition is moved by that change when it is
 * enqueued next. So the differences between them stay, and with them their
 * weights.
 *
 * Invariants
 * The limits of clamp_vtime() hold for every task. A task that joins a
 * partition keeps its vtime.
 *
 * Limits
 * A partition is known by its size, its first CPU and its part of the first 64
 * CPUs. While two partitions use one slot, each starts again all the time, and
 * its tasks are only cut. Tasks that already wait keep their vtime, so a change
 * that is large beside a slice blurs the weights. Overlapping affinities are
 * partitions of their own.
 */
#ifndef BIAS_PARTITION_BPF_H
#define BIAS_PARTITION_BPF_H

#include "access.bpf.h"

/* 2^64 over the golden ratio, which spreads keys over the slots. */
#define SPREAD 0x9e3779b97f4a7c15ull

/*
 * What the lead of a slot grows by when another partition takes it. Tasks that
 * find it changed by half of this or more start again.
 */
#define TAKEN_NS (1ull << 48)

/* Return the partition of @p, or 0 if @p is not restricted. */
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

/*
 * Move @p, which is enqueued, by what its partition's lead has changed since
 * its last time here. Return 0. This function and the next are global so that
 * the verifier checks each of them once.
 */
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
 * Let the lead of the partition of @p, which ran on @cpu, grow by @excess_ns, by
 * which @p is set back, but no more than @p was charged for that run: any other
 * lead is one of @p alone. It shrinks if @excess_ns is negative.
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
