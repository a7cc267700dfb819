/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * scx_bias, the kernel side: a fair scheduler for machines whose CPUs are not equally fast.
 *
 * What it does, in the order of a task's life:
 *
 *   wakes	select_cpu looks for an idle CPU, fast before slow, near before far; a waker about to
 *		sleep may keep its wakee.
 *   queues	enqueue puts it by vtime into the queue of its LLC, or of its CPU if it is pinned there
 *		(queue.bpf.h).
 *   runs	dispatch takes the task with the least vtime. A fast CPU with nothing to do takes a
 *		running task from a slow one; tasks of equal right take turns on the fast CPUs
 *		(move.bpf.h).
 *   is counted	what it stalls on, by the CPU's counters (count.bpf.h), tells what it gains from a fast
 *		CPU, and that in which queue it waits (place.bpf.h) and whom it changes places with.
 *   pays	vtime counts work, not time: 10 ms on a CPU of 0.4 speed cost 4 ms (account.bpf.h),
 *		scaled by nice and cpu.weight (group.bpf.h).
 *
 * Where only some cgroups are opted in, the agent is told who comes and goes (optin.bpf.h), or all are scheduled and only theirs
 * counted (limit.bpf.h).
 *
 * The callbacks below only gather, ask and act. What is decided without the kernel is in
 * lib/include/bias, compiled here and tested on the host. What each CPU is worth comes from the agent,
 * before the scheduler is attached, and anew whenever it changes (table.bpf.h). Should the agent die, the kernel unloads the scheduler
 * and every task is back on the default one.
 */
#include "state.bpf.h"
#include "account.bpf.h"
#include "count.bpf.h"
#include "dump.bpf.h"
#include "group.bpf.h"
#include "idle.bpf.h"
#include "init.bpf.h"
#include "limit.bpf.h"
#include "move.bpf.h"
#include "optin.bpf.h"
#include "place.bpf.h"
#include "queue.bpf.h"
#include "release.bpf.h"
#include "report.bpf.h"
#include "swap.bpf.h"
#include "table.bpf.h"

char _license[] SEC("license") = "GPL";

/* How far behind vtime_now a task may be that did not sleep: it was kept from CPUs it might have used. */
#define MAX_LAG_SLICES 6

/* Of sync_burst_ns, what a waker may run on for and still leave its CPU to the wakee: more is worth another CPU. */
#define SYNC_AFTER_PART 5

/* One in so many synchronous wakeups is timed. */
#define SYNC_TIMED_EVERY 4

/* The running task of @cctx wakes another synchronously: for how long does it go on? */
static __always_inline void note_sync(struct cpu_ctx *cctx)
{
	if (!(++cctx->sync_wakeups % SYNC_TIMED_EVERY))
		cctx->woke_ns = bpf_ktime_get_ns();
}

/*
 * The waker on @cpu may leave the CPU to @p: return true if its tasks tend to
 * sleep soon, at once after they woke another, and no task is passed over that is
 * owed more than a slice. As long as they wake each other there, ops.dispatch is
 * not asked. Yet if any task that waits sent @p to a queue, partners would be
 * torn apart, wait for each other in the queue, and so keep it from ever getting
 * empty.
 */
static __always_inline bool keep_with_waker(const struct task_struct *p, s32 cpu)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);

	return cctx->burst_ns < sync_burst_ns && cctx->after_ns < sync_burst_ns / SYNC_AFTER_PART &&
	       !(cctx->run_flags & RUN_TICKED) &&
	       (!is_restricted(p) || bpf_cpumask_test_cpu(cpu, p->cpus_ptr)) &&
	       !scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu) &&
	       !due_before(cpu, cctx, bias_wakeup_vtime(p->scx.dsq_vtime, vtime_now, slice_ns) - slice_ns);
}

static __always_inline void clamp_vtime(struct task_struct *p, u64 lag_ns)
{
	u64 now = vtime_now;
	u64 vtime = bias_wakeup_vtime(p->scx.dsq_vtime, now, lag_ns);

	/* Rarely: the weight of a task in a group is a walk. */
	if (bias_vtime_before(now + 2 * slice_ns, vtime))
		vtime = bias_queue_vtime(vtime, now, bias_ahead_ns(slice_ns, effective_weight(p, false)));
	if (vtime != p->scx.dsq_vtime)
		scx_bpf_task_set_dsq_vtime(p, vtime);
}

