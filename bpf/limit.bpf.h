/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Scheduling of the whole system, with bias for some cgroups only.
 *
 * Problem
 * If opted-in tasks would starve behind fair ones (optin.bpf.h), this scheduler
 * has to run every task, but count and place only theirs by what they stall on.
 *
 * Approach
 * A task's context caches whether bias applies, until the task runs in another
 * cgroup or the agent changes optin_cgroups. A task outside is never counted
 * and so stays unknown: it competes and rotates, but speedup does not place it.
 *
 * Invariants
 * A task that leaves is unknown from its next run or tick on. With `limited`
 * off, the default, nothing here is loaded.
 *
 * Limits
 * Those of optin_follows(). If a task that never stops is moved, only a tick on
 * a CPU that counts notices it.
 */
#ifndef BIAS_LIMIT_BPF_H
#define BIAS_LIMIT_BPF_H

#include "access.bpf.h"
#include "optin.bpf.h"

/* Return true if @p is in a cgroup with bias, else forget its profile. */
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

/* At a tick: publish @p as unknown if it has lost its bias. */
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
