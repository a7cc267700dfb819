/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Accounting: charge run time as vtime, publish the running task, and maintain
 * the global vtime.
 *
 * Problem
 * vtime must count work, not time, and be current for a task that never stops.
 * Else later tasks would seem to lag by all that it did.
 *
 * Approach
 * account() charges the kernel's run time since its last call, at stops, ticks
 * and new slices. That needs no clock and excludes other scheduling classes.
 *
 * Work moves vtime_now (bias/clock.h) when it is charged, the head of a shared
 * DSQ when it is taken, and ticks correct it. Each CPU counts the weight that
 * becomes runnable on it. One CPU adds this up each jiffy, or less often from
 * MAX_SCAN CPUs on.
 *
 * Invariants
 * Every nanosecond of run time is charged once, on the CPU that ran it, but for
 * a task that runs alone without ticks (nohz.bpf.h). vtime_now never goes back.
 *
 * Limits
 * No task waits further ahead of vtime_now than bias_ahead_ns(), or comes back
 * more than MAX_LAG_SLICES behind it. overdue.bpf.h bounds waits in time.
 */
#ifndef BIAS_ACCOUNT_BPF_H
#define BIAS_ACCOUNT_BPF_H

#include "access.bpf.h"
#include "group.bpf.h"
#include "join.bpf.h"
#include "overdue.bpf.h"

#define RECENT_JIFFIES	 64	/* a CPU counts as busy after a tick */
#define BRIEF_NS	 500000 /* shorter runs forgive less than a clock costs */
#define FORGIVE_RUN_PART 4	/* 1 / part of the run that a sleep forgives */

static __always_inline void advance_vtime_now(u64 vtime)
{
	u64 now = READ_ONCE(vtime_now);

	/* A lost race costs a step of a slice at most, which comes again. */
	if (!READ_ONCE(clock_holds) && bias_vtime_before(now, vtime))
		__sync_val_compare_and_swap(&vtime_now, now, bias_clock_follow(now, vtime, slice_ns));
}

/* Return true for one CPU of all that ask, when @every jiffies have passed. */
static __always_inline bool is_elected(u64 *at, u64 now, u64 every)
{
	u64 last = READ_ONCE(*at);

	return now - last >= every && __sync_val_compare_and_swap(at, last, now) == last;
}

static __always_inline s64 weight_part(void)
{
	return bias_clock_part(READ_ONCE(total_weight), READ_ONCE(nr_busy));
}

/*
 * Return true if waiting tasks compete for @cpu. A task that weighs more than a
 * CPU's part has the CPU to itself, unless affinity confines it with others:
 * they are pinned to this CPU, or it took a task from a shared DSQ lately.
 */
static __always_inline bool is_contended(s32 cpu, const struct cpu_ctx *cctx, u64 now)
{
	if (pinned_waiting(cpu, cctx))
		return true;
	if (!shared_waiting(llc_of(cpu)))
		return false;
	return (s64)cctx->run_weight <= weight_part() ||
	       (!(cctx->run_flags & RUN_ANYWHERE) && now - cctx->took_at <= RECENT_JIFFIES);
}

/* vtime_now must not leave a task behind while another class has its CPU. */
static __always_inline void note_tick(s32 cpu, struct cpu_ctx *cctx, u64 now)
{
	WRITE_ONCE(cctx->ticked_at, now);
	WRITE_ONCE(cctx->contended_mask, is_contended(cpu, cctx, now) ? ~0ull : 0);
}

/* Forget the tick of a CPU whose runnable task goes to another CPU. */
static __always_inline void forget_tick(struct cpu_ctx *self)
{
	WRITE_ONCE(self->ticked_at, 0);
}

