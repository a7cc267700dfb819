/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Replacement of the capacity table while CPUs read it.
 *
 * Problem
 * Every switch on every CPU reads the costs of CPUs and classes, and which are
 * slow, while the agent changes them. No CPU may mix two tables, or wait.
 *
 * Approach
 * The agent writes the copy of the table that is not in force, and the program
 * below puts it in force with one store. The lowest bit of table_seq selects
 * the copy, and a reader takes it once for each decision. Both copies of an
 * entry share a cache line. When the agent writes the next table, no CPU reads
 * the old copy any more.
 *
 * The masks by tier (idle.bpf.h) exist once. A CPU joins the mask of its new
 * tier before the store, and leaves the old one after it: a search meanwhile
 * may find it as one of its old tier.
 *
 * Limits
 * Only the agent's main thread writes. A decision longer than the half second
 * between two tables would read a half-written copy and mischarge one run.
 */
#ifndef BIAS_TABLE_BPF_H
#define BIAS_TABLE_BPF_H

#include "access.bpf.h"

static __always_inline void mark_in_domain(u32 domain, u32 cpu, u32 tier, bool in)
{
	struct domain *d = bpf_map_lookup_elem(&domains, &domain);
	struct bpf_cpumask *mask;

	if (!d)
		return;
	bpf_rcu_read_lock();
	mask = mask_of(d, tier);
	if (mask && in)
		bpf_cpumask_set_cpu(cpu, mask);
	else if (mask)
		bpf_cpumask_clear_cpu(cpu, mask);
	bpf_rcu_read_unlock();
}

static __always_inline void mark_in_domains(u32 cpu, u32 tier, bool in)
{
	mark_in_domain(llc_of(cpu), cpu, tier, in);
	mark_in_domain(nr_llcs, cpu, tier, in);
	if (nr_nodes > 1)
		mark_in_domain(home_domain(cpu), cpu, tier, in);
}

static __always_inline u32 tier_by(u32 cpu, u32 seq)
{
	return speeds[bounded((cpu << 1) | (seq & 1), BIAS_MAX_CPUS * BIAS_TABLE_COPIES)].tier;
}

SEC("syscall")
int bias_table_replace(void *ctx)
{
	u32 old = table_seq, new = old + 1, cpu;

	bpf_for(cpu, 0, nr_cpus) {
		if (tier_by(cpu, new) != tier_by(cpu, old))
			mark_in_domains(cpu, tier_by(cpu, new), true);
	}
	/* The agent's fence and the masks' atomics order earlier writes. */
	WRITE_ONCE(table_seq, new);
	bpf_for(cpu, 0, nr_cpus) {
		if (tier_by(cpu, new) != tier_by(cpu, old))
			mark_in_domains(cpu, tier_by(cpu, old), false);
	}
	return 0;
}

#endif
