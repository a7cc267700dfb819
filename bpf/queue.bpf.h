/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The queues: one ordered by vtime for each (LLC, class), one for each CPU for tasks that are pinned to
 * it.
 *
 * Which shared queue. A task goes to the queue of its previous CPU's LLC, by bias (place.bpf.h). FAST and
 * NEUTRAL tasks wait in the fast queue, SLOW ones in the slow queue, unless their affinity leaves them no
 * choice. Each CPU serves its own class first and the other when that is empty, or when who waits there is
 * far behind: nothing idles while something waits, and nobody waits for ever.
 *
 * When a queue holds something. The kernel inserts a task after ops.enqueue has returned, so that
 * nothing enqueue writes can tell others of it in time: between the word and the insertion another CPU
 * may look, find nothing, and go idle. (A hint that was cleared by such a look made tasks wait for
 * ever, found by a stall in the VM.) Therefore dispatch always looks; all that is remembered is that a
 * queue was never used, which spares machines without slow-only or pinned tasks a hash lookup a switch.
 * And enqueue kicks a CPU, which the kernel does after the insertion.
 *
 * The word `waiting`, for decisions where a wrong answer costs fairness for a moment only, is set by
 * enqueue, and made true to the queues' lengths by a dispatch that finds nothing and at every tick.
 *
 * Pinned tasks. They may not go to the CPU's local queue unconditionally: local tasks run before
 * ops.dispatch is asked, and a CPU whose pinned tasks keep waking would never serve the shared queues.
 * dispatch compares the heads of both.
 *
 * Invariant. A task that was queued is found by the next dispatch of every CPU it may run on, and one
 * of those CPUs is busy with a task of ours or is woken.
 */
#ifndef BIAS_QUEUE_BPF_H
#define BIAS_QUEUE_BPF_H

#include "state.bpf.h"
#include "idle.bpf.h"
#include "place.bpf.h"

/* How many tasks of other affinities a look at a queue's head passes over. */
#define MAX_PASSED 32

static __always_inline struct llc_ctx *llc_ctx_of(u32 llc)
{
	return &llc_ctxs[bounded(llc, BIAS_MAX_LLCS)];
}

/* A shared cache line: write only to change it. */
static __always_inline void set_word(u32 *word, u32 value)
{
	if (READ_ONCE(*word) != value)
		WRITE_ONCE(*word, value);
}

/* Does something wait in @llc's shared queues, as far as is known? */
static __always_inline bool shared_waiting(u32 llc)
{
	return READ_ONCE(llc_ctx_of(llc)->waiting);
}

/* Make shared_waiting() true to what the kernel says. */
static __always_inline void refresh_waiting(u32 llc)
{
	bool waiting = scx_bpf_dsq_nr_queued(bias_dsq_shared(llc, BIAS_FAST)) > 0;

	if (!waiting && READ_ONCE(llc_ctx_of(llc)->used[BIAS_SLOW]))
		waiting = scx_bpf_dsq_nr_queued(bias_dsq_shared(llc, BIAS_SLOW)) > 0;
	set_word(&llc_ctx_of(llc)->waiting, waiting);
}

/* At a tick: since when has something been waiting in @llc's shared queues? For the agent, which leaves such CPUs alone. */
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

/* Does something wait in the queue of the tasks that are pinned to @cpu? */
static __always_inline bool pinned_waiting(s32 cpu, const struct cpu_ctx *cctx)
{
	return READ_ONCE(cctx->pinned_used) && scx_bpf_dsq_nr_queued(bias_dsq_pinned(cpu)) > 0;
}

/* A slice while @waiting tasks wait in a queue that @cpus CPUs serve. */
static __always_inline u64 slice_for(u32 waiting, u32 cpus)
{
	return bias_slice(slice_ns, slice_min_ns, waiting, cpus);
}

/* The class of the queue that @p waits in. */
static __always_inline u32 queue_class(struct task_struct *p)
{
	u32 class_ = kind_of(task_ctx_of(p)) == BIAS_KIND_SLOW ? BIAS_SLOW : BIAS_FAST;

	if (!may_run_on_class(p, class_))
		class_ = class_ == BIAS_SLOW ? BIAS_FAST : BIAS_SLOW;
	return class_;
}

