#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# swaps.sh MODE [ROUNDS]: swaps that the agent plans. `worst NAME ROUNDS` confines two tasks that
# compute to slow CPUs and two that chase to fast ones. After 3 s of each round it releases them
# all, and leaves a trace of the next two seconds. `unload NAME` leaves the results.
. "${0%/*}/common.sh"

calibrate
unload() {
	$BIAS swaps --json >$OUT/$1.swaps.json; $BIAS swaps >$OUT/$1.swaps.txt
	$BIAS status --json >$OUT/$1.status.json
	cat /sys/kernel/sched_ext/state >$OUT/$1.state
	"$AMPCTL" stop
	kill -INT $LOADED; wait $LOADED; echo $? >$OUT/$1.code
}
CGROUPS=/sys/fs/cgroup
TRACING=/sys/kernel/tracing
into() { sh -c 'echo 0 >/sys/fs/cgroup/$1/cgroup.procs; shift; exec "$@"' sh "$@" >/dev/null & tasks="$tasks $!"; }
traced() {
	[ -d $TRACING/events ] || mount -t tracefs tracefs $TRACING
	echo 0 >$TRACING/tracing_on
	echo mono >$TRACING/trace_clock; echo 8192 >$TRACING/buffer_size_kb
	echo 'prev_comm ~ "bias-bench*" || next_comm ~ "bias-bench*"' >$TRACING/events/sched/sched_switch/filter
	echo 1 >$TRACING/events/sched/sched_switch/enable
}
worst() {
	traced
	echo +cpuset >$CGROUPS/cgroup.subtree_control; mkdir -p $CGROUPS/slow $CGROUPS/fast
	for round in $(seq $2); do
		tasks=; computing=
		echo 2-3 >$CGROUPS/slow/cpuset.cpus; echo 0-1 >$CGROUPS/fast/cpuset.cpus
		for i in 1 2; do
			into slow $BENCH work compute --seconds 5; computing="$computing $!"
			into fast $BENCH work chase --seconds 5
		done
		sleep 3
		echo >$TRACING/trace; echo 1 >$TRACING/tracing_on
		echo 0-3 >$CGROUPS/slow/cpuset.cpus; echo 0-3 >$CGROUPS/fast/cpuset.cpus
		# Without a process, which would disturb the measurement.
		echo free >$TRACING/trace_marker
		wait $tasks
		echo 0 >$TRACING/tracing_on
		{ echo computing $computing; cat $TRACING/trace; } >$OUT/$1.$round.trace
	done
}

case $1 in
alone)
	load $SCHED --no-moves
	worst alone "$2"
	unload alone
	;;
beside)
	# A shell starts a program ten times a second, which takes a fifth of a CPU at this pace. A
	# part without swaps follows.
	load $SCHED --no-moves
	(while :; do sleep 0.1; done) & shell=$!
	worst beside "$2"
	kill $shell
	unload beside
	load $SCHED --no-moves --no-swap
	worst none 1
	unload none
	;;
short)
	# Tasks of both kinds live for a fraction of a second, so the agent plans for tasks that
	# end. This measures no time, so it runs unpaced.
	load $SCHED --no-moves --swap-interval-ms 20 --window-instructions 10000
	"$AMPCTL" stop
	for lane in 1 2 3 4; do
		(i=0; while [ $i -lt 25 ]; do $BENCH work compute --seconds 0.3 >/dev/null; $BENCH work chase --seconds 0.3 >/dev/null; i=$((i + 1)); done) &
		lanes="$lanes $!"
	done
	for lane in $lanes; do wait $lane; done
	sleep 4
	"$AMPCTL" start
	unload short
	;;
steady)
	load $SCHED
	$BENCH mix --solo $OUT/solo.json --warmup 1 --tasks 3compute+1chase+2mixed:50 --seconds 20 --json >$OUT/mix.json || exit
	unload steady
	;;
esac
complaints
