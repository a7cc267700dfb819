#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# nohz.sh: leave in $OUT/nohz.json the timer interrupts of CPU 3, of nohz_full, in a second: while a
# task computes there alone, while a second one does beside it, and alone again; and the CPU time of
# both in the seconds that they share.
. "${0%/*}/common.sh"

ticks() { awk '$1 == "LOC:" { print $5 }' /proc/interrupts; }
ran() { cut -d ' ' -f 1 "/proc/$1/schedstat"; }
rate() {
	before=$(ticks)
	sleep 2
	echo $((($(ticks) - before) / 2))
}
compute() { taskset -c 3 "$BENCH" work compute --seconds 100 >/dev/null & }

calibrate
load "$BIAS" --capacity-file /run/capacity.json
wait_answer

compute
first=$!
sleep 1
alone=$(rate)
compute
second=$!
sleep 0.5
first_ns=$(ran $first) second_ns=$(ran $second)
shared=$(rate)
first_ns=$(($(ran $first) - first_ns)) second_ns=$(($(ran $second) - second_ns))
kill $second
sleep 0.5
again=$(rate)
kill $first
cat >"$OUT/nohz.json" <<END
{"alone": $alone, "shared": $shared, "again": $again, "first_ns": $first_ns, "second_ns": $second_ns}
END
cat /sys/kernel/sched_ext/state >"$OUT/lasted"
complaints 'sched_ext|BUG|WARNING|Oops'
