// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
/*
 * The scheduler as one translation unit for the host: all of bpf/, unmodified,
 * and the table through which the engine reaches it.
 */
#include "unit.h"
#include <scx/common.bpf.h>

/* The BPF loader writes constants before the start, and so does the engine. */
#define const
#include "main.bpf.c"
#undef const

struct sim_host *sim_host;
void *sim_kernel;
u64 sim_steps, sim_atomics;
u32 sim_linux_version;
bool sim_preempt_rcu;
bool __scx_prolog_disables_migration;

static struct sim_unit unit = {
    .host_size = sizeof(struct sim_host),
    .unit_size = sizeof(struct sim_unit),
    .task_size = sizeof(struct task_struct),
    .cpu_ctx_size = sizeof(struct cpu_ctx),
    .weight_at = offsetof(struct cpu_ctx, weight),
    .move_to_at = offsetof(struct cpu_ctx, move_to),
    .ops = &bias_ops,
    .count_switch = bias_count_switch,
    .count_tick = bias_count_tick,
    .release_switch = bias_release,
    .cpu_leaves = bias_cpu_leaves,
    .cpu_stays = bias_cpu_stays,
    .table_replace = bias_table_replace,
    .task_query = bias_task_query,
    .swap_ask = bias_swap_ask,
    .nr_cpus = &nr_cpus,
    .nr_llcs = &nr_llcs,
    .nr_nodes = &nr_nodes,
    .agent_tgid = &agent_tgid,
    .smt_active = &smt_active,
    .nohz_full = &nohz_full,
    .two_classes = &two_classes,
    .counting = &counting,
    .partial = &partial,
    .limited = &limited,
    .moving = &moving,
    .slice_ns = &slice_ns,
    .slice_min_ns = &slice_min_ns,
    .rotate_gap_ns = &rotate_gap_ns,
    .sync_burst_ns = &sync_burst_ns,
    .window_instructions = &window_instructions,
    .steal_lag_ns = &steal_lag_ns,
    .unfair_gap_ns = &unfair_gap_ns,
    .max_unfairness_permille = &max_unfairness_permille,
    .sample_every = &sample_every,
    .gain_permille = &gain_permille,
    .fixed_low = &fixed_low,
    .fixed_high = &fixed_high,
    .cpu_info = cpu_info,
    .speeds = speeds,
    .class_costs = class_costs,
    .slow_lists = slow_lists,
    .fast_sibling_first = fast_sibling_first,
    .tiers_used = tiers_used,
    .near_tiers = near_tiers,
    .table_seq = &table_seq,
    .hints_epoch = &hints_epoch,
    .cpu_ctxs = cpu_ctxs,
    .llc_ctxs = llc_ctxs,
    .groups = groups,
    .nr_groups = MAX_GROUPS,
    .vtime_now = &vtime_now,
    .total_weight = &total_weight,
    .steps = &sim_steps,
    .atomics = &sim_atomics,
    .linux_version = &sim_linux_version,
    .preempt_rcu = &sim_preempt_rcu,
    .prolog_disables_migration = &__scx_prolog_disables_migration,
};

/* Its stores come before there is an engine to report them to. */
__attribute__((visibility("default"), no_sanitize("coverage"))) struct sim_unit *
sim_open(struct sim_host *host, void *kernel)
{
	sim_host = host;
	sim_kernel = kernel;
	return &unit;
}

/*
 * Undefined behaviour that BPF defines. BPF's x / 0 is 0, and a shift counts
 * modulo the width. The policy claims to need neither, so both end the run and
 * report the place. The compiler calls these functions (-fsanitize).
 */
struct sim_place {
	const char *file;
	u32 line, column;
};

void __ubsan_handle_divrem_overflow(struct sim_place *place, u64 left, u64 right)
{
	sim_host->fatal(sim_kernel, "a division by zero, or one that overflows", place->file, place->line);
}

void __ubsan_handle_shift_out_of_bounds(struct sim_place *place, u64 left, u64 right)
{
	sim_host->fatal(sim_kernel, "a shift beyond the width", place->file, place->line);
}

/*
 * Calls at each access to memory, if the compiler inserts them. Accesses to
 * globals of bpf/ are points where another CPU may run in between. Its own
 * stack, tables of the engine and read-only data are not.
 */
#ifdef SIM_TRACED
extern char __bss_start[], _end[];

__attribute__((no_sanitize("coverage"))) static void sim_access(void *address, bool store)
{
	if ((char *)address < __bss_start || (char *)address >= _end)
		return;
	sim_host->point(sim_kernel);
	if (store)
		sim_host->store(sim_kernel, address);
}

#define SIM_ACCESS(size)                                                                                     \
	__attribute__((no_sanitize("coverage"))) void __sanitizer_cov_load##size(void *address)              \
	{                                                                                                    \
		sim_access(address, false);                                                                  \
	}                                                                                                    \
	__attribute__((no_sanitize("coverage"))) void __sanitizer_cov_store##size(void *address)             \
	{                                                                                                    \
		sim_access(address, true);                                                                   \
	}

SIM_ACCESS(1)
SIM_ACCESS(2)
SIM_ACCESS(4)
SIM_ACCESS(8)
SIM_ACCESS(16)
#endif
