#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# The micro-benchmark of sections, without hints and with them: measure a profile, then announce
# sections by it. Then cases that must lose nothing: no scheduler, a profile of another program,
# hints with random content.
. "${0%/*}/common.sh"

sections="$REPLAY sections --fast-cpus 0,1 --threads 4 --seconds 6 --warmup 3"
profile=/run/marks.toml

calibrate

# Measure on one CPU: the order of the sections matters, not where they run.
BIAS_MARK=measure BIAS_MARK_OUT=/run/marks taskset -c 0 \
	$REPLAY sections --fast-cpus 0,1 --threads 1 --seconds 1 --steps 20 >/dev/null || exit
cp $profile /run/marks.dot /run/marks.svg "$OUT" || exit

# Without the scheduler a marked program runs unmarked.
BIAS_MARK=hint BIAS_MARK_PROFILE=$profile $REPLAY sections --fast-cpus 0,1 --threads 1 --seconds 0.5 \
	--steps 20 --json >"$OUT/alone.json" 2>"$OUT/alone.err" || exit

load $SCHED
export BIAS_MARK_PROFILE=$profile
keep unmarked $sections
BIAS_MARK=hint keep hinted $sections
$BIAS status --json >"$OUT/status.json" || exit

# A profile of another program, and one that is cut short.
sed 's/^build_id = .*/build_id = "00"/' $profile >/run/foreign.toml
head -c 60 $profile >/run/damaged.toml
for name in foreign damaged; do
	BIAS_MARK=hint BIAS_MARK_PROFILE=/run/$name.toml $REPLAY sections --fast-cpus 0,1 --threads 1 \
		--seconds 0.5 --steps 20 --json >"$OUT/$name.json" 2>"$OUT/$name.err" || exit
done

# The agent dies while a marked program runs.
BIAS_MARK=hint $REPLAY sections --fast-cpus 0,1 --threads 4 --seconds 4 --warmup 1 --json \
	>"$OUT/orphan.json" 2>"$OUT/orphan.err" &
orphan=$!
for _ in $(seq 100); do
	readlink /proc/$orphan/fd/* 2>/dev/null | grep -q socket: && break
	sleep 0.1
done
sleep 0.5
kill -9 $LOADED
wait $orphan || exit
wait_state disabled
complaints