/* Queue @p by vtime in the shared queue of @cpu's LLC, and see to it that some CPU looks there. */
static __always_inline void queue_shared(struct task_struct *p, s32 cpu, u64 vtime, u64 enq_flags)
{
	u32 llc = llc_of(cpu);
	u32 class_ = two_classes ? queue_class(p) : BIAS_FAST;
	u64 dsq = bias_dsq_shared(llc, class_);
	s32 waiting = shared_waiting(llc) ? scx_bpf_dsq_nr_queued(dsq) : 0;
	s32 idle;

	set_word(&llc_ctx_of(llc)->used[bounded(class_, BIAS_NR_CLASSES)], 1);
	set_word(&llc_ctx_of(llc)->waiting, 1);
	scx_bpf_dsq_insert_vtime(p, dsq, slice_for(waiting > 0 ? waiting : 0, nr_cpus / nr_llcs), vtime,
				 enq_flags);
	stat_inc(BIAS_STAT_ENQ_SHARED);
	/*
	 * A task that ran here and is put back needs no kick: whatever made way for it runs here, and the
	 * CPU looks again when that stops. A new task has not run anywhere.
	 */
	if (!(enq_flags & SCX_ENQ_WAKEUP) && cpu == bpf_get_smp_processor_id() &&
	    cpu_ctx_of(cpu)->run_pid == p->pid)
		return;
	/*
	 * A CPU that looked before the insertion may be on its way to idle without being marked idle yet.
	 * Should no CPU be marked, the task's own is kicked, which the kernel honours in that state too; else
	 * it is busy and will look again when its task stops.
	 */
	idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	scx_bpf_kick_cpu(idle >= 0 ? idle : cpu, SCX_KICK_IDLE);
}

/* Queue @p, which can run on @cpu only, by vtime in that CPU's own queue. */
static __always_inline void queue_pinned(struct task_struct *p, s32 cpu, u64 vtime, u64 enq_flags)
{
	set_word(&cpu_ctx_of(cpu)->pinned_used, 1);
	scx_bpf_dsq_insert_vtime(p, bias_dsq_pinned(cpu), slice_for(1, 1), vtime, enq_flags);
	stat_inc(BIAS_STAT_ENQ_PINNED);
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* Take the head of one shared queue to @cpu. */
static __always_inline bool take_shared(s32 cpu, u32 llc, u32 class_)
{
	if (!READ_ONCE(llc_ctx_of(llc)->used[bounded(class_, BIAS_NR_CLASSES)]))
		return false;
	if (!scx_bpf_dsq_move_to_local(bias_dsq_shared(llc, class_), 0))
		return false;
	cpu_ctx_of(cpu)->took_shared = 1;
	stat_inc(class_ == speed_of(cpu)->class_ ? BIAS_STAT_DISPATCH_OWN : BIAS_STAT_DISPATCH_OTHER);
	return true;
}

/*
 * The vtime of the first task in @dsq that @cpu may run; false when there is none. Tasks of other
 * affinities are passed over, MAX_PASSED of them: whether they are due is no matter of this CPU.
 */
static __always_inline bool head_vtime(u64 dsq, s32 cpu, u64 *vtime)
{
	struct task_struct *p;
	u32 passed = 0;
	bool found = false;

	bpf_for_each(scx_dsq, p, dsq, 0) {
		if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr)) {
			*vtime = p->scx.dsq_vtime;
			found = true;
		}
		if (found || ++passed >= MAX_PASSED)
			break;
	}
	return found;
}

/*
 * The vtime at which the first task in @llc's queue of @class_ counts on @cpu; false when there is none.
 */
static __always_inline bool head_of_class(s32 cpu, u32 llc, u32 class_, u64 *vtime)
{
	if (!READ_ONCE(llc_ctx_of(llc)->used[bounded(class_, BIAS_NR_CLASSES)]) ||
	    !head_vtime(bias_dsq_shared(llc, class_), cpu, vtime))
		return false;
	*vtime += class_handicap(cpu, class_);
	return true;
}

