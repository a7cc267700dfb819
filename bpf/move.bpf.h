/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Migration of running tasks: pull, gain swap and rotation.
 *
 * Problem
 * While every task has a CPU, no DSQ fills, and dispatch corrects no placement.
 * Work stays on slow CPUs while fast ones idle [Balakrishnan05], and of several
 * equal tasks always the same run on the fast CPUs.
 *
 * Approach
 * A CPU writes a move request into the cpu_ctx of a task's CPU and preempts it.
 * The kernel passes that CPU's last task to ops.enqueue (SCX_OPS_ENQ_LAST),
 * which inserts it into the target's local DSQ.
 *
 *	pull		A fast CPU about to idle requests the task of a slow
 *			CPU that gains most, or of about equal ones lags most.
 *			A slow CPU that ticks wakes an idle fast one for that.
 *			An idle core also pulls from a shared core.
 *	gain swap	A fast CPU that ticks requests a task that gains
 *			clearly more (gain_permille) than its own. So does a
 *			marked thread that yields (hint.bpf.h).
 *	rotation	A fast CPU whose slice ends requests a task that lags
 *			more than rotate_gap_ns behind its own, and more than
 *			any waiting task [VanCraeynest13].
 *
 * CPUs of a better tier in a class pull and swap, too. In a swap or rotation
 * the task that comes up has the fast CPU kicked, which sends its own task
 * back. A task that gains clearly more makes room only for one that loses much
 * and lags by unfair_gap_ns, until half of that is made up. Only a task that a
 * tick has seen migrates, or a pulled one that runs_long(): a shorter one ends
 * before it arrives. The agent plans swaps (swap.bpf.h); with `moving` off, an
 * ablation, only the agent does.
 *
 * Invariants
 * A request applies to the task that ran when it was made, or to none.
 * settle_start() clears it, unless the agent made it for the task that starts.
 * The CPU that carries it out checks the affinity, and that no other class has
 * taken the target. An idle CPU gets one task: the first to be announced
 * (arrival.bpf.h). Only leaves_node() lets a task leave its NUMA node. Code that
 * takes a CPU's idle mark wakes that CPU.
 *
 * Limits
 * Requests race, and the last store wins.
 */
#ifndef BIAS_MOVE_BPF_H
#define BIAS_MOVE_BPF_H

#include "access.bpf.h"
#include "account.bpf.h"
#include "arrival.bpf.h"
#include "idle.bpf.h"
#include "search.bpf.h"

/*
 * A move request is 1 + the target CPU, with flags for a busy one. A pull is
 * then dropped. A swap requests the target's task in exchange: that second
 * request, the way back, must not start a third.
 */
#define MOVE_SWAP     (1u << 16)
#define MOVE_BACK     (1u << 17)
#define MOVE_GAIN     (1u << 18) /* the swap is for gain, not rotation */
#define MOVE_AGENT    (1u << 19) /* planned: move_pid and move_partner count */
#define MOVE_CPU_MASK (MOVE_SWAP - 1)

_Static_assert(BIAS_MAX_CPUS < MOVE_CPU_MASK, "a CPU number must fit a request");

/* @how is 0 or MOVE_SWAP, with or without MOVE_GAIN. */
static __always_inline void request_move(s32 from, s32 to, u32 how)
{
	WRITE_ONCE(cpu_ctx_of(from)->move_to, (to + 1) | how);
	scx_bpf_kick_cpu(from, SCX_KICK_PREEMPT);
}

/* A thread with a busy sibling must beat the slow core that it pulls from. */
static __always_inline void pull_running(s32 cpu)
{
	bool whole = smt_active && !core_is_shared(cpu);
	s32 from = -1;

	if (!moving)
		return;
	if (whole)
		from = search_to_unshare(cpu);
	if (from < 0 && has_worse_tier(cpu) && (!smt_active || whole || sibling_beats_slow_core()))
		from = search_to_pull(cpu);
	if (from < 0)
		return;
	request_move(from, cpu, 0);
	stat_inc(BIAS_STAT_PULL);
}

static __always_inline s32 find_rotation(s32 cpu, struct cpu_ctx *cctx)
{
	if (!moving || !(cctx->run_flags & RUN_MOVABLE))
		return -1;
	cctx->looked_ns = cctx->stats[BIAS_STAT_RUN_FAST_NS];
	return search_to_rotate(cpu);
}

/* A task that others interrupt gets a new slice each time: none may end. */
static __always_inline bool rotation_overdue(const struct cpu_ctx *cctx)
{
	return moving && (cctx->run_flags & RUN_MOVABLE) &&
	       cctx->stats[BIAS_STAT_RUN_FAST_NS] - cctx->looked_ns > 2 * slice_ns;
}

static __always_inline void rotate(s32 slow, s32 cpu)
{
	request_move(slow, cpu, MOVE_SWAP);
	stat_inc(BIAS_STAT_ROTATE);
}

static __always_inline void swap_for_gain(s32 cpu, struct cpu_ctx *cctx)
{
	s32 slow;

	if (!moving || !(cctx->run_flags & RUN_MOVABLE) || !(cctx->run_flags & RUN_TICKED) ||
	    !cctx->run_speedup || cctx->move_to)
		return;
	slow = search_to_gain(cpu);
	if (slow < 0)
		return;
	request_move(slow, cpu, MOVE_SWAP | MOVE_GAIN);
	stat_inc(BIAS_STAT_SWAP_GAIN);
}

