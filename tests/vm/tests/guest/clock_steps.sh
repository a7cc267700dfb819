#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# clock_steps.sh: set the wall clock an hour forth and two back while tasks run. CPU 3 comes online
# before that, so that `status` shows a change with its date.
. "${0%/*}/common.sh"

echo 0 >/sys/devices/system/cpu/cpu3/online
table 1000,1000,1000 1000,1000,1000 2500,1580,1000 >/run/capacity.json
$BIAS --capacity-file /run/capacity.json 2>"$OUT/bias.log" & bias=$!
wait_state enabled
wait_answer
busy_tasks
echo 1 >/sys/devices/system/cpu/cpu3/online
for _ in $(seq 120); do
	$BIAS status --json | grep -q '"at_ms"' && break
	sleep 0.5
done
look unset
date -s '+1 hour' >/dev/null
look forth
date -s '-2 hours' >/dev/null
look back
end_tasks
kill -TERM $bias
wait $bias
complaints
exit 0
