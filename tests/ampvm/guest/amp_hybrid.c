// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
/*
 * Inform the guest's kernel that its cores are unequal, as the drivers of real
 * hybrids do: clock ranges, core priorities, capacities.
 *
 * Problem
 * On a real hybrid the default scheduler knows more about the cores than in a
 * VM. A comparison with it must not profit from that difference.
 *
 * Approach
 * intel_pstate derives these from the figures of its cores. This file derives
 * them from the nominal speeds in the shared page; see "Hybrids" in
 * ../README.md.
 *
 * Modules cannot link to these kernel functions. This module serves a test lab,
 * so it finds kallsyms_lookup_name() with a kprobe and the functions with that.
 * If the kernel lacks a function, the module logs it and works without that
 * part.
 *
 * Limits
 * A rebuild of the domains needs process context without the hotplug lock, and
 * it waits for grace periods. Suspend the model for it.
 */
#include <linux/cpu.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/mutex.h>

#include "amp.h"

enum { AMP_CPUFREQ = 1, AMP_ITMT = 2, AMP_ASYM = 4, AMP_ALL = 7 };

static bool cpufreq;
module_param(cpufreq, bool, 0444);
MODULE_PARM_DESC(cpufreq, "register a cpufreq driver at load");
static bool itmt;
module_param(itmt, bool, 0444);
MODULE_PARM_DESC(itmt, "set core priorities (ITMT) at load");
static bool asym;
module_param(asym, bool, 0444);
MODULE_PARM_DESC(asym, "set CPU capacities at load");

/* Functions of the kernel, all NULL until the lookup. */
static struct {
	void (*set_prio)(int prio, int cpu);
	int (*itmt_on)(void);
	void (*itmt_off)(void);
	bool (*capacities_on)(void);
	void (*set_capacity)(int cpu, unsigned long cap, unsigned long max_cap, unsigned long cap_freq,
			     unsigned long base_freq);
} amp_kernel;

/* Protects all variables below. */
static DEFINE_MUTEX(amp_lock);
static struct device *amp_dev; /* NULL without a page */
static struct amp_shared *amp_page;
static u32 amp_khz[AMP_MAX_VCPUS];
static unsigned int amp_active; /* parts that are on */
static bool amp_told;		/* domains use amp_khz */

void *amp_symbol(const char *name)
{
	static unsigned long (*lookup)(const char *name);

	if (!lookup) {
		struct kprobe probe = {.symbol_name = "kallsyms_lookup_name"};

		if (register_kprobe(&probe))
			return NULL;
		/* The address may follow an ENDBR, which does no harm. */
		lookup = (void *)probe.addr;
		unregister_kprobe(&probe);
	}
	return (void *)lookup(name);
}

/* Return true if the kernel lacks @function, and log the part that needs it. */
static bool amp_lacks(const char *part, const void *function, const char *name)
{
	if (!function)
		dev_warn(amp_dev, "amp: %s=1 has no effect: this kernel has no %s\n", part, name);
	return !function;
}

static int amp_find_itmt(const char *part)
{
	amp_kernel.set_prio = amp_symbol("sched_set_itmt_core_prio");
	amp_kernel.itmt_on = amp_symbol("sched_set_itmt_support");
	amp_kernel.itmt_off = amp_symbol("sched_clear_itmt_support");
	if (amp_lacks(part, amp_kernel.set_prio, "sched_set_itmt_core_prio (CONFIG_SCHED_MC_PRIO)") ||
	    amp_lacks(part, amp_kernel.itmt_on, "sched_set_itmt_support") ||
	    amp_lacks(part, amp_kernel.itmt_off, "sched_clear_itmt_support"))
		return -EOPNOTSUPP;
	return 0;
}

/*
 * Find the functions for capacities, and allow capacities to differ. The second
 * step cannot be undone, but equal capacities can still be set.
 */
static int amp_find_capacities(void)
{
	void **data = amp_symbol("arch_cpu_scale");

	amp_kernel.capacities_on = amp_symbol("arch_enable_hybrid_capacity_scale");
	amp_kernel.set_capacity = amp_symbol("arch_set_cpu_capacity");
	if (amp_lacks("asym", amp_kernel.capacities_on, "arch_enable_hybrid_capacity_scale") ||
	    amp_lacks("asym", amp_kernel.set_capacity, "arch_set_cpu_capacity"))
		return -EOPNOTSUPP;
	/* A second call warns, and an earlier load may have made the first. */
	if (!(data && *data) && !amp_kernel.capacities_on())
		return -ENOMEM;
	return 0;
}

static u32 amp_fastest_khz(bool *unequal)
{
	u32 fastest_khz = 0, slowest_khz = U32_MAX;
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		fastest_khz = max(fastest_khz, amp_khz[cpu]);
		slowest_khz = min(slowest_khz, amp_khz[cpu]);
	}
	*unequal = fastest_khz > slowest_khz;
	return fastest_khz;
}

