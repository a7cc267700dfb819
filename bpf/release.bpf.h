/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * CPUs that a higher scheduling class takes.
 *
 * Problem
 * A real-time or deadline thread takes a CPU for as long as it likes. The task
 * that ran there, and those in the CPU's local DSQ, can run nowhere else.
 *
 * Approach
 * All of them are enqueued again, to an idle CPU or a shared DSQ. Before 6.19
 * ops.cpu_release does this. Then any program may, and one at sched_switch sees
 * each CPU that is taken, also an idle one that a wakee was sent to. A task that
 * has run out its slice is put back before, see is_driven_off().
 *
 * Invariants
 * A task is enqueued again once for each time that its CPU is taken. A pinned
 * one waits in its CPU's own DSQ. The kernel loads one of the two programs.
 *
 * Limits
 * Nothing is enqueued again for the stop class, which needs microseconds, nor
 * for the agent's real-time thread, which examines the tasks that it preempts.
 * A wakee waits if it arrives after the switch, and on an idle CPU before 6.19.
 *
 * A task pinned to a CPU that is taken for good gets 50 ms a second of the
 * kernel's deadline server for sched_ext, from 7.2 on, on CPUs online at the
 * end of the boot. Elsewhere the kernel ends the scheduler after timeout_ms. A
 * real-time policy lent by the agent would not help: the kernel measures from
 * the last start in sched_ext, and would report a kworker at its next wakeup.
 */
#ifndef BIAS_RELEASE_BPF_H
#define BIAS_RELEASE_BPF_H

#include "access.bpf.h"
#include "optin.bpf.h"

void BPF_STRUCT_OPS(bias_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	if (args->reason == SCX_CPU_PREEMPT_STOP || (args->task && args->task->tgid == agent_tgid))
		return;
	scx_bpf_reenqueue_local();
	stat_inc(BIAS_STAT_RELEASED);
}

static __always_inline bool is_stopper(const struct task_struct *task)
{
	return task->prio == 0 && (task->flags & PF_KTHREAD);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(bias_release, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	if (!next->pid || !is_foreign(next) || is_stopper(next) || next->tgid == agent_tgid ||
	    scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL) <= 0)
		return 0;
	scx_bpf_reenqueue_local();
	stat_inc(BIAS_STAT_RELEASED);
	return 0;
}

#endif
