#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# suspend.sh LEVEL...: suspend the machine 20 times to each level of the kernel's pm_test, which
# resumes a second later, while tasks run. `look NAME` records the table, the wall clock and the
# tasks' CPU time 5 s later. At core, all CPUs but one go offline.
. "${0%/*}/common.sh"

calibrate
load $SCHED
wait_answer
# The busy tasks weigh little, so that the script goes on beside them.
busy=
for _ in 1 2 3 4 5 6; do
	nice -n 10 sh -c 'while :; do :; done' &
	busy="$busy $!"
done
ran() { for pid in $busy; do cut -d ' ' -f 14 "/proc/$pid/stat"; done | tr '\n' ' '; }
look() {
	ran >"$OUT/$1.before"
	sleep 5
	ran >"$OUT/$1.ran"
	$BIAS status --json >"$OUT/$1.json"
	date +%s%3N >"$OUT/$1.now"
	cat /sys/kernel/sched_ext/state >"$OUT/$1.state"
}
echo 1 >/sys/module/suspend/parameters/pm_test_delay
echo deep >/sys/power/mem_sleep
look unset
for level in "$@"; do
	echo "$level" >/sys/power/pm_test
	: >"$OUT/$level.times"
	for _ in $(seq 20); do
		echo mem >/sys/power/state && echo resumed >>"$OUT/$level.times"
	done
	look "$level"
done
dmesg | grep -c 'CPU 3 is now offline' >"$OUT/offline"
# shellcheck disable=SC2086
kill -9 $busy
kill -INT "$LOADED"
wait "$LOADED"
echo $? >"$OUT/code"
complaints
exit 0
