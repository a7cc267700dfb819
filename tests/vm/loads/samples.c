// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
/* Threads, time, work and samples. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "loads.h"

void die(const char *what)
{
	fprintf(stderr, "loads: %s: %s\n", what, strerror(errno));
	exit(1);
}

void check_number(int nr, int most)
{
	if (nr >= 1 && nr <= most)
		return;
	fprintf(stderr, "loads: 1 to %d tasks, not %d\n", most, nr);
	exit(2);
}

pthread_t start_thread(void *(*run)(void *), void *arg)
{
	pthread_attr_t attr;
	pthread_t thread;

	/* Locking touches a whole stack, and the usual 8 MiB take long. */
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 << 10);
	errno = pthread_create(&thread, &attr, run, arg);
	if (errno)
		die("thread");
	return thread;
}

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

void sleep_until(uint64_t ns)
{
	struct timespec ts = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

void sleep_s(double s)
{
	sleep_until(now_ns() + (uint64_t)(s * 1e9));
}

void work(uint64_t steps)
{
	uint64_t x = 1;

	while (steps--)
		asm volatile("imul $3, %0, %0\n\tadd $1, %0" : "+r"(x));
}

uint64_t steps_for(double us)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 5; i++) {
		uint64_t began = now_ns();

		work(20000);
		if (now_ns() - began < best)
			best = now_ns() - began;
	}
	return us * 1000 * 20000 / best;
}

void add_sample(struct samples *samples, uint64_t ns)
{
	if (samples->nr < MAX_SAMPLES)
		samples->ns[samples->nr++] = ns;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

double quantile_us(struct samples *samples, double share)
{
	if (!samples->nr)
		return 0;
	qsort(samples->ns, samples->nr, sizeof(*samples->ns), compare);
	return samples->ns[(size_t)((samples->nr - 1) * share)] / 1e3;
}

double mean_us(const struct samples *samples)
{
	double sum = 0;

	for (size_t i = 0; i < samples->nr; i++)
		sum += samples->ns[i] / 1e3;
	return samples->nr ? sum / samples->nr : 0;
}
