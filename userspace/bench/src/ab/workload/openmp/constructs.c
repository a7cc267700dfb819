// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
/*
 * Repetitions of one OpenMP construct, loop or array kernel.
 *
 * Problem
 * [Cui23] found that parallel programs vary with the OpenMP runtime, pinning
 * and SMT. Own threads would not show the behaviour of the runtime.
 *
 * Approach
 * The compiler turns the pragmas into calls of its runtime, which is libgomp
 * with gcc. The program repeats one benchmark and prints the wall time of each
 * repetition [ns], one per line. The names follow EPCC's syncbench and
 * schedbench, and BabelStream. The environment (OMP_NUM_THREADS, OMP_PLACES,
 * ...) sets the size and the places of the team.
 *
 * Invariants
 * All repetitions do the same work. The results of a loop, a sum or an array
 * are checked once, after the last repetition; exit code 3 means a wrong one.
 *
 * Limits
 * A repetition contains the start of its parallel region, as in EPCC.
 *
 *	constructs BENCHMARK CHUNK SIZE WORK MIN_REPETITIONS WARMUP_NS WINDOW_NS
 */
#include <errno.h>
#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_REPETITIONS (1 << 16)
#define SCALAR		0.4

enum { EXIT_USAGE = 2, EXIT_WRONG = 3, EXIT_MEMORY = 4 };

/* Inner repetitions, iterations of a loop per thread, or numbers per array. */
static long size;
/* Rounds of delay() in an iteration or a construct. */
static long work;
static int threads;

/* Passages of all repetitions: SIZE in each. */
static long done;
static double *a, *b, *c, sum;
static omp_lock_t mutex;

/* Spend @rounds times about four cycles. The compiler cannot shorten this. */
static inline void delay(long rounds)
{
	uint64_t x = 1;

	for (long i = 0; i < rounds; i++) {
		x = x * 6364136223846793005u + 1;
		__asm__ volatile("" : "+r"(x));
	}
}

/* syncbench: SIZE constructs in turn, each with a delay. */

static void parallel(void)
{
	for (long i = 0; i < size; i++) {
#pragma omp parallel
		delay(work);
	}
	done += size;
}

static void for_construct(void)
{
#pragma omp parallel
	for (long i = 0; i < size; i++) {
#pragma omp for schedule(static)
		for (int j = 0; j < threads; j++)
			delay(work);
	}
	done += size;
}

static void parallel_for(void)
{
	for (long i = 0; i < size; i++) {
#pragma omp parallel for schedule(static)
		for (int j = 0; j < threads; j++)
			delay(work);
	}
	done += size;
}

static void barrier(void)
{
#pragma omp parallel
	for (long i = 0; i < size; i++) {
		delay(work);
#pragma omp barrier
	}
	done += size;
}

static void single(void)
{
#pragma omp parallel
	for (long i = 0; i < size; i++) {
#pragma omp single
		{
			delay(work);
			done++;
		}
	}
}

/* Return the passages of thread @number of @size by all threads. */
static long share(int number)
{
	return size * (number + 1) / threads - size * number / threads;
}

static void critical(void)
{
#pragma omp parallel
	for (long i = share(omp_get_thread_num()); i > 0; i--) {
#pragma omp critical
		{
			delay(work);
			done++;
		}
	}
}

static void lock_unlock(void)
{
#pragma omp parallel
	for (long i = share(omp_get_thread_num()); i > 0; i--) {
		omp_set_lock(&mutex);
		delay(work);
		done++;
		omp_unset_lock(&mutex);
	}
}

static void ordered(void)
{
#pragma omp parallel for ordered schedule(static, 1)
	for (long i = 0; i < size; i++) {
#pragma omp ordered
		{
			delay(work);
			done++;
		}
	}
}

static void atomic(void)
{
#pragma omp parallel
	for (long i = share(omp_get_thread_num()); i > 0; i--) {
		delay(work);
#pragma omp atomic
		done++;
	}
}

static void reduction(void)
{
	for (long i = 0; i < size; i++) {
		long passages = 0;
#pragma omp parallel reduction(+ : passages)
		{
			delay(work);
			passages++;
		}
		done += passages == threads;
	}
}

/* schedbench: a loop of SIZE iterations per thread. main() set its schedule. */
static void loop(void)
{
	long count = 0;
#pragma omp parallel for schedule(runtime) reduction(+ : count)
	for (long i = 0; i < size * threads; i++) {
		delay(work);
		count++;
	}
	done += count == size * threads ? size : 0;
}

/* BabelStream: one kernel over arrays of SIZE numbers. */

static void copy(void)
{
#pragma omp parallel for schedule(static)
	for (long i = 0; i < size; i++)
		c[i] = a[i];
}

static void mul(void)
{
#pragma omp parallel for schedule(static)
	for (long i = 0; i < size; i++)
		b[i] = SCALAR * c[i];
}

