#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# Runs in the guest: transactions of the marked SQLite under the default scheduler and scx_bias,
# without hints and with them. The first argument is the directory that build.sh filled, the second
# that of scx_bias; $OUT gets profile, graph and figures.
set -eu
program=$1/transactions
bias=$2/scx_bias
threads=4
seconds=${SECONDS_EACH:-5}

# measure NAME [VARIABLE=VALUE...]: run the load and print its figure.
measure() {
	name=$1
	shift
	printf '%s: ' "$name"
	env "$@" "$program" $threads "$seconds"
}

measure "default, none" BIAS_MARK=none
# On one CPU, where no figure depends on the placement.
BIAS_MARK=measure BIAS_MARK_OUT=/run/sqlite taskset -c 0 "$program" 1 4 >/dev/null
cp /run/sqlite.* "$OUT"
measure "default, measure" BIAS_MARK=measure BIAS_MARK_OUT=/run/again

"$bias" calibrate --output /run/capacity.json >/dev/null
"$AMPCTL" stop
# Five times the usual values, as with `bias-bench ab --stretch 5`: the guest's time is stretched.
"$bias" --no-config --slice-us 50000 --rotate-gap-us 200000 --steal-lag-us 200000 --unfair-gap-us 1600000 \
	--capacity-file /run/capacity.json 2>"$OUT/bias.log" &
for _ in $(seq 600); do
	[ "$(cat /sys/kernel/sched_ext/state)" = enabled ] && break
	sleep 0.1
done
"$AMPCTL" start
sleep 1
for _ in 1 2; do
	for mode in none hint hint none; do
		measure "scx_bias, $mode" BIAS_MARK=$mode BIAS_MARK_PROFILE=/run/sqlite.toml
	done
done
"$bias" status --json >"$OUT/status.json"
kill -INT $!
wait $!
