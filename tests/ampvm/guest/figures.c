// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measures what the asymmetric VM promises, from inside the guest: the figures in ../README.md.
 *
 *   cc -O2 -static figures.c -o figures
 *   figures ratios [ROUNDS [KERNEL]]   every kernel pinned to every CPU, one at a time
 *   figures busy [ROUNDS [KERNEL]]     the same, but all CPUs run it at once (headroom of the host)
 *   figures attribution                two tasks alternating every ms on one CPU: do their counters keep
 * apart?
 *
 * Lines are "KERNEL cpu=N ns=T insns=I cycles=C external=E internal=X misses=M", medians over the rounds;
 * ns is wall time. "model" is the wall time the counters imply and "err" how far the wall time is from it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
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

#define NR_EVENTS  5
#define MAX_ROUNDS 99
#define MAX_CPUS   64
#define LINE	   64

struct sample {
	double ns;
	double overrun_ns;
	double event[NR_EVENTS];
};

static const char *only; /* name of the one kernel to run, or NULL */
static void *chain;	 /* a random cycle through `chain_bytes` */
/* Half as large again as the modelled last-level cache. Much larger sets overflow QEMU's own TLB. */
static const size_t chain_bytes = 384 << 10;
static unsigned int seed = 1;

static void die(const char *what)
{
	fprintf(stderr, "figures: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* The page, for the overrun account, which perf does not show. */
static const volatile struct amp_shared *map_page(void)
{
	glob_t g;
	void *page = MAP_FAILED;

	if (glob("/sys/bus/pci/drivers/amp_pmu/*/resource2", 0, NULL, &g))
		die("no device bound to amp_pmu");
	int fd = open(g.gl_pathv[0], O_RDWR);

	if (fd >= 0)
		page = mmap(NULL, sizeof(struct amp_shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		die(g.gl_pathv[0]);
	globfree(&g);
	close(fd);
	return page;
}

static const volatile struct amp_shared *page;

static double overrun_ns(int cpu)
{
	return page->vcpus[cpu].overrun_ns;
}

static unsigned int random_bits(void)
{
	seed = seed * 1664525 + 1013904223;
	return seed >> 8;
}

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static void make_chain(void)
{
	size_t n = chain_bytes / LINE;
	size_t *order = malloc(n * sizeof(*order));

	chain = mmap(NULL, chain_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
		     -1, 0);
	if (chain == MAP_FAILED || !order)
		die("memory");
	for (size_t i = 0; i < n; i++)
		order[i] = i;
	for (size_t i = n - 1; i > 0; i--) {
		size_t j = random_bits() % (i + 1), t = order[i];

		order[i] = order[j];
		order[j] = t;
	}
	for (size_t i = 0; i < n; i++)
		*(void **)((char *)chain + order[i] * LINE) = (char *)chain + order[(i + 1) % n] * LINE;
	free(order);
}

/* The kernels: `n` units of work each. */
static void execute(long n)
{
	uint64_t x = 1;

	for (long i = 0; i < n; i++) {
		x = x * 6364136223846793005ull + 1442695040888963407ull;
		asm volatile("" : "+r"(x));
	}
}

static void chase(long n)
{
	void *p = chain;

	for (long i = 0; i < n; i++)
		p = *(void **)p;
	asm volatile("" : "+r"(p));
}

/* About half of the fast CPU's time in memory at 60 MIPS and 600 ns. */
static void half(long n)
{
	void *p = chain;

	for (long i = 0; i < n; i++) {
		uint64_t x = (uintptr_t)p;

		for (int k = 0; k < 10; k++) {
			x = x * 31 + 7;
			asm volatile("" : "+r"(x));
		}
		p = *(void **)p;
	}
	asm volatile("" : "+r"(p));
}

static void branches(long n)
{
	uint64_t x = 88172645463325252ull, taken = 0;

	for (long i = 0; i < n; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		if (x & 64)
			asm volatile("" : "+r"(taken));
		else
			asm volatile("add $3, %0" : "+r"(taken));
	}
}

static const struct kernel {
	const char *name;
	void (*run)(long n);
	long n;
} kernels[] = {
    {"execute", execute, 1500000},
    {"chase", chase, 150000},
    {"half", half, 100000},
    {"branches", branches, 250000},
};

static int amp_type(void)
{
	FILE *f = fopen("/sys/bus/event_source/devices/amp/type", "r");
	int type;

	if (!f || fscanf(f, "%d", &type) != 1)
		die("no PMU named amp; load amp_pmu.ko");
	fclose(f);
	return type;
}

/* A group of all events on a task (0: this one), any CPU; returns the leader. */
static int open_group(pid_t pid)
{
	struct perf_event_attr attr = {
	    .size = sizeof(attr), .type = amp_type(), .read_format = PERF_FORMAT_GROUP};
	int leader = -1;

	for (int e = 0; e < NR_EVENTS; e++) {
		attr.config = e;
		int fd = syscall(SYS_perf_event_open, &attr, pid, -1, leader, 0);

		if (fd < 0)
			die("perf_event_open");
		if (leader < 0)
			leader = fd;
	}
	return leader;
}

static void read_group(int fd, double *out)
{
	uint64_t buf[1 + NR_EVENTS];

	if (read(fd, buf, sizeof(buf)) != sizeof(buf))
		die("read of a group");
	for (int e = 0; e < NR_EVENTS; e++)
		out[e] = buf[1 + e];
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity");
}

static int by_ns(const void *a, const void *b)
{
	double x = ((const struct sample *)a)->ns, y = ((const struct sample *)b)->ns;

	return (x > y) - (x < y);
}

static struct sample measure(const struct kernel *k, int cpu, int rounds)
{
	struct sample s[MAX_ROUNDS];
	int fd = open_group(0);

	pin(cpu);
	k->run(k->n / 4); /* warm the modelled caches, and QEMU's translations */
	for (int r = 0; r < rounds; r++) {
		double before[NR_EVENTS], after[NR_EVENTS], late = overrun_ns(cpu), start = now_ns();

		read_group(fd, before);
		k->run(k->n);
		read_group(fd, after);
		s[r].ns = now_ns() - start;
		s[r].overrun_ns = overrun_ns(cpu) - late;
		if (getenv("AMP_VERBOSE"))
			fprintf(stderr, "%s cpu=%d round=%d ns=%.0f overrun_ns=%.0f at=%.6f\n", k->name, cpu,
				r, s[r].ns, s[r].overrun_ns, start / 1e9);
		for (int e = 0; e < NR_EVENTS; e++)
			s[r].event[e] = after[e] - before[e];
	}
	close(fd);
	qsort(s, rounds, sizeof(*s), by_ns);
	return s[rounds / 2];
}

static void report(const struct kernel *k, int cpu, const struct sample *s, const struct sample *first,
		   double mips)
{
	double model = s->event[1] * 1000 / mips;

	printf("%-8s cpu=%d ns=%.0f insns=%.0f cycles=%.0f external=%.0f internal=%.0f misses=%.0f "
	       "ratio=%.3f model=%.0f err=%+.2f%% external_share=%.3f overrun=%.2f%%\n",
	       k->name, cpu, s->ns, s->event[0], s->event[1], s->event[2], s->event[3], s->event[4],
	       s->ns / first->ns, model, 100 * (s->ns / model - 1), s->event[2] / s->event[1],
	       100 * s->overrun_ns / s->ns);
	fflush(stdout);
}

/* Speeds are not in perf; the caller knows them: AMP_MIPS=60:60:24:24. */
static double speed_of(int cpu)
{
	const char *list = getenv("AMP_MIPS");
	double mips = 60;

	for (int i = 0; list && i <= cpu; i++) {
		mips = atof(list);
		list = strchr(list, ':');
		list = list ? list + 1 : NULL;
	}
	return mips;
}

static void ratios(int rounds)
{
	int cpus = sysconf(_SC_NPROCESSORS_ONLN);

	for (size_t k = 0; k < sizeof(kernels) / sizeof(*kernels); k++) {
		struct sample first;

		if (only && strcmp(only, kernels[k].name))
			continue;
		for (int cpu = 0; cpu < cpus; cpu++) {
			struct sample s = measure(&kernels[k], cpu, rounds);

			if (cpu == 0)
				first = s;
			report(&kernels[k], cpu, &s, &first, speed_of(cpu));
		}
	}
}

static void busy(int rounds)
{
	int cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct sample *s =
	    mmap(NULL, MAX_CPUS * sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	for (size_t k = 0; k < sizeof(kernels) / sizeof(*kernels); k++) {
		if (only && strcmp(only, kernels[k].name))
			continue;
		for (int cpu = 0; cpu < cpus; cpu++)
			if (fork() == 0) {
				make_chain(); /* its own pages, else the tasks share cache lines */
				s[cpu] = measure(&kernels[k], cpu, rounds);
				_exit(0);
			}
		while (wait(NULL) > 0)
			;
		for (int cpu = 0; cpu < cpus; cpu++)
			report(&kernels[k], cpu, &s[cpu], &s[0], speed_of(cpu));
	}
}

/* Bursts of about 1 ms on a 60 MIPS CPU, alternating by pipes. */
static void alternate(const struct kernel *k, long n, int in, int out, int times)
{
	char token = 0;

	for (int i = 0; i < times && read(in, &token, 1) == 1; i++) {
		k->run(n);
		if (write(out, &token, 1) != 1)
			break;
	}
}

static void attribution(void)
{
	enum { TIMES = 300 };
	int go[2], ab[2], ba[2], fd[2], cpu = 0;
	double total[2][NR_EVENTS];
	pid_t pid[2];

	pin(cpu);
	if (pipe(go) || pipe(ab) || pipe(ba))
		die("pipe");
	for (int t = 0; t < 2; t++) {
		pid[t] = fork();
		if (pid[t] == 0) {
			char token;

			if (read(go[0], &token, 1) != 1)
				die("start");
			if (t == 0)
				alternate(&kernels[0], 12000, ba[0], ab[1], TIMES);
			else
				alternate(&kernels[1], 1600, ab[0], ba[1], TIMES);
			_exit(0);
		}
		fd[t] = open_group(pid[t]);
	}
	if (write(go[1], "go", 2) != 2 || write(ba[1], "x", 1) != 1)
		die("start");
	while (wait(NULL) > 0)
		;
	for (int t = 0; t < 2; t++) {
		read_group(fd[t], total[t]);
		printf("task %s insns_a_burst=%.0f cycles_a_burst=%.0f external=%.0f misses_a_burst=%.1f\n",
		       t ? "chase" : "execute", total[t][0] / TIMES, total[t][1] / TIMES, total[t][2],
		       total[t][4] / TIMES);
	}
	printf("attribution: %.2f%% of the chase's stall was charged to the execute task\n",
	       100 * total[0][2] / (total[0][2] + total[1][2]));

	/* Exactness: the same 1 ms loop must read the same number of instructions, up to interrupts. */
	int self = open_group(0);
	double before[NR_EVENTS], after[NR_EVENTS], low = 1e18, high = 0, sum = 0;

	for (int i = 0; i < TIMES; i++) {
		read_group(self, before);
		execute(12000);
		read_group(self, after);
		double n = after[0] - before[0];

		low = n < low ? n : low;
		high = n > high ? n : high;
		sum += n;
	}
	printf("exactness: execute(12000) took %.0f to %.0f instructions, mean %.0f\n", low, high,
	       sum / TIMES);
}

int main(int argc, char **argv)
{
	int rounds = argc > 2 ? atoi(argv[2]) : 5;

	only = argc > 3 ? argv[3] : NULL;
	if (argc < 2 || rounds < 1 || rounds > MAX_ROUNDS) {
		fprintf(stderr, "usage: figures ratios|busy|attribution [ROUNDS 1-%d [KERNEL]]\n",
			MAX_ROUNDS);
		return 2;
	}
	page = map_page();
	make_chain();
	if (!strcmp(argv[1], "ratios"))
		ratios(rounds);
	else if (!strcmp(argv[1], "busy"))
		busy(rounds);
	else if (!strcmp(argv[1], "attribution"))
		attribution();
	else
		return 2;
	return 0;
}
