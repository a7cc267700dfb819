// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
/*
 * cpufreq driver "amp": the guest requests the speed of its vCPUs.
 *
 * Problem
 * On real machines a governor changes the clock while a scheduler runs. The VM
 * must do the same.
 *
 * Approach
 * Each CPU has a policy from freq_min_permille of its nominal speed up to that
 * speed. A switch only stores the wanted speed in the shared page, so schedutil
 * can switch any CPU from within the scheduler. The plugin runs a vCPU at the
 * lower of this speed and the host's cap. A speed in MIPS/1000 is the clock in
 * kHz.
 *
 * The driver also writes the frequency scale of the CPU, which x86 derives from
 * APERF and MPERF at each tick. So load is scaled by the clock, and schedutil
 * reaches a clock in one step, as on hardware of the last ten years.
 *
 * Limits
 * ../README.md, "Hybrids", lists what is not modelled.
 */
#include <linux/cpufreq.h>
#include <linux/jump_label.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/percpu.h>
#include <linux/sched/topology.h>
#include <linux/slab.h>
#include <asm/cpufeature.h>

#include "amp.h"

/* Number of speeds, including the lowest and the highest. */
#define AMP_LEVELS 16
/* Lowest speed that the plugin accepts. */
#define AMP_MIN_KHZ 100
/* Latency and delay that amd-pstate reports. */
#define AMP_LATENCY_NS 20000
#define AMP_DELAY_US   1000

static unsigned int freq_min_permille = 100;
module_param(freq_min_permille, uint, 0444);
MODULE_PARM_DESC(freq_min_permille,
		 "lowest speed that cpufreq can request, in thousandths of the nominal one (default 100)");

static struct amp_shared *amp_page;
static const u32 *amp_nominal_khz;
static struct notifier_block *amp_tsc_block;

static struct static_key *amp_invariant;
static unsigned long __percpu *amp_scale;

/* Run @cpu at @khz, or as fast as the host allows if that is 0. */
static void amp_freq_want(unsigned int cpu, u32 khz)
{
	u64 scale = SCHED_CAPACITY_SCALE;

	if (khz)
		scale = div_u64(scale * khz, amp_nominal_khz[cpu]);
	WRITE_ONCE(amp_page->vcpus[cpu].wanted_mips_milli, khz);
	if (amp_scale)
		WRITE_ONCE(*per_cpu_ptr(amp_scale, cpu), scale);
}

static unsigned int amp_freq_get(unsigned int cpu)
{
	return READ_ONCE(amp_page->vcpus[cpu].wanted_mips_milli);
}

static int amp_freq_target_index(struct cpufreq_policy *policy, unsigned int index)
{
	amp_freq_want(policy->cpu, policy->freq_table[index].frequency);
	return 0;
}

/*
 * Switch from within the scheduler. The caller has interrupts off and may run
 * on another CPU than the policy's.
 */
static unsigned int amp_freq_fast_switch(struct cpufreq_policy *policy, unsigned int target_khz)
{
	const struct cpufreq_frequency_table *level = policy->freq_table;

	/* Levels ascend: take the lowest that suffices, else the highest. */
	while (level->frequency < target_khz && level[1].frequency != CPUFREQ_TABLE_END)
		level++;
	amp_freq_want(policy->cpu, level->frequency);
	return level->frequency;
}

static void amp_freq_fill(struct cpufreq_frequency_table *levels, u32 max_khz)
{
	u32 min_khz = div_u64((u64)max_khz * min(freq_min_permille, 1000U), 1000);
	unsigned int used = 0;

	min_khz = clamp(min_khz, min_t(u32, AMP_MIN_KHZ, max_khz), max_khz);
	for (unsigned int i = 0; i < AMP_LEVELS; i++) {
		u32 khz = min_khz + div_u64((u64)(max_khz - min_khz) * i, AMP_LEVELS - 1);

		/* The cpufreq core warns about a speed that occurs twice. */
		if (used && levels[used - 1].frequency == khz)
			continue;
		levels[used++].frequency = khz;
	}
	levels[used].frequency = CPUFREQ_TABLE_END;
}

