// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
/*
 * Short programs that start one after another beside light servers: how long a
 * new task waits until it runs, and how long its parent waits for its end.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loads.h"

#define NR_STARTERS 4

struct starter {
	pthread_t thread;
	int starts;
	uint64_t steps;
	struct samples first, reaped;
};

/* Times that a child leaves for its parent. */
struct child {
	uint64_t waited_ns, ended_ns;
};

static atomic_bool done;

/* Return for how long the calling task has waited for a CPU so far [ns]. */
static uint64_t waited(void)
{
	char text[128] = {};
	unsigned long long ran, waited = 0;
	int fd = open("/proc/self/schedstat", O_RDONLY);

	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0 || sscanf(text, "%llu %llu", &ran, &waited) != 2)
		_exit(1);
	close(fd);
	return waited;
}

static void *start_programs(void *arg)
{
	struct starter *starter = arg;
	struct child *child =
	    mmap(NULL, sizeof(*child), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (child == MAP_FAILED)
		die("mmap");
	for (int i = 0; i < starter->starts; i++) {
		int status;
		pid_t pid = fork();

		if (!pid) {
			child->waited_ns = waited();
			work(starter->steps);
			child->ended_ns = now_ns();
			_exit(0);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
			die("child");
		add_sample(&starter->reaped, now_ns() - child->ended_ns);
		add_sample(&starter->first, child->waited_ns);
	}
	return NULL;
}

/* Work for 0.2 to 0.5 ms and sleep for 1 to 3 ms, again and again. */
static void *serve_lightly(void *arg)
{
	unsigned int seed = (uintptr_t)arg * 7919;
	uint64_t step = steps_for(100);

	while (!done) {
		work(step * (2 + rand_r(&seed) % 4));
		usleep(1000 + rand_r(&seed) % 2001);
	}
	return NULL;
}

void starts(int nr, double work_us, int servers)
{
	static struct starter starters[NR_STARTERS];
	static struct samples first, reaped;
	uint64_t steps = steps_for(work_us);

	check_number(nr, MAX_SAMPLES);
	for (uintptr_t i = 0; i < (uintptr_t)servers; i++)
		start_thread(serve_lightly, (void *)(i + 1));
	sleep_s(0.5);
	for (int i = 0; i < NR_STARTERS; i++) {
		starters[i].starts = nr / NR_STARTERS;
		starters[i].steps = steps;
		starters[i].thread = start_thread(start_programs, &starters[i]);
	}
	for (int i = 0; i < NR_STARTERS; i++) {
		pthread_join(starters[i].thread, NULL);
		for (size_t k = 0; k < starters[i].first.nr; k++) {
			add_sample(&first, starters[i].first.ns[k]);
			add_sample(&reaped, starters[i].reaped.ns[k]);
		}
	}
	done = true;
	printf("{\"starts\": %zu, \"first_p99_us\": %.0f, \"first_p999_us\": %.0f, \"first_most_us\": %.0f, ",
	       first.nr, quantile_us(&first, 0.99), quantile_us(&first, 0.999), quantile_us(&first, 1));
	printf("\"reaped_p99_us\": %.0f, \"reaped_most_us\": %.0f}\n", quantile_us(&reaped, 0.99),
	       quantile_us(&reaped, 1));
}
