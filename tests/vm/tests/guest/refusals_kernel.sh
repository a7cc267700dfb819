#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# A kernel on which no scheduler can load, or not this one.
. "${0%/*}/common.sh"

$BIAS check --json >$OUT/check.json; echo $? >$OUT/check.code
$BIAS >$OUT/load.out 2>$OUT/load.err; echo $? >$OUT/load.code
cat /sys/kernel/sched_ext/state >$OUT/state
