#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# Counters that are few, in use, or not the same on every CPU.
. "${0%/*}/common.sh"

pretend
MIX="$BENCH mix --solo $OUT/solo.json --warmup 1 --tasks 2compute+2chase --seconds 3"
$MIX --json >$OUT/default.json || exit
mkfifo /run/hold

# poor NAME HOLD-OPTIONS PARAMETERS...: load the PMU with PARAMETERS. Unless the options are "-",
# another program holds counters of it.
poor() {
	name=$1; hold=$2; shift 2
	rmmod amp_pmu && insmod "$AMP_PMU" "$@" || exit 91
	"$AMPCTL" stop
	if [ "$hold" != - ]; then
		$TORTURE hold-counters $hold </run/hold 2>>$OUT/hold.log &
		exec 9>/run/hold
	fi
	$BIAS --capacity-file /run/capacity.json --slice-us 50000 >$OUT/$name.log 2>&1 &
	bias=$!
	wait_state enabled
	"$AMPCTL" start
	$MIX --json >$OUT/$name.json; echo $? >$OUT/$name.mix
	$BIAS status --json >$OUT/$name.status.json
	"$AMPCTL" stop
	kill -INT $bias; wait $bias; echo $? >$OUT/$name.code
	[ "$hold" = - ] || { exec 9>&-; wait; }
}
poor one_cpu - refuse=31 refuse_cpus=14
poor hybrid - refuse=12 refuse_cpus=12
poor taken "--pinned" slots=4
poor shared "--groups 3" slots=4
complaints
