# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# shellcheck shell=sh
# Sourced by scripts for loads.sh: cgroups with weights. `spin GROUP NR` starts busy tasks in a
# cgroup, and `calm` ends all. `usage NAME SECONDS GROUPS...` leaves the CPU time that each used,
# and the actual length of the interval. SECONDS are those of CPUs of 60 MIPS.

cd /sys/fs/cgroup || exit; echo +cpu >cgroup.subtree_control
group() { mkdir -p "$1"; echo "${2:-100}" >"$1/cpu.weight"; }
spin() {
	sh -c 'echo 0 >"$1/cgroup.procs"; exec /run/loads spin "$2" 1000' sh "$1" "$2" >/dev/null & spinning="$spinning $!"
}
calm() { kill $spinning; wait $spinning; spinning=; }
used() { for group in "$@"; do while read -r key us; do [ $key = usage_usec ] && printf '%s ' "$us"; done <"$group/cpu.stat"; done; }
uptime_s() { read -r seconds_up _ </proc/uptime; printf '%s ' "$seconds_up"; }
# usage NAME SECONDS GROUPS...
usage() {
	name=$1 seconds=$2; shift 2
	before=$(uptime_s; used "$@"); sleep "$(span "$seconds")"; after=$(uptime_s; used "$@")
	echo "$before $after" | awk '{n = NF / 2; printf "{\"seconds\": %s, \"us\": [", $(n + 1) - $1; for (i = 2; i <= n; i++) printf "%s%d", (i > 2 ? ", " : ""), $(n + i) - $i; print "]}"}' >"$OUT/$name.json"
}
