#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# Load once, unpaced, because the script measures no time.
. "${0%/*}/common.sh"

"$AMPCTL" stop
pretend
$BIAS --capacity-file /run/capacity.json -v >$OUT/bias.log 2>&1 &
bias=$!
wait_state enabled
cat /sys/kernel/sched_ext/state >$OUT/state
kill -INT $bias; wait $bias
