#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# Busy tasks, more than CPUs, while `trace` records them and `metrics` counts them.
. "${0%/*}/common.sh"

pretend
$BIAS --capacity-file /run/capacity.json 2>"$OUT/log" & bias=$!
wait_state enabled
wait_answer
busy=
for _ in 1 2 3 4 5 6; do
	sh -c 'printf busy >/proc/self/comm; while :; do :; done' & busy="$busy $!"
done
sleep 2
$BIAS trace --perfetto "$OUT/trace.json" --seconds 5
echo $? >"$OUT/trace.code"
$BIAS metrics >"$OUT/metrics"
echo $? >"$OUT/metrics.code"
# shellcheck disable=SC2086
kill -9 $busy
kill -TERM $bias
wait $bias
exit 0
