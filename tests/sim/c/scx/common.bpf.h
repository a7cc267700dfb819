/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Stand-in for the scx project's header of this name, so that bpf/ compiles for
 * the host, unmodified. It declares the kfuncs, helpers and macros that bpf/
 * uses, and no others.
 *
 * Each kfunc is an inline function that calls the engine through sim_host. None
 * is a symbol for the linker to resolve, so none can bind to a stub or to a
 * helper's number.
 *
 * `const` is empty while bpf/ is compiled (unit.c): its constants are written
 * before the scheduler starts, as the BPF loader does. Nothing here uses it.
 */
#ifndef SIM_COMMON_BPF_H
#define SIM_COMMON_BPF_H

#include "../host.h"

/* The engine of this copy of the scheduler, and its functions. */
extern struct sim_host *sim_host __attribute__((visibility("hidden")));
extern void *sim_kernel __attribute__((visibility("hidden")));
/* Steps of bounded loops so far. */
/* Atomic operations so far. All are on words that several CPUs write. */
extern u64 sim_atomics __attribute__((visibility("hidden")));
#define __sync_fetch_and_add(word, by)	      (sim_atomics++, __sync_fetch_and_add(word, by))
#define __sync_lock_test_and_set(word, value) (sim_atomics++, __sync_lock_test_and_set(word, value))
#define __sync_val_compare_and_swap(word, old, value)                                                        \
	(sim_atomics++, __sync_val_compare_and_swap(word, old, value))
extern u64 sim_steps __attribute__((visibility("hidden")));

int snprintf(char *restrict text, size_t size, char *restrict format, ...);

/* The errors that bpf/ returns. */
#define ESRCH  3
#define ENOENT 2
#define ENOMEM 12
#define EBUSY  16
#define EINVAL 22

#define __always_inline inline __attribute__((always_inline))
#define __noinline	__attribute__((noinline))
#define __kptr
#define __arg_trusted
#define SEC(name)
#define READ_ONCE(x)			    (*(volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, v)		    (*(volatile typeof(x) *)&(x) = (v))
#define container_of(pointer, type, member) ((type *)((char *)(pointer) - offsetof(type, member)))

#define BPF_PROG(name, args...)			name(args)
#define BPF_STRUCT_OPS(name, args...)		name(args)
#define BPF_STRUCT_OPS_SLEEPABLE(name, args...) name(args)
#define SCX_OPS_DEFINE(name, args...)		struct sched_ext_ops name = {args}

/* A map is a structure whose members carry its parameters as types. */
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name
#define sim_uint(field)	    (sizeof(*(field)) / sizeof(int))

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERF_EVENT_ARRAY = 4,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

#define BPF_F_NO_PREALLOC	       1
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1ull

#define sim_map_lookup(map, at, cpu)                                                                         \
	((typeof((map)->value))sim_host->map_lookup(sim_kernel, map, sim_uint((map)->type),                  \
						    sim_uint((map)->max_entries), sizeof(*(map)->key),       \
						    sizeof(*(map)->value), at, cpu))
#define bpf_map_lookup_elem(map, at)		 sim_map_lookup(map, at, -1)
#define bpf_map_lookup_percpu_elem(map, at, cpu) sim_map_lookup(map, at, cpu)
#define bpf_task_storage_get(map, p, init, flags)                                                            \
	((typeof((map)->value))sim_task_storage_get(map, p, sizeof(*(map)->value), flags))
#define bpf_ringbuf_reserve(map, size, flags)		   sim_host->ringbuf_reserve(sim_kernel, map, size)
#define bpf_ringbuf_submit(record, flags)		   sim_host->ringbuf_submit(sim_kernel, record)
#define bpf_perf_event_read_value(map, index, value, size) sim_host->perf_read(sim_kernel, index, value)

static __always_inline void *sim_task_storage_get(void *map, struct task_struct *p, size_t size, u64 flags)
{
	if (p->sim_storage || !flags)
		return p->sim_storage;
	return sim_host->task_storage(sim_kernel, map, p, size, flags);
}

