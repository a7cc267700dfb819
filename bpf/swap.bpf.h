/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Planned swaps: at the agent's request, running tasks of a slow and of a fast
 * CPU migrate to each other's CPU.
 *
 * Problem
 * The agent sees the whole machine, but late: a task may have ended, slept,
 * migrated, or changed its affinity or phase. While it queries, the agent
 * itself runs on one of these CPUs, in place of a task that it preempted.
 *
 * Approach
 * bias_task_query reports a task to the agent (BPF_PROG_TEST_RUN).
 * bias_swap_ask checks a pair again and makes the request of move.bpf.h. Each
 * tick records the resident task, so that a short run, above all of the agent,
 * does not hide it. A preempted task cannot be preempted again, so the request
 * waits on its CPU: settle_start() keeps it, and bias_running() kicks the CPU.
 *
 * Invariants
 * The CPU that carries out a request checks both pids again. Any other task
 * that runs there by then stays (statistics: swap_late). Pid and start time
 * identify a task. No swap violates an affinity or leaves a node. By the kernel
 * side's own predictions, none lowers throughput, or takes a CPU from a task
 * that makes up for lag.
 *
 * Limits
 * If another SCHED_EXT task preempts one of the two, another CPU may take it,
 * and the request is dropped. The agent asks as a real-time thread, so a task
 * that it preempts stays. A CPU has one request at a time.
 */
#ifndef BIAS_SWAP_BPF_H
#define BIAS_SWAP_BPF_H

#include "access.bpf.h"
#include "move.bpf.h"

/* A program that counts may preempt this one on the same CPU. */
static __always_inline void stat_inc_shared(enum bias_stat stat)
{
	__sync_fetch_and_add(&cpu_ctx_of(bpf_get_smp_processor_id())->stats[stat], 1);
}

static __always_inline bool is_runnable(const struct task_struct *p)
{
	return p->scx.flags & SCX_TASK_QUEUED;
}

SEC("syscall")
int bias_task_query(struct bias_task_state *ctx)
{
	struct bias_task_state look = {.pid = ctx->pid};
	struct task_struct *p = bpf_task_from_pid(ctx->pid);
	struct task_ctx *tctx;

	if (!p)
		return -ESRCH;
	tctx = bpf_task_storage_get(&task_ctxs, p, NULL, 0);
	if (!tctx) {
		bpf_task_release(p);
		return -ENOENT;
	}
	look.start_ns = p->start_boottime;
	look.moved_ns = tctx->moved_ns;
	look.lost_ns = tctx->lost_ns;
	look.work = tctx->work;
	look.profile = tctx->profile;
	look.tgid = p->tgid;
	look.cpu = p->thread_info.cpu;
	if (is_runnable(p))
		look.flags |= BIAS_TASK_RUNNABLE;
	if (!is_pinned(p))
		look.flags |= BIAS_TASK_MOVABLE;
	if (!is_restricted(p))
		look.flags |= BIAS_TASK_ANYWHERE;
	if (tctx->swapped)
		look.flags |= BIAS_TASK_SWAPPED;
	__builtin_memcpy(look.comm, p->comm, sizeof(look.comm));
	bpf_task_release(p);
	*ctx = look;
	return 0;
}

/* Check that @p is running or resident on @cpu and may migrate to @to. */
static __always_inline int check_resident(struct task_struct *p, u64 start_ns, s32 cpu, s32 to)
{
	const struct cpu_ctx *cctx = cpu_ctx_of(cpu);

	if (p->start_boottime != start_ns)
		return BIAS_SWAP_GONE;
	if (!is_running(p, cpu) &&
	    (cctx->resident_pid != p->pid || p->thread_info.cpu != cpu || !is_runnable(p)))
		return BIAS_SWAP_ELSEWHERE;
	if (is_pinned(p) || !bpf_cpumask_test_cpu(to, p->cpus_ptr))
		return BIAS_SWAP_CONFINED;
	return cctx->move_to ? BIAS_SWAP_BUSY : BIAS_SWAP_ASKED;
}

/* Check the conditions of swap_for_gain(), the first one without its margin. */
static __always_inline int check_gain(struct task_struct *up, struct task_struct *down)
{
	struct task_ctx *up_ctx = task_ctx_of(up), *down_ctx = task_ctx_of(down);

	if (!up_ctx || !down_ctx)
		return BIAS_SWAP_UNTRACKED;
	if (!bias_gains_more(speedup_of(up_ctx), speedup_of(down_ctx), 0))
		return BIAS_SWAP_BIAS;
	if (bias_vtime_before(down->scx.dsq_vtime + unfair_gap_ns / 2, up->scx.dsq_vtime))
		return BIAS_SWAP_LAG;
	return BIAS_SWAP_ASKED;
}

static __always_inline void request_swap(struct task_struct *task, s32 from, struct task_struct *partner,
					 s32 to)
{
	struct cpu_ctx *cctx = cpu_ctx_of(from);
	bool runs = is_running(task, from);

	WRITE_ONCE(cctx->move_pid, task->pid);
	WRITE_ONCE(cctx->move_partner, partner->pid);
	WRITE_ONCE(cctx->move_to, (to + 1) | MOVE_SWAP | MOVE_AGENT);
	if (runs)
		scx_bpf_kick_cpu(from, SCX_KICK_PREEMPT);
}

static __always_inline int swap_tasks(struct task_struct *up, struct task_struct *down,
				      const struct bias_swap_request *request)
{
	s32 slow = request->up_cpu, fast = request->down_cpu;
	int answer = check_resident(up, request->up_start_ns, slow, fast);

	if (answer == BIAS_SWAP_ASKED)
		answer = check_resident(down, request->down_start_ns, fast, slow);
	if (answer == BIAS_SWAP_ASKED)
		answer = check_gain(up, down);
	if (answer != BIAS_SWAP_ASKED)
		return answer;
	/* Ask the preempted task: when it returns, the other one runs. */
	if (is_running(down, fast))
		request_swap(up, slow, down, fast);
	else if (is_running(up, slow))
		request_swap(down, fast, up, slow);
	else
		return BIAS_SWAP_ELSEWHERE;
	return BIAS_SWAP_ASKED;
}

SEC("syscall")
int bias_swap_ask(struct bias_swap_request *ctx)
{
	struct bias_swap_request request = *ctx;
	struct task_struct *up, *down;
	int answer = BIAS_SWAP_GONE;

	if (request.up_cpu >= nr_cpus || request.down_cpu >= nr_cpus || !cpu_is_slow(request.up_cpu) ||
	    cpu_is_slow(request.down_cpu) ||
	    cpu_info_of(request.up_cpu)->node != cpu_info_of(request.down_cpu)->node) {
		stat_inc_shared(BIAS_STAT_SWAP_REFUSED);
		return BIAS_SWAP_NO_PAIR;
	}
	up = bpf_task_from_pid(request.up_pid);
	if (up) {
		down = bpf_task_from_pid(request.down_pid);
		if (down) {
			bpf_rcu_read_lock();
			answer = swap_tasks(up, down, &request);
			bpf_rcu_read_unlock();
			bpf_task_release(down);
		}
		bpf_task_release(up);
	}
	stat_inc_shared(answer == BIAS_SWAP_ASKED ? BIAS_STAT_SWAP_ASKED : BIAS_STAT_SWAP_REFUSED);
	return answer;
}

#endif
