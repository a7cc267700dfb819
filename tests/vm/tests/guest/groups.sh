# shellcheck shell=sh
# Sourced by scripts for loads.sh: cgroups with weights. `spin GROUP NR` starts busy tasks in a
# cgroup, and `calm` ends all. `usage NAME SECONDS GROUPS...` leaves the CPU time that each used.

cd /sys/fs/cgroup || exit; echo +cpu >cgroup.subtree_control
group() { mkdir -p "$1"; echo "${2:-100}" >"$1/cpu.weight"; }
spin() {
	sh -c 'echo 0 >"$1/cgroup.procs"; exec /run/loads spin "$2" 1000' sh "$1" "$2" >/dev/null & spinning="$spinning $!"
}
calm() { kill $spinning; wait $spinning; spinning=; }
used() { for group in "$@"; do while read -r key us; do [ $key = usage_usec ] && printf '%s ' "$us"; done <"$group/cpu.stat"; done; }
# usage NAME SECONDS GROUPS...
usage() {
	name=$1 seconds=$2; shift 2
	before=$(used "$@"); sleep "$seconds"; after=$(used "$@")
	echo "$before $after" | awk '{printf "{\"us\": ["; for (i = 1; i <= NF / 2; i++) printf "%s%d", (i > 1 ? ", " : ""), $(NF / 2 + i) - $i; print "]}"}' >"$OUT/$name.json"
}
