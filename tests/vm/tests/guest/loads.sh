#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# loads.sh BEFORE UNDER: evaluate BEFORE under the default scheduler, then UNDER under scx_bias, and
# record whether it is still loaded. The guest ends with it loaded. BEFORE may set MORE_OPTIONS.
. "${0%/*}/common.sh"

cp "$OUT/loads" /run/loads

# loads NAME ARGS...: leave its document in $OUT/NAME.json.
loads() {
	name=$1
	shift
	/run/loads "$@" >"$OUT/$name.json" || {
		echo "FAILED: $name" >&2
		exit 1
	}
}

eval "$1"

calibrate
# shellcheck disable=SC2086
load "$BIAS" --capacity-file /run/capacity.json $MORE_OPTIONS
wait_answer
sleep 1

eval "$2"

cat /sys/kernel/sched_ext/state >"$OUT/lasted"
complaints 'sched_ext|BUG|WARNING|Oops'
