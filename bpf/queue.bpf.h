/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * DSQs by vtime: a fast and a slow one per LLC, one per CPU for pinned tasks.
 *
 * Problem
 * No CPU may idle while a task waits. A flag for "a task waits" is unreliable:
 * the kernel inserts a task after ops.enqueue has returned. Until then another
 * CPU may find the DSQ empty, clear the flag and idle.
 *
 * Approach
 * A CPU serves the DSQ of its own class first, unless that is empty or the lag
 * in the other one exceeds a gap. For its own LLC it always asks the kernel:
 * `used` lasts, and only saves a hash lookup where no task is slow-biased or
 * pinned. After an insertion the kernel also kicks the CPU that enqueue chose.
 *
 * A wrong `waiting` costs fairness or time for a moment. It decides whether a
 * CPU serves the DSQs of another LLC. Ticks and vain dispatches refresh it.
 *
 * The kernel runs local tasks before it calls ops.dispatch. If all pinned tasks
 * were local, a CPU where they keep waking would never serve the shared DSQs.
 *
 * Invariants
 * The next dispatch on any CPU of the LLC that may run a queued task considers
 * it. At least one of these CPUs runs a SCHED_EXT task or is woken.
 *
 * Limits
 * A CPU about to idle, but not marked idle yet, may miss a task until a busy
 * CPU of the LLC ticks. Comparisons of heads pass over MAX_PASSED other tasks.
 */
#ifndef BIAS_QUEUE_BPF_H
#define BIAS_QUEUE_BPF_H

#include "access.bpf.h"
#include "classify.bpf.h"
#include "idle.bpf.h"
#include "join.bpf.h"

#define MAX_PASSED 32

/* CPUs that race may leave flag and bit unequal until the next call. */
static __always_inline void set_waiting(u32 llc, bool waiting)
{
	u64 *word = waiting_word(llc), bit = 1ull << (llc % 64);

	write_if_changed(&llc_ctx_of(llc)->waiting, waiting);
	if (nr_llcs == 1 || !!(READ_ONCE(*word) & bit) == waiting)
		return;
	if (waiting)
		__sync_fetch_and_or(word, bit);
	else
		__sync_fetch_and_and(word, ~bit);
}

static __always_inline void refresh_waiting(u32 llc)
{
	bool waiting = scx_bpf_dsq_nr_queued(bias_dsq_shared(llc, BIAS_FAST)) > 0;

	if (!waiting && READ_ONCE(llc_ctx_of(llc)->used[BIAS_SLOW]))
		waiting = scx_bpf_dsq_nr_queued(bias_dsq_shared(llc, BIAS_SLOW)) > 0;
	set_waiting(llc, waiting);
}

/* Record since when tasks wait: the agent leaves such an LLC's CPUs alone. */
static __always_inline void note_waiting(u32 llc)
{
	struct llc_ctx *lctx = llc_ctx_of(llc);

	if (!READ_ONCE(lctx->waiting)) {
		if (READ_ONCE(lctx->waiting_since_ns))
			WRITE_ONCE(lctx->waiting_since_ns, 0);
	} else if (!READ_ONCE(lctx->waiting_since_ns)) {
		WRITE_ONCE(lctx->waiting_since_ns, bpf_ktime_get_ns());
	}
}

/*
 * Wake an idle CPU for one of @dsq's first @most tasks. A pick of an offline
 * CPU clears its mark. The verifier would follow each step if it knew @most.
 */
__noinline int wake_for_dsq(u64 dsq, u32 most)
{
	struct task_struct *p;
	u32 passed = 0;
	s32 idle = -1;

	bpf_for_each(scx_dsq, p, dsq, 0) {
		idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
		if (idle >= 0 || ++passed >= most)
			break;
	}
	if (idle >= 0 && !is_offline(idle))
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
	return 0;
}

/* A CPU that begins to idle during an insertion sees neither task nor kick. */
static __always_inline void wake_for_waiting(u32 llc)
{
	if (!shared_waiting(llc) || nothing_idles())
		return;
	wake_for_dsq(bias_dsq_shared(llc, BIAS_FAST), MAX_PASSED);
	if (READ_ONCE(llc_ctx_of(llc)->used[BIAS_SLOW]))
		wake_for_dsq(bias_dsq_shared(llc, BIAS_SLOW), MAX_PASSED);
}

static __always_inline u64 slice_for(u32 waiting, u32 cpus)
{
	return bias_slice(slice_ns, slice_min_ns, waiting, cpus);
}

