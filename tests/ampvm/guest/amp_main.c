// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
/*
 * Guest half of the asymmetric VM: a perf PMU named "amp" over the counters
 * that the QEMU plugin keeps in an ivshmem BAR. Loading the module also starts
 * the model and virtual time.
 *
 * Problem
 * A TCG guest has no hardware PMU and cannot count stalls.
 *
 * Approach
 * The plugin knows each vCPU's counters. Before every read this module executes
 * a NOP that the plugin recognises. The plugin then updates the executing
 * vCPU's counters in the page, exactly up to that instruction. Reads are
 * therefore exact, however short the interval.
 *
 * The PMU supports per-task and per-CPU events, groups, reads from BPF, and any
 * number of simultaneous events without multiplexing. Real PMUs have few
 * counters, and the cores of hybrid machines support different events. The
 * parameters below add such restrictions, to test users of counters under them.
 *
 * amp_hybrid.c informs the kernel of its unequal cores, and amp_kthread.c runs
 * busy kernel threads.
 *
 * Invariants
 * The callbacks run with interrupts off, on the CPU whose counters they read.
 *
 * Limits
 * Sampling is refused, because there is no overflow interrupt. Filters by
 * privilege are refused, too.
 */
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/perf_event.h>
#include <linux/smp.h>

#include "amp.h"

#define AMP_BAR 2

static struct amp_shared *amp_page;

static unsigned int slots;
module_param(slots, uint, 0444);
MODULE_PARM_DESC(slots, "events that count at a time on a CPU; more take turns (0, the default: no limit)");
static ulong refuse;
module_param(refuse, ulong, 0444);
MODULE_PARM_DESC(refuse, "mask of events that cannot be opened on the CPUs of refuse_cpus");
static ulong refuse_cpus;
module_param(refuse_cpus, ulong, 0444);
MODULE_PARM_DESC(refuse_cpus, "mask of CPUs, up to 63, on which the events of refuse cannot be opened");

/* Events that count on a CPU at present. Read only if slots is set. */
static DEFINE_PER_CPU(unsigned int, amp_active);

static u64 amp_counter(const struct perf_event *event)
{
	unsigned int cpu = smp_processor_id();

	if (cpu >= AMP_MAX_VCPUS)
		return 0;
	asm volatile(AMP_PUBLISH_NOP ::: "memory");
	return READ_ONCE(amp_page->vcpus[cpu].counters[event->hw.config]);
}

static int amp_event_init(struct perf_event *event)
{
	if (event->attr.type != event->pmu->type)
		return -ENOENT;
	if (event->attr.config >= AMP_NR_EVENTS)
		return -EINVAL;
	if (is_sampling_event(event) || has_branch_stack(event))
		return -EOPNOTSUPP;
	if (event->cpu >= 0 && event->cpu < BITS_PER_LONG && test_bit(event->cpu, &refuse_cpus) &&
	    (refuse & BIT(event->attr.config)))
		return -EINVAL;
	event->hw.config = event->attr.config;
	event->hw.idx = -1;
	return 0;
}

/*
 * Add the count since the last call. Interrupts are off, so no other read comes
 * between the two statements.
 */
static void amp_read(struct perf_event *event)
{
	u64 now = amp_counter(event);
	u64 before = local64_xchg(&event->hw.prev_count, now);

	local64_add(now - before, &event->count);
}

static void amp_start(struct perf_event *event, int flags)
{
	local64_set(&event->hw.prev_count, amp_counter(event));
	event->hw.state = 0;
}

static void amp_stop(struct perf_event *event, int flags)
{
	if (event->hw.state & PERF_HES_STOPPED)
		return;
	amp_read(event);
	event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
}

static int amp_add(struct perf_event *event, int flags)
{
	if (slots && __this_cpu_read(amp_active) >= slots)
		return -EAGAIN;
	__this_cpu_inc(amp_active);
	event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
	if (flags & PERF_EF_START)
		amp_start(event, flags);
	return 0;
}

static void amp_del(struct perf_event *event, int flags)
{
	amp_stop(event, PERF_EF_UPDATE);
	__this_cpu_dec(amp_active);
}

static void amp_pmu_read(struct perf_event *event)
{
	if (!(event->hw.state & PERF_HES_STOPPED))
		amp_read(event);
}

PMU_FORMAT_ATTR(event, "config:0-7");
static struct attribute *amp_format_attrs[] = {&format_attr_event.attr, NULL};
static const struct attribute_group amp_format_group = {.name = "format", .attrs = amp_format_attrs};

