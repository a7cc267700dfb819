// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measurements inside the guest of the figures that the asymmetric VM's model
 * predicts.
 *
 *     cc -O2 -static figures.c -o figures
 *     figures execute      an integer loop on each CPU
 *     figures smt          CPUs 0 and 1, siblings: each alone, then both
 *     figures memory       a chase over local, remote, interleaved memory
 *     figures bandwidth    streams of one node, of two, and one with a loop
 *     figures transfers    words that CPUs hand over, share, or keep in a line
 *     figures attribution  two tasks that alternate every ms on one CPU
 *     figures sleep        a sleep of ten seconds
 *
 * The program prints one JSON object. The loops are assembly, so that a step
 * has a known number of instructions and misses. The model's prediction can
 * thus be computed by hand.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/mempolicy.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "amp_shared.h"

#define MAX_TASKS 8
#define LINE	  64
/* 1.5 times the last-level cache. In a cyclic chase, each line misses. */
#define BUFFER_BYTES (384 << 10)
#define SETUP_NS     200e6
/* Flag that the first task to end sets in its word, so that no task waits. */
#define DONE (1ull << 63)

/* Each task has lines of its own, because the figures count shared lines. */
struct __attribute__((aligned(LINE))) task {
	int cpu;
	void (*run)(struct task *t, long steps);
	long chunk; /* steps between two reads of the clock */
	int nodes;  /* mask of its buffer's nodes; 0: no buffer */
	volatile uint64_t *word;
	uint64_t turn; /* ping-pong: parity of the word at which it may run */
	char *buffer;
	void *at;

	/* Results of the window only. */
	double steps;
	double ns;
	double cpu_ns; /* without the time that kernel threads took */
	double event[AMP_NR_EVENTS];
};

static struct task *tasks; /* shared with the children that run them */
static volatile uint64_t *words;
static double window_ns = 300e6;

static void die(const char *what)
{
	fprintf(stderr, "figures: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void put(const char *name, int number, double value)
{
	static const char *separator = "{";
	char suffix[12] = "";

	if (number >= 0)
		snprintf(suffix, sizeof(suffix), "%d", number);
	printf("%s\n  \"%s%s\": %.6g", separator, name, suffix, value);
	separator = ",";
}

static double clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static double now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static void sleep_until(double ns)
{
	struct timespec t = {ns / 1e9, (long long)ns % 1000000000};

	if (now_ns() > ns)
		die("the tasks were not ready in time");
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

/* Loops. The comment of each gives the instructions of a step. */

/* 10 instructions */
static void execute(struct task *t, long steps)
{
	asm volatile("1: .rept 8\n add $3, %%rax\n .endr\n dec %0\n jnz 1b" : "+r"(steps) : : "rax", "cc");
}

/* 3 instructions and a miss */
static void chase(struct task *t, long steps)
{
	asm volatile("1: mov (%1), %1\n dec %0\n jnz 1b" : "+r"(steps), "+r"(t->at) : : "memory", "cc");
}

/* 4 instructions and a miss */
static void stream(struct task *t, long steps)
{
	char *p = t->at;

	asm volatile("1: mov (%1), %%eax\n add $64, %1\n dec %0\n jnz 1b"
		     : "+r"(steps), "+r"(p)
		     :
		     : "rax", "memory", "cc");
	t->at = p < t->buffer + BUFFER_BYTES ? p : t->buffer;
}

/* 3 instructions and a write of a line that others may hold */
static void add(struct task *t, long steps)
{
	asm volatile("1: lock addq $1, (%1)\n dec %0\n jnz 1b" : "+r"(steps) : "r"(t->word) : "memory", "cc");
}

/* A handover, with 5 us of work at 60 MIPS before the next one */
static void pingpong(struct task *t, long steps)
{
	while (steps-- > 0) {
		while ((*t->word & (1 | DONE)) == !t->turn)
			;
		execute(t, 30);
		*t->word += 1;
	}
}

/*
 * Open a group of all events on a task (0: this one) on any CPU. Return the
 * leader.
 */
static int open_group(pid_t pid)
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

/* Add @sign times the group's counts to @event. */
static void add_group(int fd, double *event, int sign)
{
	uint64_t buf[1 + AMP_NR_EVENTS];

	if (read(fd, buf, sizeof(buf)) != sizeof(buf))
		die("read of a group");
	for (int e = 0; e < AMP_NR_EVENTS; e++)
		event[e] += sign * (double)buf[1 + e];
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity");
}

/* Create a buffer on the task's nodes with a random cycle through it. */
static void make_buffer(struct task *t)
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
	} while (now_ns() < start + window_ns);
	t->ns += now_ns();
	t->cpu_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID);
	add_group(fd, t->event, 1);
	if (t->word)
		*t->word |= DONE;
}