s32 BPF_STRUCT_OPS(bias_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 this_cpu = bpf_get_smp_processor_id(), cpu;
	bool sync = (wake_flags & SCX_WAKE_SYNC) && !waker_is_foreign();

	if (is_pinned(p))
		return prev_cpu;
	if (sync)
		note_sync(cpu_ctx_of(this_cpu));
	if (sync && !cpu_is_slow(this_cpu) && keep_with_waker(p, this_cpu)) {
		stat_inc(BIAS_STAT_SELECT_SYNC);
		cpu = this_cpu;
	} else {
		cpu = find_idle(p, prev_cpu);
		if (cpu < 0 && sync && keep_with_waker(p, this_cpu)) {
			stat_inc(BIAS_STAT_SELECT_SYNC);
			cpu = this_cpu;
		}
	}
	if (cpu < 0)
		return busy_cpu_for(p, prev_cpu);
	clamp_vtime(p, slice_ns);
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
	return cpu;
}

static __always_inline void enqueue_local(struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, enq_flags);
	stat_inc(BIAS_STAT_ENQ_LOCAL);
}

/* May @p, which wakes on @cpu, go before everything that waits there? */
static __always_inline bool may_go_first(const struct task_struct *p, s32 cpu, const struct cpu_ctx *cctx)
{
	if (shared_waiting(llc_of(cpu)) || pinned_waiting(cpu, cctx))
		return false;
	return !(cctx->run_flags & RUN_BUSY) ||
	       bias_vtime_before(p->scx.dsq_vtime, cctx->run_vtime + slice_ns);
}

/*
 * @p, the last task of @cpu, stays there. The CPU is on its way to idle and does
 * not look into its local queue again without a kick.
 */
static __always_inline void stay(struct task_struct *p, s32 cpu, u64 enq_flags)
{
	enqueue_local(p, enq_flags);
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/*
 * Another scheduling class took @cpu from @p, or @p waited there for it: @p goes
 * on elsewhere.
 */
static __always_inline void enqueue_again(struct task_struct *p, s32 cpu, u64 enq_flags)
{
	s32 idle;

	if (is_pinned_within(p, 2)) {
		queue_pinned(p, cpu, p->scx.dsq_vtime, enq_flags);
		return;
	}
	idle = find_idle(p, cpu);
	if (idle >= 0) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | idle, slice_ns, enq_flags);
		stat_inc(BIAS_STAT_ENQ_LOCAL);
	} else {
		queue_shared(p, cpu, p->scx.dsq_vtime, enq_flags);
	}
}

/* @p can run on @cpu only. */
static __always_inline void enqueue_pinned(struct task_struct *p, s32 cpu, struct cpu_ctx *cctx,
					   u64 enq_flags)
{
	bool wakeup = enq_flags & SCX_ENQ_WAKEUP;

	/*
	 * The kernel waits for its threads, and they are short. One that comes
	 * back with its slice used up is not: it queues like any other task. Two of
	 * them would keep the local queue filled for ever, ops.dispatch would not
	 * be asked again, and what waits in the queues would starve.
	 */
	if (wakeup && (p->flags & PF_KTHREAD)) {
		WRITE_ONCE(cctx->kthread_waiting, 1);
		enqueue_local(p, enq_flags | SCX_ENQ_PREEMPT);
	} else if (enq_flags & SCX_ENQ_LAST) {
		stay(p, cpu, enq_flags);
	} else if (wakeup && may_go_first(p, cpu, cctx)) {
		enqueue_local(p, enq_flags);
	} else {
		queue_pinned(p, cpu, p->scx.dsq_vtime, enq_flags);
	}
}

void BPF_STRUCT_OPS(bias_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p), idle;
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	bool wakeup = enq_flags & SCX_ENQ_WAKEUP;

	if (enq_flags & SCX_ENQ_REENQ) {
		enqueue_again(p, cpu, enq_flags);
		return;
	}
	if (!wakeup && cctx->move_to && carry_out_move(p, cpu, cctx, enq_flags))
		return;
	clamp_vtime(p, wakeup ? slice_ns : MAX_LAG_SLICES * slice_ns);
	if (is_pinned(p)) {
		enqueue_pinned(p, cpu, cctx, enq_flags);
		return;
	}
	/*
	 * The last task of a CPU stays; so does one that only makes way for a short kthread, unless
	 * others wait: kthreads that wake again and again must not give it the CPU each time. In a queue it would go to whatever CPU ticks
	 * next: a millisecond of a kernel worker on a fast CPU would send who gains most to a slow one.
	 */
	if (enq_flags & SCX_ENQ_LAST) {
		stay(p, cpu, enq_flags);
		return;
	}
	if (!wakeup && cctx->kthread_waiting && !shared_waiting(llc_of(cpu)) && !pinned_waiting(cpu, cctx)) {
		enqueue_local(p, enq_flags);
		return;
	}
	if (wakeup) {
		/* select_cpu found nothing idle, but perhaps somebody who makes way. */
		if (displaces(p->scx.dsq_vtime, cctx)) {
			stat_inc(BIAS_STAT_WAKE_PREEMPT);
			if (p->flags & PF_KTHREAD)
				WRITE_ONCE(cctx->kthread_waiting, 1);
			enqueue_local(p, enq_flags | SCX_ENQ_PREEMPT);
			return;
		}
	} else {
		idle = find_idle(p, cpu);
		if (idle >= 0) {
			scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | idle, slice_ns, enq_flags);
			stat_inc(BIAS_STAT_ENQ_LOCAL);
			return;
		}
	}
	queue_shared(p, cpu, p->scx.dsq_vtime, enq_flags);
}

