/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * DSQs: two shared ones per LLC, fast and slow, and one per CPU for the tasks
 * that are pinned to it. All are ordered by vtime.
 *
 * Problem
 * A task should wait where CPUs of the matching class find it. But no CPU may
 * idle while a task waits, and no task may wait for ever. A flag for "a task
 * waits" is unreliable, because the kernel inserts a task only after
 * ops.enqueue has returned. Between the flag and the insertion another CPU may
 * find the DSQ empty, clear the flag and idle. The task would then wait for
 * ever.
 *
 * Approach
 * A task waits in a DSQ of its previous CPU's LLC. Its bias decides which
 * (classify.bpf.h, join.bpf.h): slow-biased tasks wait in the slow DSQ, all
 * others in the fast DSQ. If its affinity excludes one class, it waits in the
 * DSQ of the other class. A CPU serves its own class first. It serves the other
 * class if its own DSQ is empty or if the lag in the other one exceeds a gap.
 *
 * For the DSQs of its own LLC, dispatch always asks the kernel. The only
 * lasting flag says whether a DSQ was ever used. It saves a hash lookup per
 * switch on machines without slow-biased or pinned tasks. After the insertion
 * the kernel also kicks the CPU that enqueue chose.
 *
 * The field `waiting` serves decisions in which a wrong answer costs fairness
 * or time for a moment only. enqueue sets it. A dispatch that finds nothing and
 * each tick set it to what the DSQs' lengths show. dispatch asks only for those
 * DSQs of other LLCs that have it set, near ones first.
 *
 * A pinned task must not always go to the local DSQ. The kernel runs local
 * tasks before it calls ops.dispatch, so a CPU whose pinned tasks keep waking
 * would never serve the shared DSQs. dispatch compares the heads of both.
 *
 * Invariants
 * The next dispatch on any CPU of the LLC that a queued task may run on
 * considers that task. At least one of these CPUs runs a SCHED_EXT task or is
 * woken.
 *
 * Limits
 * A CPU that is about to idle, but not yet marked idle, may not see the task.
 * The next tick of a busy CPU of the LLC wakes it.
 *
 * A comparison of DSQ heads passes over MAX_PASSED tasks of other affinities at
 * most.
 */
#ifndef BIAS_QUEUE_BPF_H
#define BIAS_QUEUE_BPF_H

#include "access.bpf.h"
#include "classify.bpf.h"
#include "idle.bpf.h"
#include "join.bpf.h"

/* Tasks of other affinities that a search for a DSQ's head passes over. */
#define MAX_PASSED 32

/*
 * Set shared_waiting() of @llc to @waiting, and its bit in waiting_llcs. If
 * CPUs race, the two may differ until the next call for @llc.
 */
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

/* Set shared_waiting() of @llc to what the kernel reports. */
static __always_inline void refresh_waiting(u32 llc)
{
	bool waiting = scx_bpf_dsq_nr_queued(bias_dsq_shared(llc, BIAS_FAST)) > 0;

	if (!waiting && READ_ONCE(llc_ctx_of(llc)->used[BIAS_SLOW]))
		waiting = scx_bpf_dsq_nr_queued(bias_dsq_shared(llc, BIAS_SLOW)) > 0;
	set_waiting(llc, waiting);
}

/*
 * Record at a tick since when tasks have waited in @llc's shared DSQs. The
 * agent leaves the CPUs of such an LLC alone.
 */
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
 * Wake an idle CPU that may run one of the first @most tasks of @dsq. A pick of
 * an offline CPU clears that CPU's mark, and the next call picks another.
 * Return 0. This function is global so that the verifier checks it once. It
 * does not know @most, or it would follow each step of the loop.
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

/*
 * Wake an idle CPU if tasks wait in @llc's shared DSQs. A CPU that idles while
 * a task is inserted has seen neither the task nor a kick.
 */
static __always_inline void wake_for_waiting(u32 llc)
{
	if (!shared_waiting(llc) || nothing_idles())
		return;
	wake_for_dsq(bias_dsq_shared(llc, BIAS_FAST), MAX_PASSED);
	if (READ_ONCE(llc_ctx_of(llc)->used[BIAS_SLOW]))
		wake_for_dsq(bias_dsq_shared(llc, BIAS_SLOW), MAX_PASSED);
}

/* Return the slice while @waiting tasks wait in a DSQ that @cpus CPUs serve. */
static __always_inline u64 slice_for(u32 waiting, u32 cpus)
{
	return bias_slice(slice_ns, slice_min_ns, waiting, cpus);
}

/*
 * Note that a task joins shared DSQ @queue, and start the DSQ's clock at @vtime
 * if no task waits there. Return the number of tasks that wait, approximately.
 */
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

