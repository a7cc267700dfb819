// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
/* Tasks, their loops, and the counters and clocks around them. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/mempolicy.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "measure.h"

/* 1.5 times the last-level cache. In a cyclic chase, each line misses. */
#define BUFFER_BYTES (384 << 10)
#define SETUP_NS     200e6
/* Flag that the first task to end sets in its word, to end the others. */
#define DONE (1ull << 63)

struct task *tasks;
double window_ns = 300e6;

_Noreturn void die(const char *what)
{
	fprintf(stderr, "figures: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

double now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

void sleep_until(double ns)
{
	struct timespec t = {ns / 1e9, (long long)ns % 1000000000};

	if (now_ns() > ns)
		die("the tasks were not ready in time");
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

void *shared(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

void execute(struct task *t, long steps)
{
	asm volatile("1: .rept 8\n add $3, %%rax\n .endr\n dec %0\n jnz 1b" : "+r"(steps) : : "rax", "cc");
}

void spin(struct task *t, long steps)
{
	asm volatile("1: pause\n dec %0\n jnz 1b" : "+r"(steps) : : "cc");
}

void chase(struct task *t, long steps)
{
	asm volatile("1: mov (%1), %1\n dec %0\n jnz 1b" : "+r"(steps), "+r"(t->at) : : "memory", "cc");
}

void stream(struct task *t, long steps)
{
	char *p = t->at;

	asm volatile("1: mov (%1), %%eax\n add $64, %1\n dec %0\n jnz 1b"
		     : "+r"(steps), "+r"(p)
		     :
		     : "rax", "memory", "cc");
	t->at = p < t->buffer + BUFFER_BYTES ? p : t->buffer;
}

void add(struct task *t, long steps)
{
	asm volatile("1: lock addq $1, (%1)\n dec %0\n jnz 1b" : "+r"(steps) : "r"(t->word) : "memory", "cc");
}

void pingpong(struct task *t, long steps)
{
	while (steps-- > 0) {
		while ((*t->word & (1 | DONE)) == !t->turn)
			;
		execute(t, 150);
		__atomic_fetch_add(t->word, 1, __ATOMIC_SEQ_CST);
	}
}

int open_group(int pid)
{
	struct perf_event_attr attr = {.size = sizeof(attr), .read_format = PERF_FORMAT_GROUP};
	FILE *f = fopen("/sys/bus/event_source/devices/amp/type", "r");
	int leader = -1;

	if (!f || fscanf(f, "%u", &attr.type) != 1)
		die("no PMU named amp; load amp_pmu.ko");
	fclose(f);
	for (attr.config = 0; attr.config < AMP_NR_EVENTS; attr.config++) {
		int fd = syscall(SYS_perf_event_open, &attr, pid, -1, leader, 0);

		if (fd < 0)
			die("perf_event_open");
		if (leader < 0)
			leader = fd;
	}
	return leader;
}

void add_group(int fd, double *event, int sign)
{
	uint64_t buf[1 + AMP_NR_EVENTS];

	if (read(fd, buf, sizeof(buf)) != sizeof(buf))
		die("read of a group");
	for (int e = 0; e < AMP_NR_EVENTS; e++)
		event[e] += sign * (double)buf[1 + e];
}

void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity");
}

void make_buffer(struct task *t)
{
	enum { LINES = BUFFER_BYTES / LINE };
	unsigned long mask = t->nodes;
	static size_t order[LINES];

	t->buffer = mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (t->buffer == MAP_FAILED)
		die("mmap");
	/* Kernels without NUMA have one node and no mbind. */
	if (syscall(SYS_mbind, t->buffer, BUFFER_BYTES, MPOL_INTERLEAVE, &mask, 8 * sizeof(mask), 0) &&
	    errno != ENOSYS)
		die("mbind");
	for (size_t i = 0; i < LINES; i++)
		order[i] = i;
	for (size_t i = LINES - 1; i > 0; i--) {
		size_t j = random() % (i + 1), swap = order[i];

		order[i] = order[j];
		order[j] = swap;
	}
	for (size_t i = 0; i < LINES; i++)
		*(void **)(t->buffer + order[i] * LINE) = t->buffer + order[(i + 1) % LINES] * LINE;
	t->at = t->buffer;
}

static void measure(struct task *t, double start)
{
	int fd;

	pin(t->cpu);
	fd = open_group(0);
	if (t->nodes)
		make_buffer(t);
	sleep_until(start);
	/* Let queues fill and caches empty before the window. */
	while (now_ns() < start + window_ns / 8)
		t->run(t, t->chunk);
	add_group(fd, t->event, -1);
	t->cpu_ns = -clock_ns(CLOCK_THREAD_CPUTIME_ID);
	t->ns = -now_ns();
	do {
		t->run(t, t->chunk);
		t->steps += t->chunk;
	} while (now_ns() < start + window_ns && !(t->word && *t->word & DONE));
	t->ns += now_ns();
	t->cpu_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID);
	add_group(fd, t->event, 1);
	if (t->word)
		__atomic_fetch_or(t->word, DONE, __ATOMIC_SEQ_CST);
}

void together(int count)
{
	double start = now_ns() + SETUP_NS;
	int status;

	for (int i = 0; i < count; i++)
		if (fork() == 0) {
			measure(&tasks[i], start);
			_exit(0);
		}
	while (wait(&status) > 0)
		if (status)
			exit(1);
}
