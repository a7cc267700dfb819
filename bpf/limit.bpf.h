/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The whole system, but bias for some cgroups only.
 *
 * Problem. Where opted-in tasks would starve behind the default scheduler's (optin.bpf.h), everything has to be scheduled here; yet
 * only some cgroups are to be counted and placed by what they stall on.
 *
 * Approach. A task remembers which cgroup it was last seen in and whether that has a bias, and is told anew when it runs in another one or the agent
 * has changed what optin_cgroups holds (cgroups_epoch). Who is outside is never counted and so remains unknown: queued by vtime,
 * charged by the CPU's speed, given turns on fast CPUs, but neither displaced nor preferred for what it gains.
 *
 * Invariants. Who leaves is unknown again from its next run or tick on. With `limited` off, as it is unless the agent is told
 * otherwise, nothing here is loaded.
 *
 * Limits. Those of optin_follows(). Only ticks of CPUs that count see a move of a task that never stops.
 */
#ifndef BIAS_LIMIT_BPF_H
#define BIAS_LIMIT_BPF_H

#include "state.bpf.h"
#include "optin.bpf.h"

/* Is @p, of which @tctx is known, in a cgroup that has a bias? */
static __always_inline bool has_bias(struct task_struct *p, struct task_ctx *tctx)
{
	struct cgroup *cgrp;
	u32 epoch;
	u64 id;

	if (!limited)
		return true;
	cgrp = BPF_CORE_READ(p, cgroups, dfl_cgrp);
	id = BPF_CORE_READ(cgrp, kn, id);
	epoch = READ_ONCE(cgroups_epoch);
	if (tctx->cgroup_id != id || tctx->cgroup_epoch != epoch) {
		tctx->cgroup_id = id;
		tctx->cgroup_epoch = epoch;
		tctx->inside = (optin_follows(cgrp) & BIAS_FOLLOW_INSIDE) != 0;
		if (!tctx->inside) {
			__builtin_memset(&tctx->profile, 0, sizeof(tctx->profile));
			__builtin_memset(&tctx->window, 0, sizeof(tctx->window));
		}
	}
	return tctx->inside;
}

/* The same of @p, which ticks on the CPU of @cctx: what is published of it is unknown from now on if it is not. */
static __always_inline bool still_has_bias(struct task_struct *p, struct cpu_ctx *cctx)
{
	struct task_ctx *tctx;

	if (!limited)
		return true;
	tctx = task_ctx_of(p);
	if (tctx && has_bias(p, tctx))
		return true;
	cctx->counting_pid = 0;
	cctx->run_speedup = 0;
	cctx->run_stable = 0;
	return false;
}

#endif
