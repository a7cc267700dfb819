/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Interface of planned swaps to the agent, and record of a task's recent speed.
 *
 * Problem
 * The verdict on a swap compares both tasks before and after it, by
 * instructions per run time on the old and the new CPU. Sums since a task's
 * start would mix phases and CPUs.
 *
 * Approach
 * A task has a sum for each class of CPUs, so that it has both rates even if it
 * is often preempted and migrated. A sum over more than BIAS_WORK_NS is halved.
 * A window that unsettles the profile empties both: a task is often swapped
 * just when it has changed. A planned swap empties that of the new class.
 *
 * Invariants
 * Halving keeps a steady rate to a part in a million. Work on one class leaves
 * the other's sum alone. A sum covers at most BIAS_WORK_NS and an interval.
 *
 * Limits
 * CPUs of a class count as equal. A sum may be as old as the task's last run on
 * that class, if the task has not changed since.
 */
#ifndef BIAS_SWAP_H
#define BIAS_SWAP_H

#include "profile.h"
#include "dsq.h"

struct bias_work {
	u64 instructions[BIAS_NR_CLASSES];
	u64 ran_ns[BIAS_NR_CLASSES]; /* time over which these were counted */
};

#define BIAS_WORK_NS 200000000ull /* run time after which a sum is halved */

static inline void bias_work_add(struct bias_work *work, u64 instructions, u64 ran_ns,
				 enum bias_class cpu_class)
{
	if (work->ran_ns[cpu_class] > BIAS_WORK_NS) {
		work->instructions[cpu_class] /= 2;
		work->ran_ns[cpu_class] /= 2;
	}
	work->instructions[cpu_class] += instructions;
	work->ran_ns[cpu_class] += ran_ns;
}

static inline void bias_work_forget(struct bias_work *work, enum bias_class cpu_class)
{
	work->instructions[cpu_class] = 0;
	work->ran_ns[cpu_class] = 0;
}

/* Answer of bias_task_query about one task; the caller sets @pid. */
struct bias_task_state {
	u64 start_ns; /* start since boot; with pid, its identity */
	u64 moved_ns; /* when it last migrated by request; 0: never */
	u64 lost_ns;  /* total time lost by such migrations */
	struct bias_work work;
	struct bias_profile profile;
	u32 pid;
	u32 tgid;
	u32 cpu;   /* where it runs, or ran last */
	u32 flags; /* enum bias_look_flags */
	char comm[16];
	u32 pad;
};

_Static_assert(sizeof(struct bias_task_state) == 120, "looks are handed over as they lie: without padding");

enum bias_look_flags {
	BIAS_TASK_RUNNABLE = 1, /* it runs or waits for its CPU */
	BIAS_TASK_MOVABLE = 2,	/* it may run on several CPUs */
	BIAS_TASK_ANYWHERE = 4, /* it may run on all CPUs */
	BIAS_TASK_SWAPPED = 8,	/* moved_ns is that of a planned swap */
};

/* Request to bias_swap_ask: the tasks of a slow and of a fast CPU that swap. */
struct bias_swap_request {
	u64 up_start_ns;
	u64 down_start_ns;
	u32 up_pid;
	u32 up_cpu; /* slow */
	u32 down_pid;
	u32 down_cpu; /* fast */
};

enum bias_swap_answer {
	BIAS_SWAP_ASKED,     /* requested; the CPUs may still drop it */
	BIAS_SWAP_NO_PAIR,   /* not a slow and a fast CPU of one node */
	BIAS_SWAP_GONE,	     /* a task has ended, or its pid was reused */
	BIAS_SWAP_UNTRACKED, /* a task is unknown to this scheduler */
	BIAS_SWAP_ELSEWHERE, /* a task is no longer resident on its CPU */
	BIAS_SWAP_CONFINED,  /* a task must not migrate there, or not now */
	BIAS_SWAP_BUSY,	     /* a CPU has another request pending */
	BIAS_SWAP_BIAS,	     /* the slow CPU's task no longer gains more */
	BIAS_SWAP_LAG,	     /* the fast CPU's task makes up for lag */
	BIAS_NR_SWAP_ANSWERS,
};

#endif
