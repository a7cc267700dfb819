#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# Cost of the agent with 200 tasks. They start and the scheduler loads unpaced, because 200 starts
# at this pace would take minutes.
. "${0%/*}/common.sh"

calibrate
"$AMPCTL" stop
$SCHED >>$OUT/sched.log 2>&1 &
scheduler=$!
wait_state enabled
cost() {
	"$AMPCTL" start
	sleep 5
	keep $1 $BENCH cost --pid $scheduler --seconds 10
	$BIAS status --json >$OUT/$1.status.json
	"$AMPCTL" stop
}
for _ in $(seq 197); do sleep 1000 & tasks="$tasks $!"; done
for _ in 1 2 3; do $BENCH work compute --seconds 1000 >/dev/null & tasks="$tasks $!"; done
sleep 3
cost asleep
"$AMPCTL" start
keep listed $BENCH cost --pid $scheduler --seconds 10 &
for _ in 1 2 3 4 5; do $BIAS metrics >$OUT/metrics; done
wait $! || exit
keep watched $BENCH cost --pid $scheduler --seconds 10 &
$BIAS top --interval 1 --count 8 --json | tail -n 1 >$OUT/top.json
wait $! || exit
"$AMPCTL" stop
kill $tasks; tasks=
for _ in $(seq 200); do $BENCH work compute --seconds 1000 >/dev/null & tasks="$tasks $!"; done
sleep 3
cost busy
kill $tasks
kill -INT $scheduler; wait $scheduler; echo $? >$OUT/code
