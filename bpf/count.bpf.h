/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Counting: what each task stalls on, from the CPUs' performance counters.
 *
 * Problem
 * Counters belong to CPUs, bias to tasks. On 6.12 only tracing programs may
 * read counters, and four of them cost up to a tenth of a switch. A task that
 * never sleeps passes no switch.
 *
 * Approach
 * An interval begins when a task is switched in, and ends when it is switched
 * out or at a tick, which begins the next. It is added to the task's window,
 * and a full window updates the profile (bias/profile.h). Cycles over time are
 * also the CPU's clock rate, which the agent follows. The programs act only on
 * the pid that ops.running noted.
 *
 * A switch costs as much to count after a brief run as after a long one. So a
 * run is counted when its task has run for a part of a slice since its last
 * interval, or for sample_every slices while its profile is stable. Windows
 * then take as much longer, until one differs. Of a stable profile, ticks count
 * one interval in TICKS_TOGETHER, but not the first.
 *
 * If events outnumber counters, perf rotates groups at ticks, and counts are
 * scaled to the interval. All events are in one group, to cover the same part.
 * If it ran too briefly, the interval stays open at a tick: it would show
 * mostly the rotation.
 *
 * An interval in which the task only spun shows nothing of its work, and is
 * dropped. The CPU publishes BIAS_SPEEDUP_SPINS until the next, so that a task
 * with work takes the fast CPU. The next SPUN_INTERVALS are all counted,
 * because threads of a parallel loop spin until the last one ends.
 *
 * Invariants
 * An interval is charged to the task that ran it or to none. A counter that
 * cannot be read, stands still, goes backwards or wraps costs one interval:
 * bias stays, and statistics show it (counted, count_invalid, count_failed).
 *
 * Limits
 * Counts include interrupts. Kthreads are not counted.
 */
#ifndef BIAS_COUNT_BPF_H
#define BIAS_COUNT_BPF_H

#include "access.bpf.h"
#include "classify.bpf.h"
#include "limit.bpf.h"

#define TICKS_TOGETHER 4  /* between intervals of a stable profile */
#define COUNT_PART     4  /* 1 / part of a slice between counted runs */
#define SPUN_INTERVALS 64 /* intervals until a task that spun is settled */

static __always_inline bool counters_read(s32 cpu, struct readout *now)
{
	u64 first = (u32)cpu * BIAS_NR_COUNTERS;
	struct bpf_perf_event_value value;
	struct bias_counts *into = &now->counts;
	u64 *counts[] = {&into->cycles, &into->instructions, &into->external, &into->internal};
	u32 available = cpu_info_of(cpu)->counters;

	now->enabled_ns = now->running_ns = 0;
#pragma unroll
	for (int i = 0; i < BIAS_NR_COUNTERS; i++) {
		if (!(available & (1u << i))) {
			*counts[i] = 0;
			continue;
		}
		if (bpf_perf_event_read_value(&events, first + i, &value, sizeof(value))) {
			stat_inc(BIAS_STAT_COUNT_FAILED);
			return false;
		}
		*counts[i] = value.counter;
		if (i == BIAS_COUNTER_CYCLES) { /* leader of the group */
			now->enabled_ns = value.enabled;
			now->running_ns = value.running;
		}
	}
	return true;
}

static __always_inline void interval_begin(struct cpu_ctx *cctx, const struct readout *now, u64 now_ns,
					   u32 pid, bool at_tick)
{
	cctx->count_start = *now;
	cctx->count_start_ns = now_ns;
	cctx->counting_pid = pid;
	cctx->began_at_tick = at_tick;
	cctx->uncounted_ticks = 0;
}

static __always_inline bool interval_counted(const struct cpu_ctx *cctx, const struct readout *now)
{
	return bias_mux_counted(now->enabled_ns - cctx->count_start.enabled_ns,
				now->running_ns - cctx->count_start.running_ns);
}

/* Note that @p only spun, or worked though it spun lately. Return @spins. */
__noinline int note_spinning(struct task_struct *p __arg_trusted, s32 cpu, bool spins)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	struct task_ctx *tctx = task_ctx_of(p);

	if (!tctx)
		return spins;
	tctx->spun = spins ? SPUN_INTERVALS : tctx->spun - 1;
	if (is_running(p, cpu)) {
		WRITE_ONCE(cctx->run_speedup, spins ? BIAS_SPEEDUP_SPINS : speedup_of(tctx));
		WRITE_ONCE(cctx->run_spun, tctx->spun);
		cctx->run_stable = is_settled(tctx);
	}
	cctx->stats[BIAS_STAT_SPUN] += spins;
	return spins;
}

