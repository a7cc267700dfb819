#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# The reader of standard output closes it after a line.
. "${0%/*}/common.sh"

pretend
mkfifo /run/out
$BIAS --capacity-file /run/capacity.json --stats 0.2 >/run/out 2>$OUT/log & bias=$!
head -1 /run/out >$OUT/line
for _ in $(seq 300); do $BIAS status >$OUT/status 2>/dev/null && break; sleep 0.1; done
sleep 3
cat /sys/kernel/sched_ext/state >$OUT/state
kill -TERM $bias; wait $bias; echo $? >$OUT/code
exit 0
