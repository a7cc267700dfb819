# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# shellcheck shell=sh
# Sourced by loads.sh: `limits NAME` leaves the CPU time that cgroups with a cpu.max used. Four
# tasks exceed a quota of 20 ms by up to 40 ms at their ticks, which they pay later. So a window
# that begins with a debt and ends without one is off by that. A group whose tasks were killed owes
# more: an exiting task is not throttled, and runs for 100 ms or more here. So the next measurement
# has a group of its own.

. "${0%/*}/groups.sh"

limited() { group $1; echo "$2 100000" >$1/cpu.max; }
limits() {
	limited small 20000; limited pair 20000; limited outer 150000; group free
	echo +cpu >outer/cgroup.subtree_control; limited outer/inner 30000; group outer/rest
	spin small 1; sleep 1; usage $1-alone 4 small
	spin small 3; sleep 1; usage $1-crowded 8 small; calm

	spin pair 2; spin outer/inner 2; spin outer/rest 3; spin free 4
	sleep 1; usage $1-beside 8 pair outer/inner outer free
	echo max >pair/cpu.max
	sleep 0.2; usage $1-lifted 2 pair; calm
}
