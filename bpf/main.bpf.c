/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * scx_bias, the kernel side: a fair scheduler for machines whose CPUs are not
 * equally fast.
 *
 * A task passes through these steps:
 *
 *	wakeup		ops.select_cpu picks an idle CPU, fast before slow and
 *			near before far (idle.bpf.h). A waker that is about to
 *			sleep may keep its wakee on its CPU.
 *	enqueue		The task waits by vtime in a DSQ of its LLC, or in the
 *			DSQ of its CPU if it is pinned (queue.bpf.h).
 *	dispatch	The CPU takes the task with the lowest vtime. A fast
 *			CPU without work pulls a running task from a slow one.
 *			Tasks of about equal speedup rotate (move.bpf.h).
 *	counting	The CPU's counters measure what the task stalls on
 *			(count.bpf.h). That predicts its speedup, and the
 *			speedup decides its DSQ (classify.bpf.h) and its swaps.
 *	charging	vtime counts work, not time: 10 ms on a CPU of 0.4
 *			speed cost 4 ms (account.bpf.h). nice and cpu.weight
 *			scale it (group.bpf.h). cpu.max stops tasks of a
 *			cgroup that has run enough (throttle.bpf.h).
 *	clock		The CPU requests a clock for its load
 *			(clock_request.bpf.h).
 *
 * If only some cgroups are opted in, there are two modes. Either this scheduler
 * runs only their threads, and the agent gets an event when a thread enters or
 * leaves (optin.bpf.h). Or it runs every task, but counts only theirs
 * (limit.bpf.h).
 *
 * The callbacks below only read state, call the policy and act on its answer.
 * Policy that needs no kernel state is in lib/include/bias, which is compiled
 * here and tested on the host. The agent supplies the cost of each CPU before
 * it attaches the scheduler, and again whenever a cost changes (table.bpf.h).
 * If the agent dies, the kernel unloads the scheduler and returns every task to
 * the default one.
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

s32 BPF_STRUCT_OPS(bias_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 this_cpu = bpf_get_smp_processor_id(), cpu;
	bool sync = (wake_flags & SCX_WAKE_SYNC) && !is_foreign(bpf_get_current_task_btf());

	/* ops.enqueue parks a throttled task. */
	if (is_pinned(p) || is_throttled(p))
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
	clamp_vtime(p, cpu, true);
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
	return cpu;
}

