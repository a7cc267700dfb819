#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# package.sh ROOT PACKAGE NEWER: install, run as scx_loader would, enable, boot again, upgrade and
# purge the .deb under the systemd of the Debian in ROOT, which is the init of a container in the
# guest. Nothing is written to ROOT. Each step leaves what it found in $OUT.
. "${0%/*}/common.sh"

pretend
mount_cgroups
top=/run/debian
mkdir -p $top
mount -t tmpfs debian $top
mkdir $top/upper $top/work $top/root
mount -t overlay overlay -o lowerdir="$1",upperdir=$top/upper,workdir=$top/work $top/root
mkdir -p $top/root/packages $top/root/old $top/upper
cp "$2" $top/root/packages/one.deb
cp "$3" $top/root/packages/newer.deb
# The plain VM's CPUs are all alike, and the host decides how fast they are.
cp /run/capacity.json $top/root/packages/

# boot: start systemd as the first process of the container, and wait until it has booted. It gets
# no terminal of the guest, because a getty there would hang up this script. PrivateDevices= needs
# /dev/ptmx.
boot() {
	# The words are for the inner shell.
	# shellcheck disable=SC2016
	unshare --fork --pid --mount --uts env -i container=lxc PATH="$PATH" TOP=$top sh -c '
		mount --make-rprivate /
		cd $TOP/root && mount -t proc proc proc && mount --rbind /sys sys && mount -t tmpfs dev dev &&
			(cd /dev && cp -a null zero full random urandom tty kmsg $TOP/root/dev/) &&
			ln -s pts/ptmx dev/ptmx &&
			mount -t tmpfs run run && mount -t tmpfs tmp tmp && pivot_root . old && umount -l /old &&
			mount --make-rshared / && unset TOP &&
			exec /lib/systemd/systemd --system --log-target=kmsg --show-status=no' \
		>>"$OUT/systemd.log" 2>&1 &
	for _ in $(seq 1800); do
		case $(inside systemctl is-system-running 2>/dev/null) in running | degraded) return ;; esac
		sleep 0.1
	done
	echo "systemd does not boot" >&2
	exit 1
}
# A busy host makes systemd slow. Its programs wait for 25 s by default.
inside() { nsenter -t "$(pgrep -o -x systemd)" -p -m -u env SYSTEMD_BUS_TIMEOUT=300 "$@"; }
# found NAME: record whether the service is enabled and active, and whether sched_ext is.
found() {
	{
		inside systemctl is-enabled scx_bias
		inside systemctl is-active scx_bias
		cat /sys/kernel/sched_ext/state
	} 2>/dev/null | tr '\n' ' ' >"$OUT/$1"
}
active() { for _ in $(seq 900); do inside systemctl is-active -q scx_bias && break; sleep 0.1; done; }
# why: print the messages of systemd and the service on standard error, if the service does not run.
why() {
	inside systemctl is-active -q scx_bias && return
	inside systemctl status --full --no-pager scx_bias
	inside journalctl --no-pager -n 50 -u scx_bias
	dmesg | tail -n 80
} >&2
pid() { inside systemctl show -p MainPID --value scx_bias; }
files() { inside find / /run -xdev -path '*scx*'; }

boot
inside dpkg -i /packages/one.deb >"$OUT/dpkg.log" 2>&1
echo "code $?" >"$OUT/install"
found installed

# The sandbox of scx_loader.service, which the schedulers that it starts inherit: no real-time
# priority, no fsync, no netlink.
inside systemd-run --quiet --unit=boxed -p ProtectSystem=full -p PrivateTmp=yes -p RestrictRealtime=yes \
	-p SystemCallFilter=~@sync -p SystemCallErrorNumber=EPERM -p RestrictAddressFamilies=AF_UNIX scx_bias
wait_state enabled
for _ in $(seq 300); do inside scx_bias status >"$OUT/boxed.status" 2>&1 && break; sleep 0.1; done
{
	inside systemctl is-active boxed
	cat /sys/kernel/sched_ext/state
	inside test -s /var/lib/scx_bias/capacity.json && echo 'table kept'
} | tr '\n' ' ' >"$OUT/boxed"
inside journalctl --no-pager --output cat -u boxed >"$OUT/boxed.log"
inside systemctl stop boxed
wait_state disabled
rm -f "$top/root/var/lib/scx_bias/capacity.json"

# The table is invented. Checks of it would only take time from the rest.
printf '%s\n' 'capacity_file = "/packages/capacity.json"' 'no_recalibrate = true' >$top/root/etc/scx_bias.toml
inside systemctl enable --now scx_bias 2>>"$OUT/dpkg.log"
echo "code $?" >"$OUT/enable"
found enabled
why

inside systemctl reboot
wait
wait_state disabled
boot
active
found rebooted
inside scx_bias status >"$OUT/status"
echo "code $?" >"$OUT/status.code"

before=$(pid)
inside dpkg -i /packages/newer.deb >>"$OUT/dpkg.log" 2>&1
echo "code $?" >"$OUT/upgrade"
active
found upgraded
[ "$(pid)" != "$before" ] && echo restarted >"$OUT/restarted"
inside dpkg-query -W -f '${Version}' scx-bias >"$OUT/version"

inside dpkg -P scx-bias >>"$OUT/dpkg.log" 2>&1
echo "code $?" >"$OUT/purge"
wait_state disabled
found purged
files >"$OUT/remains"
dmesg | grep 'systemd.*scx_bias' >"$OUT/log"
exit 0
