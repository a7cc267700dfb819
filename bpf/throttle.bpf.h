/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Tasks of throttled cgroups wait until cpu.max grants them run time.
 *
 * Problem
 * A task whose cgroup has used up its quota must not run, though CPUs idle. It
 * must run again once a period grants more, though no CPU ticks by then. And
 * the kernel ends a scheduler that keeps a task waiting for timeout_ms.
 *
 * Approach
 * A running task is stopped by a tick, or when its slice ends. ops.enqueue
 * parks it in a DSQ that no CPU serves. So it does with a throttled task that
 * wakes, after ops.select_cpu has left it alone. Tasks that wait in other DSQs
 * when their group is throttled run until the next tick: the group pays for
 * that later (bias/quota.h).
 *
 * When parked tasks are due, a timer kicks a CPU. The next CPU that dispatches
 * moves them to their shared or pinned DSQs. The timer cannot do that itself:
 * if it interrupts another callback, kernels before 7.1 take the move for a
 * call from that one, and end the scheduler.
 *
 * A parked task does not compete, so its weight is subtracted from the sums
 * above it (group.bpf.h), as if it slept.
 *
 * Invariants
 * The timer is armed while a task is parked. A task's weight is added as often
 * as it is subtracted, whether the timer, an enqueue or the task's own end
 * takes it out. Without a quota anywhere, each check here costs one load.
 *
 * Limits
 * A task that comes back has the lag of a wakee at most. So weights within a
 * throttled group count during a period only, and less than elsewhere.
 *
 * A group whose debt is more than MAX_PARKED_NS runs for a tick meanwhile, so a
 * quota below a tick on each of many CPUs does not hold. Kthreads, exiting
 * tasks, and tasks without a context are not throttled. A task may be parked
 * while it holds a lock of the kernel. If two CPUs arm the timer at once, the
 * later time may win. Then a task comes back MAX_SLEEP_NS late at most. Of
 * several tasks that come back at once, one may wait for a tick: the CPU that
 * was kicked for it takes another one.
 */
#ifndef BIAS_THROTTLE_BPF_H
#define BIAS_THROTTLE_BPF_H

#include "access.bpf.h"
#include "account.bpf.h"
#include "group.bpf.h"
#include "queue.bpf.h"

/* Longest time for which a task is parked: well below timeout_ms. */
#define MAX_PARKED_NS 2000000000ull
/* Bounds of the timer's sleep, and its sleep until it kicks another CPU. */
#define MIN_SLEEP_NS   500000ull
#define MAX_SLEEP_NS   100000000ull
#define RETRY_SLEEP_NS 1000000ull

/*
 * Return until when one of @tg and its ancestors is throttled, or 0 if none is.
 */
static __always_inline u64 group_throttled_until(struct task_group *tg, u64 now_ns)
{
	u64 until_ns = 0;
	u32 level;

	bpf_for(level, 0, MAX_LEVELS) {
		u32 id = tg ? group_id(tg) : 0;

		if (!id)
			break;
		if (id != OTHER_GROUPS && has_quota(tg)) {
			u64 theirs_ns = READ_ONCE(groups[bounded(id, MAX_GROUPS)].throttled_until_ns);

			if (theirs_ns > now_ns && theirs_ns > until_ns)
				until_ns = theirs_ns;
		}
		tg = tg->parent;
	}
	return until_ns;
}

/*
 * Return until when @p must not run, or 0 if it may. This function is global so
 * that the verifier checks it once.
 */
__noinline u64 throttled_until(struct task_struct *p __arg_trusted)
{
	if (p->flags & (PF_KTHREAD | PF_EXITING))
		return 0;
	return group_throttled_until(group_of(p), bpf_ktime_get_ns());
}

/* Return true if @p must not run now. */
static __always_inline bool is_throttled(struct task_struct *p)
{
	return READ_ONCE(quotas_seen) && throttled_until(p);
}

/* Return true if the task of @tctx was parked. From now on it is not. */
static __always_inline bool end_parking(struct task_ctx *tctx)
{
	if (!READ_ONCE(tctx->parked) || !__sync_lock_test_and_set(&tctx->parked, 0))
		return false;
	__sync_fetch_and_add(&nr_parked, -1);
	return true;
}

