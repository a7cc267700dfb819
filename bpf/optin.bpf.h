/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Opted-in cgroups: what a scheduler of only some tasks must do in addition.
 *
 * Problem
 * With SCX_OPS_SWITCH_PARTIAL only SCHED_EXT tasks run here. Children inherit
 * that policy, but moves between cgroups do not change it. The fair class goes
 * first, so a task for one CPU waits behind a fair task though others idle.
 *
 * Approach
 * Two tracing programs tell the agent of threads whose policy may be wrong:
 * moved into or out of an opted-in cgroup, forked in one without SCHED_EXT, or
 * forked outside with it. optin_cgroups has the ids of opted-in cgroups, and
 * for a while of former ones. Only a SCHED_EXT waker keeps its wakee.
 *
 * Invariants
 * An event never decides: the agent checks the thread before it acts, and scans
 * each second even without events. Unless cgroups are named, no program here is
 * loaded and no map created.
 *
 * Limits
 * The event of a move precedes the move. Cgroups deeper than MAX_DEPTH are not
 * recognised. If a fair task takes an idle CPU just when a task is sent there,
 * that task waits until the fair one sleeps.
 */
#ifndef BIAS_OPTIN_BPF_H
#define BIAS_OPTIN_BPF_H

#include "state.bpf.h"

#define MAX_DEPTH 64

/* The kernel's policies. There they are macros, so its BTF lacks them. */
#define POLICY_NORMAL 0
#define POLICY_BATCH  3
#define POLICY_IDLE   5
#define POLICY_EXT    7

/* Return why @cgrp or its ancestors are followed (enum bias_follow), or 0. */
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

/* Send an event about @p to the agent. @maker, unless NULL, forked @p. */
static __always_inline void send_event(struct task_struct *p, u32 type, struct task_struct *maker)
{
	struct bias_event *event = bpf_ringbuf_reserve(&optin_events, sizeof(*event), 0);

	if (!event) {
		__sync_fetch_and_add(&optin_lost, 1);
		return;
	}
	event->start_ns = BPF_CORE_READ(p, group_leader, start_boottime);
	event->maker_start_ns = maker ? BPF_CORE_READ(maker, group_leader, start_boottime) : 0;
	event->process = p->tgid;
	event->maker = maker ? maker->tgid : 0;
	event->type = type;
	event->pad = 0;
	bpf_ringbuf_submit(event, 0);
}

SEC("fentry/cgroup_attach_task")
int BPF_PROG(bias_optin_move, struct cgroup *dst, struct task_struct *leader, bool threadgroup)
{
	struct cgroup *src = BPF_CORE_READ(leader, cgroups, dfl_cgrp);

	/* Ignore other hierarchies, of cgroup v1. */
	if (BPF_CORE_READ(dst, root, hierarchy_id))
		return 0;
	if (optin_follows(dst) & BIAS_FOLLOW_INSIDE)
		send_event(leader, BIAS_EVENT_INSIDE, NULL);
	else if (optin_follows(src))
		send_event(leader, BIAS_EVENT_LEFT, NULL);
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
		/* Forked into the cgroup, or before its parent was switched. */
		if (!ours)
			send_event(child, BIAS_EVENT_INSIDE, NULL);
	} else if (ours) {
		bool left = optin_follows(BPF_CORE_READ(parent, cgroups, dfl_cgrp));

		send_event(child, left ? BIAS_EVENT_LEFT : BIAS_EVENT_FORKED, parent);
	}
	return 0;
}

/* Real-time and deadline tasks have priorities below this. */
#define MAX_RT_PRIO 100

/* Return true if @task, no idle task, is of another scheduling class. */
static __always_inline bool is_foreign(const struct task_struct *task)
{
	return task->prio < MAX_RT_PRIO || (partial && task->policy != POLICY_EXT);
}

#endif
