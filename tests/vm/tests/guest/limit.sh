#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# A bias for the tasks of some cgroups only. The script measures no time, so it runs unpaced. The
# counters still count. `look NAME` records the known figures of every task.
. "${0%/*}/common.sh"

pretend
"$AMPCTL" stop
cg=/sys/fs/cgroup
mount_cgroups
mkdir $cg/in $cg/in/below $cg/out
look() { $BIAS top --json --count 1 --interval 1 >$OUT/$1.json; }
at() { name=$1; cgroup=$2; shift 2; (echo 0 >$cg/$cgroup/cgroup.procs; exec "$@") >/dev/null 2>&1 & echo $! >$OUT/$name.pid; }
policies() { for name in inside below outside; do awk '{print $41}' "/proc/$(cat $OUT/$name.pid)/stat"; done >$OUT/$1.policies; }
work="$BENCH work --seconds 300"
at inside in $work compute
at below in/below $work chase
at outside out $work compute
$BIAS --capacity-file /run/capacity.json --limit-bias --cgroup $cg/in >$OUT/bias.log 2>&1 & bias=$!
wait_state enabled
wait_answer
sleep 3; look begun; policies begun
$BIAS status --json >$OUT/status.json
# The fourth CPU is free, so none of these ever stops by itself.
cat $OUT/outside.pid >$cg/in/below/cgroup.procs
cat $OUT/below.pid >$cg/out/cgroup.procs
sleep 3; look moved
$BIAS cgroup remove $cg/in >$OUT/removed; sleep 3; look removed
$BIAS cgroup add $cg/out >$OUT/added; sleep 3; look added
$BIAS cgroup remove $cg/in >/dev/null 2>$OUT/refused; echo $? >$OUT/refused.code
cat $OUT/below.pid >$cg/cgroup.procs; rmdir $cg/out; sleep 2.5
$BIAS cgroup list >$OUT/gone
mkdir $cg/out; cat $OUT/below.pid >$cg/out/cgroup.procs; sleep 3
$BIAS cgroup list >$OUT/back; look back
kill -INT $bias; wait $bias; echo $? >$OUT/code
policies end
# shellcheck disable=SC2046
kill $(cat $OUT/inside.pid $OUT/below.pid $OUT/outside.pid)
complaints
