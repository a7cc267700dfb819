#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# Clocks under the governor schedutil: a calibration after the CPUs have idled, the clocks with and
# without load, and a mix under both schedulers.
. "${0%/*}/common.sh"

echo 1 >/sys/module/amp_pmu/parameters/hybrid || exit
policies=/sys/devices/system/cpu/cpufreq
former=$(cat $policies/policy0/scaling_governor)
govern() { for governor in $policies/policy*/scaling_governor; do echo "$1" >"$governor" || exit; done; }
govern schedutil
clocks() { cat $policies/policy*/scaling_cur_freq | tr '\n' ' ' >"$OUT/$1.khz"; }

sleep 2
calibrate
MIX="$BENCH mix --tasks 4compute --solo $OUT/solo.json --warmup 2 --seconds 6"
keep four_default $MIX

load $SCHED
wait_answer
$BIAS status --json >"$OUT/start.json"
busy=
for _ in 1 2 3 4; do
	sh -c 'while :; do :; done' &
	busy="$busy $!"
done
sleep 2
clocks busy
end_tasks
# Only CPU 0 works for the script.
taskset -p 1 $$ >/dev/null
sleep 2
# A spot check keeps an idle CPU busy for a while, and so does the agent.
for look in 1 2 3 4 5; do
	clocks idle$look
	sleep 0.3
done
taskset -p f $$ >/dev/null
keep four $MIX
unload
govern "$former"
echo 0 >/sys/module/amp_pmu/parameters/hybrid
