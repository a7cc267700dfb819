// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
/*
 * The rate of the CPUs' timers (local APIC).
 *
 * The kernel measures the rate for 100 ms while it boots, by ticks that a busy
 * host delays. Every timer is later or earlier by that error, 0.1 % of a sleep
 * or more. The VM's timer has a fixed rate.
 */
#include <linux/clockchips.h>
#include <linux/math64.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/time64.h>

#include "amp.h"

/* QEMU's timer counts ns, and the kernel makes it divide by 16. */
#define AMP_TIMER_HZ (1000000000 / 16)

/* The first member of the kernel's struct tick_device is the CPU's timer. */
static struct clock_event_device **(*amp_tick_device)(int cpu);
static int (*amp_update)(struct clock_event_device *timer, u32 hz);

static void amp_timer_correct(void *unused)
{
	struct clock_event_device *timer = *amp_tick_device(smp_processor_id());

	if (timer && !strcmp(timer->name, "lapic"))
		amp_update(timer, AMP_TIMER_HZ);
}

void amp_timer_set_rate(struct device *dev)
{
	/* CPUs that come online later copy this one. */
	struct clock_event_device *model = amp_symbol("lapic_clockevent");

	amp_tick_device = amp_symbol("tick_get_device");
	amp_update = amp_symbol("clockevents_update_freq");
	if (!model || !amp_tick_device || !amp_update) {
		dev_warn(dev, "amp: timers keep the rate that the kernel measured, up to 1 %% off\n");
		return;
	}
	model->mult = div_u64((u64)AMP_TIMER_HZ << model->shift, NSEC_PER_SEC);
	on_each_cpu(amp_timer_correct, NULL, true);
}
