/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/* Interfaces between the parts of `loads`; see loads.c. */
#ifndef LOADS_H
#define LOADS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_SAMPLES 20000
/* Steps of work between two reads of the clock, some 30 us at 60 MIPS. */
#define CHUNK 500

struct samples {
	uint64_t ns[MAX_SAMPLES];
	size_t nr;
};

/* Print @what and errno, and end the program. */
_Noreturn void die(const char *what);

/* End the program unless @nr is from 1 to @most. */
void check_number(int nr, int most);

pthread_t start_thread(void *(*run)(void *), void *arg);

uint64_t now_ns(void);
void sleep_until(uint64_t ns);
void sleep_s(double s);

/* Do integer work without memory accesses. */
void work(uint64_t steps);
/* Return the number of steps that take @us on the calling CPU. */
uint64_t steps_for(double us);

/* Add a sample. Samples beyond MAX_SAMPLES are dropped. */
void add_sample(struct samples *samples, uint64_t ns);
/* Sort the samples and return a quantile, or 0 if there are none. */
double quantile_us(struct samples *samples, double share);
double mean_us(const struct samples *samples);

/* Start @nr busy tasks until end_busy(), on @cpu only unless it is -1. */
void start_busy(int nr, int cpu);
/* Count the work of the busy tasks from now on. */
void begin_busy(void);
void end_busy(void);

/* Each mode prints its own document; see loads.c. */
void pipeline(int nr, double work_us, size_t bytes, double seconds);
void cyclic(int nr, int loops);
void frames(int nr_busy, int nr);
void messengers(int nr, int nr_workers, int nr_busy, int loops);
void local(int nr, double seconds);
void hotplug(int cpu, int times);
void starts(int nr, double work_us, int servers);
void clocks(int cpu, int rounds);

#endif
