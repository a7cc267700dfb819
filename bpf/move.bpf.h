/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Moving tasks that run: idle pull and rotation.
 *
 * Problem. When every CPU has a task no queue forms, and dispatch alone never corrects a placement:
 * work left on slow CPUs stays there while fast ones idle (seed 002, [3]), and of equal tasks some
 * always sit on the fast CPUs.
 *
 * Approach. A running task cannot be taken; its CPU is asked to give it up. The request is a word in
 * the CPU's cpu_ctx. The CPU is preempted, finds nothing to dispatch, and the kernel hands the task to
 * ops.enqueue (SCX_OPS_ENQ_LAST), which sees the request and inserts the task on the target's local
 * queue.
 *
 *	idle pull	a fast CPU about to idle asks for the task on a slow CPU that gains most, of
 *			equal ones the one furthest behind; a slow CPU that ticks while a fast one
 *			idles wakes that one, to ask.
 *	gain		a fast CPU that ticks asks for a slow CPU's task that gains clearly more
 *			(gain_permille) than its own, and leaves it its own place.
 *	rotation	a fast CPU whose slice ends asks for the slow CPU's task that is furthest behind
 *			it in vtime, if by more than rotate_gap_ns, and leaves it its own place ("equal
 *			progress", PACT'13). The two change places: the one that comes up has
 *			the other's CPU kicked, which sends that to where the first came from.
 *			Only among tasks of about equal gain: who gains clearly more is displaced
 *			only by one that is behind by unfair_gap_ns, and comes back when it has half
 *			caught up; and not by one that loses little where it is.
 *
 * And the agent may ask for a swap that it planned, see swap.bpf.h. With `moving` off it alone does: an ablation, which shows what
 * its swaps are worth by themselves.
 *
 * Only tasks that a tick has seen are worth a migration: shorter ones are gone before they arrive.
 *
 * Invariants. A request applies to the task that ran when it was made or to none: account_start()
 * clears it, unless the agent made it for the very task that starts. Before it is carried out the target is checked against the affinity of the task, whatever
 * was published. A task never leaves its node here. Whoever takes a CPU's idle mark wakes that CPU.
 *
 * Limits. A search looks at MAX_SCAN slow CPUs, beginning with its own LLC's. Of affinities, the first
 * 64 CPUs are published: a task restricted to others is not moved.
 */
#ifndef BIAS_MOVE_BPF_H
#define BIAS_MOVE_BPF_H

#include "state.bpf.h"
#include "idle.bpf.h"

/*
 * A request: 1 + the target CPU, and what to do when the target turns out to be busy. A pull is then
 * given up, a swap asks the target's task to come here, and that one's own request, the way back, must
 * not start another.
 */
#define MOVE_SWAP     (1u << 16)
#define MOVE_BACK     (1u << 17)
#define MOVE_GAIN     (1u << 18) /* the swap is for gain, not for a turn */
#define MOVE_AGENT    (1u << 19) /* the agent planned the swap, for the tasks move_pid and move_partner */
#define MOVE_CPU_MASK (MOVE_SWAP - 1)

_Static_assert(BIAS_MAX_CPUS < MOVE_CPU_MASK, "a CPU number must fit a request");

/* May the task that runs on the CPU of @cctx run on @cpu, as far as is published? */
static __always_inline bool could_move(const struct cpu_ctx *cctx, s32 cpu)
{
	if (cctx->move_to || !(cctx->run_flags & RUN_TICKED))
		return false;
	if (cctx->run_flags & RUN_ANYWHERE)
		return true;
	return (cctx->run_flags & RUN_MOVABLE) && cpu < 64 && (cctx->run_allowed & (1ull << cpu));
}

/* A task on a slow CPU that would gain less than this elsewhere has no cause to complain. */
#define UNFAIR_SPEEDUP_PERMILLE 1200

/* What a search is for. */
enum search {
	SEARCH_PULL,   /* anything that runs */
	SEARCH_ROTATE, /* whoever is behind */
	SEARCH_GAIN,   /* whoever gains more */
};

/* Is the task of slow CPU @cctx what @search is for, given who runs on the fast CPU (@mine)? */
static __always_inline bool is_sought(const struct cpu_ctx *cctx, enum search search,
				      const struct cpu_ctx *mine)
{
	u64 theirs = cctx->run_vtime, ours = mine->run_vtime;

	if (search == SEARCH_PULL)
		return true;
	if (search == SEARCH_GAIN) /* not while ours makes up for having been kept from fast CPUs */
		return bias_gains_more(cctx->run_speedup, mine->run_speedup, gain_permille) &&
		       !bias_vtime_before(ours + unfair_gap_ns / 2, theirs);
	if (bias_gains_more(mine->run_speedup, cctx->run_speedup, gain_permille))
		return cctx->run_speedup >= UNFAIR_SPEEDUP_PERMILLE &&
		       bias_vtime_before(theirs + unfair_gap_ns, ours);
	return bias_vtime_before(theirs + rotate_gap_ns, ours);
}

/*
 * The slow CPU whose task is the best that @search, on behalf of the fast @cpu, finds: the one that gains most, of
 * about equal ones the one furthest behind. -1 when there is none.
 */
static __always_inline s32 search_slow(s32 cpu, enum search search)
{
	const struct slow_list *list = &slow_lists[READ_ONCE(table_seq) & 1];
	u32 start = list->start[bounded(llc_of(cpu), BIAS_MAX_LLCS)], nr = list->nr,
	    node = cpu_info_of(cpu)->node, speedup = 0, i;
	const struct cpu_ctx *mine = cpu_ctx_of(cpu);
	s32 found = -1;
	u64 vtime = 0;

	if (!nr || nr > BIAS_MAX_CPUS)
		return -1;
	bpf_for(i, 0, nr < MAX_SCAN ? nr : MAX_SCAN) {
		s32 slow = list->cpus[bounded((start + i) % nr, BIAS_MAX_CPUS)];
		struct cpu_ctx *cctx = cpu_ctx_of(slow);

		if (!could_move(cctx, cpu) || cpu_info_of(slow)->node != node ||
		    !is_sought(cctx, search, mine))
			continue;
		if (found >= 0 && !bias_gains_more(cctx->run_speedup, speedup, gain_permille) &&
		    (bias_gains_more(speedup, cctx->run_speedup, gain_permille) ||
		     !bias_vtime_before(cctx->run_vtime, vtime)))
			continue;
		vtime = cctx->run_vtime;
		speedup = cctx->run_speedup;
		found = slow;
	}
	return found;
}

/*
 * Pick the CPU whose task shares a core and gains most from one of its own, @cpu,
 * which idles as a whole: a fast CPU's task before a slow one's, for sharing
 * costs it more. Return -1 when there is none.
 */
static __always_inline s32 search_shared(s32 cpu)
{
	u32 nr = nr_cpus, node = cpu_info_of(cpu)->node, i;
	bool fast_too = !cpu_is_slow(cpu) || !sibling_beats_slow_core();
	s32 found = -1;

	if (!nr || nr > BIAS_MAX_CPUS)
		return -1;
	bpf_for(i, 1, nr < MAX_SCAN ? nr : MAX_SCAN) {
		s32 other = bounded(((u32)cpu + i) % nr, BIAS_MAX_CPUS);
		bool slow = cpu_is_slow(other);

		if ((found >= 0 && slow) || (!slow && !fast_too) || cpu_info_of(other)->node != node ||
		    !could_move(cpu_ctx_of(other), cpu) || !core_is_shared(other))
			continue;
		found = other;
		if (!slow)
			break;
	}
	return found;
}

/* The searches of ops.dispatch are global for the verifier's sake, as take_from_llc() is. */
__noinline int search_to_unshare(s32 cpu)
{
	return search_shared(cpu);
}

__noinline int search_to_pull(s32 cpu)
{
	return search_slow(cpu, SEARCH_PULL);
}

__noinline int search_to_rotate(s32 cpu)
{
	return search_slow(cpu, SEARCH_ROTATE);
}

/* Ask @from to give the task it runs to @to; @how is 0 or MOVE_SWAP, with or without MOVE_GAIN. */
static __always_inline void request_move(s32 from, s32 to, u32 how)
{
	WRITE_ONCE(cpu_ctx_of(from)->move_to, (to + 1) | how);
	scx_bpf_kick_cpu(from, SCX_KICK_PREEMPT);
}

/*
 * @cpu is about to idle: ask for a task that would run faster here. A thread
 * beside a busy one takes nothing from a slow core that adds more than it does.
 */
static __always_inline void pull_running(s32 cpu)
{
	bool whole = smt_active && !core_is_shared(cpu);
	s32 from = -1;

	if (!moving)
		return;
	if (whole)
		from = search_to_unshare(cpu);
	if (from < 0 && two_classes && !cpu_is_slow(cpu) &&
	    (!smt_active || whole || sibling_beats_slow_core()))
		from = search_to_pull(cpu);
	if (from < 0)
		return;
	request_move(from, cpu, 0);
	stat_inc(BIAS_STAT_PULL);
}

/* A fast CPU's slice has ended and nothing waits: should the task change places with one that is behind? */
static __always_inline void rotate(s32 cpu, struct cpu_ctx *cctx)
{
	s32 slow;

	if (!moving || !(cctx->run_flags & RUN_MOVABLE))
		return;
	slow = search_to_rotate(cpu);
	if (slow < 0)
		return;
	request_move(slow, cpu, MOVE_SWAP);
	stat_inc(BIAS_STAT_ROTATE);
}

/* A fast CPU ticks, and did before while this task ran: should it change places with one that gains more? */
static __always_inline void swap_for_gain(s32 cpu, struct cpu_ctx *cctx)
{
	s32 slow;

	if (!moving || !(cctx->run_flags & RUN_MOVABLE) || !(cctx->run_flags & RUN_TICKED) ||
	    !cctx->run_speedup || cctx->move_to)
		return;
	slow = search_slow(cpu, SEARCH_GAIN);
	if (slow < 0)
		return;
	request_move(slow, cpu, MOVE_SWAP | MOVE_GAIN);
	stat_inc(BIAS_STAT_SWAP_GAIN);
}

/* Pick an idle CPU that would run @p, which ticks on @cpu, faster than @cpu does. */
static __always_inline s32 better_idle_cpu(struct task_struct *p, s32 cpu)
{
	bool slow = cpu_is_slow(cpu), shared = core_is_shared(cpu);
	s32 better = -1;

	if (slow || shared)
		better = pick_idle(p, llc_of(cpu), BIAS_FAST,
				   slow && sibling_beats_slow_core() ? NEED_THREAD : NEED_CORE);
	if (better < 0 && shared && two_classes && (slow || !sibling_beats_slow_core()))
		better = pick_idle(p, llc_of(cpu), BIAS_SLOW, NEED_CORE);
	return better;
}

/*
 * A CPU ticks that is slow or shares its core: if a better one idles, have that
 * look for work, which it finds here. It is woken rather than the task sent: a
 * CPU that was picked but gets nothing stays without its idle mark, and no
 * wakeup would send work there again.
 */
static __always_inline void wake_better(struct task_struct *p, s32 cpu, struct cpu_ctx *cctx)
{
	s32 better;

	if (!moving || !(cctx->run_flags & RUN_MOVABLE) || cctx->move_to)
		return;
	better = better_idle_cpu(p, cpu);
	if (better >= 0)
		scx_bpf_kick_cpu(better, SCX_KICK_IDLE);
}

/* Why a request was made, for the task that it moved. */
static __always_inline u32 reason_of(u32 request)
{
	if (request & MOVE_AGENT)
		return BIAS_REASON_SWAP;
	if (request & MOVE_GAIN)
		return request & MOVE_BACK ? BIAS_REASON_YIELD : BIAS_REASON_GAIN;
	return request & (MOVE_SWAP | MOVE_BACK) ? BIAS_REASON_ROTATE : BIAS_REASON_PULL;
}

/*
 * Return true if the request on @cpu is for @p, which runs or just ran there,
 * and @p may go. A request that no longer holds is dropped, one for another task
 * that will come back stays.
 */
static __always_inline bool move_holds(struct task_struct *p, s32 cpu, struct cpu_ctx *cctx)
{
	u32 request = READ_ONCE(cctx->move_to);
	s32 to = (s32)(request & MOVE_CPU_MASK) - 1;
	struct cpu_ctx *target = cpu_ctx_of(to);
	bool planned = (request & MOVE_AGENT) && !(request & MOVE_BACK);
	bool busy = READ_ONCE(target->run_flags) & RUN_BUSY;

	if (!request || (planned ? cctx->move_pid : cctx->run_pid) != p->pid)
		return false;
	if (planned && (!busy || target->run_pid != cctx->move_partner)) {
		stat_inc(BIAS_STAT_SWAP_LATE);
	} else if (to >= 0 && cctx->run_pid == p->pid && !is_pinned(p) && !(p->flags & PF_EXITING) &&
		   bpf_cpumask_test_cpu(to, p->cpus_ptr)) {
		if (!busy || ((request & MOVE_SWAP) && (target->run_flags & RUN_MOVABLE) && !target->move_to))
			return true;
	}
	WRITE_ONCE(cctx->move_to, 0);
	cctx->move_pid = 0;
	return false;
}

/* @p, which just ran on @cpu, is enqueued: carry out the request there is. True when @p is on its way. */
static __always_inline bool carry_out_move(struct task_struct *p, s32 cpu, struct cpu_ctx *cctx,
					   u64 enq_flags)
{
	u32 request = READ_ONCE(cctx->move_to);
	s32 to = (s32)(request & MOVE_CPU_MASK) - 1;
	struct cpu_ctx *target = cpu_ctx_of(to);
	struct task_ctx *tctx;

	if (!move_holds(p, cpu, cctx))
		return false;
	WRITE_ONCE(cctx->move_to, 0);
	cctx->move_pid = 0;
	if (target->run_flags & RUN_BUSY) {
		WRITE_ONCE(target->move_to, (cpu + 1) | MOVE_BACK | (request & (MOVE_GAIN | MOVE_AGENT)));
		/*
		 * Not SCX_ENQ_PREEMPT: 6.12 loses it on the way to another CPU's queue, and the target would
		 * go on until its next tick while this CPU idles.
		 */
		scx_bpf_kick_cpu(to, SCX_KICK_PREEMPT);
	}
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | to, slice_ns, enq_flags);
	tctx = task_ctx_of(p);
	if (tctx) {
		tctx->reason = reason_of(request);
		tctx->moved_ns = bpf_ktime_get_ns();
		/* The agent compares what is done there from now on with what was done here. */
		tctx->swapped = !!(request & MOVE_AGENT);
		if (tctx->swapped)
			bias_work_forget(&tctx->work, class_of(to));
		tctx->in_transit = 1;
	}
	stat_inc(BIAS_STAT_MOVED);
	return true;
}

/* The task of @tctx runs again after it was moved: what that cost. */
static __always_inline void arrived(struct task_ctx *tctx)
{
	if (!tctx->in_transit)
		return;
	tctx->in_transit = 0;
	tctx->lost_ns += bpf_ktime_get_ns() - tctx->moved_ns;
}

/* A task at the tick: who was there at the last one, too, sits there. */
static __always_inline void note_seat(struct cpu_ctx *cctx)
{
	if (!(cctx->run_flags & RUN_TICKED))
		return;
	cctx->seat_pid = cctx->run_pid;
	cctx->seat_speedup = cctx->run_speedup;
}

#endif
