#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# Mixes of tasks that stall on different things.
. "${0%/*}/common.sh"

MIX="$BENCH mix --solo $OUT/solo.json --warmup 1"
calibrate
load $SCHED
wait_answer
keep four $MIX --tasks 2compute+2chase --seconds 4 --rounds 3
keep eight $MIX --tasks 4compute+4chase --seconds 6
keep phases $MIX --tasks 4phases:4000 --seconds 8
unload
load $SCHED --no-bias
wait_answer
keep blind $MIX --tasks 2compute+2chase --seconds 4 --rounds 3
unload
