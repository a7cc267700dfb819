/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the BPF side and the agent share: limits, the per-CPU description that the agent writes, the
 * statistics that BPF writes. Both compile this file; lib/policy asserts the sizes.
 */
#ifndef BIAS_ABI_H
#define BIAS_ABI_H

#include "capacity.h"
#include "dsq.h"

#define BIAS_MAX_CPUS	1024
#define BIAS_MAX_LLCS	256
#define BIAS_CACHE_LINE 64

/*
 * What the agent knows of a CPU. Written before attach; a CPU that the agent did not describe has nr 0.
 */
struct bias_cpu_info {
	struct bias_cost cost; /* time per unit of work [permille of the best CPU] */
	u32 class_;	       /* enum bias_class */
	u32 llc;	       /* index of its last-level cache, 0 to nr_llcs - 1 */
	u32 node;	       /* NUMA node */
	u32 known;	       /* 1 once described */
};

/*
 * Event counters, one array per CPU, written by that CPU alone. Keep in step with bias_stat names in
 * the agent.
 */
enum bias_stat {
	BIAS_STAT_SELECT_PREV,	   /* wakeups placed on the previous CPU */
	BIAS_STAT_SELECT_FAST,	   /* wakeups placed on another idle fast CPU */
	BIAS_STAT_SELECT_SLOW,	   /* wakeups placed on another idle slow CPU */
	BIAS_STAT_SELECT_SYNC,	   /* wakeups placed behind their waker */
	BIAS_STAT_ENQ_SHARED,	   /* tasks queued in a (LLC, class) queue */
	BIAS_STAT_ENQ_PINNED,	   /* tasks queued for their only CPU */
	BIAS_STAT_ENQ_LOCAL,	   /* tasks sent straight to a CPU by enqueue */
	BIAS_STAT_WAKE_PREEMPT,	   /* wakeups that preempted a task ahead of them */
	BIAS_STAT_DISPATCH_OWN,	   /* tasks taken from the CPU's own class */
	BIAS_STAT_DISPATCH_OTHER,  /* tasks taken from the other class */
	BIAS_STAT_DISPATCH_REMOTE, /* tasks taken from another LLC */
	BIAS_STAT_DISPATCH_PINNED, /* tasks taken from the CPU's own pinned queue */
	BIAS_STAT_KEEP,		   /* slices renewed because nothing else waited */
	BIAS_STAT_PULL,		   /* running tasks asked to move from a slow CPU to an idle fast one */
	BIAS_STAT_ROTATE,	   /* running tasks asked to change places for equal progress */
	BIAS_STAT_MOVED,	   /* such requests carried out */
	BIAS_STAT_RUN_FAST_NS,	   /* time tasks ran on fast CPUs [ns] */
	BIAS_STAT_RUN_SLOW_NS,	   /* time tasks ran on slow CPUs [ns] */
	BIAS_STAT_GROUPS_IGNORED,  /* tasks in cgroups beyond the table, scheduled by their own weight */
	BIAS_NR_STATS,
};

#endif
