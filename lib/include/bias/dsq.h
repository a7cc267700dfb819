/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * DSQ ids. One constructor per DSQ type ensures that no two DSQs share an id.
 *
 *	bits 63..32	0: the kernel's built-in ids have bit 63 set
 *	bits 31..28	type of DSQ
 *	bits 27..0	index: LLC * classes + class, or CPU
 */
#ifndef BIAS_DSQ_H
#define BIAS_DSQ_H

#include "types.h"

/* Classes of CPUs and DSQs. Without a significant split all CPUs are fast. */
enum bias_class {
	BIAS_FAST,
	BIAS_SLOW,
	BIAS_NR_CLASSES,
};

enum bias_dsq_kind {
	BIAS_DSQ_SHARED = 1, /* one per (LLC, class), by vtime */
	BIAS_DSQ_PINNED = 2, /* one per CPU, for pinned tasks, by vtime */
	BIAS_DSQ_PARKED = 3, /* one, for throttled tasks, as they come */
};

#define BIAS_DSQ_KIND_SHIFT 28
#define BIAS_DSQ_INDEX_MASK ((1u << BIAS_DSQ_KIND_SHIFT) - 1)

static inline u64 bias_dsq_shared(u32 llc, u32 cpu_class)
{
	return ((u64)BIAS_DSQ_SHARED << BIAS_DSQ_KIND_SHIFT) |
	       ((llc * BIAS_NR_CLASSES + cpu_class) & BIAS_DSQ_INDEX_MASK);
}

static inline u64 bias_dsq_pinned(u32 cpu)
{
	return ((u64)BIAS_DSQ_PINNED << BIAS_DSQ_KIND_SHIFT) | (cpu & BIAS_DSQ_INDEX_MASK);
}

static inline u64 bias_dsq_parked(void)
{
	return (u64)BIAS_DSQ_PARKED << BIAS_DSQ_KIND_SHIFT;
}

_Static_assert(BIAS_DSQ_PARKED < 16, "the kind of a queue must fit its bits");
_Static_assert((u64)BIAS_DSQ_SHARED << BIAS_DSQ_KIND_SHIFT != (u64)BIAS_DSQ_PINNED << BIAS_DSQ_KIND_SHIFT,
	       "kinds of queues must not overlap");

#endif
