/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: 2026 The scx_bias authors */
/*
 * Marks of sections of code, after [Werling18].
 *
 * A program names the section that begins:
 *
 *	BIAS_MARK("parse");
 *	parse(query);
 *	BIAS_MARK("scan");
 *	scan(table);
 *
 * Link it with -lbias_mark. The environment variable BIAS_MARK selects what the
 * marks do when the program starts:
 *
 *	none	nothing, as without the variable
 *	measure	count what each section stalls on. At the end of the process,
 *		write the control-flow graph (PREFIX.dot, PREFIX.svg) and the
 *		profile (PREFIX.toml), where BIAS_MARK_OUT is the prefix
 *	hint	announce the section's class to scx_bias, as given by the
 *		profile that BIAS_MARK_PROFILE names
 *
 * A program that is compiled with BIAS_MARK_OFF contains no marks and needs no
 * library.
 *
 * No call fails: the library explains in one line on standard error why it does
 * less than it should, and the program runs as if it had no marks. All calls
 * are thread-safe, but not async-signal-safe.
 */
#ifndef BIAS_MARK_H
#define BIAS_MARK_H

#ifdef __cplusplus
extern "C" {
#endif

/* A place in the code. It must live until the process ends. */
struct bias_section {
	const char *name; /* UTF-8. Places with one name are one section */
	unsigned int set; /* for the library only; initially 0 */
};

/* End the calling thread's section, and begin @section. */
void bias_mark(struct bias_section *section);

/*
 * Write the graph and the profile of all measurements so far. Return 0, or -1
 * if the mode is not `measure` or a file cannot be written.
 */
int bias_mark_write(void);

#ifdef BIAS_MARK_OFF
#define BIAS_MARK(name) ((void)0)
#else
#define BIAS_MARK(name)                                                                                      \
	do {                                                                                                 \
		static struct bias_section bias_section_ = {name, 0};                                        \
		bias_mark(&bias_section_);                                                                   \
	} while (0)
#endif

#ifdef __cplusplus
}
#endif

#endif
