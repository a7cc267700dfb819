/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Additions to the kernel's dump, at its end and on SysRq-D: which DSQ holds
 * each task, which tasks go before it, and which CPU should have taken it.
 *
 * Limits
 * Fields that other CPUs write may change while they are printed.
 */
#ifndef BIAS_DUMP_BPF_H
#define BIAS_DUMP_BPF_H

#include "access.bpf.h"

void BPF_STRUCT_OPS(bias_dump, struct scx_dump_ctx *dctx)
{
	u32 llc;

	scx_bpf_dump("bias: vtime_now=%llu total_weight=%llu two_classes=%d slice_ns=%llu table=%u\n",
		     vtime_now, total_weight, two_classes, slice_ns, table_seq);
	bpf_for(llc, 0, nr_llcs)
		scx_bpf_dump("bias: llc %u: fast queue %d, slow queue %d\n", llc,
			     scx_bpf_dsq_nr_queued(bias_dsq_shared(llc, BIAS_FAST)),
			     scx_bpf_dsq_nr_queued(bias_dsq_shared(llc, BIAS_SLOW)));
}

void BPF_STRUCT_OPS(bias_dump_cpu, struct scx_dump_ctx *dctx, s32 cpu, bool idle)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	const struct bias_speed *speed = speed_of(cpu);

	if (idle && !cctx->move_to && !cctx->pinned_used)
		return;
	scx_bpf_dump("bias: class=%u llc=%u cost=%u/%u/%u run_vtime=%llu flags=%x move_to=%x pinned=%d\n",
		     speed->cpu_class, llc_of(cpu), speed->cost.permille[BIAS_EXECUTE],
		     speed->cost.permille[BIAS_INTERNAL], speed->cost.permille[BIAS_EXTERNAL],
		     cctx->run_vtime, cctx->run_flags, cctx->move_to,
		     scx_bpf_dsq_nr_queued(bias_dsq_pinned(cpu)));
}

void BPF_STRUCT_OPS(bias_dump_task, struct scx_dump_ctx *dctx, struct task_struct *p)
{
	scx_bpf_dump("bias: vtime=%llu (%lld behind) weight=%u pinned=%d\n", p->scx.dsq_vtime,
		     (s64)(vtime_now - p->scx.dsq_vtime), p->scx.weight, is_pinned(p));
}

#endif