/* Correct vtime_now and total_weight, on one CPU of all that tick. */
__noinline int refresh_clock(u64 now)
{
	/* No branch on @busy: the verifier would follow each of its values. */
	struct bias_clock_scan scan = bias_clock_scan(any_waiting() ? weight_part() : BIAS_CLOCK_NONE);
	u64 vtime = vtime_now;
	u32 busy = 0, spare = 0, i;
	s64 sum = 0;

	if (!is_elected(&total_weight_at, now, 1 + nr_cpus / MAX_SCAN))
		return 0;
	bpf_for(i, 0, nr_cpus) {
		struct cpu_ctx *cctx = cpu_ctx_of(i);

		sum += READ_ONCE(cctx->weight);
		if (now - READ_ONCE(cctx->ticked_at) <= RECENT_JIFFIES) {
			busy++;
			bias_clock_add(&scan, vtime, cctx->run_vtime, cctx->began_vtime, cctx->run_weight,
				       slice_ns, READ_ONCE(cctx->contended_mask));
		}
		spare += cpu_info_of(i)->known && !cctx->is_offline && !(cctx->run_flags & RUN_BUSY);
		if (nohz_full && (cctx->run_flags & RUN_UNTICKED) &&
		    (shared_waiting(llc_of(i)) || pinned_waiting(i, cctx)))
			scx_bpf_kick_cpu(i, SCX_KICK_PREEMPT);
	}
	sum -= scan.beyond;
	WRITE_ONCE(nr_busy, busy);
	WRITE_ONCE(nr_spare, spare);
	/* While CPUs count, the sum is off by a task or two for a moment. */
	WRITE_ONCE(total_weight, sum > 0 ? sum : 0);
	mark_overdue(now);
	WRITE_ONCE(clock_holds, bias_clock_holds(&scan, slice_ns));
	if (!clock_holds)
		__sync_fetch_and_add(&vtime_now, bias_clock_catch_up(&scan, slice_ns));
	return 0;
}

/* Work [ns] between a CPU's writes to vtime_now, which do not scale. */
#define SHARED_WORK_NS 1000000

__noinline int share_work(s32 cpu, u64 work_ns)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);

	cctx->unshared_ns += work_ns;
	if (cctx->unshared_ns < SHARED_WORK_NS)
		return 0;
	if (!READ_ONCE(clock_holds))
		__sync_fetch_and_add(&vtime_now,
				     bias_clock_advance(cctx->unshared_ns, READ_ONCE(total_weight)));
	cctx->unshared_ns = 0;
	return 0;
}

/* Charge @p. Its run time is current in stopping, tick and dispatch. */
static __always_inline void account(struct task_struct *p, s32 cpu, struct cpu_ctx *cctx)
{
	u64 exec_ns = p->se.sum_exec_runtime;
	u64 ran_ns = exec_ns - cctx->start_exec_ns;
	u64 work_ns, vtime;
	u32 weight;

	if ((s64)ran_ns <= 0)
		return;
	cctx->start_exec_ns = exec_ns;
	work_ns = bias_reference_ns(ran_ns, core_is_shared(cpu) ? cctx->run_shared_rate : cctx->run_rate);
	weight = effective_weight(p, ran_ns);
	vtime = p->scx.dsq_vtime;
	if (nohz_full && (cctx->run_flags & RUN_UNTICKED)) {
		/* No task waited: its lead is what others will have to wait. */
		if (work_ns > slice_ns)
			work_ns = slice_ns;
		if (bias_vtime_before(vtime, vtime_now))
			vtime = vtime_now;
	}
	share_work(cpu, work_ns);
	vtime += bias_charge(work_ns, weight);
	scx_bpf_task_set_dsq_vtime(p, vtime);
	cctx->run_vtime = vtime;
	cctx->run_weight = weight;
	cctx->ran_ns += ran_ns;
	cctx->stats[cpu_is_slow(cpu) ? BIAS_STAT_RUN_SLOW_NS : BIAS_STAT_RUN_FAST_NS] += ran_ns;
}

/* A NULL @tctx, here and below, means that nothing is known of the task. */
static __always_inline void update_charge_rate(s32 cpu, struct cpu_ctx *cctx, const struct task_ctx *tctx)
{
	u32 seq = READ_ONCE(table_seq);
	const struct bias_speed *speed = speed_of(cpu);

	cctx->run_speedup = tctx ? speedup_of(tctx) : 0;
	write_if_changed(&cctx->run_spun, tctx ? tctx->spun : 0);
	/* Assume that an unknown task only executes. */
	if (tctx && tctx->profile.speedup_permille) {
		cctx->run_rate = bias_time_permille(&tctx->profile.stack, &speed->cost);
		if (smt_active)
			cctx->run_shared_rate = bias_time_permille(&tctx->profile.stack, &speed->shared);
		cctx->run_stable = is_settled(tctx);
	} else {
		cctx->run_rate = speed->cost.permille[BIAS_EXECUTE];
		cctx->run_shared_rate = speed->shared.permille[BIAS_EXECUTE];
	}
	/* Read before the entry: the next tick notices a table in between. */
	cctx->rate_seq = seq;
}

#define WORTH_LEAVING_PERMILLE 1200 /* speedup worth another node */
#define LITTLE_MEMORY_PERMILLE 100  /* share that doubles if memory is remote */

/*
 * Return true if @p's memory is on all nodes, or @p waits so little for memory
 * that a faster CPU of another node gains even if all of it becomes remote.
 */
