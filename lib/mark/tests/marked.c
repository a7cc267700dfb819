/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * A marked program: rounds of two sections in each of two threads, and in a
 * child process if an argument is given.
 */
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bias_mark.h"

#define ROUNDS 50

static volatile unsigned sink;

static void *rounds(void *unused)
{
	for (int i = 0; i < ROUNDS; i++) {
		BIAS_MARK("even");
		for (unsigned n = 0; n < 1000; n++)
			sink += n;
		BIAS_MARK("odd \"<&>\"");
		for (unsigned n = 0; n < 1000; n++)
			sink -= n;
	}
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	int status = 0;

	if (pthread_create(&thread, NULL, rounds, NULL))
		return 1;
	rounds(NULL);
	pthread_join(thread, NULL);
	if (argc > 1) {
		pid_t child = fork();

		if (!child)
			rounds(argv);
		else if (child < 0 || waitpid(child, &status, 0) < 0 || status)
			return 1;
	}
	puts("done");
	return 0;
}
