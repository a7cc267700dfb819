#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# placement.sh [pingpong]: mixes under the default scheduler and under scx_bias, and the cost of
# switches if that is asked for.
. "${0%/*}/common.sh"

# The agent is busy for more than half a second after the switch.
MIX="mix --solo $OUT/solo.json --warmup 1"
keep four_default $BENCH $MIX --tasks 4compute --seconds 6
under one $MIX --tasks 1compute --seconds 3 --rounds 2
under two $MIX --tasks 2compute --seconds 3 --rounds 2
under four $MIX --tasks 4compute --seconds 6
under eight $MIX --tasks 4compute+4chase --seconds 10
keep exec "$BIAS" exec -n 2 --capacity-file /run/capacity.json -- $BENCH $MIX --tasks 2compute --seconds 2
under interactive run interactive+4compute --solo $OUT/solo.json --stretch 5 --seconds 6
[ "$1" = pingpong ] || exit 0
under pinned pingpong --cpu 0
SCHED="$SCHED --no-bias"
under pinned_blind pingpong --cpu 0
under free pingpong
under pairs pingpong --pairs 4
