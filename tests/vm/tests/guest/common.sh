# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# shellcheck shell=sh
# Sourced by the scripts of the scenarios, which run in the guest. tests/common/mod.rs sets these
# variables:
#   BENCH, REPLAY, TORTURE, BIAS  the programs
#   SCHED        a scheduler command
#   EMULATED     not empty if the guest has emulated cores, whose virtual time can be suspended
#   PACE         share of a span of time in which the CPUs do as much as those of 60 MIPS [permille]
#   OUT          directory for results

# span SECONDS: the time in which the CPUs do as much as those of 60 MIPS in SECONDS.
span() {
	ms=$(($1 * PACE))
	printf '%d.%03d\n' $((ms / 1000)) $((ms % 1000))
}

# keep NAME COMMAND...: leave COMMAND's JSON in $OUT/NAME.json, and end the script if it fails.
keep() {
	name=$1
	shift
	"$@" --json >"$OUT/$name.json" || {
		code=$?
		echo "FAILED: $name ($code)" >&2
		exit $code
	}
}

# Calibrate once, at the pace of the machine: the scheduler cannot do so when it loads.
calibrate() {
	[ -z "$EMULATED" ] || [ -e /run/capacity.json ] ||
		"$BIAS" calibrate --output /run/capacity.json >/dev/null || exit
}

# table COSTS...: a capacity table. COSTS are the three costs of a CPU, separated by commas.
table() {
	cpu=0
	separator=
	printf '{"version": 1, "cpus": ['
	for costs in "$@"; do
		printf '%s{"cpu": %s, "cost_permille": [%s]}' "$separator" $cpu "$costs"
		cpu=$((cpu + 1))
		separator=', '
	done
	printf ']}\n'
}

# A table of two fast and two slow CPUs, for the plain VM, whose CPUs are in fact all alike, and for
# scripts that do not measure time.
pretend() {
	table 1000,1000,1000 1000,1000,1000 2500,1580,1000 2500,1580,1000 >/run/capacity.json
}

# wait_state STATE: wait for up to three minutes until sched_ext is enabled or disabled. End the
# script if it is not. In virtual time the kernel verifies programs for up to a minute.
wait_state() {
	for _ in $(seq 1800); do
		[ "$(cat /sys/kernel/sched_ext/state)" = "$1" ] && return
		sleep 0.1
	done
	echo "FAILED: sched_ext is not $1" >&2
	tail -n 3 "$OUT"/*.log >&2
	exit 1
}

# pace start|stop: turn virtual time on or off, if the guest has it.
pace() { [ -z "$EMULATED" ] || "$AMPCTL" "$1"; }

# load COMMAND...: run the scheduler COMMAND as process $LOADED, with its log in bias.log, until it
# is loaded. That takes seconds in which nothing is measured, at the host's pace. All CPUs are alike
# at that pace, and the table would follow a reading of them. So virtual time is in force again
# before the agent's first reading, half a second after the scheduler is loaded.
load() {
	# The kernel counts a moment after it reports the state.
	enabled_as=$(($(cat /sys/kernel/sched_ext/enable_seq) + 1))
	pace stop
	"$@" >>"$OUT/bias.log" 2>&1 &
	LOADED=$!
	for _ in $(seq 600); do
		[ "$(cat /sys/kernel/sched_ext/state)" = enabled ] && break
		kill -0 $LOADED || {
			cat "$OUT/bias.log" >&2
			exit 1
		}
		sleep 0.1
	done
	pace start
}

# unload: end the scheduler that `load` started. End the script if it has not scheduled all the time
# since then, or ends with an error.
unload() {
	if [ "$(cat /sys/kernel/sched_ext/state)" != enabled ] ||
		[ "$(cat /sys/kernel/sched_ext/enable_seq)" != "$enabled_as" ]; then
		echo "FAILED: the scheduler did not last" >&2
		cat "$OUT/bias.log" >&2
		exit 1
	fi
	pace stop
	kill -INT $LOADED
	wait $LOADED || {
		echo "FAILED: the scheduler ended with $?" >&2
		exit 1
	}
	wait_state disabled
	pace start
}

# Wait for up to half a minute until scx_bias answers. It does so when it has switched.
wait_answer() {
	for _ in $(seq 300); do
		$BIAS status >/dev/null 2>&1 && break
		sleep 0.1
	done
}

# Mount the cgroup file system where it is missing.
mount_cgroups() {
	[ -e /sys/fs/cgroup/cgroup.controllers ] || mount -t cgroup2 none /sys/fs/cgroup
}

# complaints [PATTERN]: record complaints of the kernel. -k excludes the messages of virtme-ng.
complaints() {
	dmesg -k | grep -E "${1:-BUG|Oops|WARNING|runnable task stall|sched_ext:.*error}" >"$OUT/complaints" || true
}

# Start six busy tasks. They weigh little, so that the script makes progress beside them. `look
# NAME` records the CPU time in ticks that they got in 5 s, then the output of `status`, the wall
# clock in milliseconds, and the state of sched_ext. `end_tasks` ends the tasks.
busy_tasks() {
	busy=
	for _ in 1 2 3 4 5 6; do
		nice -n 10 sh -c 'while :; do :; done' &
		busy="$busy $!"
	done
}
# shellcheck disable=SC2086
end_tasks() { kill -9 $busy; }
ran() { for pid in $busy; do cut -d ' ' -f 14 "/proc/$pid/stat"; done | tr '\n' ' '; }
# timers: print how many timer interrupts each CPU had.
timers() { sed -n 's/^ *LOC: *\([0-9 ]*\).*/\1/p' /proc/interrupts; }
look() {
	before=$(timers)
	ran >"$OUT/$1.before"
	sleep 5
	ran >"$OUT/$1.ran"
	# QEMU occasionally loses the timer of a CPU, and then the CPU time of its task stands
	# still. All CPUs are busy here. The machine boots again for that.
	printf '%s\n' "$before" "$(timers)" |
		awk '{ for (i = 1; i <= NF; i++) if ($i == was[i]) exit 1; split($0, was) }' ||
		echo "$VM_NO_TIMER" >"${VM_REPEAT:-/dev/null}"
	$BIAS status --json >"$OUT/$1.json"
	date +%s%3N >"$OUT/$1.now"
	cat /sys/kernel/sched_ext/state >"$OUT/$1.state"
}
