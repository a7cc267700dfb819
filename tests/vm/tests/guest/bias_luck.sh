#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# CPUs go offline and return, tasks fork and change their affinity. The script measures no time, so
# it runs unpaced. The counters still count.
. "${0%/*}/common.sh"

"$AMPCTL" stop
table 2500,1580,1000 1000,1000,1000 1600,1300,1000 2500,1580,1000 >/run/capacity.json
$BIAS --capacity-file /run/capacity.json >$OUT/bias.log 2>&1 &
bias=$!
wait_state enabled
cat /sys/kernel/sched_ext/state >$OUT/before
seq_before=$(cat /sys/kernel/sched_ext/enable_seq)
(i=0; while [ $i -lt 2000 ]; do true & i=$((i + 1)); done; wait) &
forks=$!
$BENCH mix --tasks 2compute+2chase+2mixed:60 --seconds 8 --warmup 0.2 --solo /run/solo.json --fast-cpus 1 --json >$OUT/mix.json 2>$OUT/mix.err &
mix=$!
# The only fast CPU goes offline and comes back, and tasks are confined to one class and released.
for _ in 1 2 3; do
	echo 0 >/sys/devices/system/cpu/cpu1/online; sleep 0.5
	echo 1 >/sys/devices/system/cpu/cpu1/online; sleep 0.3
	for cpus in 1 0,3 2 0-3; do
		for task in $(pgrep -P $mix); do taskset -apc $cpus $task >/dev/null 2>&1; done
		sleep 0.2
	done
done
wait $forks; echo $? >$OUT/forks
wait $mix; echo $? >$OUT/mix.code
# The CPU that was away counts again.
$BIAS status --json >$OUT/back.before.json
$BENCH work compute --seconds 2 --cpu 1 >/dev/null
$BIAS status --json >$OUT/back.after.json
timeout 5 $BIAS --monitor 1 2>/dev/null | tail -1 >$OUT/stats
cat /sys/kernel/sched_ext/state >$OUT/after
[ "$(cat /sys/kernel/sched_ext/enable_seq)" = "$seq_before" ] && echo same >$OUT/seq || echo other >$OUT/seq
kill -INT $bias; wait $bias; echo $? >$OUT/code
complaints 'BUG|Oops|runnable task stall|sched_ext:.*(error|disabled.*[^)]$)'
