/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CPUs that a higher scheduling class takes.
 *
 * Problem. A real-time or deadline thread takes a CPU at once and for as long as
 * it likes. The task that ran there, and what waits in the CPU's local queue, can
 * run nowhere else: other CPUs do not look into local queues.
 *
 * Approach. ops.cpu_release puts all of them back. Each goes to an idle CPU, or
 * to a shared queue, from which any CPU takes it when it is due.
 *
 * Invariants. A task is put back once for each time its CPU is taken. A pinned one
 * waits in its CPU's own queue.
 *
 * Limits. Nothing is put back for the stop class, which needs microseconds, nor for
 * the agent's own real-time thread: it looks at the tasks that it displaces, and
 * they shall be where they were. A task pinned to a CPU that is taken for good
 * runs only as far as the kernel's deadline server for sched_ext lets it (from
 * 7.x on); before, the kernel ends the scheduler after timeout_ms.
 */
#ifndef BIAS_RELEASE_BPF_H
#define BIAS_RELEASE_BPF_H

#include "state.bpf.h"

void BPF_STRUCT_OPS(bias_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	if (args->reason == SCX_CPU_PREEMPT_STOP || (args->task && args->task->tgid == agent_tgid))
		return;
	scx_bpf_reenqueue_local();
	stat_inc(BIAS_STAT_RELEASED);
}

#endif
