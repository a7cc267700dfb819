#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# placement.sh [pingpong|blind]: mixes under the default scheduler and under scx_bias, with pingpong
# also the cost of switches; or only that cost, without counters.
. "${0%/*}/common.sh"

pingpongs() {
	keep pinned $BENCH pingpong --cpu 0
	keep free $BENCH pingpong
	keep pairs $BENCH pingpong --pairs 4
}

if [ "$1" = blind ]; then
	calibrate
	load $SCHED --no-bias
	wait_answer
	pingpongs
	unload
	exit
fi

# The agent is busy for more than half a second after the switch.
MIX="$BENCH mix --solo $OUT/solo.json --warmup 1"
calibrate
keep four_default $MIX --tasks 4compute --seconds 6
keep exec "$BIAS" exec -n 2 --capacity-file /run/capacity.json -- $MIX --tasks 2compute --seconds 2
load $SCHED
wait_answer
keep one $MIX --tasks 1compute --seconds 3 --rounds 2
keep two $MIX --tasks 2compute --seconds 3 --rounds 2
keep four $MIX --tasks 4compute --seconds 6
keep interactive $BENCH run interactive+4compute --solo $OUT/solo.json --stretch 5 --seconds 6
[ "$1" != pingpong ] || pingpongs
unload
