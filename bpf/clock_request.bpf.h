/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Clocks: each CPU requests its own clock from cpufreq's governor schedutil.
 *
 * Problem
 * schedutil sets a CPU's clock by the utilisation of the fair class. For
 * SCHED_EXT tasks it takes a request instead, and it acts only when it is
 * called. Without requests a CPU keeps the clock that it had when the scheduler
 * started. schedutil ignores calls from CPUs outside of the CPU's policy, and
 * an idle CPU has no tick that could lower its clock.
 *
 * Approach
 * Each CPU averages the share of time in which SCHED_EXT tasks run, with the
 * time constant LOAD_NS. A CPU that was busy for FULL_NS without a pause counts
 * as fully loaded at once. The CPU requests its load at each tick, and when it
 * starts a task after a pause, but not more often than each UPDATE_NS. The
 * request is repeated although it is the same: where the kernel does not know
 * the present clock, schedutil approaches the requested one in steps.
 *
 * The scale is that of the system: the most capable CPU has SCX_CPUPERF_ONE,
 * and the maximum of this CPU is its capacity. schedutil adds a quarter, and
 * what other scheduling classes need. Requests have steps of an eighth, because
 * a change of the clock may cost a wakeup of a kthread.
 *
 * A CPU keeps its request when it begins to idle. While a CPU idles with one, a
 * timer fires each IDLE_NS and counts. It kicks each CPU that has idled since
 * the count before the last one. That CPU dispatches, finds no task, and lowers
 * its request itself.
 *
 * Invariants
 * Two ticks and FULL_NS after it began to be busy without a pause, a CPU has
 * requested its maximum. Three times IDLE_NS after a CPU began to idle, its
 * request is 0. Pauses of less than IDLE_NS do not lower the request of a CPU
 * that is busy for 96 % of the time. A machine on which no CPU is loaded has no
 * timer.
 *
 * Limits
 * A CPU with a load of less than a sixteenth requests nothing. If a real-time
 * task has raised the clock of an idle CPU, it may stay until a SCHED_EXT task
 * runs there. The governors ondemand and conservative ignore what is requested,
 * but they only look at a CPU when it requests something.
 */
#ifndef BIAS_CLOCK_REQUEST_BPF_H
#define BIAS_CLOCK_REQUEST_BPF_H

#include "access.bpf.h"
#include "idle.bpf.h"

/* Time constant of a CPU's load. */
#define LOAD_NS 32000000ull
/* Time without a pause after which a CPU counts as fully loaded. */
#define FULL_NS 5000000ull
/* Shorter pauses are switches. */
#define PAUSE_NS 2000ull
/* Shortest time between two requests at starts of tasks. */
#define UPDATE_NS 1000000ull
/* Period of the timer that finds idle CPUs. */
#define IDLE_NS 40000000ull
/* Longest time that counts at once: the load before that is forgotten. */
#define MAX_PASSED_NS 1000000000ull
/* Step of requests. */
#define REQUEST_STEP ((u32)SCX_CPUPERF_ONE / 8)

/*
 * Return the share of its maximum clock that the CPU of @cctx requests. The
 * kernel begins with all of it for each CPU.
 */
static __always_inline u32 requested(const struct cpu_ctx *cctx)
{
	return (u32)SCX_CPUPERF_ONE - READ_ONCE(cctx->waived);
}

/*
 * Request @share of the maximum clock of @cpu, this CPU. Return 0. This function
 * is global so that the verifier checks it once.
 */
__noinline int request_clock(s32 cpu, u32 share)
{
	u32 target = share * scx_bpf_cpuperf_cap(cpu) / (u32)SCX_CPUPERF_ONE;

	cpu_ctx_of(cpu)->waived = (u32)SCX_CPUPERF_ONE - share;
	scx_bpf_cpuperf_set(cpu, target < SCX_CPUPERF_ONE ? target : SCX_CPUPERF_ONE);
	return 0;
}

/*
 * Return the request for @load: the next step, or the present one, @now, if
 * that is one step more and @load is near to it.
 */
static __always_inline u32 request_for(u32 load, u32 now)
{
	u32 share = (load + REQUEST_STEP - 1) / REQUEST_STEP * REQUEST_STEP;

	if (load < REQUEST_STEP / 2)
		return 0;
	return share < now && load + REQUEST_STEP * 3 / 2 > now ? now : share;
}

/*
 * Update the load of @cpu, this CPU, up to @now_ns on its task clock, and
 * request a clock. Return 0. This function and the next are global so that the
 * verifier checks each of them once.
 */
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

/* Have the timer fire, unless it is armed. Return 0. */
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

/*
 * Note that @p, which starts on @cpu, ends a pause of the CPU, if there was
 * one. Without ticks, @p has the maximum from its start.
 */
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

/*
 * Note that @p stops on the CPU of @cctx: a pause may begin. If @p is sent to
 * another CPU, this one may idle without another dispatch.
 */
static __always_inline void note_stop(struct task_struct *p, struct cpu_ctx *cctx, bool runnable)
{
	cctx->stopped_ns = p->se.exec_start;
	if (runnable && requested(cctx))
		arm_clock_timer();
}

/*
 * Note that @cpu, this CPU, is about to idle. Withdraw its request if the timer
 * has fired twice since it began to.
 */
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

/*
 * The timer fires: kick CPUs that have idled for long with a request. Go on
 * while any CPU idles with one. A CPU that begins to idle meanwhile sees that
 * the timer is not armed, and arms it.
 */
static int kick_for_clocks(void *map, int *key, struct bpf_timer *timer)
{
	u32 count = READ_ONCE(clock_timer_count) + 1, i;
	bool again = false;

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

/* Create the timer, and arm it: idle CPUs lower the kernel's first request. */
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
