/* SPDX-License-Identifier: GPL-2.0-only */
/* What the parts of `loads` share; loads.c says what it is. */
#ifndef LOADS_H
#define LOADS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_SAMPLES 20000
/* Steps of work between two looks at the clock: some 30 us at 60 MIPS. */
#define CHUNK 500

struct samples {
	uint64_t ns[MAX_SAMPLES];
	size_t nr;
};

/* Print what failed and errno, and end the program. */
_Noreturn void die(const char *what);

/* End the program unless @nr is from 1 to @most. */
void check_number(int nr, int most);

pthread_t start_thread(void *(*run)(void *), void *arg);

uint64_t now_ns(void);
void sleep_until(uint64_t ns);
void sleep_s(double s);

/* Integer work without memory. */
void work(uint64_t steps);
/* Steps that take @us on the CPU that measures. */
uint64_t steps_for(double us);

/* Samples beyond MAX_SAMPLES are dropped. */
void add_sample(struct samples *samples, uint64_t ns);
/* 0 of no samples. Sorts them. */
double quantile_us(struct samples *samples, double share);
double mean_us(const struct samples *samples);

/* Start @nr busy tasks that work until end_busy(), on @cpu only unless it is -1. */
void start_busy(int nr, int cpu);
/* Count what the tasks do from now on. */
void begin_busy(void);
void end_busy(void);

/* Each prints its document; see loads.c. */
void pipeline(int nr, double work_us, size_t bytes, double seconds);
void cyclic(int nr, int loops);
void frames(int nr_busy, int nr);

#endif
