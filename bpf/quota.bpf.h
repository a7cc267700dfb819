/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * cpu.max: charge run time against the quotas of a task's cgroups.
 *
 * Problem
 * The kernel enforces cpu.max for tasks of the fair class only.
 *
 * Approach
 * A task_group has its quota whichever class its tasks have. The walk over a
 * task's cgroups for their weights (group.bpf.h) also charges their quotas.
 * throttle.bpf.h acts on the mark of a group that has used its quota up.
 *
 * Invariants
 * Each nanosecond of a run is charged once to each of the task's groups with a
 * quota. Without a quota anywhere, nothing is written.
 *
 * Limits
 * A changed quota applies once the old one no longer throttles the group. Above
 * a group beyond MAX_GROUPS, only limits in the table hold. Without
 * CONFIG_CFS_BANDWIDTH no group is limited. In a partly scheduled group, the
 * fair class limits the other threads, by the same quota again.
 */
#ifndef BIAS_QUOTA_BPF_H
#define BIAS_QUOTA_BPF_H

#include "access.bpf.h"
#include <bias/quota.h>

#define NO_QUOTA (~0ull) /* the kernel's quota [ns] of no limit */

static __always_inline bool has_quota(const struct task_group *tg)
{
	return bpf_core_field_exists(struct task_group, cfs_bandwidth) && tg->cfs_bandwidth.quota != NO_QUOTA;
}

/*
 * Charge @ran_ns to @group, of @tg. Of CPUs that see the same period end, one
 * grants the next. The others find the same time in the old balance and start.
 */
static __noinline void charge_quota(struct group_ctx *group, const struct task_group *tg, u64 ran_ns)
{
	u64 quota_ns = tg->cfs_bandwidth.quota, period_ns = tg->cfs_bandwidth.period, until_ns;
	u64 now_ns = bpf_ktime_get_ns(), start_ns = READ_ONCE(group->period_start_ns);
	s64 used_ns = __sync_fetch_and_add(&group->used_ns, ran_ns) + ran_ns;
	u64 periods = bias_quota_periods(start_ns, now_ns, period_ns);

	write_if_changed(&quotas_seen, 1);
	if (periods && __sync_val_compare_and_swap(&group->period_start_ns, start_ns,
						   start_ns + periods * period_ns) == start_ns) {
		u64 grant_ns = bias_quota_grant(used_ns, periods, quota_ns, tg->cfs_bandwidth.burst);

		__sync_fetch_and_add(&group->used_ns, -grant_ns);
		used_ns -= grant_ns;
		start_ns += periods * period_ns;
	}
	until_ns = bias_quota_until(start_ns, used_ns, quota_ns, period_ns);
	if (until_ns > now_ns)
		WRITE_ONCE(group->throttled_until_ns, until_ns);
}

#endif
