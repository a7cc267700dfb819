// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
/* Tasks whose memory is on the NUMA node where they began. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "loads.h"

#define MAX_LOCAL 32
/* Bytes of a task's memory, more than any cache of the machine holds. */
#define BYTES (4u << 20)
#define LINE  64
/* A task reads memory for about this long, and then sleeps as long [us]. */
#define BURST_US 2000

struct local {
	pthread_t thread;
	atomic_ulong reads, wakeups, left;
};

static unsigned int node_now(void)
{
	unsigned int cpu, node;

	if (getcpu(&cpu, &node))
		die("getcpu");
	return node;
}

/* Read @nr lines of @memory, of BYTES, in an order that no cache expects. */
static unsigned char read_lines(const volatile unsigned char *memory, uint32_t *at, int nr)
{
	unsigned char sum = 0;

	for (int i = 0; i < nr; i++) {
		*at = *at * 1664525 + 1013904223 + sum;
		sum += memory[(*at / LINE * LINE) % BYTES];
	}
	return sum;
}

static void *run_local(void *arg)
{
	struct local *local = arg;
	/* The kernel places a page on the node of the first access. */
	unsigned char *memory =
	    mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	uint32_t at = (uintptr_t)arg;

	if (memory == MAP_FAILED)
		die("mmap");
	for (;;) {
		uint64_t until = now_ns() + BURST_US * 1000;
		unsigned int node;

		while (now_ns() < until) {
			read_lines(memory, &at, 100);
			local->reads += 100;
		}
		node = node_now();
		sleep_s(BURST_US / 1e6);
		local->wakeups++;
		local->left += node_now() != node;
	}
}

void local(int nr, double seconds)
{
	static struct local locals[MAX_LOCAL];
	unsigned long reads = 0, wakeups = 0, left = 0;

	check_number(nr, MAX_LOCAL);
	for (int i = 0; i < nr; i++)
		locals[i].thread = start_thread(run_local, &locals[i]);
	sleep_s(0.5);
	for (int i = 0; i < nr; i++)
		locals[i].reads = locals[i].wakeups = locals[i].left = 0;
	sleep_s(seconds);
	for (int i = 0; i < nr; i++) {
		reads += locals[i].reads;
		wakeups += locals[i].wakeups;
		left += locals[i].left;
	}
	printf("{\"reads_per_s\": %.0f, \"wakeups\": %lu, \"left_node\": %.4f}\n", reads / seconds, wakeups,
	       wakeups ? (double)left / wakeups : 0);
}
