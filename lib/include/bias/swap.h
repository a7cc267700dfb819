/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the agent and the BPF side say to each other about swaps, and how a task's recent speed is kept.
 *
 * Problem. Whether a swap paid is told by what both tasks did before and after it: instructions in a time of running, at the old
 * place and at the new one. Kept since the task began, such sums would mix phases and places.
 *
 * Approach. Two sums a task, one for each class of CPUs: who is displaced again and again, and so is now here and now there, has a rate for both. A
 * window that unsettles its profile empties them, for a task is often swapped just because its nature has changed; a swap that the agent asked for
 * empties that of the class to which the task goes, so that what is found there later was done after it. What was counted in more than
 * BIAS_WORK_NS of running is halved, so that a sum tells of the last BIAS_WORK_NS / 2 to BIAS_WORK_NS.
 *
 * Invariants (tests in lib/policy). A steady task's rate is kept by halving, to a part in a million. What is done on one class leaves the sum of the other
 * alone. A sum never covers more than BIAS_WORK_NS plus one stretch.
 *
 * Limits. CPUs of a class count as equal. A sum may be as old as the task's last run on that class, if the task has not changed since.
 */
#ifndef BIAS_SWAP_H
#define BIAS_SWAP_H

#include "bias.h"
#include "dsq.h"

/* What a task did of late on CPUs of each class. */
struct bias_work {
	u64 instructions[BIAS_NR_CLASSES];
	u64 ran_ns[BIAS_NR_CLASSES]; /* time in which these were counted */
};

/* More than this is not remembered [ns]. */
#define BIAS_WORK_NS 200000000ull

/* A stretch of @ran_ns with valid counts was run on a CPU of @class_. */
static inline void bias_work_add(struct bias_work *work, u64 instructions, u64 ran_ns, enum bias_class class_)
{
	if (work->ran_ns[class_] > BIAS_WORK_NS) {
		work->instructions[class_] /= 2;
		work->ran_ns[class_] /= 2;
	}
	work->instructions[class_] += instructions;
	work->ran_ns[class_] += ran_ns;
}

/* What the task did on CPUs of @class_ is no measure any more. */
static inline void bias_work_forget(struct bias_work *work, enum bias_class class_)
{
	work->instructions[class_] = 0;
	work->ran_ns[class_] = 0;
}

/* A task as bias_swap_look tells of it: @pid is asked for. */
struct bias_look {
	u64 start_ns; /* when it was started, since boot: with pid, who it is */
	u64 moved_ns; /* when it last changed its CPU while it ran, by the monotonic clock; 0: never */
	u64 lost_ns;  /* time that all such changes took from it */
	u64 allowed;  /* the first 64 CPUs of its affinity */
	struct bias_work work;
	struct bias_profile profile;
	u32 pid;
	u32 tgid;
	u32 cpu;   /* where it runs, or ran last */
	u32 flags; /* enum bias_look_flags */
	char comm[16];
	u32 pad;
};

_Static_assert(sizeof(struct bias_look) == 128, "looks are handed over as they lie: without padding");

enum bias_look_flags {
	BIAS_LOOK_RUNNABLE = 1, /* it runs or waits for its CPU */
	BIAS_LOOK_MOVABLE = 2,	/* it may run on several CPUs */
	BIAS_LOOK_ANYWHERE = 4, /* on all */
	BIAS_LOOK_SWAPPED = 8,	/* moved_ns is of a swap that the agent asked for */
};

/* Two tasks that shall change places, for bias_swap_ask: one from a slow CPU, one from a fast one. */
struct bias_swap_request {
	u64 up_start_ns;
	u64 down_start_ns;
	u32 up_pid;
	u32 up_cpu; /* slow */
	u32 down_pid;
	u32 down_cpu; /* fast */
};

/* What bias_swap_ask did. */
enum bias_swap_answer {
	BIAS_SWAP_ASKED,     /* the CPUs were asked; whether they do it is seen later */
	BIAS_SWAP_NO_PAIR,   /* not a slow CPU and a fast one of one node */
	BIAS_SWAP_GONE,	     /* a task has ended, or its number is another's now */
	BIAS_SWAP_FOREIGN,   /* a task is not ours */
	BIAS_SWAP_ELSEWHERE, /* a task does not sit on its CPU any more */
	BIAS_SWAP_CONFINED,  /* a task may not go to the other's CPU, or not migrate now */
	BIAS_SWAP_BUSY,	     /* a CPU has been asked for something else */
	BIAS_SWAP_BIAS,	     /* the one on the slow CPU does not gain more any more */
	BIAS_SWAP_OWED,	     /* the one on the fast CPU makes up for having been kept from fast CPUs */
	BIAS_NR_SWAP_ANSWERS,
};

#endif
