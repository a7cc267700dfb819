// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
/*
 * Measure, inside the guest, the figures that the asymmetric VM's model
 * predicts.
 *
 *     cc -O2 -static -I ../guest figures.c measure.c -o figures
 *     figures execute      an integer loop on each CPU
 *     figures spin         a loop of PAUSE on each CPU
 *     figures boost        integer loops on 1, 2, ... CPUs together
 *     figures smt          CPUs 0 and 1, siblings: each alone, then both
 *     figures memory       a chase over local, remote, interleaved memory
 *     figures bandwidth    streams of one node, of two, and one with a loop
 *     figures transfers    words that CPUs share, or keep in a line
 *     figures handover     a word that two CPUs hand over to each other
 *     figures attribution  two tasks that alternate every ms on one CPU
 *     figures sleep        a sleep of ten seconds
 *
 * The program prints one JSON object. The loops are assembly, so that a step
 * has a known number of instructions and misses. The model's prediction can
 * thus be computed by hand.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "measure.h"

#define MAX_TASKS 8

static volatile uint64_t *words;

static void put(const char *name, int number, double value)
{
	static const char *separator = "{";
	char suffix[12] = "";

	if (number >= 0)
		snprintf(suffix, sizeof(suffix), "%d", number);
	printf("%s\n  \"%s%s\": %.6g", separator, name, suffix, value);
	separator = ",";
}

static double step_ns(const struct task *t)
{
	return t->ns / t->steps;
}

/*
 * CPU time per instruction and stall cycle, including those of the kernel's
 * ticks. Ticks of two CPUs that coincide wait for each other's locks with
 * PAUSE, which is a stall.
 */
static double work_ns(const struct task *t)
{
	const double *event = t->event;

	return t->cpu_ns / (event[AMP_INSTRUCTIONS] + event[AMP_STALL_INTERNAL] + event[AMP_STALL_EXTERNAL]);
}

/* Each of these sets up task @i for the given CPU. */

static void loop(int i, int cpu)
{
	tasks[i] = (struct task){.cpu = cpu, .run = execute, .chunk = 4000};
}

static void reader(int i, int cpu, void (*run)(struct task *, long), int nodes)
{
	tasks[i] = (struct task){.cpu = cpu, .run = run, .chunk = 1024, .nodes = nodes};
}

static void writer(int i, void (*run)(struct task *, long), long chunk, int word)
{
	tasks[i] = (struct task){.cpu = i, .run = run, .chunk = chunk, .word = &words[word]};
}

/* Run the first task alone, and return its ns per step. */
static double alone(void)
{
	together(1);
	return step_ns(&tasks[0]);
}

static void figure_execute(void)
{
	enum { ROUNDS = 3 };
	int cpus = sysconf(_SC_NPROCESSORS_ONLN);

	/* In a window this long, one tick of the timer does not show. */
	window_ns = 600e6;
	for (int cpu = 0; cpu < cpus; cpu++) {
		double least = 1e18, most = 0, all_ns = 0, ns = 0;

		for (int round = 0; round < ROUNDS; round++) {
			loop(0, cpu);
			all_ns += alone() / ROUNDS;
			/* The guest's other tasks may preempt this one. */
			double one = tasks[0].cpu_ns / tasks[0].steps;

			least = one < least ? one : least;
			most = one > most ? one : most;
			ns += work_ns(&tasks[0]) / ROUNDS;
		}
		put("step_ns", cpu, all_ns);
		put("work_ns", cpu, ns);
		put("spread", cpu, most / least - 1);
	}
}

static void figure_spin(void)
{
	int cpus = sysconf(_SC_NPROCESSORS_ONLN);

	for (int cpu = 0; cpu < cpus; cpu++) {
		tasks[0] = (struct task){.cpu = cpu, .run = spin, .chunk = 400};
		put("step_ns", cpu, alone());
	}
}

static void figure_boost(void)
{
	int cpus = sysconf(_SC_NPROCESSORS_ONLN);

	for (int busy = 1; busy <= cpus && busy <= MAX_TASKS; busy++) {
		for (int cpu = 0; cpu < busy; cpu++)
			loop(cpu, cpu);
		together(busy);
		put("work_ns", busy, work_ns(&tasks[0]));
	}
}

static void figure_smt(void)
{
	double own[2];

	for (int cpu = 0; cpu < 2; cpu++) {
		loop(0, cpu);
		alone();
		own[cpu] = work_ns(&tasks[0]);
	}
	loop(0, 0);
	loop(1, 1);
	together(2);
	for (int cpu = 0; cpu < 2; cpu++)
		put("share", cpu, own[cpu] / work_ns(&tasks[cpu]));
}

static void figure_memory(void)
{
	static const char *const names[] = {"local_ns", "remote_ns", "interleaved_ns"};

	for (int i = 0; i < 3; i++) {
		reader(0, 0, chase, i + 1);
		put(names[i], -1, alone());
	}
}

static void figure_bandwidth(void)
{
	int last = sysconf(_SC_NPROCESSORS_ONLN) - 1;

	reader(0, 0, stream, 1);
	put("one_ns", -1, alone());
	reader(0, 0, stream, 1);
	reader(1, 1, stream, 1);
	together(2);
	put("two_ns", 0, step_ns(&tasks[0]));
	put("two_ns", 1, step_ns(&tasks[1]));
	reader(0, 0, stream, 1);
	reader(1, last, stream, 2);
	together(2);
	put("nodes_ns", 0, step_ns(&tasks[0]));
	put("nodes_ns", 1, step_ns(&tasks[1]));
	reader(0, 0, stream, 1);
	loop(1, 1);
	together(2);
	put("beside_ns", -1, step_ns(&tasks[0]));
	put("loop_ns", -1, step_ns(&tasks[1]));
}

