#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# suspend.sh LEVEL...: suspend the machine 20 times to each level of the kernel's pm_test, which
# resumes a second later, while tasks run. At core, all CPUs but one go offline.
. "${0%/*}/common.sh"

calibrate
load $SCHED
wait_answer
busy_tasks
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
end_tasks
kill -INT "$LOADED"
wait "$LOADED"
echo $? >"$OUT/code"
complaints
exit 0
