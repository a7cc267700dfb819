/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * scx_bias, the kernel side: a fair scheduler for CPUs of unequal speed. A task
 * passes through these steps:
 *
 *	wakeup		ops.select_cpu picks an idle CPU, fast before slow and
 *			near before far (idle.bpf.h), or a CPU whose task the
 *			wakee preempts (preempt.bpf.h).
 *	enqueue		The task waits by vtime in a DSQ of its LLC, or of its
 *			CPU if it is pinned (queue.bpf.h).
 *	dispatch	The CPU takes the task with the lowest vtime. A fast
 *			CPU without work pulls a running task from a slow one.
 *			Tasks of about equal speedup rotate (move.bpf.h).
 *	counting	Counters measure what the task stalls on (count.bpf.h).
 *			That predicts its speedup, which decides its DSQ
 *			(classify.bpf.h) and its swaps.
 *	charging	vtime counts work: 10 ms at 0.4 speed cost 4 ms
 *			(account.bpf.h). nice and cpu.weight scale it
 *			(group.bpf.h), cpu.max bounds it (throttle.bpf.h).
 *	clock		The CPU requests its clock (clock_request.bpf.h).
 *
 * If cgroups are opted in, only their threads run here (optin.bpf.h), or only
 * these are counted (limit.bpf.h). Policy that needs no kernel state is in
 * lib/include/bias, and tested on the host. The agent supplies the costs of
 * CPUs (table.bpf.h). If it dies, the kernel unloads the scheduler.
 */
#include "access.bpf.h"
#include "account.bpf.h"
#include "arrival.bpf.h"
#include "clock_request.bpf.h"
#include "count.bpf.h"
#include "dump.bpf.h"
#include "enqueue.bpf.h"
#include "group.bpf.h"
#include "hint.bpf.h"
#include "hotplug.bpf.h"
#include "idle.bpf.h"
#include "init.bpf.h"
#include "limit.bpf.h"
#include "move.bpf.h"
#include "nohz.bpf.h"
#include "optin.bpf.h"
#include "overdue.bpf.h"
#include "preempt.bpf.h"
#include "queue.bpf.h"
#include "release.bpf.h"
#include "report.bpf.h"
#include "swap.bpf.h"
#include "table.bpf.h"
#include "throttle.bpf.h"

char _license[] SEC("license") = "GPL";

#define YIELDS_TOGETHER 8 /* a switch costs as much as several of them */

/* The kernel does not ask for a pinned task. */
s32 BPF_STRUCT_OPS(bias_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 this_cpu = bpf_get_smp_processor_id(), cpu;
	bool sync = (wake_flags & SCX_WAKE_SYNC) && !is_foreign(bpf_get_current_task_btf());

	clamp_vtime(p, prev_cpu, true);
	/* ops.enqueue parks a throttled task. */
	if (is_throttled(p))
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
	if (cpu < 0) {
		forgive_sleep(p);
		return pick_victim_cpu(p, prev_cpu);
	}
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
	return cpu;
}

void BPF_STRUCT_OPS(bias_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	bool wakeup = enq_flags & SCX_ENQ_WAKEUP, pinned = is_pinned(p);
	bool again = is_driven_off(cpu, enq_flags);

	forget_arrival(p, cctx);
	if (park(p, cpu, enq_flags))
		return;
	if (!wakeup && !again && cctx->move_to && carry_out_move(p, cpu, cctx, enq_flags))
		return;
	/* ops.select_cpu has done so for a wakee that is not pinned. */
	if (!wakeup || pinned)
		clamp_vtime(p, cpu, wakeup);
	if (again) {
		enqueue_again(p, cpu, enq_flags);
		return;
	}
	if (pinned) {
		enqueue_pinned(p, cpu, cctx, enq_flags);
		return;
	}
	/*
	 * The next CPU that ticks, fast or slow, takes a task from a shared
	 * DSQ. So the last task of a CPU stays, and one that a short kthread
	 * preempts. If others wait, it goes: kthreads that keep waking would
	 * return the CPU to it each time.
	 */
	if (enq_flags & SCX_ENQ_LAST) {
		if (!task_arrives(cctx)) {
			stay(p, cpu, enq_flags);
			return;
		}
		/* The CPU dispatches if the other task does not arrive. */
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	}
	if (!enq_flags && waits_for_kthread(cpu, cctx)) {
		enqueue_local(p, enq_flags);
		return;
	}
	if (wakeup) {
		/* select_cpu found no idle CPU, but may have found a victim. */
		if (should_preempt(p->scx.dsq_vtime, cpu)) {
			stat_inc(BIAS_STAT_WAKE_PREEMPT);
			if (p->flags & PF_KTHREAD)
				WRITE_ONCE(cctx->kthread_waiting, 1);
			enqueue_local(p, enq_flags | SCX_ENQ_PREEMPT);
			return;
		}
	} else if (send_to_idle(p, cpu, enq_flags)) {
		forget_tick(cctx);
		return;
	}
	queue_shared(p, cpu, p->scx.dsq_vtime, enq_flags);
}

