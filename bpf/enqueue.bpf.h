/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Where ops.enqueue puts a task, apart from the shared DSQs of queue.bpf.h.
 *
 * Problem
 * A DSQ serves a task badly that is its CPU's last, pinned to it, or driven off
 * it. Its next CPU may be far, slow or taken.
 *
 * Approach
 * The last task of a CPU stays there. One that another scheduling class drives
 * off its CPU goes to an idle one. A pinned kthread that wakes preempts.
 *
 * Invariants
 * A CPU whose local DSQ gets a task is kicked, unless it schedules anyway. No
 * task lags by more than MAX_LAG_SLICES.
 *
 * Limits
 * If affinity changes on the way, the CPU that was kicked dispatches for
 * ARRIVAL_NS until it takes another task.
 */
#ifndef BIAS_ENQUEUE_BPF_H
#define BIAS_ENQUEUE_BPF_H

#include "access.bpf.h"
#include "account.bpf.h"
#include "arrival.bpf.h"
#include "idle.bpf.h"
#include "partition.bpf.h"
#include "preempt.bpf.h"
#include "queue.bpf.h"

/*
 * Return how much of @excess_ns, by which @p leads too far after it ran on @cpu
 * to @vtime, it need not wait off. Beyond the cross-class penalty, CPUs in less
 * demand serve tasks of the other class, which gain less there. So each charge
 * earns @p a part that may be forgiven, with which it makes
 * max_unfairness_permille of the progress of the others.
 */
__noinline u64 forgiven_lead(struct task_struct *p __arg_trusted, s32 cpu, u64 vtime, u64 excess_ns)
{
	const struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	struct task_ctx *tctx;

	if (!two_classes || is_restricted(p)) {
		lead_partition(p, cpu, excess_ns);
		return excess_ns;
	}
	tctx = task_ctx_of(p);
	if (!tctx)
		return excess_ns;
	if (cctx->run_pid == p->pid)
		tctx->earned_ns = bias_earn(tctx->earned_ns, vtime - cctx->began_vtime,
					    max_unfairness_permille, steal_lag_ns);
	if (!any_waiting())
		return excess_ns;
	return bias_spend(&tctx->earned_ns, excess_ns, steal_lag_ns);
}

/*
 * While no task waits, tasks may lead by as much as rotation allows: a task
 * whose lead was cut would gain what others lose.
 */
static __always_inline void clamp_vtime(struct task_struct *p, s32 cpu, bool wakeup)
{
	bool waiting = any_waiting();
	u64 now = vtime_now, vtime, lead = 2 * slice_ns;

	if (is_restricted(p))
		follow_partition(p);
	if (!waiting)
		lead += rotate_gap_ns;
	/* Most wakeups compete with no task: some CPU is free. */
	if (wakeup && (waiting || !READ_ONCE(nr_spare) || is_pinned(p)))
		vtime = joined_vtime(p, cpu);
	else
		vtime =
		    bias_wakeup_vtime(p->scx.dsq_vtime, now, wakeup ? slice_ns : MAX_LAG_SLICES * slice_ns);
	if (!wakeup && vtime != p->scx.dsq_vtime)
		lead_partition(p, cpu, p->scx.dsq_vtime - vtime);
	/* Read the effective weight only here: it walks up the cgroup tree. */
	if (bias_vtime_before(now + lead, vtime)) {
		u64 ahead = bias_ahead_ns(slice_ns, effective_weight(p, 0));
		u64 latest = bias_queue_vtime(vtime, now, ahead > lead ? ahead : lead);

		if (!wakeup && latest != vtime)
			latest = vtime - forgiven_lead(p, cpu, vtime, vtime - latest);
		vtime = latest;
	}
	if (vtime != p->scx.dsq_vtime)
		scx_bpf_task_set_dsq_vtime(p, vtime);
}

static __always_inline void enqueue_local(struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, enq_flags);
	stat_inc(BIAS_STAT_ENQ_LOCAL);
}

/*
 * Return true if a task may wait on @cpu for a kthread, which is in the local
 * DSQ: no other task waits for @cpu or is on its way. No real-time work keeps
 * the kthread waiting, else the task would be enqueued again.
 */
