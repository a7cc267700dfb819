/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Set-up before the first task: DSQs, and the masks that idle.bpf.h picks from.
 *
 * Invariants
 * Everything is created once. After a failed init a second one finds nothing
 * left over, because the kernel frees a scheduler's DSQs and maps with it.
 */
#ifndef BIAS_INIT_BPF_H
#define BIAS_INIT_BPF_H

#include "access.bpf.h"
#include "table.bpf.h"

static __always_inline s32 init_mask(struct bpf_cpumask __kptr **at)
{
	struct bpf_cpumask *mask = bpf_cpumask_create();

	if (!mask)
		return -ENOMEM;
	mask = bpf_kptr_xchg(at, mask);
	if (mask)
		bpf_cpumask_release(mask);
	return 0;
}

static s32 init_domain(u32 domain)
{
	struct domain *d = bpf_map_lookup_elem(&domains, &domain);
	s32 err;

	if (!d)
		return -EINVAL;
	err = init_mask(&d->mask[0]);
	err = err ?: init_mask(&d->mask[1]);
	err = err ?: init_mask(&d->mask[2]);
	return err ?: init_mask(&d->mask[3]);
}

/* A node beyond those that the agent counted may not exist. */
__noinline int create_dsq_on(u64 dsq, u32 node)
{
	return scx_bpf_create_dsq(dsq, node < nr_nodes ? (s32)node : -1);
}

static s32 init_cpu(u32 cpu)
{
	u32 zero = 0;
	struct scratch_mask *scratch = bpf_map_lookup_percpu_elem(&scratches, &zero, cpu);
	u32 tier = tier_of(cpu);
	s32 err = 0;

	if (scratch)
		err = init_mask(&scratch->mask);
	err = err ?: create_dsq_on(bias_dsq_pinned(cpu), cpu_info_of(cpu)->node);
	if (!err)
		mark_in_domains(cpu, tier, true);
	return err;
}

#endif
