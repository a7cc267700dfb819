/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Profiles of all tasks for `scx_bias top`: the agent reads an iterator like a
 * file, with a struct bias_task_report for each task that has run here. It
 * counts its requests in reports_epoch, and a task notes that count when it
 * stops. So the agent can ask for only the few that run, or stopped after an
 * earlier request.
 *
 * Limits
 * CPUs write the fields meanwhile, so they may differ in age by one event. A
 * task that stops at a request may be missing until it runs again.
 */
#ifndef BIAS_REPORT_BPF_H
#define BIAS_REPORT_BPF_H

#include "access.bpf.h"

SEC("iter/task")
int bias_report_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *p = ctx->task;
	struct bias_task_report report = {};
	struct cpu_ctx *cctx;
	struct task_ctx *tctx;

	if (!p)
		return 0;
	tctx = bpf_task_storage_get(&task_ctxs, p, NULL, 0);
	if (!tctx)
		return 0;
	report.cpu = p->thread_info.cpu;
	report.running = is_running(p, report.cpu);
	if (!report.running && tctx->ran_epoch < READ_ONCE(reports_since))
		return 0;
	report.pid = p->pid;
	report.tgid = p->tgid;
	cctx = cpu_ctx_of(report.cpu);
	report.reason = tctx->reason;
	report.fast_ns = tctx->fast_ns;
	report.slow_ns = tctx->slow_ns;
	if (report.running && cpu_is_slow(report.cpu))
		report.slow_ns += cctx->ran_ns;
	else if (report.running)
		report.fast_ns += cctx->ran_ns;
	report.profile = tctx->profile;
	__builtin_memcpy(report.comm, p->comm, sizeof(report.comm));
	if (report.fast_ns + report.slow_ns == 0)
		return 0;
	bpf_seq_write(ctx->meta->seq, &report, sizeof(report));
	return 0;
}

#endif