static __always_inline bool waits_for_kthread(s32 cpu, const struct cpu_ctx *cctx)
{
	return cctx->kthread_waiting && !shared_waiting(llc_of(cpu)) && !pinned_waiting(cpu, cctx) &&
	       scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu) <= 1 && !task_arrives(cctx);
}

/* @cpu is about to idle, and checks its local DSQ again only after a kick. */
static __always_inline void stay(struct task_struct *p, s32 cpu, u64 enq_flags)
{
	enqueue_local(p, enq_flags);
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

static __always_inline bool send_to_idle(struct task_struct *p, s32 cpu, u64 enq_flags)
{
	s32 idle = find_idle(p, cpu);

	if (idle < 0)
		return false;
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | idle, slice_ns, enq_flags);
	/* A new affinity may cancel this: the kick restores the idle mark. */
	scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
	stat_inc(BIAS_STAT_ENQ_LOCAL);
	return true;
}

#define MAX_IDLE_KICKS 16

/*
 * A CPU that found the DSQ empty just before may have no idle mark yet.
 * Elsewhere a tick wakes it, but @self, which is taken, has none.
 */
static __always_inline void kick_idle_cpus(s32 self)
{
	s32 cpu = self;
	u32 i;

	/* A CPU that is busy now may idle when the kick arrives. */
	for_each_near(i, cpu, self, MAX_IDLE_KICKS)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/*
 * Return true if another class takes @cpu from a task: the kernel enqueues it
 * again, or puts it back without a flag if its slice is over. Global, or the
 * verifier would follow each case through ops.enqueue.
 */
__noinline int is_driven_off(s32 cpu, u64 enq_flags)
{
	return (enq_flags & SCX_ENQ_REENQ) || (!enq_flags && is_taken(cpu));
}

/* Enqueue @p again: another scheduling class took @cpu, where it was. */
static __always_inline void enqueue_again(struct task_struct *p, s32 cpu, u64 enq_flags)
{
	/* The next search for overdue tasks may be OVERDUE_NS away. */
	if (is_overdue(p, READ_ONCE(overdue_before))) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, slice_ns, enq_flags);
		scx_bpf_kick_cpu(cpu, kick_for_waiting(cpu));
		return;
	}
	if (is_pinned_within(p, 2)) {
		queue_pinned(p, cpu, p->scx.dsq_vtime, enq_flags);
		return;
	}
	forget_tick(cpu_ctx_of(cpu));
	if (!send_to_idle(p, cpu, enq_flags)) {
		queue_shared(p, cpu, p->scx.dsq_vtime, enq_flags);
		kick_idle_cpus(cpu);
	}
}

static __always_inline void enqueue_pinned(struct task_struct *p, s32 cpu, struct cpu_ctx *cctx,
					   u64 enq_flags)
{
	bool wakeup = enq_flags & SCX_ENQ_WAKEUP;

	/* Claim the CPU. A task that is sent here would wait for a tick. */
	if (wakeup && !(cctx->run_flags & RUN_BUSY))
		scx_bpf_test_and_clear_cpu_idle(cpu);
	/*
	 * The kernel waits for a short kthread. One that is ahead, or has used
	 * up its slice, queues. Two of these would keep the local DSQ filled,
	 * and the kernel would never call ops.dispatch.
	 */
	if (wakeup && (p->flags & PF_KTHREAD) && is_level(p, cctx)) {
		WRITE_ONCE(cctx->kthread_waiting, 1);
		enqueue_local(p, enq_flags | SCX_ENQ_PREEMPT);
	} else if ((enq_flags & SCX_ENQ_LAST) && !task_arrives(cctx)) {
		stay(p, cpu, enq_flags);
	} else if (wakeup && !task_arrives(cctx) && may_go_first(p, cpu, cctx)) {
		enqueue_local(p, enq_flags);
		if (nohz_full)
			scx_bpf_kick_cpu(cpu, kick_for_waiting(cpu));
	} else {
		queue_pinned(p, cpu, p->scx.dsq_vtime, enq_flags);
	}
}

#endif
