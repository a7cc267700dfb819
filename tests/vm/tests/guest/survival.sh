#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# survival.sh COMMAND...: run `storm SECONDS`, `survive KILLS` or `once`. Afterwards record the
# state, complaints of the kernel, and tasks left in the class.
. "${0%/*}/common.sh"

# storm SECONDS: let tasks of many kinds change everything that they can.
storm() {
	keep storm "$TORTURE" storm --scheduler-cmd "$SCHED" --load-timeout 300 --seconds "$1"
}

# survive KILLS: kill the scheduler and unplug CPUs.
survive() {
	keep survive "$TORTURE" survive --scheduler-cmd "nice -n -20 $SCHED" --load-timeout 300 --kills "$1" --hotplug 1 --hotplugs 3
}

# once: load, schedule a task, unload.
once() {
	load $SCHED
	"$BENCH" work compute --seconds 1 >/dev/null || exit
	unload
}

pretend
"$@"
cat /sys/kernel/sched_ext/state >$OUT/state
# 6.12's deadline server occasionally warns when a CPU goes offline under load, with any scheduler
# (running_bw).
dmesg -k | grep -vE 'WARNING: .* at (task_non_contending|inactive_task_timer)[+]' |
	grep -E 'BUG|WARNING|Oops|blocked for more than|soft lockup|runnable task stall' >$OUT/complaints || true
# Field 41 of stat is the policy, counted after the name in parentheses; 7 is SCHED_EXT.
cat /proc/[0-9]*/task/*/stat 2>/dev/null | sed 's/.*) //' | awk '$39 == 7' >$OUT/left || true
