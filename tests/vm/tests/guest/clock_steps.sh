#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# clock_steps.sh: set the wall clock an hour forth and two back while tasks run. CPU 3 comes online
# before that, so that `status` has a change to date.
. "${0%/*}/common.sh"

echo 0 >/sys/devices/system/cpu/cpu3/online
table 1000,1000,1000 1000,1000,1000 2500,1580,1000 >/run/capacity.json
$BIAS --capacity-file /run/capacity.json 2>"$OUT/bias.log" & bias=$!
wait_state enabled
wait_answer
# The busy tasks weigh little, so that the script goes on beside them.
busy=
for _ in 1 2 3 4 5 6; do
	nice -n 10 sh -c 'while :; do :; done' & busy="$busy $!"
done
echo 1 >/sys/devices/system/cpu/cpu3/online
for _ in $(seq 120); do
	$BIAS status --json | grep -q '"at_ms"' && break
	sleep 0.5
done
# ran: print the CPU time of each busy task in ticks.
ran() { for pid in $busy; do cut -d ' ' -f 14 /proc/"$pid"/stat; done | tr '\n' ' '; }
# after NAME: record what `status` says 5 s later, the wall clock, and which tasks have run.
after() {
	ran >"$OUT/$1.before"
	sleep 5
	ran >"$OUT/$1.ran"
	date +%s%3N >"$OUT/$1.now"
	$BIAS status --json >"$OUT/$1.json"
	cat /sys/kernel/sched_ext/state >"$OUT/$1.state"
}
after unset
date -s '+1 hour' >/dev/null
after forth
date -s '-2 hours' >/dev/null
after back
# shellcheck disable=SC2086
kill -9 $busy
kill -TERM $bias
wait $bias
complaints
exit 0
