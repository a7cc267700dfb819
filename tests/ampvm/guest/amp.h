/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Interfaces between the parts of amp_pmu.ko: amp_main.c (device and PMU),
 * amp_hybrid.c (informs the kernel of its unequal cores), amp_freq.c (the
 * cpufreq driver), amp_kthread.c (busy kernel threads), amp_sleep.c (suspend),
 * amp_text.c (changes of the kernel's code) and amp_timer.c (the rate of
 * timers).
 */
#ifndef AMP_H
#define AMP_H

#include <linux/device.h>
#include <linux/errno.h>
#include <linux/kconfig.h>

#include "amp_shared.h"

/*
 * Inform the kernel of its unequal cores, as far as the parameters request it,
 * and undo that. Start takes the current speeds as the nominal ones. Both
 * functions sleep, and the caller must not hold the CPU hotplug lock.
 */
void amp_hybrid_start(struct device *dev, struct amp_shared *page);
void amp_hybrid_stop(void);

/* Allow busy kernel threads, or stop them and refuse new ones. Sleeps. */
void amp_kthread_allow(bool allowed);

/* Keep the devices that hold the guest's files awake while it suspends. */
void amp_sleep_keep_files(void);

/*
 * Repair breakpoints that QEMU keeps after the kernel removed them, and stop
 * it. Start returns 0 or an error number.
 */
int amp_text_start(void);
void amp_text_stop(void);

/* Correct the rate of the CPUs' timers. Sleeps. */
void amp_timer_set_rate(struct device *dev);

/* Return a kernel symbol that modules cannot link to, or NULL. Sleeps. */
void *amp_symbol(const char *name);

/*
 * Register and unregister the cpufreq driver. @khz holds the nominal speed of
 * each CPU. Both functions sleep.
 */
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
