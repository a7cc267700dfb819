/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Replacement of the capacity table while CPUs read it.
 *
 * Problem
 * Every switch on every CPU reads what CPUs cost, which of them are slow and
 * what a class costs. The agent changes all of that meanwhile. No CPU may
 * compute with half of one table and half of another, and no CPU may wait.
 *
 * Approach
 * There are two copies of the table. The agent writes the copy that is not in
 * force and runs the program below, which puts it in force with one store.
 * table_seq counts the tables, and its lowest bit selects the copy. A reader
 * takes that bit once for each decision. The two copies of an entry share a
 * cache line, so a reader pays one more load. The agent writes a copy again
 * only with the next table, milliseconds later at the earliest, when no CPU
 * reads it any more.
 *
 * The masks of CPUs by tier (idle.bpf.h) exist once. A CPU that changes its
 * tier is first added to the mask of its new tier. Then the table comes into
 * force, and then the CPU leaves its old mask. Meanwhile it is in both, and a
 * search may find it idle as one of its former tier. A search just before would
 * have done the same.
 *
 * A running task gets its new charge rate at its CPU's next tick
 * (account.bpf.h).
 *
 * Limits
 * Only the agent's main thread writes. A program would read a half-written copy
 * if one decision took longer than the half second between two tables. It would
 * then charge one run wrongly.
 */
#ifndef BIAS_TABLE_BPF_H
#define BIAS_TABLE_BPF_H

#include "access.bpf.h"

/* Add @cpu to the mask of @tier in domain @domain if @in, else remove it. */
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

/* Do the same for the LLC and the node of @cpu, and for the machine. */
static __always_inline void mark_in_domains(u32 cpu, u32 tier, bool in)
{
	mark_in_domain(llc_of(cpu), cpu, tier, in);
	mark_in_domain(nr_llcs, cpu, tier, in);
	if (nr_nodes > 1)
		mark_in_domain(home_domain(cpu), cpu, tier, in);
}

/* Return the tier of @cpu in the table of sequence number @seq. */
static __always_inline u32 tier_by(u32 cpu, u32 seq)
{
	return speeds[bounded((cpu << 1) | (seq & 1), BIAS_MAX_CPUS * BIAS_TABLE_COPIES)].tier;
}

/* Put the other copy of the table, which the agent has written, in force. */
SEC("syscall")
int bias_table_replace(void *ctx)
{
	u32 old = table_seq, new = old + 1, cpu;

	bpf_for(cpu, 0, nr_cpus) {
		if (tier_by(cpu, new) != tier_by(cpu, old))
			mark_in_domains(cpu, tier_by(cpu, new), true);
	}
	/*
	 * Other CPUs see earlier writes first: the agent's system call and the
	 * atomics of the masks order them.
	 */
	WRITE_ONCE(table_seq, new);
	bpf_for(cpu, 0, nr_cpus) {
		if (tier_by(cpu, new) != tier_by(cpu, old))
			mark_in_domains(cpu, tier_by(cpu, old), false);
	}
	return 0;
}

#endif