PMU_EVENT_ATTR_STRING(instructions, amp_attr_instructions, "event=0x0");
PMU_EVENT_ATTR_STRING(cycles, amp_attr_cycles, "event=0x1");
PMU_EVENT_ATTR_STRING(stall_external, amp_attr_stall_external, "event=0x2");
PMU_EVENT_ATTR_STRING(stall_internal, amp_attr_stall_internal, "event=0x3");
PMU_EVENT_ATTR_STRING(llc_misses, amp_attr_llc_misses, "event=0x4");
PMU_EVENT_ATTR_STRING(transfers, amp_attr_transfers, "event=0x5");
static struct attribute *amp_event_attrs[] = {
    &amp_attr_instructions.attr.attr,
    &amp_attr_cycles.attr.attr,
    &amp_attr_stall_external.attr.attr,
    &amp_attr_stall_internal.attr.attr,
    &amp_attr_llc_misses.attr.attr,
    &amp_attr_transfers.attr.attr,
    NULL,
};
static const struct attribute_group amp_event_group = {.name = "events", .attrs = amp_event_attrs};

static const struct attribute_group *amp_groups[] = {&amp_format_group, &amp_event_group, NULL};

static struct pmu amp_pmu = {
    /*
     * As for software events: always scheduled, never multiplexed, and allowed
     * in a group with them.
     */
    .task_ctx_nr = perf_sw_context,
    .attr_groups = amp_groups,
    .event_init = amp_event_init,
    .add = amp_add,
    .del = amp_del,
    .start = amp_start,
    .stop = amp_stop,
    .read = amp_pmu_read,
    .capabilities = PERF_PMU_CAP_NO_INTERRUPT | PERF_PMU_CAP_NO_EXCLUDE,
    .module = THIS_MODULE,
};

/*
 * Return 0 if a plugin of this layout version has set the page up. Devices of
 * other ivshmem users fail the check.
 */
static int amp_check(struct pci_dev *dev, const struct amp_shared *page)
{
	if (page->header.magic != AMP_MAGIC) {
		dev_info(&dev->dev, "amp: ivshmem without the ampvm plugin, left alone\n");
		return -ENODEV;
	}
	if (page->header.version != AMP_VERSION) {
		dev_err(&dev->dev, "amp: page layout %u, module needs %u; rebuild both from one tree\n",
			page->header.version, AMP_VERSION);
		return -EPROTO;
	}
	if (page->header.nr_vcpus < nr_cpu_ids) {
		dev_err(&dev->dev, "amp: page has %u vCPUs, the kernel %u; boot with -smp without maxcpus\n",
			page->header.nr_vcpus, nr_cpu_ids);
		return -EINVAL;
	}
	return 0;
}

static int amp_probe(struct pci_dev *dev, const struct pci_device_id *id)
{
	struct amp_shared *page;
	int err;

	if (amp_page)
		return -EBUSY;
	err = pcim_enable_device(dev);
	if (err)
		return err;
	if (pci_resource_len(dev, AMP_BAR) < sizeof(*page)) {
		dev_err(&dev->dev, "amp: BAR is too small; give the memory backend size=1M\n");
		return -EINVAL;
	}
	/*
	 * The BAR is ordinary memory of the host, so map it cached. The plugin
	 * writes it from the same address space.
	 */
	page = memremap(pci_resource_start(dev, AMP_BAR), sizeof(*page), MEMREMAP_WB);
	if (!page)
		return -ENOMEM;
	err = amp_check(dev, page);
	if (err)
		goto unmap;
	amp_page = page;
	/* Software events are never multiplexed. */
	if (slots)
		amp_pmu.task_ctx_nr = perf_hw_context;
	err = perf_pmu_register(&amp_pmu, "amp", -1);
	if (err)
		goto forget;
	err = amp_text_start();
	if (err)
		goto unregister;
	/*
	 * Do this before the model starts, because a rebuild of the domains
	 * takes long at a modelled speed.
	 */
	amp_hybrid_start(&dev->dev, page);
	amp_timer_set_rate(&dev->dev);
	amp_kthread_allow(true);
	amp_sleep_keep_files();
	WRITE_ONCE(page->header.enable, 1);
	return 0;

unregister:
	perf_pmu_unregister(&amp_pmu);
forget:
	amp_page = NULL;
unmap:
	memunmap(page);
	return err;
}

static void amp_remove(struct pci_dev *dev)
{
	WRITE_ONCE(amp_page->header.enable, 0);
	amp_kthread_allow(false);
	amp_hybrid_stop();
	amp_text_stop();
	perf_pmu_unregister(&amp_pmu);
	memunmap(amp_page);
	amp_page = NULL;
}

static const struct pci_device_id amp_ids[] = {{PCI_DEVICE(AMP_PCI_VENDOR, AMP_PCI_DEVICE)}, {}};
MODULE_DEVICE_TABLE(pci, amp_ids);

static struct pci_driver amp_driver = {
    .name = "amp_pmu",
    .id_table = amp_ids,
    .probe = amp_probe,
    .remove = amp_remove,
};
module_pci_driver(amp_driver);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("perf PMU of the asymmetric virtual machine");
