/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Clocks: each CPU requests its own clock from cpufreq's governor schedutil.
 *
 * Problem
 * For SCHED_EXT tasks schedutil takes a request instead of a utilisation, and
 * acts only when it is called. Without requests a CPU keeps its clock.
 * schedutil ignores calls from CPUs outside of the policy, and an idle CPU has
 * no tick to lower it.
 *
 * Approach
 * The load of a CPU is the average share of time in which SCHED_EXT tasks run,
 * or full after FULL_NS without a pause. The CPU requests it at ticks and, at
 * most each UPDATE_NS, at starts after a pause. It repeats an equal request:
 * where the kernel does not know the present clock, schedutil approaches a
 * request in steps.
 *
 * The most capable CPU has SCX_CPUPERF_ONE, and a CPU's maximum is its
 * capacity. schedutil adds a quarter, and what other classes need. Requests
 * have steps of an eighth, because a change of the clock may wake a kthread.
 *
 * While a CPU idles with a request, a timer counts periods of IDLE_NS. It kicks
 * each CPU that has idled since the count before the last one. That CPU
 * dispatches, finds no task, and lowers its request itself.
 *
 * Invariants
 * Two ticks and FULL_NS after a CPU began to be busy without a pause, it
 * requests its maximum. Three IDLE_NS after it began to idle, its request is 0.
 * Pauses below IDLE_NS do not lower the request of a CPU that is busy 96 % of
 * the time. A machine on which no CPU is loaded has no timer.
 *
 * Limits
 * A load below a sixteenth requests nothing. A clock that a real-time task
 * raised on an idle CPU may stay until a SCHED_EXT task runs. ondemand and
 * conservative ignore the request, but look at a CPU only when it makes one.
 */
#ifndef BIAS_CLOCK_REQUEST_BPF_H
#define BIAS_CLOCK_REQUEST_BPF_H

#include "access.bpf.h"
#include "idle.bpf.h"

#define LOAD_NS	      32000000ull   /* time constant of the load */
#define FULL_NS	      5000000ull    /* counts as full load without a pause */
#define PAUSE_NS      2000ull	    /* shorter pauses are switches */
#define UPDATE_NS     1000000ull    /* least time between requests at starts */
#define IDLE_NS	      40000000ull   /* period of the timer */
#define MAX_PASSED_NS 1000000000ull /* older load is forgotten */
#define REQUEST_STEP  ((u32)SCX_CPUPERF_ONE / 8)

/* The kernel begins with a request for all of each CPU's maximum clock. */
static __always_inline u32 requested(const struct cpu_ctx *cctx)
{
	return (u32)SCX_CPUPERF_ONE - READ_ONCE(cctx->waived);
}

__noinline int request_clock(s32 cpu, u32 share)
{
	u32 target = share * scx_bpf_cpuperf_cap(cpu) / (u32)SCX_CPUPERF_ONE;

	cpu_ctx_of(cpu)->waived = (u32)SCX_CPUPERF_ONE - share;
	scx_bpf_cpuperf_set(cpu, target < SCX_CPUPERF_ONE ? target : SCX_CPUPERF_ONE);
	return 0;
}

/* Return the next step for @load, or @now if that is near and one more. */
static __always_inline u32 request_for(u32 load, u32 now)
{
	u32 share = (load + REQUEST_STEP - 1) / REQUEST_STEP * REQUEST_STEP;

	if (load < REQUEST_STEP / 2)
		return 0;
	return share < now && load + REQUEST_STEP * 3 / 2 > now ? now : share;
}

/* Request the load of this CPU, @cpu, up to @now_ns on its task clock. */
__noinline int follow_load(s32 cpu, u64 now_ns)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	u64 passed_ns = now_ns - cctx->load_at_ns, busy_ns = 0;

	if (passed_ns > MAX_PASSED_NS)
		passed_ns = MAX_PASSED_NS;
	if (cctx->paused_ns < passed_ns)
		busy_ns = passed_ns - cctx->paused_ns;
	cctx->load_at_ns = now_ns;
	cctx->paused_ns = 0;
	if (now_ns - cctx->busy_since_ns >= FULL_NS)
		cctx->load = SCX_CPUPERF_ONE;
	else
		cctx->load = (cctx->load * LOAD_NS + busy_ns * SCX_CPUPERF_ONE) / (LOAD_NS + passed_ns);
	request_clock(cpu, request_for(cctx->load, requested(cctx)));
	return 0;
}

