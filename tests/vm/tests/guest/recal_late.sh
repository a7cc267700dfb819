#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# The slow CPUs are offline when the table is made. A task keeps one of them busy from the moment
# that it comes online.
. "${0%/*}/common.sh"

online() { for cpu in 2 3; do echo $1 >/sys/devices/system/cpu/cpu$cpu/online; done; }
status() { $BIAS status --json >$OUT/$1.status.json; }
unmeasured() { $BIAS status --json | tr -d ' \n' | grep -o '"unmeasured":\[[^]]*\]'; }
"$AMPCTL" stop; online 0; "$AMPCTL" start
calibrate
# Virtual time is in force before the CPUs are online, because the agent measures them immediately.
load $SCHED
wait_answer
online 1
taskset 4 $BENCH work --seconds 120 compute >/dev/null 2>&1 & task=$!
for _ in $(seq 150); do [ "$(grep -c 'which came online later, is measured' $OUT/bias.log)" = 2 ] && break; sleep 0.2; done
sleep 5; unmeasured >$OUT/told; status followed
kill $task; kill -INT $LOADED; wait $LOADED; echo $? >$OUT/code
complaints