/*
 * Set priorities and capacities, equal ones for a part that is off, and make
 * the kernel rebuild the domains. The ITMT switch is the only trigger in all
 * kernels that makes them read capacities again. Both directions do so.
 */
static int amp_tell(bool use_itmt, bool use_asym)
{
	bool unequal;
	u32 fastest_khz = amp_fastest_khz(&unequal);
	unsigned int cpu;
	int err;

	for_each_possible_cpu(cpu) {
		u32 khz = use_asym ? amp_khz[cpu] : fastest_khz;

		amp_kernel.set_prio(use_itmt ? amp_khz[cpu] : 0, cpu);
		/* Without MPERF the last two only need to be equal. */
		if (amp_kernel.set_capacity)
			amp_kernel.set_capacity(cpu, khz, fastest_khz, 1, 1);
	}
	amp_kernel.itmt_off();
	err = amp_kernel.itmt_on();
	if (!use_itmt || use_asym)
		amp_kernel.itmt_off();
	return err;
}

/* Switch the scheduler to @parts, and clear those that are not possible. */
static int amp_switch_scheduler(unsigned int *parts)
{
	bool use_itmt = *parts & AMP_ITMT, use_asym = *parts & AMP_ASYM, unequal;
	int err = 0, asym_err = 0;

	amp_fastest_khz(&unequal);
	if (use_asym && cpu_smt_possible()) {
		dev_info(amp_dev, "amp: cores have siblings, so no capacities are set\n");
		use_asym = false;
	}
	if (use_itmt || use_asym)
		err = amp_find_itmt(use_itmt ? "itmt" : "asym");
	if (!err && use_asym)
		asym_err = amp_find_capacities();
	if (err)
		*parts &= ~(AMP_ITMT | AMP_ASYM);
	if (asym_err) {
		*parts &= ~AMP_ASYM;
		amp_kernel.set_capacity = NULL;
		use_asym = false;
	}
	use_asym = use_asym && unequal;
	use_itmt = use_itmt && unequal;
	if (!err && (use_itmt || use_asym || amp_told)) {
		err = amp_tell(use_itmt, use_asym);
		amp_told = use_itmt || use_asym;
		dev_info(amp_dev, "amp: the scheduler tells cores apart by %s\n",
			 use_asym ? "capacity" : (use_itmt ? "priority" : "nothing"));
	}
	return err ?: asym_err;
}

/* Switch the kernel to @parts. Return the first error. */
static int amp_switch(unsigned int parts)
{
	const unsigned int scheduler = AMP_ITMT | AMP_ASYM;
	int err = 0, freq_err = 0;

	if ((parts ^ amp_active) & scheduler)
		err = amp_switch_scheduler(&parts);
	if (parts & ~amp_active & AMP_CPUFREQ)
		freq_err = amp_freq_on(amp_dev, amp_page, amp_khz);
	else if (amp_active & ~parts & AMP_CPUFREQ)
		amp_freq_off();
	if (freq_err)
		parts &= ~AMP_CPUFREQ;
	amp_active = parts;
	return err ?: freq_err;
}

/* Switch all parts on or off. If one of them fails, all go off. */
static int amp_hybrid_set(const char *text, const struct kernel_param *param)
{
	bool on;
	int err = kstrtobool(text, &on);

	if (err)
		return err;
	mutex_lock(&amp_lock);
	if (amp_dev) {
		err = amp_switch(on ? AMP_ALL : 0);
		if (err)
			amp_switch(0);
	} else {
		cpufreq = itmt = asym = on;
	}
	mutex_unlock(&amp_lock);
	return err;
}

static int amp_hybrid_get(char *buffer, const struct kernel_param *param)
{
	return scnprintf(buffer, PAGE_SIZE, "%d\n", READ_ONCE(amp_active) == AMP_ALL);
}

static const struct kernel_param_ops amp_hybrid_ops = {.set = amp_hybrid_set, .get = amp_hybrid_get};
module_param_cb(hybrid, &amp_hybrid_ops, NULL, 0644);
MODULE_PARM_DESC(hybrid, "cpufreq, itmt and asym together; may be switched at any time");

void amp_hybrid_start(struct device *dev, struct amp_shared *page)
{
	unsigned int parts = (cpufreq ? AMP_CPUFREQ : 0) | (itmt ? AMP_ITMT : 0) | (asym ? AMP_ASYM : 0);

	mutex_lock(&amp_lock);
	amp_dev = dev;
	amp_page = page;
	for (unsigned int cpu = 0; cpu < AMP_MAX_VCPUS; cpu++)
		amp_khz[cpu] = READ_ONCE(page->vcpus[cpu].mips_milli);
	/* Each part has logged what it lacks. The PMU works without it. */
	amp_switch(parts);
	mutex_unlock(&amp_lock);
}

void amp_hybrid_stop(void)
{
	mutex_lock(&amp_lock);
	amp_switch(0);
	amp_dev = NULL;
	mutex_unlock(&amp_lock);
}
