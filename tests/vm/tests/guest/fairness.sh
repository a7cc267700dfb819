#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# Two cgroups have weights 100 and 300, and as many busy tasks as requested. The script leaves the
# CPU time of each in 6 s of CPUs of 60 MIPS.
. "${0%/*}/common.sh"

table 1000,1000,1000 1000,1000,1000 1000,1000,1000 1000,1000,1000 >/run/capacity.json
cd /sys/fs/cgroup || exit; echo +cpu >cgroup.subtree_control; mkdir -p light heavy; echo 300 >heavy/cpu.weight
load $SCHED
spin() { sh -c "echo 0 >/sys/fs/cgroup/$1/cgroup.procs; shift 1; exec \"\$@\"" sh "$@" >/dev/null & }
usage() { sed -n 's/^usage_usec //p' /sys/fs/cgroup/$1/cpu.stat; }
# NAME: the groups' CPU time over 6 s, after 2 s in which the tasks settle.
shares() {
	sleep "$(span 2)"; l=$(usage light); h=$(usage heavy); sleep "$(span 6)"
	echo "{\"light\": $(($(usage light) - l)), \"heavy\": $(($(usage heavy) - h))}" >$OUT/$1.json
	wait_all
}
wait_all() { for pid in $(cat light/cgroup.procs heavy/cgroup.procs); do while [ -d /proc/$pid ]; do sleep 0.1; done; done; }
# The host may take seconds to deliver the program for the first time.
"$BENCH" work compute --seconds 0.1 >/dev/null
work() { spin "$1" "$BENCH" work compute --seconds "$(span 9)" $2; }
work light "--cpu 1"; work heavy "--cpu 1"; work heavy "--cpu 1"
shares pinned
for _ in 1 2 3 4; do work light; work heavy; done
shares free
# PID: its CPU time [ns], which the kernel reports in hundredths of a second.
ran() { awk '{printf "%d0000000", $14 + $15}' "/proc/$1/stat"; }
# NAME: the CPU time of nice 0 and nice 5 on one CPU over 6 s in which both run. A task that begins
# late, because it waits for a file of the host, shortens only the time before.
nices() {
	nice -n 5 "$BENCH" work compute --seconds "$(span 12)" --cpu 1 >/dev/null & five=$!
	"$BENCH" work compute --seconds "$(span 12)" --cpu 1 >/dev/null & zero=$!
	sleep "$(span 3)"; f=$(ran $five); z=$(ran $zero); sleep "$(span 6)"
	echo "{\"cpu_ns\": $(($(ran $five) - f))}" >$OUT/$1-5.json
	echo "{\"cpu_ns\": $(($(ran $zero) - z))}" >$OUT/$1-0.json
	kill $five $zero; wait $five $zero
}
nices quiet
# Beside a task of almost no weight and one of large weight, each alone on a CPU, and one of another
# scheduling class that takes their CPU at times.
taskset -c 2 chrt -i 0 sh -c 'while :; do :; done' & alone=$!
taskset -c 3 nice -n -15 sh -c 'while :; do :; done' & alone="$alone $!"
taskset -c 1 chrt -f 1 sh -c 'while :; do i=0; while [ $i -lt 3000 ]; do i=$((i + 1)); done; sleep 0.1; done' & fifo=$!
nices beside
kill $alone $fifo
unload
cat /sys/kernel/sched_ext/state >$OUT/state
