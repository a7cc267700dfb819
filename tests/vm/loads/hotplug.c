// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
/*
 * A CPU that goes offline while tasks of every kind wait for it: pinned ones,
 * confined ones, ones with migration disabled, sleepers, kernel threads.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/bpf.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "loads.h"

/* Busy kernel threads that the guest's module binds to a CPU. */
#define KTHREADS "/sys/module/amp_pmu/parameters/kthreads"

#define NR_PINNED   2
#define NR_DISABLED 1
/* The last one may also use CPU 0. */
#define NR_SLEEPERS 2
#define NR_THREADS  (NR_PINNED + NR_DISABLED + NR_SLEEPERS)

static pthread_t threads[NR_THREADS];
static int program;

static void *spin(void *arg)
{
	/* One of them is light. */
	if (arg && setpriority(PRIO_PROCESS, gettid(), 19))
		die("nice");
	for (;;)
		work(CHUNK);
	return NULL;
}

static void *doze(void *arg)
{
	for (;;) {
		work(CHUNK);
		usleep(500);
	}
	return arg;
}

/*
 * Run a BPF program for a third of the time. The kernel disables migration
 * around it, and ticks preempt the task there. Without other work nothing would
 * preempt it elsewhere, and it could not leave a CPU that goes offline.
 */
static void *run_program(void *arg)
{
	char packet[64] = {};
	union bpf_attr attr = {};

	attr.test.prog_fd = program;
	attr.test.data_in = (uintptr_t)packet;
	attr.test.data_size_in = sizeof(packet);
	attr.test.repeat = 1 << 15;
	for (;;) {
		uint64_t took = now_ns();

		if (syscall(SYS_bpf, BPF_PROG_TEST_RUN, &attr, sizeof(attr)))
			die("BPF_PROG_TEST_RUN");
		took = now_ns() - took;
		for (uint64_t end = now_ns() + 2 * took; now_ns() < end;)
			work(CHUNK);
	}
	return arg;
}

/* Load a BPF program that does nothing. */
static int load_program(void)
{
	struct bpf_insn insns[] = {
	    {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
	    {.code = BPF_JMP | BPF_EXIT},
	};
	union bpf_attr attr = {};
	int fd;

	attr.prog_type = BPF_PROG_TYPE_SOCKET_FILTER;
	attr.insns = (uintptr_t)insns;
	attr.insn_cnt = sizeof(insns) / sizeof(insns[0]);
	attr.license = (uintptr_t)"GPL";
	fd = syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
	if (fd < 0)
		die("BPF_PROG_LOAD");
	return fd;
}

/* Write @text to a file of sysfs. Return false if there is none. */
static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0)
		return 0;
	if (write(fd, text, strlen(text)) < 0)
		die(path);
	close(fd);
	return 1;
}

/* Bind all threads to @cpu again: the kernel has widened their affinity. */
static int bind_to(int cpu)
{
	char text[32];
	cpu_set_t set;

	for (int i = 0; i < NR_THREADS; i++) {
		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
		if (i == NR_THREADS - 1)
			CPU_SET(0, &set);
		if (pthread_setaffinity_np(threads[i], sizeof(set), &set))
			die("affinity");
	}
	snprintf(text, sizeof(text), "%d:1", cpu);
	return write_text(KTHREADS, text);
}

static void start_threads(void)
{
	int i = 0;

	program = load_program();
	for (; i < NR_PINNED; i++)
		threads[i] = start_thread(spin, (void *)(uintptr_t)!i);
	for (; i < NR_PINNED + NR_DISABLED; i++)
		threads[i] = start_thread(run_program, NULL);
	for (; i < NR_THREADS; i++)
		threads[i] = start_thread(doze, NULL);
}

void hotplug(int cpu, int times)
{
	static struct samples took;
	char path[64];
	int kthreads = 0;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
	/* They would inherit the priority. */
	start_threads();
	if (setpriority(PRIO_PROCESS, 0, -20))
		die("nice");
	for (int i = 0; i < times; i++) {
		uint64_t began;

		kthreads = bind_to(cpu);
		/* By then all of them wait for the CPU. */
		sleep_s(0.05);
		began = now_ns();
		if (!write_text(path, "0"))
			die(path);
		add_sample(&took, now_ns() - began);
		write_text(path, "1");
	}
	if (kthreads)
		write_text(KTHREADS, "0");
	printf("{\"times\": %zu, \"kthreads\": %d, \"median_ms\": %.1f, \"most_ms\": %.1f}\n", took.nr,
	       kthreads, quantile_us(&took, 0.5) / 1e3, quantile_us(&took, 1) / 1e3);
}
