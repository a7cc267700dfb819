/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * CPUs that go offline and come online.
 *
 * Problem
 * A CPU that goes offline leaves the kernel's active mask. Then the kernel
 * waits for RCU, and only then calls ops.cpu_offline. Meanwhile the CPU makes
 * no call of ops.dispatch. It idles, though tasks wait in its own DSQ. If one
 * of them was preempted inside of rcu_read_lock(), RCU waits for it in turn.
 * Searches take the CPU for idle, and the kernel sends their tasks elsewhere.
 *
 * Approach
 * A program marks the CPU just before it leaves the mask. Searches pass over a
 * marked CPU, no request moves a task there, and its pinned tasks enqueue to
 * the kernel's global DSQ. The CPU still serves that one and pushes each task
 * away that may run elsewhere. The next CPU that dispatches moves those that
 * wait already.
 *
 * Invariants
 * A CPU is marked from before it leaves the active mask until it is back there.
 *
 * Limits
 * A task that another CPU enqueues as the mark is set may wait until
 * ops.cpu_offline. From the global DSQ tasks run in turn, of any weight.
 */
#ifndef BIAS_HOTPLUG_BPF_H
#define BIAS_HOTPLUG_BPF_H

#include "overdue.bpf.h"
#include "throttle.bpf.h"

static __always_inline void empty_own_dsq(s32 cpu)
{
	move_to_global(bias_dsq_pinned(cpu), bpf_jiffies64() + 1, MAX_LOOKED);
}

static __always_inline void look_if_asked(void)
{
	u32 cpu;

	if (!READ_ONCE(look_now) || !__sync_lock_test_and_set(&look_now, 0))
		return;
	cpu = READ_ONCE(leaving) - 1;
	if (cpu < BIAS_MAX_CPUS && is_offline(cpu))
		empty_own_dsq(cpu);
	unpark_due();
}

static __always_inline bool is_activation(int step)
{
	return step == bpf_core_enum_value(enum cpuhp_state, CPUHP_AP_ACTIVE);
}

/* The hotplug thread of @cpu begins @step on its way to @target. */
SEC("tp_btf/cpuhp_enter")
int BPF_PROG(bias_cpu_leaves, u32 cpu, int target, int step)
{
	if (!is_activation(step) || target >= step || cpu >= BIAS_MAX_CPUS)
		return 0;
	WRITE_ONCE(cpu_ctxs[cpu].is_offline, 1);
	WRITE_ONCE(leaving, cpu + 1);
	ask_to_look();
	return 0;
}

/* The kernel refuses if deadline tasks need @cpu, and calls no callback. */
SEC("tp_btf/cpuhp_exit")
int BPF_PROG(bias_cpu_stays, u32 cpu, int state, int step, int err)
{
	if (is_activation(step) && err && cpu < BIAS_MAX_CPUS)
		WRITE_ONCE(cpu_ctxs[cpu].is_offline, 0);
	return 0;
}

/* Without this callback or the next, a hotplug unloads the scheduler. */
void BPF_STRUCT_OPS(bias_cpu_online, s32 cpu)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);

	WRITE_ONCE(cctx->move_to, 0);
	WRITE_ONCE(cctx->is_offline, 0);
	WRITE_ONCE(cctx->waived, 0);
	WRITE_ONCE(cctx->onlined, cctx->onlined + 1);
}

void BPF_STRUCT_OPS(bias_cpu_offline, s32 cpu)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);

	WRITE_ONCE(cctx->is_offline, 1);
	cctx->run_flags = 0;
	cctx->ticked_at = 0;
	empty_own_dsq(cpu);
}

#endif
