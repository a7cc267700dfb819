# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# shellcheck shell=sh
# Sourced by loads.sh: weights within two cpusets of unequal load. The CPUs of the second one have
# three times as many tasks.

. "${0%/*}/groups.sh"

echo +cpuset >cgroup.subtree_control
cpuset() {
	group $1; echo $2 >$1/cpuset.cpus
	echo +cpu >$1/cgroup.subtree_control
	group $1/heavy 300; group $1/light
}
cpuset few 0-1; cpuset many 2-3
spin few/heavy 2; spin few/light 2; spin many/heavy 6; spin many/light 6
groups='few/heavy few/light many/heavy many/light'
sleep "$(span 2)"; usage weighted 4 $groups

# All groups weigh the same from here on. The counts begin 0.1 s later.
echo 300 >few/light/cpu.weight; echo 300 >many/light/cpu.weight
sleep 0.1; usage equal-weights 4 $groups
calm
