/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Opted-in cgroups: what a scheduler for some tasks only has to see and to do otherwise.
 *
 * Problem. With SCX_OPS_SWITCH_PARTIAL only tasks of policy SCHED_EXT are ours. Children inherit the policy, but moving
 * between cgroups does not change it, so the agent has to hear of who comes and goes. And CPUs are lent: whatever runs in the fair
 * class goes first, and what we had queued on that CPU alone would wait behind it while others idle.
 *
 * Approach. Two tracing programs tell the agent of threads that need a look: moved into or out of an opted-in cgroup, born in
 * one without our policy, or born outside with it. optin_cgroups holds the ids of opted-in cgroups, and for a while of
 * those that were; ancestry is found by walking up. A waker keeps its wakee only
 * if it is ours itself.
 *
 * Invariants. A hint is never more than that: the agent looks for itself before it acts, and looks each second even if
 * none comes. Without cgroups that were named nothing here is loaded, and the maps are not made.
 *
 * Limits. The move is announced before it happens. Cgroups deeper than MAX_DEPTH are not recognised. A task sent to an idle
 * CPU that a fair task takes in the same moment waits until that sleeps.
 */
#ifndef BIAS_OPTIN_BPF_H
#define BIAS_OPTIN_BPF_H

#include "state.bpf.h"

#define MAX_DEPTH 64

/* The kernel's numbers of policies; macros there, so not in its type information. */
#define POLICY_NORMAL 0
#define POLICY_BATCH  3
#define POLICY_IDLE   5
#define POLICY_EXT    7

/* What @cgrp and those above it are followed for: enum bias_follow, or 0. */
static __always_inline u32 optin_follows(struct cgroup *cgrp)
{
	u32 depth, follows = 0;

	bpf_for(depth, 0, MAX_DEPTH) {
		u64 id = BPF_CORE_READ(cgrp, kn, id);
		u32 *found = bpf_map_lookup_elem(&optin_cgroups, &id);
		struct cgroup_subsys_state *parent;

		if (found)
			follows |= *found;
		parent = BPF_CORE_READ(cgrp, self.parent);
		if (!parent)
			break;
		cgrp = container_of(parent, struct cgroup, self);
	}
	return follows;
}

/* @p needs a look, of which @maker is told if there is one. */
static __always_inline void optin_hint(struct task_struct *p, u32 kind, struct task_struct *maker)
{
	struct bias_hint *hint = bpf_ringbuf_reserve(&optin_hints, sizeof(*hint), 0);

	if (!hint) {
		__sync_fetch_and_add(&optin_lost, 1);
		return;
	}
	hint->start_ns = BPF_CORE_READ(p, group_leader, start_boottime);
	hint->maker_start_ns = maker ? BPF_CORE_READ(maker, group_leader, start_boottime) : 0;
	hint->process = p->tgid;
	hint->maker = maker ? maker->tgid : 0;
	hint->kind = kind;
	hint->pad = 0;
	bpf_ringbuf_submit(hint, 0);
}

/* @leader, with its whole process if @threadgroup, is about to move to @dst. */
SEC("fentry/cgroup_attach_task")
int BPF_PROG(bias_optin_move, struct cgroup *dst, struct task_struct *leader, bool threadgroup)
{
	struct cgroup *src = BPF_CORE_READ(leader, cgroups, dfl_cgrp);

	/* Another hierarchy, of cgroup v1. */
	if (BPF_CORE_READ(dst, root, hierarchy_id))
		return 0;
	if (optin_follows(dst) & BIAS_FOLLOW_INSIDE)
		optin_hint(leader, BIAS_HINT_INSIDE, NULL);
	else if (optin_follows(src))
		optin_hint(leader, BIAS_HINT_LEFT, NULL);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(bias_optin_fork, struct task_struct *parent, struct task_struct *child)
{
	u32 policy = child->policy;
	bool ours = policy == POLICY_EXT;

	/* Real-time threads keep their policy. */
	if (!ours && policy != POLICY_NORMAL && policy != POLICY_BATCH && policy != POLICY_IDLE)
		return 0;
	if (optin_follows(BPF_CORE_READ(child, cgroups, dfl_cgrp)) & BIAS_FOLLOW_INSIDE) {
		/* It was born into the cgroup, or its parent has not been switched yet. */
		if (!ours)
			optin_hint(child, BIAS_HINT_INSIDE, NULL);
	} else if (ours) {
		bool left = optin_follows(BPF_CORE_READ(parent, cgroups, dfl_cgrp));

		optin_hint(child, left ? BIAS_HINT_LEFT : BIAS_HINT_BORN, parent);
	}
	return 0;
}

/* Priorities below are those of real-time and deadline tasks. */
#define MAX_RT_PRIO 100

/* Return true if another scheduling class runs the current task, which wakes another. */
static __always_inline bool waker_is_foreign(void)
{
	const struct task_struct *waker = bpf_get_current_task_btf();

	return waker->prio < MAX_RT_PRIO || (partial && waker->policy != POLICY_EXT);
}

#endif
