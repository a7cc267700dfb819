/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * The engine's interface to the BPF code: one function for each kfunc and
 * helper that needs the engine. The first argument is the engine.
 *
 * There is no default. The table is filled in Rust, whose compiler demands
 * every field. A kfunc that is not here is not declared for bpf/ either, so
 * that the compiler refuses it by name.
 */
#ifndef SIM_HOST_H
#define SIM_HOST_H

#include "kernel.h"

/* An iteration over a DSQ. Its position is a key of the DSQ. */
struct sim_iter_scx_dsq {
	u64 dsq;
	u64 newest;
	u64 flags;
	bool begun;
	s64 vtime;
	u64 seq;
	/* vtime that the next task to be moved gets */
	u64 moved_vtime;
};

struct sim_host {
	/* DSQs */
	s32 (*create_dsq)(void *kernel, u64 dsq, s32 node);
	void (*insert)(void *kernel, struct task_struct *p, u64 dsq, u64 slice, u64 enq_flags);
	void (*insert_vtime)(void *kernel, struct task_struct *p, u64 dsq, u64 slice, u64 vtime,
			     u64 enq_flags);
	bool (*move_to_local)(void *kernel, u64 dsq);
	s32 (*nr_queued)(void *kernel, u64 dsq);
	u32 (*reenqueue_local)(void *kernel);
	/* Begin an iteration: return the newest sequence number in it. */
	u64 (*iter_begin)(void *kernel, u64 dsq);
	/* Return the next task, NULL after the last one. */
	struct task_struct *(*iter_next)(void *kernel, struct sim_iter_scx_dsq *iter);
	/* Move a task that an iteration has found. False if it has left. */
	bool (*move_task)(void *kernel, struct sim_iter_scx_dsq *iter, struct task_struct *p, u64 dsq,
			  bool by_vtime);
	/* CPUs */
	void (*kick_cpu)(void *kernel, s32 cpu, u64 flags);
	s32 (*pick_idle_cpu)(void *kernel, const struct cpumask *mask, u64 flags);
	bool (*test_and_clear_cpu_idle)(void *kernel, s32 cpu);
	const struct cpumask *(*idle_cpumask)(void *kernel);
	const struct cpumask *(*idle_smtmask)(void *kernel);
	s32 (*this_cpu)(void *kernel);
	/* Return the CPU's runqueue, without the tasks of sched_ext. */
	const struct rq *(*rq)(void *kernel, s32 cpu);
	u32 (*cpuperf_cap)(void *kernel, s32 cpu);
	void (*cpuperf_set)(void *kernel, s32 cpu, u32 target);
	/* tasks */
	struct task_struct *(*current)(void *kernel);
	struct task_struct *(*from_pid)(void *kernel, s32 pid);
	void (*task_put)(void *kernel, struct task_struct *p);
	void *(*task_storage)(void *kernel, const void *map, struct task_struct *p, size_t size, u64 flags);
	/* clocks */
	u64 (*ktime_ns)(void *kernel);
	u64 (*jiffies)(void *kernel);
	/* timers of BPF code */
	s32 (*timer_init)(void *kernel, struct bpf_timer *timer, void *map);
	s32 (*timer_set)(void *kernel, struct bpf_timer *timer, bpf_timer_callback callback);
	s32 (*timer_start)(void *kernel, struct bpf_timer *timer, u64 after_ns);
	/* maps and memory */
	void *(*map_lookup)(void *kernel, const void *map, u32 type, u32 entries, size_t key_size,
			    size_t value_size, const void *key, s32 cpu);
	void *(*ringbuf_reserve)(void *kernel, const void *map, size_t size);
	void (*ringbuf_submit)(void *kernel, void *record);
	s32 (*perf_read)(void *kernel, u64 index, struct bpf_perf_event_value *value);
	/* Read a word of the current task's memory. */
	s64 (*user_word)(void *kernel, u32 *word);
	void (*seq_write)(void *kernel, const void *data, u32 size);
	struct bpf_cpumask *(*mask_create)(void *kernel);
	void (*mask_release)(void *kernel, struct bpf_cpumask *mask);
	/* the run itself */
	void (*point)(void *kernel);
	void (*store)(void *kernel, void *address);
	void (*print)(void *kernel, const char *line);
	void (*fatal)(void *kernel, const char *what, const char *file, u32 line);
};

#endif
