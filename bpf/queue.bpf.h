/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The queues: one ordered by vtime for each (LLC, class), one for each CPU for tasks that are pinned to it.
 *
 * Which shared queue. A task goes to the queue of its previous CPU's LLC, by bias. FAST and, until stalls are measured, NEUTRAL
 * tasks wait in the fast queue, from which slow CPUs take too when their own is empty: one order for all, nothing
 * idles while something waits. Tasks whose affinity holds slow CPUs only wait in the slow queue.
 *
 * Hints. Asking the kernel for a queue's length costs a hash lookup; a CPU that goes idle would ask for each queue. Each shared queue has a
 * word that is non-zero whenever the queue may hold something. Whoever queues sets it after queueing. Whoever finds
 * the queue empty clears it, then asks the kernel for the length and sets it again if something came in between.
 *
 * Pinned tasks. They may not go to the CPU's local queue unconditionally: local tasks run before ops.dispatch is asked, and a CPU
 * whose pinned tasks keep waking would never serve the shared queues. dispatch compares the heads of both.
 *
 * Invariants. A task that was queued is found by the next dispatch of every CPU it may run on, or that CPU is woken. A
 * hint that is zero belongs to an empty queue, but for the time between queueing and setting it.
 */
#ifndef BIAS_QUEUE_BPF_H
#define BIAS_QUEUE_BPF_H

#include "state.bpf.h"
#include "idle.bpf.h"

static __always_inline u32 *hint_of(u32 llc, u32 class_)
{
	return &llc_ctxs[bounded(llc, BIAS_MAX_LLCS)].maybe[bounded(class_, BIAS_NR_CLASSES)];
}

static __always_inline void set_hint(u32 *hint)
{
	if (!READ_ONCE(*hint)) /* a shared cache line: write only to change it */
		WRITE_ONCE(*hint, 1);
}

/* Does anything wait in @llc's shared queues? */
static __always_inline bool shared_waiting(u32 llc)
{
	return READ_ONCE(*hint_of(llc, BIAS_FAST)) || READ_ONCE(*hint_of(llc, BIAS_SLOW));
}

static __always_inline u64 slice_for(u32 waiting)
{
	return bias_slice(slice_ns, slice_min_ns, waiting);
}

/* Queue @p by vtime in the shared queue of @cpu's LLC, and wake a CPU that may have gone idle meanwhile. */
static __always_inline void queue_shared(struct task_struct *p, s32 cpu, u64 vtime, u64 enq_flags)
{
	u32 llc = llc_of(cpu);
	u32 class_ = two_classes && !may_run_on_class(p, BIAS_FAST) ? BIAS_SLOW : BIAS_FAST;
	u64 dsq = bias_dsq_shared(llc, class_);
	s32 waiting = READ_ONCE(*hint_of(llc, class_)) ? scx_bpf_dsq_nr_queued(dsq) : 0;
	s32 idle;

	scx_bpf_dsq_insert_vtime(p, dsq, slice_for(waiting > 0 ? waiting : 0), vtime, enq_flags);
	set_hint(hint_of(llc, class_));
	stat_inc(BIAS_STAT_ENQ_SHARED);
	idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (idle >= 0)
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
}

/* Queue @p, which can run on @cpu only, by vtime in that CPU's own queue. */
static __always_inline void queue_pinned(struct task_struct *p, s32 cpu, u64 vtime, u64 enq_flags)
{
	scx_bpf_dsq_insert_vtime(p, bias_dsq_pinned(cpu), slice_for(1), vtime, enq_flags);
	WRITE_ONCE(cpu_ctx_of(cpu)->pinned_maybe, 1);
	stat_inc(BIAS_STAT_ENQ_PINNED);
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* Take the head of one shared queue to @cpu. */
static __always_inline bool take_shared(s32 cpu, u32 llc, u32 class_)
{
	u32 *hint = hint_of(llc, class_);
	u64 dsq = bias_dsq_shared(llc, class_);

	if (!READ_ONCE(*hint))
		return false;
	if (scx_bpf_dsq_move_to_local(dsq, 0)) {
		cpu_ctx_of(cpu)->took_shared = 1;
		stat_inc(class_ == cpu_info_of(cpu)->class_ ? BIAS_STAT_DISPATCH_OWN : BIAS_STAT_DISPATCH_OTHER);
		return true;
	}
	/* Empty, or nothing in it may run here. */
	WRITE_ONCE(*hint, 0);
	if (scx_bpf_dsq_nr_queued(dsq))
		WRITE_ONCE(*hint, 1);
	return false;
}

/* Take from @llc: the CPU's own class first, then the other. */
static __always_inline bool take_from_llc(s32 cpu, u32 llc)
{
	u32 own = cpu_is_slow(cpu) ? BIAS_SLOW : BIAS_FAST;

	if (take_shared(cpu, llc, own))
		return true;
	return two_classes && take_shared(cpu, llc, own == BIAS_FAST ? BIAS_SLOW : BIAS_FAST);
}

/* The vtime at the head of @dsq; false when it is empty. */
static __always_inline bool head_vtime(u64 dsq, u64 *vtime)
{
	struct task_struct *p;
	bool found = false;

	bpf_for_each(scx_dsq, p, dsq, 0) {
		*vtime = p->scx.dsq_vtime;
		found = true;
		break;
	}
	return found;
}

/* Is the CPU's pinned queue's head due before its LLC's fast and slow queues'? */
static __always_inline bool pinned_first(s32 cpu)
{
	u64 pinned, shared;
	u32 llc = llc_of(cpu);

	if (!head_vtime(bias_dsq_pinned(cpu), &pinned))
		return false;
	if (head_vtime(bias_dsq_shared(llc, BIAS_FAST), &shared) && bias_vtime_before(shared, pinned))
		return false;
	if (two_classes && head_vtime(bias_dsq_shared(llc, BIAS_SLOW), &shared) && bias_vtime_before(shared, pinned))
		return false;
	return true;
}

static __always_inline bool take_pinned(s32 cpu)
{
	if (!scx_bpf_dsq_move_to_local(bias_dsq_pinned(cpu), 0))
		return false;
	stat_inc(BIAS_STAT_DISPATCH_PINNED);
	return true;
}

/* Take whatever should run on @cpu next: from its own queue, its LLC's, the others'. */
static __always_inline bool take_next(s32 cpu)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	u32 llc = llc_of(cpu), i;
	u64 pinned = bias_dsq_pinned(cpu);

	if (READ_ONCE(cctx->pinned_maybe)) {
		bool taken = pinned_first(cpu) && take_pinned(cpu);

		taken = taken || take_from_llc(cpu, llc) || take_pinned(cpu);
		WRITE_ONCE(cctx->pinned_maybe, 0);
		if (scx_bpf_dsq_nr_queued(pinned))
			WRITE_ONCE(cctx->pinned_maybe, 1);
		if (taken)
			return true;
	} else if (take_from_llc(cpu, llc)) {
		return true;
	}
	if (nr_llcs == 1)
		return false;
	bpf_for(i, 1, nr_llcs) {
		if (take_from_llc(cpu, (llc + i) % nr_llcs)) {
			stat_inc(BIAS_STAT_DISPATCH_REMOTE);
			return true;
		}
	}
	return false;
}

#endif
