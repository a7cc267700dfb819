// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
/*
 * How soon cpufreq raises a CPU's clock after a task begins to work there, and
 * lowers it after the task has stopped.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "loads.h"

/* Longest time that a change may take [ns]. */
#define TIMEOUT_NS 2000000000ull

static sem_t begins;
static atomic_bool ends;
/* Time at which the task first ran. */
static _Atomic uint64_t began_ns;

static void confine_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (pthread_setaffinity_np(pthread_self(), sizeof(set), &set))
		die("affinity");
}

static void *work_in_bursts(void *cpu)
{
	confine_to((intptr_t)cpu);
	for (;;) {
		sem_wait(&begins);
		began_ns = now_ns();
		while (!ends)
			work(CHUNK);
	}
	return NULL;
}

/* Return a clock of @cpu [kHz] from its file @name. */
static unsigned long clock_khz(int cpu, const char *name)
{
	char path[96], text[32] = {};
	int fd;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/cpufreq/%s", cpu, name);
	fd = open(path, O_RDONLY);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		die(path);
	close(fd);
	return strtoul(text, NULL, 10);
}

/*
 * Wait until the clock of @cpu is @khz, with a check every @pause_s. Return the
 * time since @since_ns, or TIMEOUT_NS.
 */
static uint64_t until_clock(int cpu, unsigned long khz, double pause_s, uint64_t since_ns)
{
	for (;;) {
		uint64_t now = now_ns();

		if (clock_khz(cpu, "scaling_cur_freq") == khz)
			return now - since_ns;
		if (now - since_ns > TIMEOUT_NS)
			return TIMEOUT_NS;
		if (pause_s)
			sleep_s(pause_s);
	}
}

void clocks(int cpu, int rounds)
{
	static struct samples up, down;
	unsigned long least = clock_khz(cpu, "cpuinfo_min_freq"), most = clock_khz(cpu, "cpuinfo_max_freq");

	check_number(rounds, MAX_SAMPLES);
	confine_to(0);
	start_thread(work_in_bursts, (void *)(intptr_t)cpu);
	for (int i = 0; i < rounds; i++) {
		uint64_t ended_ns;

		/* Bursts begin at different times between two ticks. */
		sleep_s(0.5 + 0.0013 * i);
		ends = false;
		began_ns = 0;
		sem_post(&begins);
		while (!began_ns)
			sched_yield();
		add_sample(&up, until_clock(cpu, most, 0, began_ns));
		sleep_s(0.1);
		ends = true;
		ended_ns = now_ns();
		add_sample(&down, until_clock(cpu, least, 0.002, ended_ns));
	}
	printf("{\"rounds\": %zu, \"up_median_ms\": %.1f, \"up_most_ms\": %.1f, ", up.nr,
	       quantile_us(&up, 0.5) / 1e3, quantile_us(&up, 1) / 1e3);
	printf("\"down_median_ms\": %.1f, \"down_most_ms\": %.1f}\n", quantile_us(&down, 0.5) / 1e3,
	       quantile_us(&down, 1) / 1e3);
}
