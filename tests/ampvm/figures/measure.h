/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/* Tasks that measure themselves while they run a loop; see figures.c. */
#ifndef MEASURE_H
#define MEASURE_H

#include <stdint.h>

#include "amp_shared.h"

#define LINE 64

/* Each task has lines of its own, because the figures count shared lines. */
struct __attribute__((aligned(LINE))) task {
	int cpu;
	void (*run)(struct task *t, long steps);
	long chunk; /* steps between two reads of the clock */
	int nodes;  /* mask of its buffer's nodes; 0: no buffer */
	volatile uint64_t *word;
	uint64_t turn; /* ping-pong: parity of the word at which it may run */
	char *buffer;
	void *at;

	/* Results of the window only. */
	double steps;
	double ns;
	double cpu_ns; /* without the time that kernel threads took */
	double event[AMP_NR_EVENTS];
};

extern struct task *tasks; /* shared with the children that run them */
/* Length of the measurement; tasks run somewhat longer. */
extern double window_ns;

/* Print @what and errno, and end the program. */
_Noreturn void die(const char *what);

double now_ns(void);
void sleep_until(double ns);
void pin(int cpu);
/* Return memory that is shared with child processes. */
void *shared(size_t bytes);

/* Create a buffer on the task's nodes with a random cycle through it. */
void make_buffer(struct task *t);
/* Run the first @count tasks at the same time, each on its CPU. */
void together(int count);

/*
 * Open a group of all events on a task (0: this one) on any CPU. Return the
 * leader.
 */
int open_group(int pid);
/* Add @sign times the counts of a group to the events. */
void add_group(int fd, double *event, int sign);

/* Loops. The comment of each gives the instructions of a step. */

/* 10 instructions */
void execute(struct task *t, long steps);
/* 3 instructions, one of them PAUSE */
void spin(struct task *t, long steps);
/* 3 instructions and a miss */
void chase(struct task *t, long steps);
/* 4 instructions and a miss */
void stream(struct task *t, long steps);
/* 3 instructions and a write of a line that others may hold */
void add(struct task *t, long steps);
/*
 * A handover of the word after 25 us of work at 60 MIPS. If that is longer than
 * a quantum, a quantum has at most one handover. The order of its accesses,
 * which the host decides, then makes no difference.
 */
void pingpong(struct task *t, long steps);

#endif
