# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# shellcheck shell=sh
# A part of guest.sh for a guest that runs several commands, one after the other. Each has a
# directory $VM_RUN/job-N of the host. Its file `go` starts the script `job` in it, and the guest
# leaves `code`, and finally `left`: changes of the command that the guest cannot undo. If it is
# empty, the next command finds the guest as the first one did.

# others: set $others to the processes that did not exist before the first command. Only processes
# of user space have a program.
others() {
	others=
	for process in /proc/[0-9]*; do
		pid=${process#/proc/}
		[ -e "$process/exe" ] || continue
		case " $first $$ " in
		*" $pid "*) ;;
		*) others="$others $pid" ;;
		esac
	done
}

# pace start|stop: turn virtual time on or off, if the guest has it.
pace() { [ -z "$AMPCTL" ] || "$AMPCTL" "$1" >/dev/null 2>&1; }

# undo: end the processes that a command left, and remove its cgroups. A scheduler may first end by
# itself.
undo() {
	others
	# shellcheck disable=SC2086
	[ -z "$others" ] || kill -INT $others 2>/dev/null
	for _ in $(seq 100); do
		[ "$(cat /sys/kernel/sched_ext/state)" = disabled ] && break
		sleep 0.1
	done
	for _ in $(seq 50); do
		others
		[ -n "$others" ] || break
		# shellcheck disable=SC2086
		kill -KILL $others 2>/dev/null
		sleep 0.1
	done
	find /sys/fs/cgroup -mindepth 1 -depth -type d -exec rmdir {} + 2>/dev/null
	for controller in $(cat /sys/fs/cgroup/cgroup.subtree_control 2>/dev/null); do
		echo "-$controller" >/sys/fs/cgroup/cgroup.subtree_control
	done 2>/dev/null
}

# left: print the remains that undo could not remove.
left() {
	others
	[ -z "$others" ] || echo "processes$others"
	state=$(cat /sys/kernel/sched_ext/state)
	[ "$state" = disabled ] || echo "sched_ext is $state"
	find /sys/fs/cgroup -mindepth 1 -type d 2>/dev/null | sed 's/^/cgroup /'
	[ "$(cat /sys/devices/system/cpu/online)" = "$online" ] || echo "CPUs $(cat /sys/devices/system/cpu/online)"
	[ "$(cat /proc/sys/kernel/tainted)" = "$taint" ] || echo "a taint $(cat /proc/sys/kernel/tainted)"
	dmesg -k | grep -E 'BUG|WARNING|Oops|blocked for more than|soft lockup|runnable task stall' | head -3
}

# serve: run commands until the host ends the guest.
serve() {
	[ -e /sys/fs/cgroup/cgroup.controllers ] || mount -t cgroup2 none /sys/fs/cgroup
	first=
	others
	first=$others
	online=$(cat /sys/devices/system/cpu/online)
	taint=$(cat /proc/sys/kernel/tainted)
	at=1
	while :; do
		job=$VM_RUN/job-$at
		until [ -e "$job/go" ]; do sleep 0.1; done
		dmesg -C
		# Directories of state are the command's own, and are lost with it.
		unshare --mount sh "$job/job" >"$job/stdout" 2>"$job/stderr" </dev/null
		echo $? >"$job/code.new"
		mv "$job/code.new" "$job/code"
		pace stop
		undo
		left >"$job/left.new"
		cat /sys/kernel/sched_ext/enable_seq >"$VM_RUN/$VM_LOADS" 2>/dev/null
		pace start
		mv "$job/left.new" "$job/left"
		at=$((at + 1))
	done
}
