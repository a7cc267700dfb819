#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# unit_stalls.sh UNIT: whenever scx_bias is loaded, a real-time task that never sleeps keeps CPU 1
# from a task that is pinned there, until the kernel ends the scheduler. It ends then, because the
# rest of the system needs that CPU, too.
. "${0%/*}/common.sh"

pretend
. "${0%/*}/unit_service.sh"
starve() { taskset -c 1 chrt -f 50 sh -c 'while :; do :; done' & hog=$!; state disabled; kill -9 $hog; }
echo -1 >/proc/sys/kernel/sched_rt_runtime_us
taskset -c 1 sh -c 'while :; do :; done' & starved=$!
inside systemctl start --no-block scx_bias
for _ in $(seq 600); do
	inside systemctl is-failed -q scx_bias && break
	[ "$(cat /sys/kernel/sched_ext/state)" = enabled ] && inside systemctl is-active -q scx_bias && starve
	sleep 0.2
done
sleep 5
inside systemctl show -p ActiveState,ExecMainStatus scx_bias | sort | tr '\n' ' ' >$OUT/end; cat /sys/kernel/sched_ext/state >>$OUT/end
inside systemctl show -p StatusText scx_bias >$OUT/text
inside cat /run/scx_bias/ejections | wc -l >$OUT/ejections
inside /run/bin/scx_bias check >$OUT/check
inside /run/bin/scx_bias status 2>$OUT/status; echo $? >$OUT/status.code
kill -9 $starved
echo 950000 >/proc/sys/kernel/sched_rt_runtime_us
dmesg | grep 'systemd.*scx_bias' >$OUT/log
exit 0
