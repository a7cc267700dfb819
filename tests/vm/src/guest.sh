#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# Runs in the guest: finds the output ports, starts the emulation, runs the command "$@" and records
# how it ended. guest.rs sets the arguments and the variables VM_*, OUT, AMPCTL and AMP_PMU.
for port in /sys/class/virtio-ports/*; do
	read -r name <"$port/name" || continue
	case $name in
	"$VM_PORT_OUT") exec >"/dev/${port##*/}" ;;
	"$VM_PORT_ERR") exec 2>"/dev/${port##*/}" ;;
	esac
done
exec </dev/null

finish() {
	cat /sys/kernel/sched_ext/enable_seq >"$VM_RUN/$VM_LOADS" 2>/dev/null
	# Power off immediately: an orderly shutdown takes seconds and nothing here needs it.
	echo 1 >/proc/sys/kernel/sysrq
	echo o >/proc/sysrq-trigger
	sleep 60
}

fail() {
	echo "$1" >"$VM_RUN/$VM_FAILED"
	finish
}

# The kernel starts with one CPU; see KERNEL_ARGS. A CPU that the command line forbids stays off.
# A start waits for many grace periods of RCU, which are short if expedited.
echo 1 >/sys/kernel/rcu_expedited
for cpu in /sys/devices/system/cpu/cpu[0-9]*/online; do
	[ "$(cat "$cpu")" = 1 ] || echo 1 >"$cpu"
done 2>/dev/null
echo 0 >/sys/kernel/rcu_expedited

# QEMU occasionally leaves a CPU without a timer, and a task that sleeps there never wakes. On a
# busy host the kernel may find its clocks too poor for timers finer than a tick. Detect both now.
# The limit is 20 seconds, because eight programs take several to start on such a host.
mkdir -p /run/bias
cpus=0
for cpu in /sys/devices/system/cpu/cpu[0-9]*; do
	cpus=$((cpus + 1))
	(taskset -c "${cpu##*/cpu}" sleep 0.02; echo >>/run/bias/timers) &
done
for try in $(seq 200); do
	[ "$(wc -l </run/bias/timers)" -ge "$cpus" ] && ! grep -q 'hres_active *: 0' /proc/timer_list && break
	[ "$try" = 200 ] && fail "$VM_NO_TIMER"
	sleep 0.1
done 2>/dev/null

# State directories become writable; their changes are lost with the guest.
mkdir -p /run/bias/upper /run/bias/work
mount -t overlay -o lowerdir=/var/lib,upperdir=/run/bias/upper,workdir=/run/bias/work overlay /var/lib 2>/dev/null ||
	mount -t tmpfs state /var/lib
# /tmp, too. The output directory may be below it.
if ! (: >/tmp/.writable) 2>/dev/null; then
	mkdir -p /run/bias/out
	mount --bind "$OUT" /run/bias/out
	mount -t tmpfs -o mode=1777 tmp /tmp
	[ -d "$OUT" ] || { mkdir -p "$OUT" && mount --bind /run/bias/out "$OUT"; }
fi
rm -f /tmp/.writable
export OUT AMPCTL AMP_PMU HOME="${HOME:-/root}" XDG_CACHE_HOME=/run/bias/cache XDG_STATE_HOME=/run/bias/state
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mkdir -p "$XDG_CACHE_HOME" "$XDG_STATE_HOME"
# A command that finds a CPU without a timer writes $VM_NO_TIMER to $VM_REPEAT.
export VM_NO_TIMER VM_REPEAT="$VM_RUN/$VM_FAILED"

# libbpf reads the configuration for schedulers that depend on kernel options. Without it they do
# not load.
if [ -n "$VM_CONFIG" ] && ! [ -e /proc/config.gz ]; then
	mkdir -p /run/bias/boot
	cp "$VM_CONFIG" "/run/bias/boot/config-$(uname -r)" && mount --bind /run/bias/boot /boot
fi

if [ -n "$VM_ROOT" ]; then
	export ROOT=/run/bias/root
	mkdir -p "$ROOT"
	mount -t tmpfs -o size=90%,mode=755 root "$ROOT"
	tar -C "$ROOT" -xf "$VM_ROOT" || fail "cannot unpack the root; give --memory a larger value"
	mkdir -p "$ROOT$OUT"
	for directory in /proc /sys /dev; do mount --rbind "$directory" "$ROOT$directory"; done
	for directory in /run /tmp "$OUT"; do mount --bind "$directory" "$ROOT$directory"; done
fi

# The disk answers after a delay of the guest's timer: a disk on the host would answer in the host's
# time.
if [ "$VM_DISK_MIB" != 0 ]; then
	disk=/sys/kernel/config/nullb/bias
	mkdir -p /run/bias/disk
	export DISK=/run/bias/disk
	{
		mount -t configfs none /sys/kernel/config
		mkdir "$disk"
		echo "$VM_DISK_MIB" >"$disk/size"
		echo 1 >"$disk/memory_backed"
		echo 2 >"$disk/irqmode"
		echo 80000 >"$disk/completion_nsec"
		echo 1 >"$disk/power"
		mke2fs -q -t ext4 "/dev/nullb$(cat "$disk/index")"
		mount "/dev/nullb$(cat "$disk/index")" "$DISK"
	} >"$VM_RUN/disk.log" 2>&1 || fail "cannot make the disk: $(cat "$VM_RUN/disk.log")"
fi

if [ -n "$AMP_PMU" ]; then
	# The parameters are separated by blanks.
	# shellcheck disable=SC2086
	insmod "$AMP_PMU" $VM_PARAMS 2>"$VM_RUN/insmod.log" ||
		fail "the guest refuses the PMU module: $(cat "$VM_RUN/insmod.log")"
elif [ -n "$AMPCTL" ]; then
	"$AMPCTL" start >"$VM_RUN/start.log" 2>&1 || fail "cannot start the emulation: $(cat "$VM_RUN/start.log")"
fi

[ -z "$VM_SERVE" ] || {
	echo started >"$VM_RUN/$VM_STARTED"
	serve
}
cd "$VM_CWD" 2>/dev/null || cd /
echo started >"$VM_RUN/$VM_STARTED"
"$@"
echo $? >"$VM_RUN/$VM_EXIT_CODE.new"
mv "$VM_RUN/$VM_EXIT_CODE.new" "$VM_RUN/$VM_EXIT_CODE"
finish