/*
 * Print transfers and ns per step, and stall cycles per transfer. @rate is the
 * kernel's own transfers per ns and is subtracted. Return all transfers per ns,
 * which is that rate if the tasks share no line.
 */
static double put_transfers(const char *name, int count, double rate)
{
	double transfers = 0, steps = 0, ns = 0, stalls = 0;
	char key[32];

	together(count);
	for (int i = 0; i < count; i++) {
		steps += tasks[i].steps;
		ns += tasks[i].ns;
		transfers += tasks[i].event[AMP_TRANSFERS];
		stalls += tasks[i].event[AMP_STALL_EXTERNAL];
	}
	snprintf(key, sizeof(key), "%s_transfers", name);
	put(key, -1, (transfers - rate * ns) / steps);
	snprintf(key, sizeof(key), "%s_ns", name);
	put(key, -1, ns / steps);
	snprintf(key, sizeof(key), "%s_stall_cycles", name);
	put(key, -1, stalls / transfers);
	return transfers / ns;
}

static const struct counter {
	const char *name;
	int count;
	int stride; /* from one task's word to the next, in words */
} counters[] = {{"padded", 2, LINE}, {"falsely", 2, 1}, {"counter2", 2, 0}, {"counter4", 4, 0}};

/* The first counter shares no line, so it returns the kernel's rate. */
static double put_counter(int c, double rate)
{
	for (int i = 0; i < counters[c].count; i++)
		writer(i, add, 10000, 2 * c * LINE + i * counters[c].stride);
	return put_transfers(counters[c].name, counters[c].count, rate);
}

static void figure_transfers(void)
{
	double rate;

	/* The kernel's work comes in bursts, during which others share less. */
	window_ns = 1500e6;
	rate = put_counter(0, 0);
	for (int c = 1; c < 4; c++)
		put_counter(c, rate);
}

static void figure_handover(void)
{
	double rate = put_counter(0, 0);

	/* The kernel's transfers weigh more if those of the tasks are few. */
	window_ns = 600e6;
	for (int i = 0; i < 2; i++) {
		writer(i, pingpong, 8, 8 * LINE);
		tasks[i].turn = i;
	}
	put_transfers("pingpong", 2, rate);
}

/* Alternate bursts of about 1 ms at 60 MIPS by means of pipes. */
static void figure_attribution(void)
{
	enum { TURNS = 300 };
	long burst[2] = {6000, 1600};
	double event[2][AMP_NR_EVENTS] = {};
	int go[2], turn[2][2], fd[2];
	char token = 0;

	loop(0, 0);
	reader(1, 0, chase, 1);
	pin(0);
	if (pipe(go) || pipe(turn[0]) || pipe(turn[1]))
		die("pipe");
	for (int i = 0; i < 2; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			if (read(go[0], &token, 1) != 1)
				die("start");
			if (tasks[i].nodes)
				make_buffer(&tasks[i]);
			for (int n = 0; n < TURNS && read(turn[i][0], &token, 1) == 1; n++) {
				tasks[i].run(&tasks[i], burst[i]);
				if (write(turn[!i][1], &token, 1) != 1)
					break;
			}
			_exit(0);
		}
		fd[i] = open_group(pid);
	}
	if (write(go[1], "go", 2) != 2 || write(turn[0][1], "x", 1) != 1)
		die("start");
	while (wait(NULL) > 0)
		;
	for (int i = 0; i < 2; i++)
		add_group(fd[i], event[i], 1);
	put("misses", -1, event[1][AMP_LLC_MISSES] / TURNS / burst[1]);
	put("foreign_share", -1,
	    event[0][AMP_STALL_EXTERNAL] / (event[0][AMP_STALL_EXTERNAL] + event[1][AMP_STALL_EXTERNAL]));
}

static void figure_sleep(void)
{
	double start = now_ns();

	sleep_until(start + 10e9);
	put("slept_s", -1, (now_ns() - start) / 1e9);
}

static const struct figure {
	const char *name;
	void (*run)(void);
} figures[] = {
    {"execute", figure_execute},	 {"spin", figure_spin},
    {"boost", figure_boost},		 {"smt", figure_smt},
    {"memory", figure_memory},		 {"bandwidth", figure_bandwidth},
    {"transfers", figure_transfers},	 {"handover", figure_handover},
    {"attribution", figure_attribution}, {"sleep", figure_sleep},
};

int main(int argc, char **argv)
{
	/* Page faults on files of the host would take the host's time. */
	if (mlockall(MCL_CURRENT))
		die("mlockall");
	tasks = shared(MAX_TASKS * sizeof(*tasks));
	words = shared(9 * LINE * sizeof(*words));
	for (size_t i = 0; i < sizeof(figures) / sizeof(*figures); i++)
		if (argc == 2 && !strcmp(argv[1], figures[i].name)) {
			figures[i].run();
			printf("\n}\n");
			return 0;
		}
	fprintf(stderr, "figures: no such figure; the list is at the top of figures.c\n");
	return 2;
}