/* @p goes on for another slice: as long as it would have been given from a queue. */
static __always_inline void keep_running(struct task_struct *p, s32 cpu, struct cpu_ctx *cctx)
{
	bool waited_for = shared_waiting(llc_of(cpu)) || pinned_waiting(cpu, cctx);

	scx_bpf_task_set_slice(p, waited_for ? slice_for(1, 1) : slice_ns);
	cctx->yielded = 0;
	cctx->began_vtime = p->scx.dsq_vtime;
	stat_inc(BIAS_STAT_KEEP);
	if (!waited_for)
		follow_running(cpu);
}

/* The vtime at which the running @p counts against what waits for @cpu. */
static __always_inline u64 vtime_here(struct task_struct *p, s32 cpu)
{
	u64 vtime = p->scx.dsq_vtime;

	/* With one class in use, or nothing waiting, it makes no difference, and need not be looked up. */
	if (!two_classes || !shared_waiting(llc_of(cpu)) || is_pinned(p))
		return vtime;
	return vtime + class_handicap(cpu, queue_class(p));
}

void BPF_STRUCT_OPS(bias_dispatch, s32 cpu, struct task_struct *prev)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	bool moves;

	if (!prev || !(prev->scx.flags & SCX_TASK_QUEUED)) {
		if (take_next(cpu))
			return;
		cctx->ticked_at = 0;
		if (two_classes || smt_active)
			pull_running(cpu);
		return;
	}
	account(prev, cpu, cctx);
	moves = cctx->move_to && move_holds(prev, cpu, cctx);
	/* The task with the least vtime goes on; else two tasks on a CPU would take turns whatever they weigh. */
	if (moves || cctx->yielded || due_before(cpu, cctx, vtime_here(prev, cpu))) {
		if (take_next(cpu))
			return;
		if (moves)
			return; /* leave it without a slice: it comes to enqueue and moves */
	} else if (nr_llcs > 1 && take_due_elsewhere(cpu, cctx, prev->scx.dsq_vtime)) {
		return;
	}
	keep_running(prev, cpu, cctx);
	if (two_classes && !cpu_is_slow(cpu))
		rotate(cpu, cctx);
}

/* sched_yield: whoever waits goes first, once, whatever is due to the caller. */
bool BPF_STRUCT_OPS(bias_yield, struct task_struct *from, struct task_struct *to)
{
	cpu_ctx_of(scx_bpf_task_cpu(from))->yielded = 1;
	scx_bpf_task_set_slice(from, 0);
	return false;
}

void BPF_STRUCT_OPS(bias_running, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	struct task_ctx *tctx = p->flags & PF_KTHREAD ? NULL : task_ctx_of(p);

	/* First, for what is known of it may have to be forgotten. */
	if (tctx)
		has_bias(p, tctx);
	account_start(p, cpu, cctx, tctx);
	if (tctx) {
		arrived(tctx);
		count_decide(p, cpu, cctx, tctx);
	}
	/* A swap has waited for its return. */
	if (cctx->move_to)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	if ((p->flags & PF_KTHREAD) && cctx->kthread_waiting)
		WRITE_ONCE(cctx->kthread_waiting, 0);
}

void BPF_STRUCT_OPS(bias_stopping, struct task_struct *p, bool runnable)
{
	s32 cpu = scx_bpf_task_cpu(p);

	account_stop(p, cpu, cpu_ctx_of(cpu), runnable);
}

/*
 * Shall @p, which ticks on @cpu, make way before its slice ends? Somebody waits on the CPU's local queue: a waker that
 * kept its wakee and did not sleep, or a kthread. Or somebody to whom enough is owed waits in a queue.
 */
static __always_inline bool makes_way(struct task_struct *p, s32 cpu, struct cpu_ctx *cctx)
{
	if (p->se.sum_exec_runtime - cctx->began_exec_ns < slice_min_ns)
		return false;
	return scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu) > 0 ||
	       due_before(cpu, cctx, vtime_here(p, cpu) - slice_ns / 2);
}

