/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Set-up before the first task: the DSQs of every CPU, and the masks of CPUs by
 * class from which idle.bpf.h picks.
 *
 * Invariants
 * Everything is created once. After a failed init a second one finds nothing
 * left over, because the kernel frees a scheduler's DSQs and maps with it.
 */
#ifndef BIAS_INIT_BPF_H
#define BIAS_INIT_BPF_H

#include "access.bpf.h"
#include "table.bpf.h"

/* Create the masks of domain @domain. */
static s32 init_domain(u32 domain)
{
	struct domain *d = bpf_map_lookup_elem(&domains, &domain);
	struct bpf_cpumask *mask;

	if (!d)
		return -EINVAL;
	mask = bpf_cpumask_create();
	if (!mask)
		return -ENOMEM;
	mask = bpf_kptr_xchg(&d->mask[BIAS_FAST], mask);
	if (mask)
		bpf_cpumask_release(mask);
	mask = bpf_cpumask_create();
	if (!mask)
		return -ENOMEM;
	mask = bpf_kptr_xchg(&d->mask[BIAS_SLOW], mask);
	if (mask)
		bpf_cpumask_release(mask);
	return 0;
}

static s32 init_cpu(u32 cpu)
{
	u32 zero = 0;
	struct scratch *scratch = bpf_map_lookup_percpu_elem(&scratches, &zero, cpu);
	struct bpf_cpumask *mask;
	u32 cpu_class = class_of(cpu);
	s32 err;

	if (scratch) {
		mask = bpf_cpumask_create();
		if (!mask)
			return -ENOMEM;
		mask = bpf_kptr_xchg(&scratch->mask, mask);
		if (mask)
			bpf_cpumask_release(mask);
	}
	err = scx_bpf_create_dsq(bias_dsq_pinned(cpu), -1);
	if (!err)
		mark_in_domains(cpu, cpu_class, true);
	return err;
}

#endif
