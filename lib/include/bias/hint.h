/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Hints of marked programs: the class of CPUs that suits a thread's section.
 *
 * Problem
 * Counters show a change of behaviour only after a window. A program that marks
 * its sections (lib/mark) knows it at once.
 *
 * Approach
 * A process has a table of BIAS_HINT_SLOTS words. A thread stores its pid and
 * hint in the slot that its pid selects. A hint stands for a task that only
 * executes or only waits for memory, and replaces the predicted speedup.
 *
 * Invariants
 * Any word is one of three hints. A hint predicts no more than the costs of
 * CPUs allow a real task. It changes no vtime, weight, slice or charge.
 *
 * Limits
 * Threads whose pids select the same slot overwrite each other's hint.
 */
#ifndef BIAS_HINT_H
#define BIAS_HINT_H

#include "cost.h"

#define BIAS_HINT_SLOTS	 1024
#define BIAS_HINT_TABLES 256

enum bias_hint {
	BIAS_HINT_NONE, /* counters decide */
	BIAS_HINT_FAST, /* the section executes */
	BIAS_HINT_SLOW, /* the section waits for memory */
};

/* Return the hint of the thread @pid that the word of its slot holds. */
static inline u32 bias_hint_of(u32 word, u32 pid)
{
	u32 hint = word & 3;

	return word >> 2 == pid && hint <= BIAS_HINT_SLOW ? hint : BIAS_HINT_NONE;
}

/* Return the speedup [permille] that @hint stands for, 0 if there is none. */
static inline u32 bias_hinted_speedup(u32 hint, const struct bias_cost *slow, const struct bias_cost *fast)
{
	struct bias_stack stack = {};

	if (hint == BIAS_HINT_NONE)
		return 0;
	stack.permille[hint == BIAS_HINT_FAST ? BIAS_EXECUTE : BIAS_EXTERNAL] = BIAS_STACK_SUM;
	return bias_speedup_permille(&stack, slow, fast);
}

#endif