void BPF_STRUCT_OPS(bias_tick, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	u64 now = bpf_jiffies64();

	account(p, cpu, cctx);
	account_again(p, cpu, cctx);
	refresh_affinity(cpu);
	refresh_waiting(llc_of(cpu));
	note_waiting(llc_of(cpu));
	refresh_clock(now);
	note_tick(cctx, now, shared_waiting(llc_of(cpu)) || pinned_waiting(cpu, cctx));
	average_tick(cctx);
	if (cpu_is_slow(cpu))
		offer_spare(cpu, cctx);
	else if (two_classes)
		swap_for_gain(cpu, cctx);
	if (two_classes || smt_active)
		wake_better(p, cpu, cctx);
	note_seat(cctx);
	cctx->run_flags |= RUN_TICKED;
	if (makes_way(p, cpu, cctx))
		scx_bpf_task_set_slice(p, 0);
}

void BPF_STRUCT_OPS(bias_runnable, struct task_struct *p, u64 enq_flags)
{
	group_count(p, true);
}

void BPF_STRUCT_OPS(bias_quiescent, struct task_struct *p, u64 deq_flags)
{
	group_count(p, false);
	/* A kernel thread that was queued may leave without having run. */
	if (p->flags & PF_KTHREAD)
		WRITE_ONCE(cpu_ctx_of(scx_bpf_task_cpu(p))->kthread_waiting, 0);
}

/*
 * A task is known from its first moment. A child is taken to be like its parent until its own first window. Without
 * memory it goes on unknown: a fork does not fail for that.
 */
s32 BPF_STRUCT_OPS_SLEEPABLE(bias_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_ctx *tctx, *parent;

	if (p->flags & PF_KTHREAD)
		return 0;
	tctx = bpf_task_storage_get(&task_ctxs, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!tctx || !args->fork)
		return 0;
	parent = task_ctx_of(bpf_get_current_task_btf());
	if (parent) {
		tctx->profile = parent->profile;
		tctx->profile.windows = 0;
		tctx->profile.stable = 0;
	}
	return 0;
}

/* A task joins: it starts level with what competes. */
void BPF_STRUCT_OPS(bias_enable, struct task_struct *p)
{
	scx_bpf_task_set_dsq_vtime(p, vtime_now);
}

/*
 * CPUs come and go in place. The kernel moves the tasks, the masks of idle CPUs are its own, and a
 * queue whose CPUs are all gone is still served by the other class. Without these two the kernel would
 * unload the scheduler at each change.
 */
void BPF_STRUCT_OPS(bias_cpu_online, s32 cpu)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);

	WRITE_ONCE(cctx->move_to, 0);
	WRITE_ONCE(cctx->onlined, cctx->onlined + 1);
}

void BPF_STRUCT_OPS(bias_cpu_offline, s32 cpu)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);

	cctx->run_flags = 0;
	cctx->ticked_at = 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(bias_init)
{
	s32 err;
	u32 i;

	bpf_for(i, 0, nr_llcs) {
		err = scx_bpf_create_dsq(bias_dsq_shared(i, BIAS_FAST), -1);
		err = err ?: scx_bpf_create_dsq(bias_dsq_shared(i, BIAS_SLOW), -1);
		err = err ?: init_domain(i);
		if (err)
			return err;
	}
	err = init_domain(nr_llcs);
	if (err)
		return err;
	bpf_for(i, 0, nr_cpus) {
		err = init_cpu(i);
		if (err)
			return err;
	}
	return 0;
}

void BPF_STRUCT_OPS(bias_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

/* clang-format off */
SCX_OPS_DEFINE(bias_ops,
	       .select_cpu	= (void *)bias_select_cpu,
	       .enqueue		= (void *)bias_enqueue,
	       .dispatch	= (void *)bias_dispatch,
	       .yield		= (void *)bias_yield,
	       .running		= (void *)bias_running,
	       .stopping	= (void *)bias_stopping,
	       .tick		= (void *)bias_tick,
	       .runnable	= (void *)bias_runnable,
	       .quiescent	= (void *)bias_quiescent,
	       .init_task	= (void *)bias_init_task,
	       .enable		= (void *)bias_enable,
	       .cpu_online	= (void *)bias_cpu_online,
	       .cpu_offline	= (void *)bias_cpu_offline,
	       .cpu_release	= (void *)bias_cpu_release,
	       .dump		= (void *)bias_dump,
	       .dump_cpu	= (void *)bias_dump_cpu,
	       .dump_task	= (void *)bias_dump_task,
	       .init		= (void *)bias_init,
	       .exit		= (void *)bias_exit,
	       .flags		= SCX_OPS_ENQ_LAST,
	       .timeout_ms	= 5000,
	       .name		= "bias");
/* clang-format on */