/* Let @p run for another slice, as long as one from a DSQ would be. */
static __always_inline void keep_running(struct task_struct *p, s32 cpu, struct cpu_ctx *cctx)
{
	bool waited_for = shared_waiting(llc_of(cpu)) || pinned_waiting(cpu, cctx);

	if (!(cctx->run_flags & RUN_UNTICKED))
		scx_bpf_task_set_slice(p, waited_for ? slice_for(1, 1) : slice_ns);
	else
		scx_bpf_task_set_slice(p, SCX_SLICE_INF);
	cctx->yields = 0;
	cctx->began_vtime = p->scx.dsq_vtime;
	stat_inc(BIAS_STAT_KEEP);
}

/* Return @p's vtime as waiting tasks see it, with the cross-class penalty. */
static __always_inline u64 vtime_here(struct task_struct *p, s32 cpu)
{
	u64 vtime = p->scx.dsq_vtime;

	if (!two_classes || !shared_waiting(llc_of(cpu)) || is_pinned(p))
		return vtime;
	return vtime + cross_class_penalty_ns(cpu, queue_class(queue_from(p, cpu)));
}

void BPF_STRUCT_OPS(bias_dispatch, s32 cpu, struct task_struct *prev)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	s32 slow = -1;
	u64 vtime, first;
	bool moves;

	look_if_asked();
	if (READ_ONCE(llc_ctx_of(llc_of(cpu))->looked_before) != READ_ONCE(overdue_before))
		look_for_overdue(cpu);
	if (!prev || !(prev->scx.flags & SCX_TASK_QUEUED)) {
		/* The kick for a task may come before it: dispatch again. */
		if (task_arrives(cctx)) {
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
			return;
		}
		if (take_next(cpu))
			return;
		cctx->ticked_at = 0;
		begin_pause(cpu, cctx);
		rescue_late(cpu);
		if (two_classes || smt_active)
			pull_running(cpu);
		return;
	}
	account(prev, cpu, cctx);
	if (is_throttled(prev)) {
		take_next(cpu);
		return; /* no slice: ops.enqueue parks @prev */
	}
	moves = cctx->move_to && move_holds(prev, cpu, cctx);
	if (task_arrives(cctx))
		return; /* no slice: ops.enqueue sends @prev away */
	if (two_classes && !cpu_is_slow(cpu) && !moves)
		slow = find_rotation(cpu, cctx);
	/*
	 * Let the task with the lowest vtime run on: two tasks that alternate
	 * ignore weight. A task that lags on a slow CPU competes, too.
	 */
	vtime = slow < 0 ? vtime_here(prev, cpu) : READ_ONCE(cpu_ctx_of(slow)->run_vtime);
	first = lowest_here(cpu, cctx, vtime);
	if (nr_llcs > 1 && take_due_elsewhere(cpu, first))
		return;
	if (moves || cctx->yields >= YIELDS_TOGETHER || first != vtime) {
		if (take_next(cpu))
			return;
		if (moves)
			return; /* no slice: ops.enqueue migrates it */
	}
	if (change_ticking(prev, cpu, cctx))
		return; /* no slice: ops.enqueue keeps it */
	keep_running(prev, cpu, cctx);
	if (slow >= 0)
		rotate(slow, cpu);
}

/*
 * Spinning locks yield repeatedly. Every YIELDS_TOGETHER yields, a waiting task
 * runs first, once and at any lag. If none waits, the task keeps its slice.
 * A marked task yields where another CPU may suit it better.
 */
bool BPF_STRUCT_OPS(bias_yield, struct task_struct *from, struct task_struct *to)
{
	s32 cpu = scx_bpf_task_cpu(from);
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	bool marked = false;

	if (two_classes && READ_ONCE(hints_epoch)) {
		read_hint(from, cpu);
		marked = follow_hint(from, cpu);
	}
	if (!marked && !cctx->move_to) {
		if (++cctx->yields < YIELDS_TOGETHER)
			return false;
		if (!any_waiting() && !pinned_waiting(cpu, cctx) &&
		    scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu) <= 0) {
			cctx->yields = 0;
			return false;
		}
	}
	scx_bpf_task_set_slice(from, 0);
	return false;
}

/* Wake CPUs for tasks that @cpu left waiting for @p, or that it put back. */
static __always_inline void follow_start(struct task_struct *p, s32 cpu, struct cpu_ctx *cctx)
{
	if (!ends_arrival(p, cpu, cctx) && !cctx->put_back)
		return;
	/* A CPU that found the DSQ empty has reset the flag. */
	if (cctx->put_back)
		write_if_changed(&llc_ctx_of(llc_of(cpu))->waiting, 1);
	cctx->put_back = 0;
	wake_for_waiting(llc_of(cpu));
}