/* Return true if @p, which ceases to be runnable, was parked. */
static __always_inline bool was_parked(struct task_struct *p)
{
	struct task_ctx *tctx;

	return READ_ONCE(quotas_seen) && (tctx = task_ctx_of(p)) && end_parking(tctx);
}

/* Have the timer fire at @at_ns, within the bounds of its sleep. */
static __always_inline void arm_timer(struct bpf_timer *timer, u64 at_ns, u64 now_ns)
{
	u64 sleep_ns = at_ns - now_ns;

	if ((s64)sleep_ns < (s64)MIN_SLEEP_NS)
		sleep_ns = MIN_SLEEP_NS;
	if (sleep_ns > MAX_SLEEP_NS)
		sleep_ns = MAX_SLEEP_NS;
	WRITE_ONCE(unpark_at_ns, now_ns + sleep_ns);
	bpf_timer_start(timer, sleep_ns, 0);
}

/*
 * Park @p, which is enqueued on @cpu, if it is throttled. Return true if it is.
 */
static __always_inline bool park(struct task_struct *p, s32 cpu, u64 enq_flags)
{
	u64 now_ns, until_ns, armed_ns;
	struct unpark_timer *timer;
	struct task_ctx *tctx;
	u32 zero = 0;

	if (!READ_ONCE(quotas_seen) || !(tctx = task_ctx_of(p)))
		return false;
	timer = bpf_map_lookup_elem(&unpark_timer, &zero);
	if (!timer)
		return false;
	until_ns = throttled_until(p);
	if (!until_ns) {
		/* A change of affinity has enqueued it again. */
		if (end_parking(tctx))
			group_count(p, true);
		return false;
	}
	now_ns = bpf_ktime_get_ns();
	tctx->parked_ns = now_ns;
	if (!__sync_lock_test_and_set(&tctx->parked, 1)) {
		__sync_fetch_and_add(&nr_parked, 1);
		group_count(p, false);
	}
	forget_tick(cpu_ctx_of(cpu));
	scx_bpf_dsq_insert(p, bias_dsq_parked(), slice_for(1, 1), enq_flags);
	stat_inc(BIAS_STAT_THROTTLED);
	armed_ns = READ_ONCE(unpark_at_ns);
	if (armed_ns <= now_ns || until_ns < armed_ns)
		arm_timer(&timer->timer, until_ns, now_ns);
	return true;
}

/*
 * Prepare the DSQ for which the parked @p of @cpu is due, with @vtime, and
 * return its id. This function and the next are global so that the verifier
 * checks each of them once.
 */
__noinline u64 dsq_for_parked(struct task_struct *p __arg_trusted, s32 cpu, u64 vtime)
{
	u32 queue;

	if (is_pinned(p)) {
		write_if_changed(&cpu_ctx_of(cpu)->pinned_used, 1);
		return bias_dsq_pinned(cpu);
	}
	queue = queue_from(p, cpu);
	note_joins(queue, vtime);
	return queue_dsq(queue);
}

/* Let @p compete again, and wake a CPU for it. Return 0. */
__noinline int compete_again(struct task_struct *p __arg_trusted, s32 cpu)
{
	struct task_ctx *tctx = task_ctx_of(p);
	s32 idle = -1;

	if (tctx && end_parking(tctx))
		group_count(p, true);
	/* Another task should not wake the CPU that a pinned one needs. */
	if (is_pinned(p))
		scx_bpf_test_and_clear_cpu_idle(cpu);
	else
		idle = pick_any_idle(p);
	scx_bpf_kick_cpu(idle >= 0 ? idle : cpu, SCX_KICK_IDLE);
	return 0;
}

/*
 * Return until when the parked @p must wait, at most for MAX_PARKED_NS in all,
 * or 0 if it is due.
 */
static __always_inline u64 parked_until(struct task_struct *p, u64 now_ns)
{
	struct task_ctx *tctx = task_ctx_of(p);

	if (!tctx || now_ns - tctx->parked_ns > MAX_PARKED_NS)
		return 0;
	return throttled_until(p);
}

/*
 * Unpark the tasks that are due, or only the pinned ones among them. Return
 * when the first one of the others is due. This function is global so that the
 * verifier checks it once.
 */
