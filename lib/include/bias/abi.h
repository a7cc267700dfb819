/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the BPF side and the agent share: limits, the per-CPU description that the agent writes, the
 * statistics that BPF writes. Both compile this file; lib/policy asserts the sizes.
 */
#ifndef BIAS_ABI_H
#define BIAS_ABI_H

#include "bias.h"
#include "capacity.h"
#include "dsq.h"
#include "swap.h"

#define BIAS_MAX_CPUS	1024
#define BIAS_MAX_LLCS	256
#define BIAS_CACHE_LINE 64

/* Opted-in cgroups at most. */
#define BIAS_MAX_OPTED_IN 1024

/*
 * What the agent knows of a CPU and what does not change with its speed. Written before attach; a CPU that the agent did not
 * describe has known 0.
 */
struct bias_cpu_info {
	u32 llc;      /* index of its last-level cache, 0 to nr_llcs - 1 */
	u32 node;     /* NUMA node */
	u32 known;    /* 1 once described */
	u32 counters; /* which of its counters can be read: 1 << enum bias_counter; 0 if it is not counted */
	u32 external_permille; /* cycles of stall that a count of external stalls stands for */
	u32 internal_permille; /* the same for internal stalls */
	u32 sibling; /* next CPU of the same core that was online at the start, in a ring; itself if it has none */
};

/* A CPU's entry in the capacity table. */
struct bias_speed {
	struct bias_cost cost;	 /* time per unit of work, alone on its core [permille of the best CPU] */
	struct bias_cost shared; /* the same while its siblings are busy, never less; equal if it has none */
	u32 class_;		 /* enum bias_class */
	u32 pad;		 /* makes two copies of an entry a cache line */
};

/* The table is there twice: one copy is read while the other is written, see table.bpf.h. */
#define BIAS_TABLE_COPIES 2

/* The counters of a CPU, in the order of their places in the map of events. */
enum bias_counter {
	BIAS_COUNTER_CYCLES,
	BIAS_COUNTER_INSTRUCTIONS,
	BIAS_COUNTER_EXTERNAL,
	BIAS_COUNTER_INTERNAL,
	BIAS_NR_COUNTERS,
};

/* Why a task was last moved while it ran. */
enum bias_reason {
	BIAS_REASON_NONE,
	BIAS_REASON_PULL,   /* a fast CPU was idle */
	BIAS_REASON_ROTATE, /* its turn on a fast CPU, or another's */
	BIAS_REASON_GAIN,   /* it gains more from a fast CPU than who was there */
	BIAS_REASON_YIELD,  /* it gains less than who came */
	BIAS_REASON_SWAP,   /* the agent planned it */
};

/* What is known of one task, as the iterator over tasks prints it. */
struct bias_task_report {
	u64 fast_ns; /* time on fast CPUs */
	u64 slow_ns; /* time on slow CPUs */
	u32 pid;
	u32 tgid;
	u32 cpu; /* where it runs, or ran last */
	u32 running;
	u32 reason; /* enum bias_reason */
	struct bias_profile profile;
	char comm[16];
};

_Static_assert(sizeof(struct bias_task_report) == 80, "reports are printed as they lie: without padding");

/* What the agent follows a cgroup for. */
enum bias_follow {
	BIAS_FOLLOW_INSIDE = 1,	  /* it is opted in */
	BIAS_FOLLOW_RELEASED = 2, /* it was, and threads in it may still have our policy */
};

/* Why the agent should look at a thread, where only some cgroups are opted in. */
enum bias_hint_kind {
	BIAS_HINT_INSIDE, /* it is inside, or about to be, and need not have our policy */
	BIAS_HINT_LEFT,	  /* it leaves a cgroup that is followed, or was born outside of a thread in one */
	BIAS_HINT_BORN,	  /* it was born outside with our policy, of a thread outside */
};

struct bias_hint {
	u64 start_ns;	    /* when its process started, since boot */
	u64 maker_start_ns; /* and the process that made it, where that is told */
	u32 process;	    /* their numbers */
	u32 maker;
	u32 kind; /* enum bias_hint_kind */
	u32 pad;
};

_Static_assert(sizeof(struct bias_hint) == 32, "hints are sent as they lie: without padding");

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
	BIAS_STAT_SWAP_GAIN,	   /* running tasks asked to change places because one gains more */
	BIAS_STAT_BORROWED, /* tasks taken from the other class though the own one waited: they were far behind */
	BIAS_STAT_COUNTED,	  /* stretches of running that were counted */
	BIAS_STAT_COUNT_INVALID,  /* of these, dropped: not counted in full, backwards, or wrapped */
	BIAS_STAT_COUNT_FAILED,	  /* counters that could not be read */
	BIAS_STAT_WINDOWS,	  /* windows closed */
	BIAS_STAT_KIND_CHANGES,	  /* tasks whose kind changed */
	BIAS_STAT_GROUPS_IGNORED, /* tasks in cgroups beyond the table, scheduled by their own weight */
	BIAS_STAT_SWAP_ASKED,	  /* swaps that the agent planned and that were asked for */
	BIAS_STAT_SWAP_REFUSED,	  /* swaps that it planned and that no longer held when checked */
	BIAS_STAT_SWAP_LATE,	  /* swaps asked for that no longer held when they were to be carried out */
	BIAS_STAT_RELEASED,	  /* times a higher scheduling class took a CPU and its tasks were put back */
	BIAS_NR_STATS,
};

#endif
