/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * The interface of a compiled copy of the scheduler to the engine: its
 * callbacks, its programs, and the globals that the agent writes or reads.
 */
#ifndef SIM_UNIT_H
#define SIM_UNIT_H

#include "host.h"
#include "bias/abi.h"

struct cpu_ctx;
struct slow_list;
struct group_ctx;
struct llc_ctx;

struct sim_unit {
	/* Sizes of the types, which the engine compares with its own. */
	size_t host_size, unit_size, task_size, cpu_ctx_size;
	/* Offsets of fields that the engine reads. */
	size_t weight_at, move_to_at;

	struct sched_ext_ops *ops;
	int (*count_switch)(bool preempt, struct task_struct *prev, struct task_struct *next);
	int (*count_tick)(void);
	int (*release_switch)(bool preempt, struct task_struct *prev, struct task_struct *next);
	int (*cpu_leaves)(u32 cpu, int target, int step);
	int (*cpu_stays)(u32 cpu, int state, int step, int err);
	int (*table_replace)(void *ctx);
	int (*task_query)(struct bias_task_state *ctx);
	int (*swap_ask)(struct bias_swap_request *ctx);

	/* constants */
	volatile u32 *nr_cpus, *nr_llcs, *nr_nodes, *agent_tgid;
	volatile bool *smt_active, *nohz_full, *two_classes, *counting, *partial, *limited, *moving;
	/* knobs */
	volatile u64 *slice_ns, *slice_min_ns, *rotate_gap_ns, *sync_burst_ns, *window_instructions,
	    *steal_lag_ns, *unfair_gap_ns;
	volatile u32 *max_unfairness_permille, *sample_every, *gain_permille, *fixed_low, *fixed_high;
	/* tables */
	struct bias_cpu_info *cpu_info;
	struct bias_speed *speeds;
	struct bias_cost (*class_costs)[BIAS_NR_CLASSES];
	struct slow_list *slow_lists;
	u32 *fast_sibling_first, *tiers_used, *near_tiers, *table_seq, *hints_epoch;
	/* state, to observe */
	struct cpu_ctx *cpu_ctxs;
	struct llc_ctx *llc_ctxs;
	struct group_ctx *groups;
	u32 nr_groups;
	u64 *vtime_now, *total_weight;
	u64 *steps, *atomics;

	/* configuration of the kernel */
	u32 *linux_version;
	bool *preempt_rcu, *prolog_disables_migration;
};

/* Connect this copy with an engine. The only exported symbol. */
struct sim_unit *sim_open(struct sim_host *host, void *kernel);

#endif
