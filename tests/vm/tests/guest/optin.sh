#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# optin.sh CROWD: opt cgroups in and out while threads fork and move, a crowd of them together.
# `look NAME` records the stat and the cgroup of every thread. `at CGROUP COMMAND...` runs COMMAND
# there. `load OPTIONS...` loads the scheduler.
. "${0%/*}/common.sh"

crowd_size=$1
pretend
cg=/sys/fs/cgroup
mount_cgroups
mkdir $cg/in $cg/in/below $cg/out $cg/late
look() {
	cat /proc/[0-9]*/task/*/stat >$OUT/$1.stat 2>/dev/null
	grep -H ^0: /proc/[0-9]*/task/*/cgroup >$OUT/$1.cgroup 2>/dev/null
}
at() { cgroup=$1; shift; (echo 0 >$cg/$cgroup/cgroup.procs; exec "$@") >/dev/null 2>&1 & pid=$!; }
load() {
	$SCHED -v "$@" >>$OUT/load.log 2>&1 & bias=$!
	wait_state enabled
	# The instance answers once it has switched the threads, after the load.
	for _ in $(seq 300); do $BIAS cgroup list >/dev/null 2>&1 && break; sleep 0.1; done
}
# Twice the longest time between two scans of the agent.
settle() { sleep 2; }

at in nice -n 5 sleep 5001
at in/below chrt -b 0 sleep 5002; batch=$pid
at in chrt -i 0 sleep 5003; idle=$pid
at in chrt -f 10 sleep 5004
at out sleep 5006; newcomer=$pid
at out chrt -b 0 sleep 5007
at late nice -n 7 sleep 5008
at in sh -c 'until [ -e /run/go ]; do sleep 0.1; done; sleep 5009 & (echo 0 >/sys/fs/cgroup/out/cgroup.procs; sleep 5010 & exec sleep 5011) & wait'
at in taskset -c 3 sh -c 'while :; do :; done'
sleep 1
look before
load --cgroup $cg/in
look started
$BIAS status >$OUT/status
touch /run/go; settle; look forked
echo $newcomer >$cg/in/below/cgroup.procs; settle; look moved_in
echo $batch >$cg/out/cgroup.procs; echo $idle >$cg/cgroup.procs; settle; look moved_out
$BIAS cgroup add $cg/late >$OUT/added.list; look added
$BIAS cgroup remove $cg/late >$OUT/removed.list; look removed
for bad in $cg /tmp $cg/none; do $BIAS cgroup add $bad >/dev/null 2>>$OUT/refused; echo $? >>$OUT/refused.codes; done

# A service that starts again has another cgroup of the same path. One in the configuration need
# not exist yet.
printf 'capacity_file = "/run/capacity.json"\ncgroups = ["/sys/fs/cgroup/in", "/sys/fs/cgroup/unborn"]\n' >/run/conf.toml
kill -INT $bias; wait $bias
bias_once=$SCHED; SCHED="$BIAS --config /run/conf.toml"; load; SCHED=$bias_once
$BIAS cgroup list >$OUT/unborn.list
mkdir $cg/unborn; at unborn sleep 5012; first=$pid; settle; look born
kill $first; wait $first 2>/dev/null; rmdir $cg/unborn; mkdir $cg/unborn; at unborn sleep 5013; second=$pid; settle; look reborn
kill $second; wait $second 2>/dev/null; rmdir $cg/unborn; settle
$BIAS reload >$OUT/unborn.reload 2>&1; echo $? >>$OUT/unborn.reload

# A thousand together.
crowd=""
for _ in $(seq $crowd_size); do at out sleep 6000; crowd="$crowd $pid"; done
sleep 1
for one in $crowd; do echo $one; done >/run/crowd
while read -r one; do echo $one >$cg/in/cgroup.procs; done </run/crowd
for look in $(seq 100); do
	switched=$(for one in $crowd; do echo /proc/$one/stat; done | xargs cat | sed 's/.*) //' | awk '$39 == 7' | wc -l)
	[ $switched -ge $crowd_size ] && break
	sleep 0.2
done
echo $look >$OUT/crowd_looks
look crowded
kill -9 $crowd; settle

kill -9 $bias; wait $bias 2>/dev/null
wait_state disabled
look killed
load --cgroup $cg/late
look restarted
kill -INT $bias; wait $bias; echo $? >$OUT/code
look ended

# Killed, and not started again.
load --cgroup $cg/in
look again
kill -9 $bias; wait $bias 2>/dev/null
wait_state disabled
$BIAS cgroup restore >$OUT/restore; echo $? >>$OUT/restore
look restored
$BIAS cgroup restore >$OUT/nothing; echo $? >>$OUT/nothing

# Nothing at first, then a cgroup.
load --partial --exit-dump-len 65536
look partial
$BIAS status >$OUT/partial.status
$BIAS cgroup add $cg/in >/dev/null; look partial_added
kill -INT $bias; wait $bias
look partial_ended
cat /sys/kernel/sched_ext/state >$OUT/state
ls -A /run/scx_bias >$OUT/leftover
complaints 'BUG|WARNING|Oops|blocked for more than|soft lockup|runnable task stall'
exit 0
