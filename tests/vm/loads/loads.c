// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
/*
 * loads: workloads that a scheduler may handle badly, and the waits of their
 * tasks.
 *
 *	loads spin TASKS SECONDS [CPU]
 *		equal busy tasks, on all CPUs or on one
 *	loads light TASKS NICE SECONDS
 *		a busy task of nice 19, and TASKS of NICE
 *	loads fifo TASKS SECONDS CPU RUN_MS SLEEP_MS
 *		the same, and a SCHED_FIFO thread on CPU that runs and sleeps
 *		alternately, or only runs if SLEEP_MS is 0; it begins with the
 *		measurement
 *	loads servers TASKS SERVERS SECONDS
 *		the same, and servers that sleep 20 to 2000 us between short
 *		requests
 *	loads sleepers TASKS NICE RUN_US SLEEP_US BUSY SECONDS
 *		tasks of NICE that run and sleep, beside BUSY tasks of nice 0:
 *		how many CPUs the former use
 *	loads pipeline STAGES WORK_US BYTES SECONDS
 *		stages that pass on blocks through pipes
 *	loads cyclic THREADS LOOPS
 *		timers of 2, 2.5, 3 ... ms
 *	loads frames BUSY FRAMES
 *		6 ms of work every 16.7 ms, with busy tasks
 *	loads messengers NR WORKERS BUSY LOOPS
 *		each messenger wakes all of its workers every 20 ms, for 200 us
 *		of work, with busy tasks
 *	loads local TASKS SECONDS
 *		each reads memory of the node where it began for 2 ms, and
 *		sleeps for 2 ms
 *
 *	loads offline CPU TIMES
 *		takes CPU offline and brings it back while pinned tasks, tasks
 *		with migration disabled and kernel threads wait for it
 *	loads starts NR WORK_US SERVERS
 *		starts NR short programs beside light servers
 *	loads clocks CPU ROUNDS
 *		how soon the clock of CPU follows a burst of work there
 *
 * Each mode prints one JSON document. Times are the guest's. With virtual time
 * they are those of the model. A wait is the time between two clock reads of a
 * task that never sleeps, if it is a millisecond or more.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "loads.h"

#define MAX_TASKS 64
#define MAX_CROWD 1000
#define WAIT_NS	  1000000

static atomic_bool begun, ended;

struct task {
	pthread_t thread;
	int cpu; /* the only CPU that it may use, or -1 */
	uint64_t chunks;
	struct samples waits;
};

static struct task tasks[MAX_TASKS];

