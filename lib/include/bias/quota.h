/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * cpu.max: when a cgroup has used up its run time, and when it may run again.
 *
 * Problem
 * A cgroup may run for a quota in each period. Its tasks run on several CPUs,
 * and a CPU notices only at a tick that the quota is used up. So a group always
 * runs a little longer than it may.
 *
 * Approach
 * A group has a balance: what it has run minus what its periods have granted.
 * It is throttled while the balance is a quota or more. What it ran too long is
 * a debt that the next periods pay, so the mean is exact. Run time that was not
 * used is forfeited, except for a burst (cpu.max.burst).
 *
 * Invariants
 * (Tests are in lib/policy.) Over n periods a group that runs only while it is
 * not throttled runs for n + 1 quotas, a burst and its last excess at most. A
 * group without a debt is throttled until the next period, no longer.
 *
 * Limits
 * A quota is 1 ms or more, and a period 1 ms to 1 s, as the kernel has it.
 */
#ifndef BIAS_QUOTA_H
#define BIAS_QUOTA_H

#include "types.h"

/*
 * Periods that are granted at once at most, so that products fit. A group that
 * slept for so long has no debt left.
 */
#define BIAS_QUOTA_PERIODS (1u << 16)

/* Return the number of periods of @period_ns that ended since @start_ns. */
static inline u64 bias_quota_periods(u64 start_ns, u64 now_ns, u64 period_ns)
{
	return period_ns && (s64)(now_ns - start_ns) > 0 ? (now_ns - start_ns) / period_ns : 0;
}

/*
 * Return what @periods grant a group [ns] whose balance is @used_ns. The
 * balance does not fall below minus @burst_ns.
 */
static inline u64 bias_quota_grant(s64 used_ns, u64 periods, u64 quota_ns, u64 burst_ns)
{
	u64 grant_ns = quota_ns * (periods < BIAS_QUOTA_PERIODS ? periods : BIAS_QUOTA_PERIODS);
	s64 most_ns = used_ns + (s64)burst_ns;

	if (most_ns <= 0)
		return 0;
	return grant_ns < (u64)most_ns ? grant_ns : (u64)most_ns;
}

/*
 * Return until when a group is throttled whose balance is @used_ns in the
 * period that began at @start_ns, or 0 if it may run.
 */
static inline u64 bias_quota_until(u64 start_ns, s64 used_ns, u64 quota_ns, u64 period_ns)
{
	if (!quota_ns || used_ns < (s64)quota_ns)
		return 0;
	return start_ns + (u64)used_ns / quota_ns * period_ns;
}

#endif
