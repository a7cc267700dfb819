# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# shellcheck shell=sh
# Sourced by the other unit_*.sh: a systemd that is the init of a container in the guest. It starts
# none of the services that the host has installed. The container has directories of its own,
# because the guest's are the host's, read-only. `props NAME` records systemd's view of the unit.
# "$1" is the file of the unit.

unit=/run/systemd/system; conf=/etc/scx_bias.toml
mkdir -p $unit/scx_bias.service.d /run/bin /run/etc.up /run/etc.work
cp $BIAS /run/bin/
sed 's|@bindir@|/run/bin|' "$1" >$unit/scx_bias.service
printf '[Unit]\nDefaultDependencies=no\n' >$unit/scx_bias.service.d/test.conf
printf '[Unit]\nDescription=nothing\nDefaultDependencies=no\n' >$unit/nothing.target
mount -t overlay overlay -o lowerdir=/etc,upperdir=/run/etc.up,workdir=/run/etc.work /etc
cp /run/capacity.json /etc/
# shellcheck disable=SC2120
configure() { printf 'capacity_file = "/etc/capacity.json"\n%s\n' "$1" >$conf; }
configure
unshare --fork --pid --mount --mount-proc env -i container=lxc PATH=$PATH sh -c '
	mount --make-rshared /; mount -t tmpfs none /tmp; mount -t tmpfs none /var/tmp; mount -t tmpfs none /var/lib
	exec /lib/systemd/systemd --system --unit=nothing.target --log-target=kmsg --show-status=no' >$OUT/systemd.log 2>&1 &
inside() { nsenter -t "$(pgrep -x systemd | head -1)" -p -m "$@"; }
props() { inside systemctl show -p ActiveState,Result,NRestarts scx_bias | sort | tr '\n' ' ' >$OUT/$1; cat /sys/kernel/sched_ext/state >>$OUT/$1; }
state() { for _ in $(seq 900); do [ "$(cat /sys/kernel/sched_ext/state)" = $1 ] && break; sleep 0.1; done; }
active() { for _ in $(seq 900); do inside systemctl is-active -q scx_bias && break; sleep 0.1; done; }
slice() { inside /run/bin/scx_bias status --json | sed -n 's/.*"slice_us": \([0-9]*\).*/\1/p'; }
for _ in $(seq 600); do inside systemctl is-active -q nothing.target 2>/dev/null && break; sleep 0.1; done
