/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * The kernel's types as far as bpf/ uses them: same names, same meanings, only
 * the fields that bpf/ reads or writes. Code that uses another field does not
 * compile, and the compiler names the field.
 *
 * The engine, in Rust, is bound to this file. It owns every object of these
 * types.
 */
#ifndef SIM_KERNEL_H
#define SIM_KERNEL_H

/* bias/types.h then takes the integer types from here, as from vmlinux.h. */
#define __VMLINUX_H__

#include <stdbool.h>
#include <stddef.h>

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;
typedef int s32;
typedef long s64;
typedef int pid_t;

/* CPUs of a mask: the kernel's NR_CPUS. */
#define SIM_NR_CPUS 1024

struct cpumask {
	unsigned long bits[SIM_NR_CPUS / 64];
};

struct bpf_cpumask {
	struct cpumask cpumask;
};

struct thread_info {
	u32 cpu;
};

struct sched_entity {
	u64 exec_start;
	u64 sum_exec_runtime;
};

struct sched_ext_entity {
	u32 flags;
	u32 weight;
	u64 slice;
	u64 dsq_vtime;
	unsigned long runnable_at;
};

struct cgroup_subsys_state {
	int id;
	u64 serial_nr;
	struct cgroup_subsys_state *parent;
};

struct cfs_bandwidth {
	s64 period;
	u64 quota;
	u64 burst;
};

struct task_group {
	struct cgroup_subsys_state css;
	unsigned long shares;
	struct task_group *parent;
	struct cfs_bandwidth cfs_bandwidth;
};

/* A timer of BPF code. The engine knows it by its address. */
struct bpf_timer {
	u64 unused;
};
typedef int (*bpf_timer_callback)(void *map, int *key, struct bpf_timer *timer);

struct kernfs_node {
	u64 id;
};

struct cgroup_root {
	int hierarchy_id;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
	struct cgroup_root *root;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct mempolicy {
	u16 mode;
};

struct task_struct {
	struct thread_info thread_info;
	u32 __state;
	u32 flags;
	int prio;
	u32 policy;
	u16 migration_disabled;
	int nr_cpus_allowed;
	const struct cpumask *cpus_ptr;
	pid_t pid;
	pid_t tgid;
	u64 start_boottime;
	struct task_struct *group_leader;
	struct css_set *cgroups;
	struct task_group *sched_task_group;
	struct mempolicy *mempolicy;
	struct sched_entity se;
	struct sched_ext_entity scx;
	char comm[16];

	/* Of the engine: the task's index, its affinity, and its storage. */
	u32 sim_id;
	struct cpumask cpus_mask;
	void *sim_storage;
};

/* Task flags. */
#define PF_EXITING 0x00000004
#define PF_KTHREAD 0x00200000

/* A runqueue, as far as it tells which tasks are not of sched_ext. */
struct scx_rq {
	u32 nr_running;
};

struct rq {
	unsigned int nr_running;
	struct scx_rq scx;
};

struct scx_init_task_args {
	bool fork;
};

/* The last step of a CPU that goes offline which only changes masks. */
enum cpuhp_state {
	CPUHP_AP_ACTIVE = 234,
};

enum scx_cpu_preempt_reason {
	SCX_CPU_PREEMPT_RT,
	SCX_CPU_PREEMPT_DL,
	SCX_CPU_PREEMPT_STOP,
	SCX_CPU_PREEMPT_UNKNOWN,
};

struct scx_cpu_release_args {
	enum scx_cpu_preempt_reason reason;
	struct task_struct *task;
};

struct scx_exit_info {
	int kind;
};

struct scx_dump_ctx {
	u64 at_ns;
};

struct bpf_perf_event_value {
	u64 counter;
	u64 enabled;
	u64 running;
};

/* Values of include/linux/sched/ext.h and kernel/sched/ext_internal.h. */
#define SCX_DSQ_FLAG_BUILTIN   (1ull << 63)
#define SCX_DSQ_FLAG_LOCAL_ON  (1ull << 62)
#define SCX_DSQ_GLOBAL	       (SCX_DSQ_FLAG_BUILTIN | 1)
#define SCX_DSQ_LOCAL	       (SCX_DSQ_FLAG_BUILTIN | 2)
#define SCX_DSQ_LOCAL_ON       (SCX_DSQ_FLAG_BUILTIN | SCX_DSQ_FLAG_LOCAL_ON)
#define SCX_DSQ_LOCAL_CPU_MASK 0xffffffffull

#define SCX_ENQ_WAKEUP	     1ull
#define SCX_ENQ_HEAD	     (1ull << 4)
#define SCX_ENQ_CPU_SELECTED (1ull << 10)
#define SCX_ENQ_PREEMPT	     (1ull << 32)
#define SCX_ENQ_REENQ	     (1ull << 40)
#define SCX_ENQ_LAST	     (1ull << 41)

#define SCX_WAKE_FORK 4ull
#define SCX_WAKE_TTWU 8ull
#define SCX_WAKE_SYNC 16ull

#define SCX_KICK_IDLE	   1ull
#define SCX_KICK_PREEMPT   2ull
#define SCX_KICK_WAIT	   4ull
#define SCX_PICK_IDLE_CORE 1ull

#define SCX_DSQ_ITER_REV (1u << 16)

#define SCX_OPS_ENQ_LAST       (1ull << 1)
#define SCX_OPS_SWITCH_PARTIAL (1ull << 3)

#define SCX_TASK_QUEUED 1u
#define SCX_SLICE_DFL	20000000ull
#define SCX_SLICE_INF	(~0ull)
#define SCX_CPUPERF_ONE 1024ull

/* The callbacks of a scheduler. */
struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	bool (*yield)(struct task_struct *from, struct task_struct *to);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, bool runnable);
	void (*tick)(struct task_struct *p);
	void (*runnable)(struct task_struct *p, u64 enq_flags);
	void (*quiescent)(struct task_struct *p, u64 deq_flags);
	s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	void (*enable)(struct task_struct *p);
	void (*cpu_online)(s32 cpu);
	void (*cpu_offline)(s32 cpu);
	void (*cpu_release)(s32 cpu, struct scx_cpu_release_args *args);
	void (*dump)(struct scx_dump_ctx *ctx);
	void (*dump_cpu)(struct scx_dump_ctx *ctx, s32 cpu, bool idle);
	void (*dump_task)(struct scx_dump_ctx *ctx, struct task_struct *p);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u64 flags;
	u32 timeout_ms;
	const char *name;
};

#endif
