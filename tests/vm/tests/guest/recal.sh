#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# A vCPU is throttled and released while tasks run. `look NAME` records the status and a second of
# the tasks' activity. `speed NAME CPU MIPS` changes a speed and waits for as long as the table and
# the tasks may take.
. "${0%/*}/common.sh"

now() { date +%s%3N; }
calibrate
end_tasks() { kill $tasks; wait $tasks 2>/dev/null; tasks=""; }
unload() { end_tasks; kill -INT $LOADED; wait $LOADED || echo "$?" >>$OUT/codes; }
task() { name=$1; shift; "$@" >/dev/null 2>&1 & echo $! >$OUT/$name.pid; tasks="$tasks $!"; }
look() { $BIAS top --json --count 1 --interval 1 >$OUT/$1.top.json; $BIAS status --json >$OUT/$1.status.json; }
speed() { now >$OUT/$1.at; "$AMPCTL" speed $2 $3; sleep 5; look $1; }
where() { awk '{print $39}' "/proc/$(cat $OUT/$1.pid)/stat"; }
: >$OUT/codes
work="$BENCH work --seconds 120"
cost() { awk '{print $14 + $15}' /proc/$LOADED/stat; }

load $SCHED; wait_answer
for i in 1 2; do task compute$i $work compute; task chase$i $work chase; done
sleep 5; look mix.before
cost >$OUT/cost.begin; now >$OUT/cost.begin.at
speed mix.down 0 20
speed mix.up 0 60
cost >$OUT/cost.end; now >$OUT/cost.end.at
end_tasks

task alone $work compute
sleep 5; look alone.before
home=$(where alone); other=$((1 - home)); echo $home >$OUT/home
speed alone.down $home 20
speed alone.up $home 60
speed alone.back $other 20
"$AMPCTL" speed $other 60
unload

load $SCHED --no-bias; wait_answer
task first taskset 1 $work compute
task second taskset 4 $work compute
sleep 4
speed blind.down 1 20
taskset -p f "$(cat $OUT/second.pid)" >/dev/null
sleep 1; look blind.freed
speed blind.up 1 60
unload
complaints
