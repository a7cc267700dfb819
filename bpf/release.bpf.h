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
 * ops.cpu_release enqueues all of them again. Each goes to an idle CPU, or to a
 * shared DSQ, from which any CPU takes it when it is due.
 *
 * Invariants
 * A task is enqueued again once for each time that its CPU is taken. A pinned
 * one waits in its CPU's own DSQ.
 *
 * Limits
 * Nothing is enqueued again for the stop class, which needs microseconds, nor
 * for the agent's own real-time thread. That thread examines the tasks that it
 * preempts, and they must stay where they were.
 *
 * Newer kernels enqueue the tasks later. An idle CPU that misses one there
 * waits for a tick of another CPU.
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
#include "queue.bpf.h"

/* Most CPUs that are kicked for the tasks of one. */
#define MAX_IDLE_KICKS 16

/*
 * Kick the CPUs of @self's LLC that idle. One of them may have found the DSQ
 * empty just before a task was queued, and had no idle mark yet. Elsewhere a
 * tick wakes it, but @self has none.
 */
static __always_inline void kick_idle_cpus(s32 self)
{
	u32 nr = nr_cpus, kicks = 0, i;

	if (!nr || nr > BIAS_MAX_CPUS)
		return;
	bpf_for(i, 1, nr < MAX_SCAN ? nr : MAX_SCAN) {
		s32 cpu = bounded(((u32)self + i) % nr, BIAS_MAX_CPUS);

		if (llc_of(cpu) != llc_of(self))
			continue;
		/* A CPU that is busy now may idle when the kick arrives. */
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		if (++kicks == MAX_IDLE_KICKS)
			break;
	}
}

void BPF_STRUCT_OPS(bias_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	if (args->reason == SCX_CPU_PREEMPT_STOP || (args->task && args->task->tgid == agent_tgid))
		return;
	scx_bpf_reenqueue_local();
	stat_inc(BIAS_STAT_RELEASED);
	if (shared_waiting(llc_of(cpu)))
		kick_idle_cpus(cpu);
}

#endif
