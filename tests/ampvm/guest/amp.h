/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the parts of amp_pmu.ko need from each other: amp_main.c (device and
 * PMU), amp_hybrid.c (tells the kernel of its unequal cores), amp_freq.c (the
 * cpufreq driver) and amp_kthread.c (busy kernel threads).
 */
#ifndef AMP_H
#define AMP_H

#include <linux/device.h>
#include <linux/errno.h>
#include <linux/kconfig.h>

#include "amp_shared.h"

/*
 * The kernel's knowledge of its unequal cores, as far as the parameters ask
 * for it. Start takes the current speeds for the nominal ones. Both sleep, and
 * neither may be called with the CPU hotplug lock held.
 */
void amp_hybrid_start(struct device *dev, struct amp_shared *page);
void amp_hybrid_stop(void);

/* Busy kernel threads may be asked for; if not allowed, stops them. Sleeps. */
void amp_kthread_allow(bool allowed);

/* A symbol of the kernel that modules cannot link to, or NULL. Sleeps. */
void *amp_symbol(const char *name);

/* The cpufreq driver; khz holds the nominal speed of each CPU. Both sleep. */
#if IS_ENABLED(CONFIG_CPU_FREQ)
int amp_freq_on(struct device *dev, struct amp_shared *page, const u32 *khz);
void amp_freq_off(void);
#else
static inline int amp_freq_on(struct device *dev, struct amp_shared *page, const u32 *khz)
{
	dev_warn(dev, "amp: cpufreq=1 needs a kernel with CONFIG_CPU_FREQ\n");
	return -EOPNOTSUPP;
}
static inline void amp_freq_off(void)
{
}
#endif

#endif
