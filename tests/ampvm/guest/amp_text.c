// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
/*
 * Breakpoints that QEMU executes after the kernel removed them.
 *
 * Problem
 * The kernel changes its code while all CPUs run: a breakpoint replaces the
 * first byte, then the other bytes change, then the first byte. For each store,
 * QEMU first discards its translations of these bytes, and stores afterwards.
 * Between the two, another vCPU may translate the breakpoint again. The
 * translation then stays, and the next CPU in it dies of a stray breakpoint.
 *
 * Approach
 * A CPU that meets a breakpoint which nothing else claims writes the byte to
 * itself. QEMU discards the translation, and the CPU repeats the instruction.
 *
 * Invariants
 * The write is atomic, so it never undoes a change by another CPU.
 *
 * Limits
 * A real breakpoint without an owner still ends the kernel, after
 * AMP_TEXT_TRIES attempts. Nothing repairs breakpoints before this module is
 * loaded.
 */
#include <linux/kdebug.h>
#include <linux/moduleparam.h>
#include <linux/notifier.h>
#include <linux/percpu.h>
#include <linux/ptrace.h>
#include <asm/processor-flags.h>
#include <asm/special_insns.h>

#include "amp.h"

#define AMP_TEXT_BREAKPOINT 0xcc

/* Another change of the same code may be under way, for some microseconds. */
#define AMP_TEXT_TRIES 1000

/* The breakpoint that a CPU met last, and how often in sequence. */
struct amp_text_last {
	unsigned long ip;
	unsigned int times;
};

/* Repairs, counted without a lock: two at the same time may count as one. */
static unsigned int text_repairs;
module_param(text_repairs, uint, 0444);
MODULE_PARM_DESC(text_repairs, "result, not a setting: breakpoints that QEMU kept and this module repaired");

static DEFINE_PER_CPU(struct amp_text_last, amp_text_last);

/* Write a byte of the kernel's code to itself. Interrupts are off. */
static void amp_text_rewrite(u8 *byte)
{
	unsigned long cr0 = native_read_cr0();

	/* native_write_cr0() keeps write protection on. */
	asm volatile("mov %0, %%cr0" ::"r"(cr0 & ~X86_CR0_WP) : "memory");
	asm volatile("lock; orb $0, %0" : "+m"(*byte)::"memory");
	asm volatile("mov %0, %%cr0" ::"r"(cr0) : "memory");
}

static int amp_text_trap(struct notifier_block *block, unsigned long event, void *data)
{
	struct amp_text_last *last = this_cpu_ptr(&amp_text_last);
	struct pt_regs *regs = ((struct die_args *)data)->regs;
	unsigned long ip = regs->ip - 1;

	if (event != DIE_INT3 || user_mode(regs))
		return NOTIFY_DONE;
	if (last->ip != ip)
		*last = (struct amp_text_last){.ip = ip};
	if (READ_ONCE(*(u8 *)ip) != AMP_TEXT_BREAKPOINT) {
		last->times = 0;
		WRITE_ONCE(text_repairs, text_repairs + 1);
	} else if (++last->times > AMP_TEXT_TRIES) {
		return NOTIFY_DONE;
	}
	amp_text_rewrite((u8 *)ip);
	regs->ip = ip;
	return NOTIFY_STOP;
}

static struct notifier_block amp_text_block = {.notifier_call = amp_text_trap};

int amp_text_start(void)
{
	return register_die_notifier(&amp_text_block);
}

void amp_text_stop(void)
{
	unregister_die_notifier(&amp_text_block);
}