static void add(void)
{
#pragma omp parallel for schedule(static)
	for (long i = 0; i < size; i++)
		c[i] = a[i] + b[i];
}

static void triad(void)
{
#pragma omp parallel for schedule(static)
	for (long i = 0; i < size; i++)
		a[i] = b[i] + SCALAR * c[i];
}

static void dot(void)
{
	double all = 0;
#pragma omp parallel for schedule(static) reduction(+ : all)
	for (long i = 0; i < size; i++)
		all += a[i] * b[i];
	sum = all;
}

#define CONSTRUCT(name, run) {name, run, 0, {0}}
#define LOOP(schedule)	     {#schedule, loop, omp_sched_##schedule, {0}}

static const struct benchmark {
	const char *name;
	void (*run)(void);
	omp_sched_t schedule; /* of a loop, else 0 */
	double result[3];     /* of a kernel: a, b, c afterwards */
} benchmarks[] = {
    CONSTRUCT("parallel", parallel),
    CONSTRUCT("for", for_construct),
    CONSTRUCT("parallel-for", parallel_for),
    CONSTRUCT("barrier", barrier),
    CONSTRUCT("single", single),
    CONSTRUCT("critical", critical),
    CONSTRUCT("lock", lock_unlock),
    CONSTRUCT("ordered", ordered),
    CONSTRUCT("atomic", atomic),
    CONSTRUCT("reduction", reduction),
    LOOP(static),
    LOOP(dynamic),
    LOOP(guided),
    {"copy", copy, 0, {0.1, 0.2, 0.1}},
    {"mul", mul, 0, {0.1, 0.4 * 0.3, 0.3}},
    {"add", add, 0, {0.1, 0.2, 0.1 + 0.2}},
    {"triad", triad, 0, {0.2 + 0.4 * 0.3, 0.2, 0.3}},
    {"dot", dot, 0, {0.1, 0.2, 0.3}},
};

static const struct benchmark *find(const char *name)
{
	for (size_t i = 0; i < sizeof(benchmarks) / sizeof(*benchmarks); i++)
		if (!strcmp(benchmarks[i].name, name))
			return &benchmarks[i];
	return NULL;
}

/* Return a number of at least @least, or exit. */
static long number(const char *text, long least)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || end == text || *end || value < least)
		exit(EXIT_USAGE);
	return value;
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static double *array(void)
{
	double *numbers = aligned_alloc(64, (size * sizeof(double) + 63) / 64 * 64);

	if (!numbers)
		exit(EXIT_MEMORY);
	return numbers;
}

/* Each thread writes its part first, so that its memory is near it. */
static void fill(void)
{
	a = array();
	b = array();
	c = array();
#pragma omp parallel for schedule(static)
	for (long i = 0; i < size; i++) {
		a[i] = 0.1;
		b[i] = 0.2;
		c[i] = 0.3;
	}
}

/* Return true if @repetitions of @of gave the expected result. */
static int is_right(const struct benchmark *of, long repetitions)
{
	const double *due = of->result;

	if (!due[0])
		return done == repetitions * size;
	for (long i = 0; i < size; i++)
		if (fabs(a[i] - due[0]) > 1e-12 || fabs(b[i] - due[1]) > 1e-12 || fabs(c[i] - due[2]) > 1e-12)
			return 0;
	return of->run != dot || fabs(sum / (0.1 * 0.2 * size) - 1) < 1e-9;
}

int main(int argc, char **argv)
{
	static int64_t times[MAX_REPETITIONS];
	const struct benchmark *of = argc == 8 ? find(argv[1]) : NULL;
	long chunk, least, warmup_ns, window_ns, count = 0, warmups = 0;
	int64_t start, last, now;

	if (!of)
		return EXIT_USAGE;
	chunk = number(argv[2], 0);
	size = number(argv[3], 1);
	work = number(argv[4], 0);
	least = number(argv[5], 1);
	warmup_ns = number(argv[6], 0);
	window_ns = number(argv[7], 0);
	threads = omp_get_max_threads();
	if (of->schedule)
		omp_set_schedule(of->schedule, chunk);
	if (of->result[0])
		fill();
	omp_init_lock(&mutex);

	start = last = now_ns();
	while (!warmups || last - start < warmup_ns) {
		of->run();
		last = now_ns();
		warmups++;
	}
	start = last;
	while (count < MAX_REPETITIONS && (count < least || last - start < window_ns)) {
		of->run();
		now = now_ns();
		times[count++] = now - last;
		last = now;
	}
	if (!is_right(of, warmups + count))
		return EXIT_WRONG;
	printf("threads %d\n", threads);
	for (long i = 0; i < count; i++)
		printf("%lld\n", (long long)times[i]);
	return fflush(stdout) ? EXIT_FAILURE : 0;
}
