// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
/* Workloads that wait for tasks or for the clock: pipelines, timers, frames. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "loads.h"

#define MAX_THREADS 16

/* One stage of a pipeline. It reads a block, works, and passes it on. */
struct stage {
	int in, out;
	uint64_t steps;
	size_t bytes;
	atomic_ulong blocks;
};

static void *run_stage(void *arg)
{
	struct stage *stage = arg;
	char *block = calloc(1, stage->bytes);

	for (;;) {
		for (size_t done = 0; stage->in >= 0 && done < stage->bytes;) {
			ssize_t n = read(stage->in, block + done, stage->bytes - done);

			if (n <= 0)
				return NULL;
			done += n;
		}
		work(stage->steps);
		for (size_t done = 0; stage->out >= 0 && done < stage->bytes;) {
			ssize_t n = write(stage->out, block + done, stage->bytes - done);

			if (n <= 0)
				return NULL;
			done += n;
		}
		stage->blocks++;
	}
}

void pipeline(int nr, double work_us, size_t bytes, double seconds)
{
	static struct stage stages[MAX_THREADS];
	uint64_t steps = steps_for(work_us), before;
	int in = -1;

	check_number(nr, MAX_THREADS);
	for (int i = 0; i < nr; i++) {
		int ends[2] = {-1, -1};

		if (i < nr - 1 && pipe(ends))
			die("pipe");
		stages[i] = (struct stage){.in = in, .out = ends[1], .steps = steps, .bytes = bytes};
		in = ends[0];
		start_thread(run_stage, &stages[i]);
	}
	sleep_s(0.5);
	before = stages[nr - 1].blocks;
	sleep_s(seconds);
	printf("{\"blocks_per_s\": %.1f}\n", (stages[nr - 1].blocks - before) / seconds);
}

struct timer {
	pthread_t thread;
	uint64_t period_ns;
	int loops;
	struct samples late;
};

static void *run_timer(void *arg)
{
	struct timer *timer = arg;
	uint64_t next = now_ns() + timer->period_ns;

	for (int i = 0; i < timer->loops; i++) {
		sleep_until(next);
		add_sample(&timer->late, now_ns() - next);
		next += timer->period_ns;
	}
	return NULL;
}

void cyclic(int nr, int loops)
{
	static struct timer timers[MAX_THREADS];
	double most = 0, sum = 0;

	check_number(nr, MAX_THREADS);
	for (int i = 0; i < nr; i++) {
		timers[i].period_ns = 2000000 + i * 500000;
		timers[i].loops = loops;
		timers[i].thread = start_thread(run_timer, &timers[i]);
	}
	for (int i = 0; i < nr; i++) {
		double late;

		pthread_join(timers[i].thread, NULL);
		sum += mean_us(&timers[i].late);
		late = quantile_us(&timers[i].late, 1);
		most = late > most ? late : most;
	}
	printf("{\"mean_us\": %.1f, \"most_us\": %.0f}\n", sum / nr, most);
}

void frames(int nr_busy, int nr)
{
	static struct samples took;
	const uint64_t period_ns = 16666667;
	uint64_t steps = steps_for(6000), next;
	int missed = 0;

	start_busy(nr_busy, -1);
	sleep_s(0.5);
	begin_busy();
	next = now_ns() + period_ns;
	for (int i = 0; i < nr; i++) {
		sleep_until(next);
		work(steps);
		add_sample(&took, now_ns() - next);
		missed += now_ns() > next + period_ns;
		next += period_ns;
		if (now_ns() > next)
			next = now_ns();
	}
	end_busy();
	printf("{\"missed\": %d, \"took_p99_us\": %.0f}\n", missed, quantile_us(&took, 0.99));
}