/* Both queues of @llc may hold something: is the other class's due before @cpu's own? */
static __always_inline bool other_first(s32 cpu, u32 llc, u32 own)
{
	u64 ours, theirs;

	return head_of_class(cpu, llc, own == BIAS_FAST ? BIAS_SLOW : BIAS_FAST, &theirs) &&
	       head_of_class(cpu, llc, own, &ours) && bias_vtime_before(theirs, ours);
}

/*
 * Take from @llc: the CPU's own class first, then the other, unless that is far behind.
 *
 * This function and the next are global: the verifier then looks at each once instead of once a call and path, which
 * keeps ops.dispatch within its budget on 6.12.
 */
__noinline int take_from_llc(s32 cpu, u32 llc)
{
	u32 own = class_of(cpu);
	u32 other = own == BIAS_FAST ? BIAS_SLOW : BIAS_FAST;

	if (two_classes && shared_waiting(llc) && other_first(cpu, llc, own) &&
	    take_shared(cpu, llc, other)) {
		stat_inc(BIAS_STAT_BORROWED);
		return true;
	}
	if (take_shared(cpu, llc, own) || (two_classes && take_shared(cpu, llc, other)))
		return true;
	/* Nothing for this CPU is not nothing: what waits may have other affinities. */
	if (shared_waiting(llc))
		refresh_waiting(llc);
	return false;
}

/* Does something wait in @llc's shared queues that is due on @cpu before @vtime? */
__noinline int shared_before(s32 cpu, u32 llc, u64 vtime)
{
	u64 head;

	if (head_of_class(cpu, llc, BIAS_FAST, &head) && bias_vtime_before(head, vtime))
		return true;
	return two_classes && head_of_class(cpu, llc, BIAS_SLOW, &head) && bias_vtime_before(head, vtime);
}

/* Is the CPU's pinned queue's head due before its LLC's fast and slow queues'? */
static __always_inline bool pinned_first(s32 cpu)
{
	u64 pinned;

	return head_vtime(bias_dsq_pinned(cpu), cpu, &pinned) && !shared_before(cpu, llc_of(cpu), pinned);
}

/* Does something wait for @cpu, in its own queue or its LLC's, that is due before @vtime? */
static __always_inline bool due_before(s32 cpu, const struct cpu_ctx *cctx, u64 vtime)
{
	u64 head;

	if (pinned_waiting(cpu, cctx) && head_vtime(bias_dsq_pinned(cpu), cpu, &head) &&
	    bias_vtime_before(head, vtime))
		return true;
	return shared_waiting(llc_of(cpu)) && shared_before(cpu, llc_of(cpu), vtime);
}

/* How much later another node's tasks are taken than another cache's: memory stays behind. */
#define NODE_GAPS 4

/*
 * The running task of @cpu, at @vtime, has used its slice and nothing here goes
 * before it: take the head of another LLC's queue if that is far behind. Each
 * slice looks at one of them, so that queues of all caches advance together.
 */
static __always_inline bool take_due_elsewhere(s32 cpu, struct cpu_ctx *cctx, u64 vtime)
{
	u32 own = llc_of(cpu), llc = ++cctx->looked_llc % nr_llcs;
	u64 gap = borrow_gap_ns;

	if (llc == own)
		llc = ++cctx->looked_llc % nr_llcs;
	if (llc == own || !shared_waiting(llc))
		return false;
	if (READ_ONCE(llc_ctx_of(llc)->node) != cpu_info_of(cpu)->node)
		gap *= NODE_GAPS;
	if (!shared_before(cpu, llc, vtime - gap) || !take_from_llc(cpu, llc))
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

/* Take whatever should run on @cpu next: from its own queue, its LLC's, the others'. */
static __always_inline bool take_next(s32 cpu)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	u32 llc = llc_of(cpu), i;

	if (pinned_waiting(cpu, cctx)) {
		if ((!shared_waiting(llc) || pinned_first(cpu)) && take_pinned(cpu))
			return true;
		if (take_from_llc(cpu, llc) || take_pinned(cpu))
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
