// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
/* Messengers that wake all of their workers together, with busy tasks. */
#define _GNU_SOURCE
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "loads.h"

#define MAX_MESSENGERS 8
#define MAX_WORKERS    64
#define PERIOD_NS      20000000
#define WORK_US	       200

struct messenger {
	pthread_t thread;
	atomic_uint message; /* a futex; 0 before the first */
	uint64_t sent_ns;
	int loops;
};

struct worker {
	pthread_t thread;
	struct messenger *messenger;
	uint64_t steps;
	struct samples late;
};

static atomic_bool measuring, over;

static void *run_worker(void *arg)
{
	struct worker *worker = arg;
	struct messenger *messenger = worker->messenger;
	unsigned int done = 0;

	while (!over) {
		if (messenger->message == done) {
			syscall(SYS_futex, &messenger->message, FUTEX_WAIT_PRIVATE, done, NULL);
			continue;
		}
		done = messenger->message;
		if (measuring)
			add_sample(&worker->late, now_ns() - messenger->sent_ns);
		work(worker->steps);
	}
	return NULL;
}

static void *run_messenger(void *arg)
{
	struct messenger *messenger = arg;
	uint64_t next = now_ns();

	for (int i = 0; i < messenger->loops; i++) {
		sleep_until(next += PERIOD_NS);
		messenger->sent_ns = now_ns();
		messenger->message++;
		syscall(SYS_futex, &messenger->message, FUTEX_WAKE_PRIVATE, INT_MAX);
	}
	return NULL;
}

void messengers(int nr, int nr_workers, int nr_busy, int loops)
{
	static struct messenger all[MAX_MESSENGERS];
	static struct worker workers[MAX_WORKERS];
	static struct samples late;
	uint64_t steps = steps_for(WORK_US);

	check_number(nr, MAX_MESSENGERS);
	check_number(nr * nr_workers, MAX_WORKERS);
	for (int i = 0; i < nr * nr_workers; i++) {
		workers[i].messenger = &all[i % nr];
		workers[i].steps = steps;
		workers[i].thread = start_thread(run_worker, &workers[i]);
	}
	start_busy(nr_busy, -1);
	begin_busy();
	for (int i = 0; i < nr; i++) {
		all[i].loops = loops;
		all[i].thread = start_thread(run_messenger, &all[i]);
	}
	sleep_s(0.5);
	measuring = true;
	for (int i = 0; i < nr; i++)
		pthread_join(all[i].thread, NULL);
	sleep_s(0.1);
	end_busy();
	over = true;
	for (int i = 0; i < nr * nr_workers; i++)
		for (size_t k = 0; k < workers[i].late.nr; k++)
			add_sample(&late, workers[i].late.ns[k]);
	printf(
	    "{\"wakeups\": %zu, \"p50_us\": %.0f, \"p99_us\": %.0f, \"p999_us\": %.0f, \"most_us\": %.0f}\n",
	    late.nr, quantile_us(&late, 0.5), quantile_us(&late, 0.99), quantile_us(&late, 0.999),
	    quantile_us(&late, 1));
}
