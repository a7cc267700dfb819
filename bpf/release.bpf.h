/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * CPUs that a higher scheduling class takes.
 *
 * Problem
 * A real-time or deadline thread takes a CPU at once and for as long as it
 * likes. The task that ran there, and the tasks in the CPU's local DSQ, can run
 * nowhere else: other CPUs do not search local DSQs.
 *
 * Approach
 * All of them are enqueued again. Each goes to an idle CPU, or to a shared DSQ,
 * from which any CPU takes it when it is due. ops.cpu_release does this before
 * 6.19. From then on any program may ask for it, and one at sched_switch sees
 * each CPU that is taken, also an idle one that a wakee was sent to.
 *
 * Invariants
 * A task is enqueued again once for each time that its CPU is taken. A pinned
 * one waits in its CPU's own DSQ. The kernel loads one of the two programs.
 *
 * Limits
 * Nothing is enqueued again for the stop class, which needs microseconds, nor
 * for the agent's own real-time thread. That thread examines the tasks that it
 * preempts, and they must stay where they were.
 *
 * Before 6.19 the kernel does not report an idle CPU that is taken. A wakee on
 * its way there waits. So does one on any kernel that arrives after the switch.
 *
 * A task that is pinned to a CPU which is taken for good waits for the kernel's
 * deadline server for sched_ext, which gives it 50 ms a second. Kernels from
 * 7.2 on have this server, on CPUs that were online at the end of the boot.
 * Elsewhere the kernel ends the scheduler after timeout_ms. A real-time policy
 * that the agent lends such a task would not prevent that: the kernel measures
 * from the task's last start in sched_ext. A kworker that runs and sleeps as a
 * real-time task would be reported at its next wakeup.
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

/* Return true if @task is of the stop class. */
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