/*
 * Insert @p of @cpu by vtime into the shared DSQ that it joins, and make sure
 * that a CPU checks it.
 */
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
	 * A task that ran here and is put back needs no kick: its successor
	 * runs here, and its start checks the DSQ. A new task has not run on
	 * any CPU and gets the kick. So does a task whose successor is of
	 * another scheduling class.
	 */
	if (!(enq_flags & (SCX_ENQ_WAKEUP | SCX_ENQ_REENQ)) && cpu == bpf_get_smp_processor_id() &&
	    llc == llc_of(cpu) && cpu_ctx_of(cpu)->run_pid == p->pid) {
		cpu_ctx_of(cpu)->put_back = 1;
		return;
	}
	/*
	 * A CPU that found the DSQ empty before the insertion may be about to
	 * idle but not yet be marked idle. If no CPU is marked, kick the task's
	 * own: the kernel honours the kick in that state, too. If that CPU is
	 * busy, it dispatches again when its task stops.
	 */
	idle = pick_any_idle(p);
	if (idle < 0)
		idle = cpu;
	scx_bpf_kick_cpu(idle, kick_for_waiting(idle));
}

/* Insert @p, which can run on @cpu only, by vtime into that CPU's own DSQ. */
static __always_inline void queue_pinned(struct task_struct *p, s32 cpu, u64 vtime, u64 enq_flags)
{
	write_if_changed(&cpu_ctx_of(cpu)->pinned_used, 1);
	scx_bpf_dsq_insert_vtime(p, bias_dsq_pinned(cpu), slice_for(1, 1), vtime, enq_flags);
	stat_inc(BIAS_STAT_ENQ_PINNED);
	scx_bpf_kick_cpu(cpu, kick_for_waiting(cpu));
}

/*
 * Move the first task of a shared DSQ that @cpu may run to its local DSQ.
 * Return false if there is none.
 */
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

/*
 * Read the vtime of the first task in @dsq that may run on @cpu. If none of the
 * first MAX_PASSED tasks may, read that of the last one of them: no task behind
 * it has less. Return false if there is no task for @cpu.
 */
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

/*
 * Read the vtime of the first task in @llc's DSQ of @cpu_class, with the
 * cross-class penalty on @cpu. Return false if there is none.
 */
static __always_inline bool head_of_class(s32 cpu, u32 llc, u32 cpu_class, u64 *vtime)
{
	if (!READ_ONCE(llc_ctx_of(llc)->used[bounded(cpu_class, BIAS_NR_CLASSES)]) ||
	    !head_vtime(bias_dsq_shared(llc, cpu_class), cpu, vtime))
		return false;
	*vtime += cross_class_penalty_ns(cpu, cpu_class);
	return true;
}

/*
 * Return true if the head of @llc's other DSQ is due before the head of the one
 * that has @cpu's class. False if either DSQ has no task for @cpu.
 */
static __always_inline bool other_first(s32 cpu, u32 llc, u32 own)
{
	u64 ours, theirs;

	return head_of_class(cpu, llc, other_class(own), &theirs) && head_of_class(cpu, llc, own, &ours) &&
	       bias_vtime_before(theirs, ours);
}

/*
 * Take a task from @llc: from the DSQ of @cpu's own class first, unless the lag
 * in the other DSQ exceeds the gap.
 *
 * This function and the next are global: the verifier then checks each of them
 * once, not once per call and path. That keeps ops.dispatch within the
 * verifier's budget on 6.12.
 */
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
	/*
	 * The DSQs need not be empty: waiting tasks may have other affinities.
	 */
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

/*
 * Return true if the head of @cpu's pinned DSQ is due before the heads of its
 * LLC's shared DSQs.
 */
static __always_inline bool pinned_first(s32 cpu)
{
	u64 pinned;

	return head_vtime(bias_dsq_pinned(cpu), cpu, &pinned) &&
	       lowest_shared(cpu, llc_of(cpu), pinned) == pinned;
}

/*
 * Return the lowest of @vtime and the heads of the DSQs that wait for @cpu: its
 * own and its LLC's.
 */
static __always_inline u64 lowest_here(s32 cpu, const struct cpu_ctx *cctx, u64 vtime)
{
	u64 head;

	if (pinned_waiting(cpu, cctx) && head_vtime(bias_dsq_pinned(cpu), cpu, &head) &&
	    bias_vtime_before(head, vtime))
		vtime = head;
	return shared_waiting(llc_of(cpu)) ? lowest_shared(cpu, llc_of(cpu), vtime) : vtime;
}

/* Return true if a task that waits for @cpu is due before @vtime. */
static __always_inline bool due_before(s32 cpu, const struct cpu_ctx *cctx, u64 vtime)
{
	return lowest_here(cpu, cctx, vtime) != vtime;
}

/*
 * Part of steal_lag_ns by which another LLC's DSQ may lag [permille], in the
 * node and beyond: memory stays behind. The clock holds while tasks lag, so two
 * DSQs are hardly ever more than one steal_lag_ns apart.
 */
#define LLC_LAG_PERMILLE  500
#define NODE_LAG_PERMILLE 750

/*
 * Take the head of another LLC's DSQ if it lags behind @vtime by more than the
 * gap. @vtime is the lowest on @cpu. Each call checks one LLC, so that the DSQs
 * of all LLCs advance together. This function is global for the verifier.
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
	vtime -= steal_lag_ns * (near ? LLC_LAG_PERMILLE : NODE_LAG_PERMILLE) / 1000;
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

/*
 * Take a task from another LLC's DSQs, of the same node if possible. This
 * function is global for the verifier.
 */
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

/*
 * Take the task that @cpu runs next: from its own DSQ or its LLC's, else from
 * another LLC's.
 */
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
