// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
/*
 * Busy kernel threads bound to one CPU, as encryption, RAID or compression use
 * them. A scheduler must not let them keep the CPU from its other tasks.
 *
 *	echo 1:2 >/sys/module/amp_pmu/parameters/kthreads	two, on CPU 1
 *	echo 0   >/sys/module/amp_pmu/parameters/kthreads	stop them
 *
 * The threads are called amp_busy/CPU, and /proc/PID/schedstat shows how long
 * each one ran. A new setting replaces the threads of the previous one.
 *
 * Context: process context. Starting and stopping sleep.
 */
#include <linux/kernel.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched.h>

#include "amp.h"

#define AMP_MAX_KTHREADS 8
/* Two-instruction steps between two cond_resched(), about 30 us at 60 MIPS. */
#define AMP_CHUNK 1000

/* Protects all variables below. */
static DEFINE_MUTEX(amp_lock);
/* True while there is a device. Its removal stops the threads. */
static bool amp_allowed;
static struct task_struct *amp_kthreads[AMP_MAX_KTHREADS];
static unsigned int amp_nr_kthreads;
static unsigned int amp_kthread_cpu;

static int amp_busy(void *unused)
{
	while (!kthread_should_stop()) {
		unsigned int i;

		/* cpu_relax() is slow in the model, and busy code has none. */
		for (i = 0; i < AMP_CHUNK; i++)
			barrier();
		cond_resched();
	}
	return 0;
}

static void amp_stop_all(void)
{
	while (amp_nr_kthreads)
		kthread_stop(amp_kthreads[--amp_nr_kthreads]);
}

static int amp_start_all(unsigned int cpu, unsigned int nr)
{
	amp_kthread_cpu = cpu;
	while (amp_nr_kthreads < nr) {
		struct task_struct *thread = kthread_create_on_cpu(amp_busy, NULL, cpu, "amp_busy/%u");

		if (IS_ERR(thread)) {
			amp_stop_all();
			return PTR_ERR(thread);
		}
		amp_kthreads[amp_nr_kthreads++] = thread;
		wake_up_process(thread);
	}
	return 0;
}

static int amp_kthreads_set(const char *text, const struct kernel_param *param)
{
	unsigned int cpu = 0, nr = 0;
	int err = -ENODEV;

	if (sscanf(text, "%u:%u", &cpu, &nr) < 2 && !sysfs_streq(text, "0"))
		return -EINVAL;
	if (nr > AMP_MAX_KTHREADS || cpu >= nr_cpu_ids || !cpu_online(cpu))
		return -EINVAL;
	mutex_lock(&amp_lock);
	if (amp_allowed) {
		amp_stop_all();
		err = amp_start_all(cpu, nr);
	}
	mutex_unlock(&amp_lock);
	return err;
}

static int amp_kthreads_get(char *buffer, const struct kernel_param *param)
{
	if (!amp_nr_kthreads)
		return sysfs_emit(buffer, "0\n");
	return sysfs_emit(buffer, "%u:%u\n", amp_kthread_cpu, amp_nr_kthreads);
}

static const struct kernel_param_ops amp_kthreads_ops = {.set = amp_kthreads_set, .get = amp_kthreads_get};
module_param_cb(kthreads, &amp_kthreads_ops, NULL, 0600);
MODULE_PARM_DESC(kthreads, "CPU:NR runs NR busy kernel threads on CPU, 0 stops them; not when loading");

void amp_kthread_allow(bool allowed)
{
	mutex_lock(&amp_lock);
	amp_allowed = allowed;
	if (!allowed)
		amp_stop_all();
	mutex_unlock(&amp_lock);
}
