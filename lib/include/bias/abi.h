/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/* What the BPF side and the agent share. lib/policy asserts the sizes. */
#ifndef BIAS_ABI_H
#define BIAS_ABI_H

#include "profile.h"
#include "cost.h"
#include "dsq.h"
#include "hint.h"
#include "swap.h"

#define BIAS_MAX_CPUS	1024
#define BIAS_MAX_LLCS	256
#define BIAS_MAX_NODES	64
#define BIAS_CACHE_LINE 64

#define BIAS_MAX_OPTED_IN 1024

/* What a CPU is, apart from its speed. The agent writes it. */
struct bias_cpu_info {
	/* Index of its LLC, 0 to nr_llcs - 1. The agent joins small ones. */
	u32 llc;
	u32 node;	       /* NUMA node */
	u16 known;	       /* 1 once described */
	u16 nohz_full;	       /* 1 if a single task stops its tick */
	u32 counters;	       /* bits of enum bias_counter that can be read */
	u32 external_permille; /* stall cycles per 1000 external counts */
	u32 internal_permille; /* the same for internal stalls */
	/* Next CPU in the ring of this core's CPUs, online at the start. */
	u32 sibling;
	u32 next; /* next CPU in the ring of its LLC's CPUs */
};

/* A CPU's entry in the capacity table. */
struct bias_speed {
	struct bias_cost cost; /* alone on its core [permille] */
	/* Cost while its siblings are busy: never less; equal if none. */
	struct bias_cost shared;
	u32 cpu_class; /* enum bias_class */
	u32 tier;      /* type of its core, from BIAS_CLASS_TIERS times class */
};

#define BIAS_CLASS_TIERS 2 /* at most; tier 0 is the best, some may be empty */
#define BIAS_NR_TIERS	 4

#define BIAS_TABLE_COPIES 2 /* CPUs read one while the agent writes the other */

/* Counters of a CPU, in their order in the map of events. */
enum bias_counter {
	BIAS_COUNTER_CYCLES,
	BIAS_COUNTER_INSTRUCTIONS,
	BIAS_COUNTER_EXTERNAL,
	BIAS_COUNTER_INTERNAL,
	BIAS_NR_COUNTERS,
};

/* Reason of a task's last migration while it ran. */
enum bias_reason {
	BIAS_REASON_NONE,
	BIAS_REASON_PULL,   /* an idle CPU pulled it */
	BIAS_REASON_ROTATE, /* rotation, to a fast or to a slow CPU */
	BIAS_REASON_GAIN,   /* it gains more than the task that it replaced */
	BIAS_REASON_YIELD,  /* it gains less than the task that replaced it */
	BIAS_REASON_SWAP,   /* planned swap */
};

/* State of one task, as the iterator over tasks prints it. */
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

enum bias_follow {
	BIAS_FOLLOW_INSIDE = 1,	  /* it is opted in */
	BIAS_FOLLOW_RELEASED = 2, /* it was; threads may still be SCHED_EXT */
};

/* Reasons to check a thread while only some cgroups are opted in. */
enum bias_event_type {
	/* It is inside, or about to be, and need not be SCHED_EXT. */
	BIAS_EVENT_INSIDE,
	/* It leaves a followed cgroup, or a thread in one forked it outside. */
	BIAS_EVENT_LEFT,
	/* A thread outside forked it outside, and it is SCHED_EXT. */
	BIAS_EVENT_FORKED,
};

struct bias_event {
	u64 start_ns;	    /* start of its process since boot */
	u64 maker_start_ns; /* start of the process that forked it, or 0 */
	u32 process;	    /* tgid of its process */
	u32 maker;
	u32 type; /* enum bias_event_type */
	u32 pad;
};

_Static_assert(sizeof(struct bias_event) == 32, "events are sent as they lie: without padding");

/* The build derives the agent's names and descriptions from this list. */
enum bias_stat {
	BIAS_STAT_SELECT_PREV,	   /* wakeups placed on the previous CPU */
	BIAS_STAT_SELECT_FAST,	   /* wakeups placed on another idle fast CPU */
	BIAS_STAT_SELECT_SLOW,	   /* wakeups placed on another idle slow CPU */
	BIAS_STAT_SELECT_SYNC,	   /* wakeups left on their waker's CPU */
	BIAS_STAT_ENQ_SHARED,	   /* tasks queued in a shared DSQ */
	BIAS_STAT_ENQ_PINNED,	   /* tasks queued for their only CPU */
	BIAS_STAT_ENQ_LOCAL,	   /* tasks that enqueue put in a local DSQ */
	BIAS_STAT_WAKE_PREEMPT,	   /* wakeups that preempted a task ahead */
	BIAS_STAT_DISPATCH_OWN,	   /* tasks taken from the CPU's own class */
	BIAS_STAT_DISPATCH_OTHER,  /* tasks taken from the other class */
	BIAS_STAT_DISPATCH_REMOTE, /* tasks taken from another LLC */
	BIAS_STAT_DISPATCH_PINNED, /* tasks taken from the CPU's pinned DSQ */
	BIAS_STAT_KEEP,		   /* slices renewed: no other task was due */
	BIAS_STAT_PULL,		   /* pulls requested by CPUs about to idle */
	BIAS_STAT_ROTATE,	   /* rotations requested */
	BIAS_STAT_MOVED,	   /* move requests carried out */
	BIAS_STAT_RUN_FAST_NS,	   /* run time on fast CPUs [ns] */
	BIAS_STAT_RUN_SLOW_NS,	   /* run time on slow CPUs [ns] */
	BIAS_STAT_SWAP_GAIN,	   /* gain swaps requested */
	BIAS_STAT_STOLEN,	   /* tasks stolen from the other class */
	BIAS_STAT_COUNTED,	   /* intervals counted */
	/* counted intervals dropped: too short, backwards or wrapped */
	BIAS_STAT_COUNT_INVALID,
	BIAS_STAT_COUNT_FAILED,	  /* counters that could not be read */
	BIAS_STAT_WINDOWS,	  /* windows closed */
	BIAS_STAT_BIAS_CHANGES,	  /* changes of a task's bias */
	BIAS_STAT_GROUPS_IGNORED, /* lookups of cgroups beyond the table */
	BIAS_STAT_SWAP_ASKED,	  /* planned swaps requested */
	/* planned swaps that no longer held when they were checked */
	BIAS_STAT_SWAP_REFUSED,
	/* planned swaps that no longer held when a CPU carried them out */
	BIAS_STAT_SWAP_LATE,
	/* tasks put back after a higher scheduling class took their CPU */
	BIAS_STAT_RELEASED,
	/* tasks held back because cpu.max of their cgroup is used up */
	BIAS_STAT_THROTTLED,
	BIAS_STAT_HINTS,     /* changes of class that programs announced */
	BIAS_STAT_HINT_SWAP, /* swaps that tasks requested at a mark */
	BIAS_STAT_UNTICKED,  /* starts without a tick on CPUs of nohz_full */
	BIAS_STAT_SPUN,	     /* counted intervals in which a task only spun */
	BIAS_STAT_OVERDUE,   /* tasks that went first after a long wait */
	BIAS_NR_STATS,
};

#endif