/* Versions and configurations that bpf/ queries; the engine sets them. */
extern u32 sim_linux_version __attribute__((visibility("hidden")));
extern bool sim_preempt_rcu __attribute__((visibility("hidden")));
extern bool __scx_prolog_disables_migration __attribute__((visibility("hidden")));
#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + (c))
#define LINUX_KERNEL_VERSION	sim_linux_version
/*
 * All fields exist, except the one that a configuration without preemptible RCU
 * lacks.
 */
#define bpf_core_field_exists(field...)                                                                      \
	(!__builtin_strstr(#field, "rcu_read_lock_nesting") || sim_preempt_rcu)
#define bpf_core_enum_value(type, value) ((type)value)
#define BPF_CORE_READ_1(from, a)	 ((from)->a)
#define BPF_CORE_READ_2(from, a, b)	 ((from)->a->b)
#define sim_third(a, b, name, ...)	 name
#define BPF_CORE_READ(from, path...)	 sim_third(path, BPF_CORE_READ_2, BPF_CORE_READ_1)(from, path)

/* Loops. */
#define bpf_for(i, start, end)                                                                               \
	for (s64 ___at = (start), ___end = (end); ___at < ___end && (sim_steps++, (i) = ___at, true); ___at++)

static inline struct task_struct *sim_iter_next_scx_dsq(struct sim_iter_scx_dsq *iter)
{
	sim_steps++;
	return sim_host->iter_next(sim_kernel, iter);
}

#define bpf_for_each(type, p, id, flags)                                                                     \
	for (struct sim_iter_##type ___iter = {id, sim_host->iter_begin(sim_kernel, id), flags};             \
	     ((p) = sim_iter_next_##type(&___iter));)
#define BPF_FOR_EACH_ITER (&___iter)
#define bpf_iter_scx_dsq  sim_iter_scx_dsq

/* Masks. bpf/ reads masks that other CPUs change. */
#define cast_mask(mask) (&(mask)->cpumask)

static inline bool bpf_cpumask_test_cpu(u32 cpu, struct cpumask *mask)
{
	return cpu < SIM_NR_CPUS && (mask->bits[cpu / 64] >> (cpu % 64) & 1);
}

static inline u32 bpf_cpumask_first(const struct cpumask *mask)
{
	for (u32 i = 0; i < SIM_NR_CPUS / 64; i++) {
		if (mask->bits[i])
			return i * 64 + __builtin_ctzl(mask->bits[i]);
	}
	return SIM_NR_CPUS;
}

static inline void bpf_cpumask_set_cpu(u32 cpu, struct bpf_cpumask *mask)
{
	sim_host->point(sim_kernel);
	if (cpu < SIM_NR_CPUS)
		mask->cpumask.bits[cpu / 64] |= 1ul << (cpu % 64);
}

static inline void bpf_cpumask_clear_cpu(u32 cpu, struct bpf_cpumask *mask)
{
	sim_host->point(sim_kernel);
	if (cpu < SIM_NR_CPUS)
		mask->cpumask.bits[cpu / 64] &= ~(1ul << (cpu % 64));
}

static inline bool bpf_cpumask_and(struct bpf_cpumask *to, struct cpumask *a, struct cpumask *b)
{
	unsigned long any = 0;

	sim_host->point(sim_kernel);
	for (int i = 0; i < SIM_NR_CPUS / 64; i++)
		any |= to->cpumask.bits[i] = a->bits[i] & b->bits[i];
	return any;
}

static inline bool bpf_cpumask_intersects(struct cpumask *a, struct cpumask *b)
{
	for (int i = 0; i < SIM_NR_CPUS / 64; i++) {
		if (a->bits[i] & b->bits[i])
			return true;
	}
	return false;
}

static inline bool bpf_cpumask_empty(struct cpumask *mask)
{
	return !bpf_cpumask_intersects(mask, mask);
}

#define bpf_cpumask_create()	  sim_host->mask_create(sim_kernel)
#define bpf_cpumask_release(mask) sim_host->mask_release(sim_kernel, mask)
#define bpf_kptr_xchg(at, new)	  __atomic_exchange_n(at, new, __ATOMIC_SEQ_CST)

/* Helpers. */
#define bpf_get_smp_processor_id()	    sim_host->this_cpu(sim_kernel)
#define bpf_per_cpu_ptr(symbol, cpu)	    sim_host->rq(sim_kernel, cpu)
#define bpf_get_current_task_btf()	    sim_host->current(sim_kernel)
#define bpf_probe_read_user(to, size, from) sim_host->user_word(sim_kernel, to)
#define bpf_ktime_get_ns()		    sim_host->ktime_ns(sim_kernel)
#define bpf_jiffies64()			    sim_host->jiffies(sim_kernel)
#define CLOCK_MONOTONIC			    1
#define bpf_timer_init(timer, map, clock)   sim_host->timer_init(sim_kernel, timer, map)
#define bpf_timer_set_callback(timer, call) sim_host->timer_set(sim_kernel, timer, call)
#define bpf_timer_start(timer, ns, flags)   sim_host->timer_start(sim_kernel, timer, ns)
#define bpf_task_from_pid(pid)		    sim_host->from_pid(sim_kernel, pid)
#define bpf_task_release(p)		    sim_host->task_put(sim_kernel, p)
#define bpf_rcu_read_lock()		    ((void)0)
#define bpf_rcu_read_unlock()		    ((void)0)
#define bpf_seq_write(seq, data, n)	    sim_host->seq_write(sim_kernel, data, n)

/* kfuncs. */
#define scx_bpf_create_dsq(dsq, node)		 sim_host->create_dsq(sim_kernel, dsq, node)
#define scx_bpf_dsq_insert(p, dsq, slice, flags) sim_host->insert(sim_kernel, p, dsq, slice, flags)
#define scx_bpf_dsq_insert_vtime(p, dsq, slice, vtime, flags)                                                \
	sim_host->insert_vtime(sim_kernel, p, dsq, slice, vtime, flags)
#define scx_bpf_dsq_move_to_local(dsq, flags)	    sim_host->move_to_local(sim_kernel, dsq)
#define scx_bpf_dsq_move_set_vtime(iter, vtime)	    ((iter)->moved_vtime = (vtime))
#define scx_bpf_dsq_move(iter, p, dsq, flags)	    sim_host->move_task(sim_kernel, iter, p, dsq, false)
#define scx_bpf_dsq_move_vtime(iter, p, dsq, flags) sim_host->move_task(sim_kernel, iter, p, dsq, true)
#define scx_bpf_dsq_nr_queued(dsq)		    sim_host->nr_queued(sim_kernel, dsq)
#define scx_bpf_reenqueue_local()		    sim_host->reenqueue_local(sim_kernel)
#define scx_bpf_kick_cpu(cpu, flags)		    sim_host->kick_cpu(sim_kernel, cpu, flags)
#define scx_bpf_pick_idle_cpu(mask, flags)	    sim_host->pick_idle_cpu(sim_kernel, mask, flags)
#define scx_bpf_test_and_clear_cpu_idle(cpu)	    sim_host->test_and_clear_cpu_idle(sim_kernel, cpu)
#define scx_bpf_get_idle_cpumask()		    sim_host->idle_cpumask(sim_kernel)
#define scx_bpf_get_idle_smtmask()		    sim_host->idle_smtmask(sim_kernel)
#define scx_bpf_cpuperf_cap(cpu)		    sim_host->cpuperf_cap(sim_kernel, cpu)
#define scx_bpf_cpuperf_set(cpu, target)	    sim_host->cpuperf_set(sim_kernel, cpu, target)
#define scx_bpf_put_idle_cpumask(mask)		    ((void)(mask))
#define scx_bpf_task_cpu(p)			    ((s32)(p)->thread_info.cpu)
#define scx_bpf_task_set_slice(p, value)	    ((p)->scx.slice = (value))
#define scx_bpf_task_set_dsq_vtime(p, value)	    ((p)->scx.dsq_vtime = (value))

static inline void sim_print(char *line)
{
	sim_host->print(sim_kernel, line);
}

#define scx_bpf_dump(args...)                                                                                \
	({                                                                                                   \
		char ___line[512];                                                                           \
		snprintf(___line, sizeof(___line), args);                                                    \
		sim_print(___line);                                                                          \
	})

struct user_exit_info {
	int kind;
};
#define UEI_DEFINE(name)       struct user_exit_info name
#define UEI_RECORD(name, info) ((name).kind = (info)->kind)

/* Contexts of iterators. */
struct seq_file {
	int unused;
};
struct bpf_iter_meta {
	struct seq_file *seq;
};
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#endif