/* Return about how many tasks wait in @queue. If none, its clock is @vtime. */
static __always_inline s32 note_joins(u32 queue, u64 vtime)
{
	u32 llc = queue_llc(queue);
	s32 waiting = shared_waiting(llc) ? scx_bpf_dsq_nr_queued(queue_dsq(queue)) : 0;

	write_if_changed(&llc_ctx_of(llc)->used[queue_class(queue)], 1);
	set_waiting(llc, true);
	if (waiting <= 0)
		WRITE_ONCE(*taken_vtime_of(queue), vtime);
	return waiting > 0 ? waiting : 0;
}

static __always_inline void queue_shared(struct task_struct *p, s32 cpu, u64 vtime, u64 enq_flags)
{
	struct task_ctx *tctx = task_ctx_of(p);
	u32 queue = queue_of(p, tctx, llc_of(cpu)), llc = queue_llc(queue);
	s32 waiting, idle;

	vtime = vtime_in(tctx, queue, vtime);
	/* A wakee may lag by a slice. */
	waiting = note_joins(queue, enq_flags & SCX_ENQ_WAKEUP ? vtime + slice_ns : vtime);
	scx_bpf_dsq_insert_vtime(p, queue_dsq(queue), slice_for(waiting, nr_cpus / nr_llcs), vtime,
				 enq_flags);
	stat_inc(BIAS_STAT_ENQ_SHARED);
	/*
	 * @p's SCHED_EXT successor here checks the DSQ: no kick is needed.
	 * Any other flag means a wakeup, a change or a move: none succeeds @p.
	 */
	if (!(enq_flags & ~SCX_ENQ_LAST) && cpu == bpf_get_smp_processor_id() && llc == llc_of(cpu) &&
	    cpu_ctx_of(cpu)->run_pid == p->pid) {
		cpu_ctx_of(cpu)->put_back = 1;
		return;
	}
	/*
	 * A CPU that is about to idle has no mark yet. A kick of the task's own
	 * CPU works also then. A busy one dispatches when its task stops.
	 */
	idle = pick_any_idle(p);
	if (idle < 0)
		idle = cpu;
	scx_bpf_kick_cpu(idle, kick_for_waiting(idle));
}

static __always_inline void queue_pinned(struct task_struct *p, s32 cpu, u64 vtime, u64 enq_flags)
{
	stat_inc(BIAS_STAT_ENQ_PINNED);
	if (is_offline(cpu)) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, slice_for(1, 1), enq_flags);
	} else {
		write_if_changed(&cpu_ctx_of(cpu)->pinned_used, 1);
		scx_bpf_dsq_insert_vtime(p, bias_dsq_pinned(cpu), slice_for(1, 1), vtime, enq_flags);
	}
	scx_bpf_kick_cpu(cpu, kick_for_waiting(cpu));
}

static __always_inline bool take_shared(s32 cpu, u32 llc, u32 cpu_class)
{
	if (!READ_ONCE(llc_ctx_of(llc)->used[bounded(cpu_class, BIAS_NR_CLASSES)]))
		return false;
	if (!scx_bpf_dsq_move_to_local(bias_dsq_shared(llc, cpu_class), 0))
		return false;
	cpu_ctx_of(cpu)->took_shared = 1 + queue_index(llc, cpu_class);
	stat_inc(cpu_class == speed_of(cpu)->cpu_class ? BIAS_STAT_DISPATCH_OWN : BIAS_STAT_DISPATCH_OTHER);
	return true;
}

/* Read the vtime of @dsq's first task for @cpu, or a lower bound of it. */
static __always_inline bool head_vtime(u64 dsq, s32 cpu, u64 *vtime)
{
	struct task_struct *p;
	u32 passed = 0;
	bool found = false;

	bpf_for_each(scx_dsq, p, dsq, 0) {
		found = bpf_cpumask_test_cpu(cpu, p->cpus_ptr) || ++passed >= MAX_PASSED;
		if (found) {
			*vtime = p->scx.dsq_vtime;
			break;
		}
	}
	return found;
}

/* Do the same for @llc's DSQ of @cpu_class, with the cross-class penalty. */
static __always_inline bool head_of_class(s32 cpu, u32 llc, u32 cpu_class, u64 *vtime)
{
	if (!READ_ONCE(llc_ctx_of(llc)->used[bounded(cpu_class, BIAS_NR_CLASSES)]) ||
	    !head_vtime(bias_dsq_shared(llc, cpu_class), cpu, vtime))
		return false;
	*vtime += cross_class_penalty_ns(cpu, cpu_class);
	return true;
}

static __always_inline bool other_first(s32 cpu, u32 llc, u32 own)
{
	u64 ours, theirs;

	return head_of_class(cpu, llc, other_class(own), &theirs) && head_of_class(cpu, llc, own, &ours) &&
	       bias_vtime_before(theirs, ours);
}