static void confine(int cpu)
{
	cpu_set_t set;

	if (cpu < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("affinity");
}

static void *busy(void *arg)
{
	struct task *task = arg;
	uint64_t last, now;

	confine(task->cpu);
	while (!begun)
		work(CHUNK);
	last = now_ns();
	while (!ended) {
		work(CHUNK);
		task->chunks++;
		now = now_ns();
		if (now - last >= WAIT_NS)
			add_sample(&task->waits, now - last);
		last = now;
	}
	return NULL;
}

void begin_busy(void)
{
	begun = true;
}

void end_busy(void)
{
	ended = true;
}

static void print_tasks(int nr, double seconds)
{
	static struct samples all;
	double least = 1e18, most = 0, sum = 0;

	printf("{\"per_s\": [");
	for (int i = 0; i < nr; i++) {
		double rate = tasks[i].chunks / seconds;

		least = rate < least ? rate : least;
		most = rate > most ? rate : most;
		sum += rate;
		printf("%s%.1f", i ? ", " : "", rate);
		for (size_t k = 0; k < tasks[i].waits.nr; k++)
			add_sample(&all, tasks[i].waits.ns[k]);
	}
	printf("], \"sum_per_s\": %.1f, \"most_over_least\": %.4f, \"least_over_mean\": %.4f, ", sum,
	       most / least, least * nr / sum);
	printf("\"waits\": %zu, \"wait_p99_us\": %.0f, \"wait_p999_us\": %.0f, \"wait_most_us\": %.0f}\n",
	       all.nr, quantile_us(&all, 0.99), quantile_us(&all, 0.999), quantile_us(&all, 1));
}

/*
 * Measure @nr busy tasks for @seconds after half a second, and print the work
 * and the waits of each.
 */
static void measure(int nr, double seconds)
{
	uint64_t from;

	sleep_s(0.5);
	from = now_ns();
	begun = true;
	sleep_s(seconds);
	ended = true;
	seconds = (now_ns() - from) / 1e9;
	for (int i = 0; i < nr; i++)
		pthread_join(tasks[i].thread, NULL);
	print_tasks(nr, seconds);
}

/* Set the nice value of the calling thread alone. */
static void renice(int nice)
{
	if (setpriority(PRIO_PROCESS, gettid(), nice))
		die("nice");
}

static void *crowd(void *arg)
{
	renice((intptr_t)arg);
	while (!ended)
		work(CHUNK);
	return NULL;
}

static void *light(void *arg)
{
	renice(19);
	return busy(arg);
}

/* Print the waits of a task of nice 19 beside @nr tasks of @nice. */
static void measure_light(int nr, int nice, double seconds)
{
	check_number(nr, MAX_CROWD);
	tasks[0].cpu = -1;
	tasks[0].thread = start_thread(light, &tasks[0]);
	sleep_s(0.5);
	for (intptr_t i = 0; i < nr; i++)
		start_thread(crowd, (void *)(intptr_t)nice);
	measure(1, seconds);
}

struct fifo {
	int cpu;
	double run_ms, sleep_ms;
};

static void *run_fifo(void *arg)
{
	struct fifo *fifo = arg;
	struct sched_param param = {.sched_priority = 10};

	confine(fifo->cpu);
	if (sched_setscheduler(0, SCHED_FIFO, &param))
		die("SCHED_FIFO");
	sleep_s(1.5);
	while (!ended) {
		uint64_t until = now_ns() + fifo->run_ms * 1e6;

		while ((!fifo->sleep_ms || now_ns() < until) && !ended)
			work(CHUNK);
		sleep_s(fifo->sleep_ms / 1e3);
	}
	return NULL;
}

static void *serve(void *arg)
{
	unsigned int seed = (uintptr_t)arg * 7919;

	while (!ended) {
		work(2000);
		usleep(20 + rand_r(&seed) % 1981);
	}
	return NULL;
}

struct sleeper {
	int nice;
	uint64_t steps;
	double sleep_s;
};

static void *run_sleeper(void *arg)
{
	const struct sleeper *sleeper = arg;

	renice(sleeper->nice);
	while (!ended) {
		work(sleeper->steps);
		sleep_s(sleeper->sleep_s);
	}
	return NULL;
}

/* Return the CPU time of @nr threads [s]. */
static double cpu_time_s(const pthread_t *threads, int nr)
{
	double sum_s = 0;

	for (int i = 0; i < nr; i++) {
		struct timespec time;
		clockid_t clock;

		if (pthread_getcpuclockid(threads[i], &clock) || clock_gettime(clock, &time))
			die("CPU clock");
		sum_s += time.tv_sec + time.tv_nsec / 1e9;
	}
	return sum_s;
}

/* Print how many CPUs @nr sleepers use beside @nr_busy busy tasks. */
static void measure_sleepers(int nr, struct sleeper *sleeper, int nr_busy, double seconds)
{
	pthread_t threads[MAX_TASKS];
	double before_s;
	uint64_t from;

	check_number(nr, MAX_TASKS);
	for (int i = 0; i < nr; i++)
		threads[i] = start_thread(run_sleeper, sleeper);
	start_busy(nr_busy, -1);
	begun = true;
	sleep_s(1);
	from = now_ns();
	before_s = cpu_time_s(threads, nr);
	sleep_s(seconds);
	printf("{\"cpus\": %.4f}\n", (cpu_time_s(threads, nr) - before_s) * 1e9 / (now_ns() - from));
}

void start_busy(int nr, int cpu)
{
	check_number(nr, MAX_TASKS);
	for (int i = 0; i < nr; i++) {
		tasks[i].cpu = cpu;
		tasks[i].thread = start_thread(busy, &tasks[i]);
	}
}

int main(int argc, char **argv)
{
	const char *mode = argc > 2 ? argv[1] : "";
	double arg[8] = {};

	/* A fork would copy the locked memory. */
	if (strcmp(mode, "starts"))
		mlockall(MCL_CURRENT | MCL_FUTURE);
	for (int i = 2; i < argc && i < 10; i++)
		arg[i - 2] = atof(argv[i]);
	if (!strcmp(mode, "spin")) {
		start_busy(arg[0], argc > 4 ? arg[2] : -1);
		measure(arg[0], arg[1]);
	} else if (!strcmp(mode, "light")) {
		measure_light(arg[0], arg[1], arg[2]);
	} else if (!strcmp(mode, "fifo")) {
		struct fifo fifo = {.cpu = arg[2], .run_ms = arg[3], .sleep_ms = arg[4]};

		start_thread(run_fifo, &fifo);
		start_busy(arg[0], -1);
		sleep_s(1);
		measure(arg[0], arg[1]);
	} else if (!strcmp(mode, "servers")) {
		for (uintptr_t i = 0; i < arg[1]; i++)
			start_thread(serve, (void *)(i + 1));
		start_busy(arg[0], -1);
		measure(arg[0], arg[2]);
	} else if (!strcmp(mode, "sleepers")) {
		struct sleeper kind = {.nice = arg[1], .steps = steps_for(arg[2]), .sleep_s = arg[3] / 1e6};

		measure_sleepers(arg[0], &kind, arg[4], arg[5]);
	} else if (!strcmp(mode, "pipeline")) {
		pipeline(arg[0], arg[1], arg[2], arg[3]);
	} else if (!strcmp(mode, "cyclic")) {
		cyclic(arg[0], arg[1]);
	} else if (!strcmp(mode, "frames")) {
		frames(arg[0], arg[1]);
	} else if (!strcmp(mode, "messengers")) {
		messengers(arg[0], arg[1], arg[2], arg[3]);
	} else if (!strcmp(mode, "local")) {
		local(arg[0], arg[1]);
	} else if (!strcmp(mode, "offline")) {
		hotplug(arg[0], arg[1]);
	} else if (!strcmp(mode, "starts")) {
		starts(arg[0], arg[1], arg[2]);
	} else if (!strcmp(mode, "clocks")) {
		clocks(arg[0], arg[1]);
	} else {
		fprintf(stderr,
			"usage: loads "
			"spin|light|fifo|servers|sleepers|pipeline|cyclic|frames|messengers|local|offline|"
			"starts|clocks ..., "
			"see loads.c\n");
		return 2;
	}
	/* Some threads never end. */
	fflush(stdout);
	_exit(0);
}