static __always_inline void interval_end(struct task_struct *p, s32 cpu, struct cpu_ctx *cctx,
					 const struct readout *now, u64 now_ns)
{
	const struct bias_cpu_info *info = cpu_info_of(cpu);
	u32 copy = READ_ONCE(table_seq) & 1;
	const struct bias_speed *speed =
	    &speeds[bounded(((u32)cpu << 1) | copy, BIAS_MAX_CPUS * BIAS_TABLE_COPIES)];
	struct task_ctx *tctx = task_ctx_of(p);
	const struct readout *start = &cctx->count_start;
	struct bias_counts counts = {
	    .cycles = now->counts.cycles - start->counts.cycles,
	    .instructions = now->counts.instructions - start->counts.instructions,
	    .external = now->counts.external - start->counts.external,
	    .internal = now->counts.internal - start->counts.internal,
	};
	u32 windows;
	bool spins;

	if (!tctx)
		return;
	tctx->counted_exec_ns = p->se.sum_exec_runtime;
	cctx->stats[BIAS_STAT_COUNTED]++;
	if (!bias_counts_valid(&counts) || !interval_counted(cctx, now)) {
		cctx->stats[BIAS_STAT_COUNT_INVALID]++;
		return;
	}
	cctx->seen_cycles += counts.cycles;
	cctx->seen_ns += now->running_ns - start->running_ns;
	bias_counts_scale(&counts, now->enabled_ns - start->enabled_ns, now->running_ns - start->running_ns);
	spins = bias_spins(&counts, cctx->uncounted_ticks ?: 1);
	if ((spins || tctx->spun) && note_spinning(p, cpu, spins))
		return;
	bias_work_add(&tctx->work, counts.instructions, now_ns - cctx->count_start_ns, class_of(cpu));
	bias_counts_correct(&counts, info->external_permille, info->internal_permille);
	bias_window_add(&tctx->window, &counts, now_ns - cctx->count_start_ns,
			core_is_shared(cpu) ? &speed->shared : &speed->cost);
	windows = bias_window_full(&tctx->window, window_instructions, tctx->profile.windows);
	if (!windows)
		return;
	bias_profile_update(&tctx->profile, &tctx->window, windows, &class_costs[copy][BIAS_SLOW],
			    &class_costs[copy][BIAS_FAST]);
	note_bias(tctx);
	if (!tctx->profile.stable) {
		bias_work_forget(&tctx->work, BIAS_FAST);
		bias_work_forget(&tctx->work, BIAS_SLOW);
	}
	cctx->stats[BIAS_STAT_WINDOWS]++;
	if (is_running(p, cpu)) {
		WRITE_ONCE(cctx->run_speedup, speedup_of(tctx));
		cctx->run_rate = bias_time_permille(&tctx->profile.stack, &speed->cost);
		if (smt_active)
			cctx->run_shared_rate = bias_time_permille(&tctx->profile.stack, &speed->shared);
		cctx->run_stable = is_settled(tctx);
	}
}

/* In ops.running: the switch that follows begins the interval. */
static __always_inline void count_decide(struct task_struct *p, s32 cpu, struct cpu_ctx *cctx,
					 struct task_ctx *tctx)
{
	bool stable;

	if (!counting || !cpu_info_of(cpu)->counters)
		return;
	stable = bias_profile_stable(&tctx->profile);
	cctx->run_stable = is_settled(tctx);
	if (cctx->counting_pid == p->pid || (limited && !tctx->inside))
		return;
	if (p->se.sum_exec_runtime - tctx->counted_exec_ns <
	    (stable ? sample_every * slice_ns : slice_ns / COUNT_PART))
		return;
	cctx->count_next_pid = p->pid;
}

/*
 * Drop an interval that a tick began: its end costs as much as an interval. It
 * is short where slices end at ticks, and would count as the task's last one.
 */
static __always_inline void count_stop(struct cpu_ctx *cctx)
{
	if (cctx->began_at_tick)
		cctx->counting_pid = 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(bias_count_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	s32 cpu = bpf_get_smp_processor_id();
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	u32 next_pid = cctx->count_next_pid, ended_pid = cctx->counting_pid;
	struct readout now;
	u64 now_ns;

	if (!next_pid && !ended_pid)
		return 0;
	cctx->count_next_pid = 0;
	cctx->counting_pid = 0;
	if (next_pid != next->pid)
		next_pid = 0;
	if (ended_pid != prev->pid)
		ended_pid = 0;
	if ((!next_pid && !ended_pid) || !counters_read(cpu, &now))
		return 0;
	now_ns = bpf_ktime_get_ns();
	if (ended_pid)
		interval_end(prev, cpu, cctx, &now, now_ns);
	if (next_pid)
		interval_begin(cctx, &now, now_ns, next_pid, false);
	return 0;
}

SEC("fentry/sched_tick")
int BPF_PROG(bias_count_tick)
{
	struct task_struct *p = bpf_get_current_task_btf();
	s32 cpu = bpf_get_smp_processor_id();
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	u32 pid = p->pid;
	struct readout now;
	u64 now_ns;

	/* ops.running may have skipped this run, but it is long enough. */
	if (!pid || !cpu_info_of(cpu)->counters || cctx->run_pid != pid || !(cctx->run_flags & RUN_BUSY) ||
	    (p->flags & PF_KTHREAD))
		return 0;
	if (cctx->run_stable && (!(cctx->run_flags & RUN_TICKED) || ++cctx->uncounted_ticks < TICKS_TOGETHER))
		return 0;
	if (!still_has_bias(p, cctx))
		return 0;
	if (!counters_read(cpu, &now)) {
		cctx->counting_pid = 0;
		return 0;
	}
	if (cctx->counting_pid == pid && !interval_counted(cctx, &now))
		return 0;
	now_ns = bpf_ktime_get_ns();
	if (cctx->counting_pid == pid)
		interval_end(p, cpu, cctx, &now, now_ns);
	interval_begin(cctx, &now, now_ns, pid, true);
	return 0;
}

#endif