void BPF_STRUCT_OPS(bias_running, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	struct task_ctx *tctx = p->flags & PF_KTHREAD ? NULL : task_ctx_of(p);

	/* First, because a task without bias loses its profile here. */
	if (tctx)
		has_bias(p, tctx);
	account_start(p, cpu, cctx, tctx);
	start_unticked(p, cctx);
	end_pause(p, cpu, cctx);
	if (tctx) {
		arrived(tctx);
		count_decide(p, cpu, cctx, tctx);
	}
	/* A planned swap has waited for the return of @p. */
	if (cctx->move_to)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	if ((p->flags & PF_KTHREAD) && cctx->kthread_waiting)
		WRITE_ONCE(cctx->kthread_waiting, 0);
	follow_start(p, cpu, cctx);
}

void BPF_STRUCT_OPS(bias_stopping, struct task_struct *p, bool runnable)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);

	if (two_classes && READ_ONCE(hints_epoch))
		read_hint(p, cpu);
	account_stop(p, cpu, cctx, runnable);
	note_stop(p, cctx, runnable);
	count_stop(cctx);
	/* If @p sleeps, ops.quiescent follows. */
	if (runnable)
		settle_weight(cpu);
	/* The kernel puts @p into an offline CPU's local DSQ and then idles. */
	if (runnable && is_offline(cpu))
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* Return true if @p, which ticks, must stop before its slice ends. */
static __always_inline bool makes_way(struct task_struct *p, s32 cpu, struct cpu_ctx *cctx)
{
	if (p->se.sum_exec_runtime - cctx->began_exec_ns < slice_min_ns)
		return false;
	/* A local task is a kthread, or a wakee whose waker did not sleep. */
	return scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu) > 0 ||
	       due_before(cpu, cctx, vtime_here(p, cpu) - slice_ns / 2) ||
	       (two_classes && !cpu_is_slow(cpu) && rotation_overdue(cctx));
}

void BPF_STRUCT_OPS(bias_tick, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	u64 now = bpf_jiffies64();

	if (two_classes && READ_ONCE(hints_epoch))
		read_hint(p, cpu);
	account(p, cpu, cctx);
	/* In a remote tick (nohz_full), @cpu itself may be adding to it. */
	if (cpu == bpf_get_smp_processor_id())
		settle_weight(cpu);
	follow_weights(p);
	refresh_charge_rate(p, cpu, cctx);
	refresh_affinity(p, cpu);
	refresh_waiting(llc_of(cpu));
	note_waiting(llc_of(cpu));
	wake_for_waiting(llc_of(cpu));
	refresh_clock(now);
	note_tick(cpu, cctx, now);
	average_tick(cpu);
	if (cpu_is_slow(cpu))
		nominate_victim(cpu, cctx);
	if (has_worse_tier(cpu))
		swap_for_gain(cpu, cctx);
	if (two_classes || smt_active)
		wake_better(p, cpu);
	note_resident(cctx);
	follow_load(cpu, p->se.exec_start);
	cctx->run_flags |= RUN_TICKED;
	if (is_throttled(p) || must_tick(p, cpu, cctx) || makes_way(p, cpu, cctx))
		scx_bpf_task_set_slice(p, 0);
}

void BPF_STRUCT_OPS(bias_runnable, struct task_struct *p, u64 enq_flags)
{
	group_count(p, true);
}

void BPF_STRUCT_OPS(bias_quiescent, struct task_struct *p, u64 deq_flags)
{
	if (!was_parked(p))
		group_count(p, false);
	/* A kthread that was queued may leave without having run. */
	if (p->flags & PF_KTHREAD)
		WRITE_ONCE(cpu_ctx_of(scx_bpf_task_cpu(p))->kthread_waiting, 0);
}

/* A child inherits a profile. No fork fails for want of memory. */
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

/*
 * Charge a new SCHED_EXT task for half a slice: chains of short processes
 * inherit no debt. The weight is that from the top, or each of a group's new
 * tasks would have a turn before it counts that they share one weight.
 */
void BPF_STRUCT_OPS(bias_enable, struct task_struct *p)
{
	scx_bpf_task_set_dsq_vtime(p, vtime_now + bias_charge(slice_ns / 2, effective_weight(p, 0)));
}

s32 BPF_STRUCT_OPS_SLEEPABLE(bias_init)
{
	s32 err;
	u32 i, node;

	bpf_for(i, 0, nr_llcs) {
		node = llc_ctxs[bounded(i, BIAS_MAX_LLCS)].node;
		err = create_dsq_on(bias_dsq_shared(i, BIAS_FAST), node);
		err = err ?: create_dsq_on(bias_dsq_shared(i, BIAS_SLOW), node);
		if (err)
			return err;
	}
	bpf_for(i, 0, nr_llcs + 1 + (nr_nodes > 1 ? nr_nodes : 0)) {
		err = init_domain(i);
		if (err)
			return err;
	}
	bpf_for(i, 0, nr_cpus) {
		err = init_cpu(i);
		if (err)
			return err;
	}
	err = init_throttling();
	return err ?: init_clocks();
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
	       .timeout_ms	= 30000, /* the most that kernels accept */
	       .name		= "bias");
/* clang-format on */