__noinline u64 unpark_pass(bool only_pinned, u64 now_ns)
{
	u64 next_ns = now_ns + MAX_SLEEP_NS;
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, bias_dsq_parked(), 0) {
		u64 until_ns = parked_until(p, now_ns), vtime;
		s32 cpu = scx_bpf_task_cpu(p);

		if (until_ns || (only_pinned && !is_pinned(p))) {
			if (until_ns < next_ns)
				next_ns = until_ns;
			continue;
		}
		/* A CPU that goes offline serves the global DSQ only. */
		if (is_pinned(p) && is_offline(cpu)) {
			if (scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_GLOBAL, 0))
				compete_again(p, cpu);
			continue;
		}
		vtime = joined_vtime(p, cpu);
		scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, vtime);
		if (scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, dsq_for_parked(p, cpu, vtime), 0))
			compete_again(p, cpu);
	}
	return next_ns;
}

/*
 * Unpark the tasks that are due, pinned ones first: others can wait for any
 * CPU. Arm the timer for the next ones. A task that counts as parked but is not
 * in the DSQ yet is looked for again soon.
 */
static __always_inline void unpark_due(void)
{
	u64 now_ns = bpf_ktime_get_ns(), next_ns, armed_ns;
	struct unpark_timer *timer;
	u32 zero = 0;

	WRITE_ONCE(unpark_at_ns, 0);
	unpark_pass(true, now_ns);
	next_ns = unpark_pass(false, now_ns);
	timer = bpf_map_lookup_elem(&unpark_timer, &zero);
	if (!timer || READ_ONCE(nr_parked) <= 0)
		return;
	if (READ_ONCE(nr_parked) > scx_bpf_dsq_nr_queued(bias_dsq_parked()))
		next_ns = now_ns;
	armed_ns = READ_ONCE(unpark_at_ns);
	arm_timer(&timer->timer, armed_ns && armed_ns < next_ns ? armed_ns : next_ns, now_ns);
}

/* Unpark tasks if the timer has kicked this CPU, or another one, for that. */
static __always_inline void unpark_in_dispatch(void)
{
	if (READ_ONCE(unpark_now) && __sync_lock_test_and_set(&unpark_now, 0))
		unpark_due();
}

/*
 * Have a CPU dispatch: an idle one if possible, else one that runs a SCHED_EXT
 * task, beginning behind the CPU that was kicked last.
 */
static __always_inline void kick_to_unpark(void)
{
	const struct cpumask *idle_cpus = scx_bpf_get_idle_cpumask();
	s32 cpu = scx_bpf_pick_idle_cpu(idle_cpus, 0);
	u32 nr = nr_cpus, i;

	scx_bpf_put_idle_cpumask(idle_cpus);
	if (cpu >= 0 && !is_offline(cpu)) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		return;
	}
	if (!nr || nr > BIAS_MAX_CPUS)
		return;
	bpf_for(i, 0, nr < MAX_SCAN ? nr : MAX_SCAN) {
		cpu = bounded(++unpark_cpu % nr, BIAS_MAX_CPUS);
		if (READ_ONCE(cpu_ctx_of(cpu)->run_flags) & RUN_BUSY) {
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
			break;
		}
	}
}

/* The timer fires. If no CPU dispatches, it fires again soon. */
static int kick_for_parked(void *map, int *key, struct bpf_timer *timer)
{
	u64 now_ns = bpf_ktime_get_ns();

	WRITE_ONCE(unpark_at_ns, 0);
	if (READ_ONCE(nr_parked) <= 0)
		return 0;
	WRITE_ONCE(unpark_now, 1);
	kick_to_unpark();
	arm_timer(timer, now_ns + RETRY_SLEEP_NS, now_ns);
	return 0;
}

/* Create the DSQ of parked tasks and the timer that empties it. */
static s32 init_throttling(void)
{
	struct unpark_timer *timer;
	u32 zero = 0;
	s32 err;

	timer = bpf_map_lookup_elem(&unpark_timer, &zero);
	if (!timer)
		return -ENOENT;
	err = scx_bpf_create_dsq(bias_dsq_parked(), -1);
	err = err ?: bpf_timer_init(&timer->timer, &unpark_timer, CLOCK_MONOTONIC);
	return err ?: bpf_timer_set_callback(&timer->timer, kick_for_parked);
}

#endif
