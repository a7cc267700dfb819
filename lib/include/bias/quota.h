/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * cpu.max: when a cgroup has used up its run time, and when it may run again.
 *
 * Problem
 * A CPU notices only at a tick that a quota is used up, and several CPUs run a
 * group. So it always runs a little longer than it may.
 *
 * Approach
 * A group has a balance: what it has run minus what its periods have granted.
 * It is throttled while that is a quota or more. The next periods pay the
 * excess: the mean is exact. Unused time is forfeited, but for cpu.max.burst.
 *
 * Invariants
 * In n periods a group that runs only while it may gets n + 1 quotas, a burst
 * and its last excess at most. Without a debt it waits for one period at most.
 *
 * Limits
 * A quota is 1 ms or more, and a period 1 ms to 1 s, as the kernel has it.
 */
#ifndef BIAS_QUOTA_H
#define BIAS_QUOTA_H

#include "types.h"

#define BIAS_QUOTA_PERIODS (1u << 16) /* at once, so that products fit */

static inline u64 bias_quota_periods(u64 start_ns, u64 now_ns, u64 period_ns)
{
	return period_ns && (s64)(now_ns - start_ns) > 0 ? (now_ns - start_ns) / period_ns : 0;
}

/* Return what @periods grant [ns]: the balance stays at -@burst_ns or more. */
static inline u64 bias_quota_grant(s64 used_ns, u64 periods, u64 quota_ns, u64 burst_ns)
{
	u64 grant_ns = quota_ns * (periods < BIAS_QUOTA_PERIODS ? periods : BIAS_QUOTA_PERIODS);
	s64 most_ns = used_ns + (s64)burst_ns;

	if (most_ns <= 0)
		return 0;
	return grant_ns < (u64)most_ns ? grant_ns : (u64)most_ns;
}

/* Return until when a group of balance @used_ns is throttled, or else 0. */
static inline u64 bias_quota_until(u64 start_ns, s64 used_ns, u64 quota_ns, u64 period_ns)
{
	if (!quota_ns || used_ns < (s64)quota_ns)
		return 0;
	return start_ns + (u64)used_ns / quota_ns * period_ns;
}

#endif
