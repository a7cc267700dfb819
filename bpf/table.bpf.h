/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Replacing the capacity table while it is read.
 *
 * Problem. What CPUs cost, which of them are slow and what a class costs is read at every switch on every CPU, and the
 * agent finds it to have changed while all of that goes on. Nobody may price by half of one table and half of another, and
 * nobody may wait.
 *
 * Approach. There are two copies of the table. The agent writes the one that is not in force, then runs the program below,
 * which puts it in force by one store: table_seq counts the tables, its lowest bit is the copy. A reader takes the bit
 * once for each decision; an entry's two copies share a cache line, so reading costs one load more than it did. A copy is
 * written again with the next table, which the agent makes no sooner than milliseconds later, when no reader is left in it.
 *
 * The masks of CPUs by class (idle.bpf.h) are not doubled: a CPU that changes class is first added to the new class's, then
 * the table is put in force, then it leaves the old class's. Meanwhile it is in both, and a search may find it idle under the
 * name of the class that it had: what a search between two tables might have found anyway.
 *
 * Tasks that run are priced anew at their CPU's next tick (account.bpf.h).
 *
 * Limits. One writer: the agent's main thread. A program that is held up inside one decision for longer than the agent takes
 * between two tables, half a second, would read a copy that is being written; it prices one run wrongly.
 */
#ifndef BIAS_TABLE_BPF_H
#define BIAS_TABLE_BPF_H

#include "state.bpf.h"

/* Is @cpu in the mask of @class_ in domain @domain? Say so, or no more. */
static __always_inline void mark_in_domain(u32 domain, u32 cpu, u32 class_, bool in)
{
	struct domain *d = bpf_map_lookup_elem(&domains, &domain);
	struct bpf_cpumask *mask;

	if (!d)
		return;
	bpf_rcu_read_lock();
	mask = class_ == BIAS_SLOW ? d->mask[BIAS_SLOW] : d->mask[BIAS_FAST];
	if (mask && in)
		bpf_cpumask_set_cpu(cpu, mask);
	else if (mask)
		bpf_cpumask_clear_cpu(cpu, mask);
	bpf_rcu_read_unlock();
}

/* The same for its LLC and the machine. */
static __always_inline void mark_in_domains(u32 cpu, u32 class_, bool in)
{
	mark_in_domain(llc_of(cpu), cpu, class_, in);
	mark_in_domain(nr_llcs, cpu, class_, in);
}

/* The class of @cpu in the table of sequence number @seq. */
static __always_inline u32 class_by(u32 cpu, u32 seq)
{
	u32 class_ = speeds[bounded((cpu << 1) | (seq & 1), BIAS_MAX_CPUS * BIAS_TABLE_COPIES)].class_;

	return class_ == BIAS_SLOW ? BIAS_SLOW : BIAS_FAST;
}

/* The agent has written the other copy of the table: put it in force. */
SEC("syscall")
int bias_table_replace(void *ctx)
{
	u32 old = table_seq, new = old + 1, cpu;

	bpf_for(cpu, 0, nr_cpus) {
		if (class_by(cpu, new) != class_by(cpu, old))
			mark_in_domains(cpu, class_by(cpu, new), true);
	}
	/* What came before is seen before: the agent's system call and the masks' atomics order it. */
	WRITE_ONCE(table_seq, new);
	bpf_for(cpu, 0, nr_cpus) {
		if (class_by(cpu, new) != class_by(cpu, old))
			mark_in_domains(cpu, class_by(cpu, old), false);
	}
	return 0;
}

#endif
