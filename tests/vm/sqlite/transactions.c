// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
/*
 * A load of transactions for the marked SQLite.
 *
 * Problem
 * [Werling18] marks a database and measures transactions of TPC-C. A load needs
 * the same parts: short transactions that look rows up by random keys, and now
 * and then a report that reads and sorts many rows.
 *
 * Approach
 * Each thread has a database in memory. A transaction orders LINES items: it
 * reads each item, takes it from the stock and inserts a line. Each statement
 * is parsed from its text, as from a client. Every REPORT-th transaction is
 * followed by a report on the stock.
 *
 * Limits
 * Threads share no data. Nothing is written to a disk.
 *
 *	transactions THREADS SECONDS
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <sqlite3.h>

#define MAX_THREADS 64
#define ITEMS	    4000
#define LINES	    5
#define REPORT	    10
#define TEXT	    256

enum { EXIT_USAGE = 2, EXIT_SQL = 3 };

static atomic_long transactions;
static atomic_int ready;
static atomic_bool go, stop;

/* Run a statement. The result of a query does not matter. */
static void run(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *statement;
	int code = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);

	while (code == SQLITE_OK || code == SQLITE_ROW)
		code = sqlite3_step(statement);
	if (code != SQLITE_DONE || sqlite3_finalize(statement) != SQLITE_OK) {
		fprintf(stderr, "transactions: %s: %s\n", sql, sqlite3_errmsg(db));
		exit(EXIT_SQL);
	}
}

static void build(sqlite3 *db)
{
	char sql[TEXT];

	run(db, "CREATE TABLE item(id INTEGER PRIMARY KEY, price INTEGER, name TEXT)");
	run(db, "CREATE TABLE stock(id INTEGER PRIMARY KEY, quantity INTEGER, place TEXT)");
	run(db, "CREATE TABLE line(id INTEGER PRIMARY KEY, item INTEGER, price INTEGER)");
	run(db, "BEGIN");
	for (int id = 0; id < ITEMS; id++) {
		snprintf(sql, sizeof(sql), "INSERT INTO item VALUES(%d, %d, 'item %d of the shop')", id,
			 id * 7 % 1000, id);
		run(db, sql);
		snprintf(sql, sizeof(sql), "INSERT INTO stock VALUES(%d, %d, 'a shelf of place %d')", id,
			 id * 13 % 100, id);
		run(db, sql);
	}
	run(db, "COMMIT");
}

/* Return a random number below @limit. */
static unsigned int below(unsigned int *seed, unsigned int limit)
{
	*seed = *seed * 1103515245u + 12345u;
	return (*seed >> 8) % limit;
}

static void order(sqlite3 *db, unsigned int *seed)
{
	char sql[TEXT];

	run(db, "BEGIN");
	for (int n = 0; n < LINES; n++) {
		unsigned int id = below(seed, ITEMS);

		snprintf(sql, sizeof(sql), "UPDATE stock SET quantity = (quantity + 91) %% 100 WHERE id = %u",
			 id);
		run(db, sql);
		/* A line per item bounds the size of the table. */
		snprintf(sql, sizeof(sql), "REPLACE INTO line SELECT id, %u, price FROM item WHERE id = %u",
			 id, id);
		run(db, sql);
	}
	run(db, "COMMIT");
}

static void *thread(void *argument)
{
	unsigned int seed = (unsigned int)(size_t)argument;
	sqlite3 *db;

	if (sqlite3_open(":memory:", &db) != SQLITE_OK)
		exit(EXIT_SQL);
	build(db);
	ready++;
	while (!go)
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	for (long n = 1; !stop; n++) {
		order(db, &seed);
		if (n % REPORT == 0)
			run(db, "SELECT quantity, count(*) FROM stock GROUP BY quantity % 37 ORDER BY 2, 1");
		transactions++;
	}
	sqlite3_close(db);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[MAX_THREADS];
	int count = argc == 3 ? atoi(argv[1]) : 0;
	int seconds = argc == 3 ? atoi(argv[2]) : 0;
	long before;

	if (count < 1 || count > MAX_THREADS || seconds < 2)
		return EXIT_USAGE;
	for (int n = 0; n < count; n++)
		if (pthread_create(&threads[n], NULL, thread, (void *)(size_t)(n + 1)))
			return EXIT_FAILURE;
	while (ready < count)
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	go = true;
	/* The first second lets the scheduler learn. */
	nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
	before = transactions;
	nanosleep(&(struct timespec){.tv_sec = seconds - 1}, NULL);
	printf("{\"transactions_per_s\": %.1f}\n", (double)(transactions - before) / (seconds - 1));
	stop = true;
	for (int n = 0; n < count; n++)
		pthread_join(threads[n], NULL);
	return 0;
}