/* Run the first @count tasks at the same time, each on its CPU. */
static void together(int count)
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

static double step_ns(const struct task *t)
{
	return t->ns / t->steps;
}

/*
 * CPU time per instruction and stall cycle, those of the kernel's ticks
 * included. Ticks of two CPUs that coincide wait for each other's locks with
 * PAUSE, which is a stall.
 */
static double work_ns(const struct task *t)
{
	const double *event = t->event;

	return t->cpu_ns / (event[AMP_INSTRUCTIONS] + event[AMP_STALL_INTERNAL] + event[AMP_STALL_EXTERNAL]);
}

/* Each of these fills in task @i, which runs on the given CPU. */

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

	/* The window is so long that one tick of the timer does not show. */
	window_ns = 600e6;
	for (int cpu = 0; cpu < cpus; cpu++) {
		double least = 1e18, most = 0, ns = 0;

		for (int round = 0; round < ROUNDS; round++) {
			loop(0, cpu);
			double one = alone();

			least = one < least ? one : least;
			most = one > most ? one : most;
			ns += work_ns(&tasks[0]) / ROUNDS;
		}
		put("step_ns", cpu, (least + most) / 2);
		put("work_ns", cpu, ns);
		put("spread", cpu, most / least - 1);
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

static void figure_transfers(void)
{
	double rate;

	for (int i = 0; i < 2; i++)
		writer(i, add, 2000, i * LINE);
	rate = put_transfers("padded", 2, 0);
	for (int i = 0; i < 2; i++)
		writer(i, add, 2000, i);
	put_transfers("falsely", 2, rate);
	for (int i = 0; i < 2; i++)
		writer(i, add, 2000, 2 * LINE);
	put_transfers("counter2", 2, rate);
	for (int i = 0; i < 4; i++)
		writer(i, add, 2000, 3 * LINE);
	put_transfers("counter4", 4, rate);
	for (int i = 0; i < 2; i++) {
		writer(i, pingpong, 8, 4 * LINE);
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

static void *shared(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

static const struct figure {
	const char *name;
	void (*run)(void);
} figures[] = {
    {"execute", figure_execute},     {"smt", figure_smt},
    {"memory", figure_memory},	     {"bandwidth", figure_bandwidth},
    {"transfers", figure_transfers}, {"attribution", figure_attribution},
    {"sleep", figure_sleep},
};

int main(int argc, char **argv)
{
	/* Page faults on files of the host would take the host's time. */
	if (mlockall(MCL_CURRENT))
		die("mlockall");
	tasks = shared(MAX_TASKS * sizeof(*tasks));
	words = shared(8 * LINE * sizeof(*words));
	for (size_t i = 0; i < sizeof(figures) / sizeof(*figures); i++)
		if (argc == 2 && !strcmp(argv[1], figures[i].name)) {
			figures[i].run();
			printf("\n}\n");
			return 0;
		}
	fprintf(stderr, "figures: no such figure; the list is at the top of figures.c\n");
	return 2;
}
