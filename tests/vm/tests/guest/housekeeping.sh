#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# A housekeeping CPU, through moves, hotplug, a crash and both modes. `look NAME` records the stat,
# the cgroup and the affinity of every thread.
. "${0%/*}/common.sh"

pretend
cg=/sys/fs/cgroup
mount_cgroups
mkdir $cg/in $cg/out
look() {
	cat /proc/[0-9]*/task/*/stat >$OUT/$1.stat 2>/dev/null
	grep -H ^0: /proc/[0-9]*/task/*/cgroup >$OUT/$1.cgroup 2>/dev/null
	grep -H ^Cpus_allowed_list: /proc/[0-9]*/task/*/status >$OUT/$1.cpus 2>/dev/null
	cat /sys/devices/virtual/workqueue/cpumask >$OUT/$1.workqueues
}
at() { cgroup=$1; shift; (echo 0 >$cg/$cgroup/cgroup.procs; exec "$@") >/dev/null 2>&1 & pid=$!; }
load() {
	$SCHED --cgroup $cg/in --housekeeping "$@" >>$OUT/bias.log 2>&1 & bias=$!
	wait_state enabled
	for _ in $(seq 300); do $BIAS cgroup list >/dev/null 2>&1 && break; sleep 0.1; done
}
# Twice the time between two sweeps.
settle() { sleep 2; }

at in sleep 5008
at in taskset -c 1,3 sleep 5001
at out sleep 5009
at out taskset -c 1 sleep 5002; one=$pid
at out taskset -c 2,3 sleep 5003
at out sleep 5004; mover=$pid
at in sleep 5005; leaver=$pid
sleep 1
look before
load 3
look started
at in sh -c 'sleep 5006 & wait'
at out sh -c 'sleep 5007 & wait'
echo $mover >$cg/in/cgroup.procs; echo $leaver >$cg/out/cgroup.procs
taskset -pc 0 $one >/dev/null
settle; look moved
$BIAS status >$OUT/status
echo 0 >/sys/devices/system/cpu/cpu3/online; settle; settle; look offline
$BIAS status >$OUT/offline.status
echo 1 >/sys/devices/system/cpu/cpu3/online; settle; settle; look online
kill -9 $bias; wait $bias 2>/dev/null
wait_state disabled
look killed
$BIAS cgroup restore >$OUT/restore 2>&1; echo $? >>$OUT/restore
look restored

# The slowest CPU of the table, while the whole system is scheduled.
load slow --whole-system
settle; look whole
kill -INT $bias; wait $bias; echo $? >$OUT/code
look ended
$SCHED --cgroup $cg/in --housekeeping 9 >$OUT/refused 2>&1; echo $? >>$OUT/refused
ls -A /run/scx_bias >$OUT/leftover
complaints 'BUG|WARNING|Oops|blocked for more than|soft lockup|runnable task stall'
exit 0
