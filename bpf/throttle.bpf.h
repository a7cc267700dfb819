/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Tasks of throttled cgroups wait until cpu.max grants them run time.
 *
 * Problem
 * A task without quota left must wait though CPUs idle, and return though no
 * CPU ticks, before the kernel ends the scheduler (timeout_ms).
 *
 * Approach
 * ops.enqueue parks a throttled task in a DSQ that no CPU serves. One that runs
 * or waits elsewhere stops at a tick, and its group pays for that later
 * (bias/quota.h). The weight of a parked task leaves the sums (group.bpf.h).
 *
 * When tasks are due, a timer kicks a CPU, and the next CPU that dispatches
 * moves them to their DSQs. Kernels before 7.1 end the scheduler for such a
 * move in a timer that interrupts another callback.
 *
 * Invariants
 * The timer is armed while a task is parked. A task's weight is added as often
 * as it is subtracted, whether a dispatch, an enqueue or its own end takes it
 * out. Without a quota anywhere, each check here costs one load.
 *
 * Limits
 * A task that comes back has the lag of a wakee at most, so weights within a
 * throttled group count less than elsewhere, and only within a period. A group
 * whose debt exceeds MAX_PARKED_NS runs for a tick: a quota below a tick on
 * each of many CPUs does not hold. Kthreads, exiting tasks, and tasks without a
 * context are not throttled. A parked task may hold a lock of the kernel.
 *
 * If two CPUs race to arm the timer, a task may come back MAX_SLEEP_NS late. Of
 * several that come back at once, one may wait for a tick.
 */
#ifndef BIAS_THROTTLE_BPF_H
#define BIAS_THROTTLE_BPF_H

#include "access.bpf.h"
#include "account.bpf.h"
#include "group.bpf.h"
#include "queue.bpf.h"

#define MAX_PARKED_NS  2000000000ull /* well below timeout_ms */
#define MIN_SLEEP_NS   500000ull     /* bounds of the timer's sleep */
#define MAX_SLEEP_NS   100000000ull
#define RETRY_SLEEP_NS 1000000ull /* sleep until it kicks another CPU */

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

/* Return until when @p must not run [ns], or 0. */
__noinline u64 throttled_until(struct task_struct *p __arg_trusted)
{
	if (p->flags & (PF_KTHREAD | PF_EXITING))
		return 0;
	return group_throttled_until(group_of(p), bpf_ktime_get_ns());
}

static __always_inline bool is_throttled(struct task_struct *p)
{
	return READ_ONCE(quotas_seen) && throttled_until(p);
}

/* Return true if the task was parked. From now on it is not. */
static __always_inline bool end_parking(struct task_ctx *tctx)
{
	if (!READ_ONCE(tctx->parked) || !__sync_lock_test_and_set(&tctx->parked, 0))
		return false;
	__sync_fetch_and_add(&nr_parked, -1);
	return true;
}

static __always_inline bool was_parked(struct task_struct *p)
{
	struct task_ctx *tctx;

	return READ_ONCE(quotas_seen) && (tctx = task_ctx_of(p)) && end_parking(tctx);
}

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

static __always_inline u64 parked_until(struct task_struct *p, u64 now_ns)
{
	struct task_ctx *tctx = task_ctx_of(p);

	if (!tctx || now_ns - tctx->parked_ns > MAX_PARKED_NS)
		return 0;
	return throttled_until(p);
}

/* Unpark due tasks, or only pinned ones. Return when the next task is due. */
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

/* Pinned tasks go first: the others can wait for any CPU. */
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
	/* A task is not in the DSQ yet: look again soon. */
	if (READ_ONCE(nr_parked) > scx_bpf_dsq_nr_queued(bias_dsq_parked()))
		next_ns = now_ns;
	armed_ns = READ_ONCE(unpark_at_ns);
	arm_timer(&timer->timer, armed_ns && armed_ns < next_ns ? armed_ns : next_ns, now_ns);
}

/*
 * Have the next CPU that dispatches look for tasks that must move. Kick an idle
 * CPU, else one that runs a SCHED_EXT task, in turn.
 */
static __always_inline void ask_to_look(void)
{
	const struct cpumask *idle_cpus = scx_bpf_get_idle_cpumask();
	s32 cpu = scx_bpf_pick_idle_cpu(idle_cpus, 0);
	u32 nr = nr_cpus, i;

	WRITE_ONCE(look_now, 1);
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
	ask_to_look();
	arm_timer(timer, now_ns + RETRY_SLEEP_NS, now_ns);
	return 0;
}

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