/* Pick an idle CPU of a better tier, or a whole core if @cpu shares its own. */
static __always_inline s32 better_idle_cpu(struct task_struct *p, s32 cpu, const struct cpu_ctx *cctx)
{
	bool slow = cpu_is_slow(cpu), shared = core_is_shared(cpu), fast_first = sibling_beats_slow_core();
	u32 used = tiers_used[READ_ONCE(table_seq) & 1], mine = tier_of(cpu);
	s32 better = -1;

#pragma unroll
	for (u32 tier = 0; tier < BIAS_NR_TIERS; tier++) {
		bool to_slow = tier >= BIAS_SLOW * BIAS_CLASS_TIERS;

		if (!(used & 1u << tier) || (tier >= mine && !shared) || (to_slow && !slow && fast_first))
			continue;
		better = pick_near(p, cpu, tier, slow && !to_slow && fast_first ? NEED_THREAD : NEED_CORE);
		if (better < 0 && !to_slow && (cctx->run_flags & RUN_ROAMS))
			better = pick_idle_in(p, nr_llcs, tier, NEED_CORE);
		if (better >= 0)
			break;
	}
	return better;
}

/*
 * The idle CPU then pulls @p. If @p were sent there and did not arrive, the CPU
 * would stay without its idle mark, and no wakeup would send work there.
 */
__noinline int wake_better(struct task_struct *p __arg_trusted, s32 cpu)
{
	const struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	s32 better;

	if (!moving || !(cctx->run_flags & RUN_MOVABLE) || cctx->move_to)
		return 0;
	better = better_idle_cpu(p, cpu, cctx);
	if (better < 0)
		return 0;
	WRITE_ONCE(cpu_ctx_of(better)->offered, cpu + 1);
	scx_bpf_kick_cpu(better, SCX_KICK_IDLE);
	return 1;
}

static __always_inline u32 reason_of(u32 request)
{
	if (request & MOVE_AGENT)
		return BIAS_REASON_SWAP;
	if (request & MOVE_GAIN)
		return request & MOVE_BACK ? BIAS_REASON_YIELD : BIAS_REASON_GAIN;
	return request & (MOVE_SWAP | MOVE_BACK) ? BIAS_REASON_ROTATE : BIAS_REASON_PULL;
}

/* Drop a request that no longer holds. Keep one for a task that will return. */
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
	} else if (to >= 0 && !is_offline(to) && cctx->run_pid == p->pid && !is_pinned(p) &&
		   !(p->flags & PF_EXITING) && bpf_cpumask_test_cpu(to, p->cpus_ptr)) {
		if (busy ? (request & MOVE_SWAP) && (target->run_flags & RUN_MOVABLE) && !target->move_to
			 : !scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | to) && !is_taken(to))
			return true;
	}
	WRITE_ONCE(cctx->move_to, 0);
	cctx->move_pid = 0;
	return false;
}

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
	if (!(target->run_flags & RUN_BUSY) && !announce_arrival(target, p->pid))
		return false;
	forget_tick(cctx);
	if (target->run_flags & RUN_BUSY) {
		/* The target's task leaves, even if it cannot come here. */
		WRITE_ONCE(target->arrival, announcement(p->pid));
		WRITE_ONCE(target->move_to, (cpu + 1) | MOVE_BACK | (request & (MOVE_GAIN | MOVE_AGENT)));
		/* 6.12 loses SCX_ENQ_PREEMPT on the way to another CPU. */
		scx_bpf_kick_cpu(to, SCX_KICK_PREEMPT);
	} else {
		/* Claim the CPU, or an enqueue sends it a second task. */
		scx_bpf_test_and_clear_cpu_idle(to);
		scx_bpf_kick_cpu(to, SCX_KICK_IDLE);
	}
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | to, slice_ns, enq_flags);
	tctx = task_ctx_of(p);
	if (tctx) {
		tctx->reason = reason_of(request);
		tctx->moved_ns = bpf_ktime_get_ns();
		/* The agent compares work before and after the swap. */
		tctx->swapped = !!(request & MOVE_AGENT);
		if (tctx->swapped)
			bias_work_forget(&tctx->work, class_of(to));
		tctx->in_transit = 1;
	}
	stat_inc(BIAS_STAT_MOVED);
	return true;
}

static __always_inline void arrived(struct task_ctx *tctx)
{
	if (!tctx->in_transit)
		return;
	tctx->in_transit = 0;
	tctx->lost_ns += bpf_ktime_get_ns() - tctx->moved_ns;
}

static __always_inline void note_resident(struct cpu_ctx *cctx)
{
	if (!(cctx->run_flags & RUN_TICKED))
		return;
	cctx->resident_pid = cctx->run_pid;
	/* Unknown while it spins: the agent plans by its work. */
	cctx->resident_speedup = cctx->run_speedup == BIAS_SPEEDUP_SPINS ? 0 : cctx->run_speedup;
}

#endif