/* Global, to keep ops.dispatch within the verifier's budget on 6.12. */
__noinline int take_from_llc(s32 cpu, u32 llc)
{
	u32 own = class_of(cpu);
	u32 other = other_class(own);

	if (two_classes && shared_waiting(llc) && other_first(cpu, llc, own) &&
	    take_shared(cpu, llc, other)) {
		stat_inc(BIAS_STAT_STOLEN);
		return true;
	}
	if (take_shared(cpu, llc, own) || (two_classes && take_shared(cpu, llc, other)))
		return true;
	/* Tasks of other affinities may still wait. */
	if (shared_waiting(llc))
		refresh_waiting(llc);
	return false;
}

/* Return the lowest of @vtime and the heads of @llc's shared DSQs on @cpu. */
__noinline u64 lowest_shared(s32 cpu, u32 llc, u64 vtime)
{
	u64 head;

	if (head_of_class(cpu, llc, BIAS_FAST, &head) && bias_vtime_before(head, vtime))
		vtime = head;
	if (two_classes && head_of_class(cpu, llc, BIAS_SLOW, &head) && bias_vtime_before(head, vtime))
		vtime = head;
	return vtime;
}

static __always_inline bool pinned_first(s32 cpu)
{
	u64 pinned;

	return head_vtime(bias_dsq_pinned(cpu), cpu, &pinned) &&
	       lowest_shared(cpu, llc_of(cpu), pinned) == pinned;
}

/* Do the same with all DSQs that wait for @cpu: its own and its LLC's. */
static __always_inline u64 lowest_here(s32 cpu, const struct cpu_ctx *cctx, u64 vtime)
{
	u64 head;

	if (pinned_waiting(cpu, cctx) && head_vtime(bias_dsq_pinned(cpu), cpu, &head) &&
	    bias_vtime_before(head, vtime))
		vtime = head;
	return shared_waiting(llc_of(cpu)) ? lowest_shared(cpu, llc_of(cpu), vtime) : vtime;
}

static __always_inline bool due_before(s32 cpu, const struct cpu_ctx *cctx, u64 vtime)
{
	return lowest_here(cpu, cctx, vtime) != vtime;
}

/*
 * Each call checks one LLC, so that the DSQs of all LLCs advance together. Its
 * task must lag by a quarter of steal_lag_ns, in another node by three: memory
 * stays behind. The clock holds meanwhile, so lags hardly exceed steal_lag_ns.
 */
__noinline int take_due_elsewhere(s32 cpu, u64 vtime)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	u32 own = llc_of(cpu), llc = ++cctx->looked_llc % nr_llcs;
	bool near;

	if (llc == own)
		llc = ++cctx->looked_llc % nr_llcs;
	if (llc == own || !shared_waiting(llc))
		return false;
	near = READ_ONCE(llc_ctx_of(llc)->node) == cpu_info_of(cpu)->node;
	vtime -= steal_lag_ns / 4 * (near ? 1 : 3);
	if (lowest_shared(cpu, llc, vtime) == vtime || !take_from_llc(cpu, llc))
		return false;
	stat_inc(BIAS_STAT_DISPATCH_REMOTE);
	return true;
}

static __always_inline bool take_pinned(s32 cpu)
{
	if (!scx_bpf_dsq_move_to_local(bias_dsq_pinned(cpu), 0))
		return false;
	stat_inc(BIAS_STAT_DISPATCH_PINNED);
	return true;
}

__noinline int take_elsewhere(s32 cpu)
{
	u32 own = llc_of(cpu), node = cpu_info_of(cpu)->node, i;

	bpf_for(i, 1, nr_nodes > 1 ? 2 * nr_llcs : nr_llcs) {
		u32 llc = (own + i) % nr_llcs;
		bool far = i >= nr_llcs;

		if (llc == own || !(READ_ONCE(*waiting_word(llc)) >> (llc % 64) & 1))
			continue;
		if (nr_nodes > 1 && (llc_ctx_of(llc)->node != node) != far)
			continue;
		if (take_from_llc(cpu, llc)) {
			stat_inc(BIAS_STAT_DISPATCH_REMOTE);
			return true;
		}
	}
	return false;
}

static __always_inline bool take_next(s32 cpu)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	u32 llc = llc_of(cpu);

	if (pinned_waiting(cpu, cctx)) {
		if ((!shared_waiting(llc) || pinned_first(cpu)) && take_pinned(cpu))
			return true;
		if (take_from_llc(cpu, llc) || take_pinned(cpu))
			return true;
	} else if (take_from_llc(cpu, llc)) {
		return true;
	}
	return nr_llcs > 1 && any_waiting() && take_elsewhere(cpu);
}

#endif