static __always_inline bool leaves_node(const struct task_struct *p, const struct task_ctx *tctx)
{
	if (nr_nodes < 2)
		return false;
	if (roams(p))
		return true;
	return tctx && tctx->profile.windows && speedup_of(tctx) >= WORTH_LEAVING_PERMILLE &&
	       tctx->profile.stack.permille[BIAS_EXTERNAL] <= LITTLE_MEMORY_PERMILLE;
}

/* Return where @p may migrate: RUN_MOVABLE, RUN_ANYWHERE, RUN_ROAMS, or 0. */
static __always_inline u32 publish_affinity(const struct task_struct *p, struct cpu_ctx *cctx,
					    const struct task_ctx *tctx)
{
	u32 flags = RUN_MOVABLE;

	if (is_pinned(p))
		return 0;
	if (leaves_node(p, tctx))
		flags |= RUN_ROAMS;
	if (!is_restricted(p))
		return flags | RUN_ANYWHERE;
	cctx->run_allowed = p->cpus_ptr->bits[0];
	return flags;
}

/* A task that was preempted with migration disabled must not stay pinned. */
__noinline int refresh_affinity(struct task_struct *p __arg_trusted, s32 cpu)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	u32 flags = publish_affinity(p, cctx, nr_nodes > 1 ? task_ctx_of(p) : NULL);

	cctx->run_flags = flags | (cctx->run_flags & (RUN_BUSY | RUN_TICKED | RUN_UNTICKED));
	return 0;
}

/*
 * Drop the last task's request, but keep one that waited for @pid (swap.bpf.h).
 * Advance vtime_now, and the clock of the DSQ that @pid came from, to @vtime.
 */
__noinline int settle_start(s32 cpu, s32 pid, u64 vtime)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);

	if (cctx->move_pid != pid) {
		cctx->move_to = 0;
		cctx->move_pid = 0;
	}
	if (cctx->took_shared) {
		note_taken(cctx->took_shared - 1, vtime);
		advance_vtime_now(vtime);
		cctx->took_at = READ_ONCE(total_weight_at);
		cctx->took_shared = 0;
	}
	return 0;
}

static __always_inline void account_start(struct task_struct *p, s32 cpu, struct cpu_ctx *cctx,
					  const struct task_ctx *tctx)
{
	update_charge_rate(cpu, cctx, tctx);
	cctx->ran_ns = 0;

	cctx->start_exec_ns = cctx->began_exec_ns = p->se.sum_exec_runtime;
	cctx->run_vtime = cctx->began_vtime = p->scx.dsq_vtime;
	cctx->run_flags = RUN_BUSY | publish_affinity(p, cctx, tctx);
	cctx->run_pid = p->pid;
	cctx->yields = 0;
	if (cctx->move_to | cctx->move_pid | cctx->took_shared)
		settle_start(cpu, p->pid, p->scx.dsq_vtime);
}

/* Follow a new table. @p has been charged up to now. */
static __always_inline void refresh_charge_rate(struct task_struct *p, s32 cpu, struct cpu_ctx *cctx)
{
	if (cctx->rate_seq != READ_ONCE(table_seq))
		update_charge_rate(cpu, cctx, p->flags & PF_KTHREAD ? NULL : task_ctx_of(p));
}

static __always_inline void account_stop(struct task_struct *p, s32 cpu, struct cpu_ctx *cctx, bool runnable)
{
	struct task_ctx *tctx = task_ctx_of(p);

	account(p, cpu, cctx);
	if (tctx) {
		if (cpu_is_slow(cpu))
			tctx->slow_ns += cctx->ran_ns;
		else
			tctx->fast_ns += cctx->ran_ns;
		tctx->ran_epoch = READ_ONCE(reports_epoch);
	}
	cctx->run_flags = 0;
	if (cctx->woke_ns) {
		u64 after_ns = bias_reference_ns(bpf_ktime_get_ns() - cctx->woke_ns, cctx->run_rate);

		cctx->after_ns = (cctx->after_ns * 3 + after_ns) / 4;
		cctx->woke_ns = 0;
	}
	/* A change of attributes dequeues a task that does not sleep. */
	if (!runnable && p->__state) {
		if (tctx) {
			tctx->slept_ns = 0;
			if (cctx->ran_ns >= BRIEF_NS) {
				tctx->slept_ns = bpf_ktime_get_ns();
				tctx->forgivable_ns =
				    bias_reference_ns(cctx->ran_ns, cctx->run_rate) / FORGIVE_RUN_PART;
			}
		}
		cctx->burst_ns = (cctx->burst_ns * 3 + (p->se.sum_exec_runtime - cctx->began_exec_ns)) / 4;
	}
}

#endif