void BPF_STRUCT_OPS(bias_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	bool wakeup = enq_flags & SCX_ENQ_WAKEUP, again = enq_flags & SCX_ENQ_REENQ;

	forget_arrival(p, cctx);
	if (park(p, cpu, enq_flags))
		return;
	if (!wakeup && !again && cctx->move_to && carry_out_move(p, cpu, cctx, enq_flags))
		return;
	follow_partition(p);
	clamp_vtime(p, cpu, wakeup);
	if (again) {
		enqueue_again(p, cpu, enq_flags);
		return;
	}
	if (is_pinned(p)) {
		enqueue_pinned(p, cpu, cctx, enq_flags);
		return;
	}
	/*
	 * Keep the last task of a CPU there. Also keep a task that only a short
	 * kthread preempts, unless other tasks wait. Otherwise kthreads that
	 * wake again and again would return the CPU to it each time.
	 *
	 * From a shared DSQ the next CPU that ticks would take the task. A
	 * millisecond of a kernel worker on a fast CPU would then send the task
	 * that gains most to a slow CPU.
	 */
	if (enq_flags & SCX_ENQ_LAST) {
		if (!task_arrives(cctx)) {
			stay(p, cpu, enq_flags);
			return;
		}
		/* The CPU dispatches if the other task does not arrive. */
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	}
	if (!wakeup && waits_for_kthread(p, cpu, cctx)) {
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
	cctx->yielded = 0;
	cctx->began_vtime = p->scx.dsq_vtime;
	stat_inc(BIAS_STAT_KEEP);
}

/*
 * Return the vtime of the running @p for a comparison with the tasks that wait
 * for @cpu. The cross-class penalty is included.
 */
static __always_inline u64 vtime_here(struct task_struct *p, s32 cpu)
{
	u64 vtime = p->scx.dsq_vtime;

	/* Skip the lookup where no penalty applies or nothing is compared. */
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

	unpark_in_dispatch();
	if (READ_ONCE(llc_ctx_of(llc_of(cpu))->looked_before) != READ_ONCE(overdue_before))
		look_for_overdue(llc_of(cpu));
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
	 * Let the task with the lowest vtime run on. Otherwise two tasks on a
	 * CPU would alternate, regardless of weight. A task that lags on a slow
	 * CPU competes, too: no waiting task passes it.
	 */
	vtime = slow < 0 ? vtime_here(prev, cpu) : READ_ONCE(cpu_ctx_of(slow)->run_vtime);
	first = lowest_here(cpu, cctx, vtime);
	if (nr_llcs > 1 && take_due_elsewhere(cpu, first))
		return;
	if (moves || cctx->yielded || first != vtime) {
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
 * Let a waiting task run first after sched_yield(), once and at any lag. A
 * marked thread yields where it begins a section that suits another CPU.
 */
bool BPF_STRUCT_OPS(bias_yield, struct task_struct *from, struct task_struct *to)
{
	s32 cpu = scx_bpf_task_cpu(from);

	cpu_ctx_of(cpu)->yielded = 1;
	scx_bpf_task_set_slice(from, 0);
	if (two_classes && READ_ONCE(hints_epoch)) {
		read_hint(from, cpu);
		follow_hint(from, cpu);
	}
	return false;
}

/*
 * Find CPUs for tasks that wait, now that @p starts on @cpu. @cpu took none of
 * them while @p was on its way. Or @cpu has put one back, and a CPU that idled
 * meanwhile did not see it.
 */
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
	/*
	 * On a CPU that goes offline the kernel puts @p into the local DSQ, and
	 * then idles if no other task is there.
	 */
	if (runnable && is_offline(cpu))
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/*
 * Return true if @p, which ticks on @cpu, must stop before its slice ends.
 * Either a task waits in the local DSQ: a kthread, or a wakee whose waker did
 * not sleep. Or a task in another DSQ is more than half a slice behind @p, or a
 * rotation is overdue. In all cases @p has had slice_min_ns.
 */
static __always_inline bool makes_way(struct task_struct *p, s32 cpu, struct cpu_ctx *cctx)
{
	if (p->se.sum_exec_runtime - cctx->began_exec_ns < slice_min_ns)
		return false;
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
	/* Another CPU ticks for one without a tick, which may be adding to it. */
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

/*
 * Create the context of @p before @p runs. A child inherits its parent's
 * profile until its own first window. Without memory the task stays unknown: a
 * fork does not fail because of that.
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

/*
 * Start a new SCHED_EXT task level with the tasks that compete, less the charge
 * for half a slice. Otherwise a chain of short processes would run at no
 * charge: the next one does not inherit what the last one owes. The charge is
 * by the weight seen from the top, or a hundred new tasks of a group would have
 * a turn each before it counts that they share one weight.
 */
void BPF_STRUCT_OPS(bias_enable, struct task_struct *p)
{
	scx_bpf_task_set_dsq_vtime(p, vtime_now + bias_charge(slice_ns / 2, effective_weight(p, 0)));
}

/*
 * CPUs come and go while the scheduler runs. The kernel maintains the masks of
 * idle CPUs. If all CPUs of a DSQ's class are gone, the other class still
 * serves it. Without these two callbacks the kernel would unload the scheduler
 * at each change.
 */
void BPF_STRUCT_OPS(bias_cpu_online, s32 cpu)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);

	WRITE_ONCE(cctx->move_to, 0);
	WRITE_ONCE(cctx->is_offline, 0);
	WRITE_ONCE(cctx->waived, 0);
	WRITE_ONCE(cctx->onlined, cctx->onlined + 1);
}

/*
 * @cpu does not dispatch any more. The kernel waits until it has no task, and
 * not every kernel removes those that wait in its own DSQ. The CPU still serves
 * the global DSQ, and the kernel then pushes each task away.
 */
void BPF_STRUCT_OPS(bias_cpu_offline, s32 cpu)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);

	WRITE_ONCE(cctx->is_offline, 1);
	cctx->run_flags = 0;
	cctx->ticked_at = 0;
	move_to_global(bias_dsq_pinned(cpu), bpf_jiffies64() + 1, MAX_LOOKED);
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