__noinline int arm_clock_timer(void)
{
	struct clock_timer *timer;
	u32 zero = 0;

	if (READ_ONCE(clock_timer_armed) || __sync_lock_test_and_set(&clock_timer_armed, 1))
		return 0;
	timer = bpf_map_lookup_elem(&clock_timer, &zero);
	if (timer)
		bpf_timer_start(&timer->timer, IDLE_NS, 0);
	return 0;
}

/* Without ticks, the task that starts has the maximum at once. */
static __always_inline void end_pause(struct task_struct *p, s32 cpu, struct cpu_ctx *cctx)
{
	u64 now_ns = p->se.exec_start, pause_ns = now_ns - cctx->stopped_ns;

	if (cctx->idle_count) {
		cctx->idle_count = 0;
		cctx->paused_ns += pause_ns;
		if (pause_ns >= PAUSE_NS)
			cctx->busy_since_ns = now_ns;
		if (now_ns - cctx->load_at_ns >= UPDATE_NS)
			follow_load(cpu, now_ns);
	}
	if (nohz_full && (cctx->run_flags & RUN_UNTICKED))
		request_clock(cpu, SCX_CPUPERF_ONE);
}

/* A CPU whose task is sent away may idle without another dispatch. */
static __always_inline void note_stop(struct task_struct *p, struct cpu_ctx *cctx, bool runnable)
{
	cctx->stopped_ns = p->se.exec_start;
	if (runnable && requested(cctx))
		arm_clock_timer();
}

/* This CPU is about to idle. After two periods it withdraws its request. */
static __always_inline void begin_pause(s32 cpu, struct cpu_ctx *cctx)
{
	u32 count = READ_ONCE(clock_timer_count);

	if (!cctx->idle_count)
		cctx->idle_count = count;
	if (!requested(cctx))
		return;
	if (count - cctx->idle_count < 2) {
		arm_clock_timer();
		return;
	}
	cctx->load = 0;
	request_clock(cpu, 0);
}

static int kick_for_clocks(void *map, int *key, struct bpf_timer *timer)
{
	u32 count = READ_ONCE(clock_timer_count) + 1, i;
	bool again = false;

	/* Disarm first: a CPU that begins to idle meanwhile arms it. */
	__sync_lock_test_and_set(&clock_timer_armed, 0);
	WRITE_ONCE(clock_timer_count, count);
	bpf_for(i, 0, nr_cpus) {
		struct cpu_ctx *cctx = cpu_ctx_of(i);
		u32 since = READ_ONCE(cctx->idle_count);

		if (!cpu_info_of(i)->known || is_offline(i) || !requested(cctx) ||
		    (READ_ONCE(cctx->run_flags) & RUN_BUSY))
			continue;
		again = true;
		/* A CPU whose task was sent away idles without a dispatch. */
		if (!since || count - since >= 2)
			scx_bpf_kick_cpu(i, SCX_KICK_IDLE);
	}
	if (again && !__sync_lock_test_and_set(&clock_timer_armed, 1))
		bpf_timer_start(timer, IDLE_NS, 0);
	return 0;
}

/* Arm the timer at once: idle CPUs lower the kernel's first request. */
static s32 init_clocks(void)
{
	struct clock_timer *timer;
	u32 zero = 0;
	s32 err;

	timer = bpf_map_lookup_elem(&clock_timer, &zero);
	if (!timer)
		return -ENOENT;
	err = bpf_timer_init(&timer->timer, &clock_timer, CLOCK_MONOTONIC);
	err = err ?: bpf_timer_set_callback(&timer->timer, kick_for_clocks);
	return err ?: arm_clock_timer();
}

#endif