static int amp_freq_init(struct cpufreq_policy *policy)
{
	struct cpufreq_frequency_table *levels;
	unsigned int cpu = policy->cpu;

	if (cpu >= AMP_MAX_VCPUS || !amp_nominal_khz[cpu])
		return -ENODEV;
	levels = kcalloc(AMP_LEVELS + 1, sizeof(*levels), GFP_KERNEL);
	if (!levels)
		return -ENOMEM;
	amp_freq_fill(levels, amp_nominal_khz[cpu]);
	policy->freq_table = levels;
	policy->cpuinfo.transition_latency = AMP_LATENCY_NS;
	policy->transition_delay_us = AMP_DELAY_US;
	policy->fast_switch_possible = true;
	policy->dvfs_possible_from_any_cpu = true;
	amp_freq_want(cpu, amp_nominal_khz[cpu]);
	return 0;
}

static void amp_freq_exit(struct cpufreq_policy *policy)
{
	amp_freq_want(policy->cpu, 0);
	kfree(policy->freq_table);
	policy->freq_table = NULL;
}

static struct cpufreq_driver amp_freq_driver = {
    .name = "amp",
    /* The TSC times delays, and it does not follow the clock. */
    .flags = CPUFREQ_CONST_LOOPS,
    .init = amp_freq_init,
    .exit = amp_freq_exit,
    .verify = cpufreq_generic_frequency_table_verify,
    .target_index = amp_freq_target_index,
    .fast_switch = amp_freq_fast_switch,
    .get = amp_freq_get,
};

/*
 * Keep the kernel from giving up the TSC. TCG offers no invariant TSC, so the
 * kernel expects the TSC to follow the clock. It would give the TSC up at the
 * first switch, and it refuses fast switching while its notifier is registered.
 * The VM's TSC does not follow the clock.
 */
static int amp_freq_keep_tsc(struct device *dev)
{
	if (boot_cpu_has(X86_FEATURE_CONSTANT_TSC))
		return 0;
	amp_tsc_block = amp_symbol("time_cpufreq_notifier_block");
	if (!amp_tsc_block) {
		dev_warn(dev,
			 "amp: cpufreq=1 would make the kernel give up the TSC, and CONFIG_KALLSYMS_ALL is "
			 "missing to prevent it\n");
		return -EOPNOTSUPP;
	}
	cpufreq_unregister_notifier(amp_tsc_block, CPUFREQ_TRANSITION_NOTIFIER);
	return 0;
}

/*
 * Let the kernel scale load by the clock, if it can. A kernel on a CPU with
 * APERF and MPERF, which TCG lacks, does so by itself.
 */
static void amp_freq_find_scale(struct device *dev)
{
	amp_invariant = amp_symbol("arch_scale_freq_key");
	amp_scale = (unsigned long __percpu *)amp_symbol("arch_freq_scale");
	if (amp_invariant && amp_scale && !static_key_enabled(amp_invariant))
		return;
	dev_warn(dev, "amp: load is not scaled by the clock on this kernel\n");
	amp_invariant = NULL;
	amp_scale = NULL;
}

static void amp_freq_release_tsc(void)
{
	if (amp_tsc_block)
		cpufreq_register_notifier(amp_tsc_block, CPUFREQ_TRANSITION_NOTIFIER);
	amp_tsc_block = NULL;
}

int amp_freq_on(struct device *dev, struct amp_shared *page, const u32 *khz)
{
	int err;

	amp_page = page;
	amp_nominal_khz = khz;
	err = amp_freq_keep_tsc(dev);
	if (err)
		return err;
	amp_freq_find_scale(dev);
	err = cpufreq_register_driver(&amp_freq_driver);
	if (!err && amp_invariant)
		static_key_enable(amp_invariant);
	if (err) {
		amp_freq_release_tsc();
		dev_warn(dev, "amp: the kernel refuses the cpufreq driver (%d); is another one active?\n",
			 err);
	}
	return err;
}

void amp_freq_off(void)
{
	if (amp_invariant)
		static_key_disable(amp_invariant);
	cpufreq_unregister_driver(&amp_freq_driver);
	amp_freq_release_tsc();
}
