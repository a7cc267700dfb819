#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# The capabilities that the service's unit leaves must be enough to load, to answer requests and
# to end. The masked file is the one that ProtectKernelTunables hides.
. "${0%/*}/common.sh"

pretend
mount --bind /dev/null /proc/kallsyms
setpriv --bounding-set=-all,+bpf,+perfmon,+sys_nice,+setpcap --inh-caps=-all --no-new-privs \
	$BIAS --capacity-file /run/capacity.json >$OUT/log 2>&1 </dev/null & bias=$!
wait_state enabled
cat /sys/kernel/sched_ext/state >$OUT/state
for _ in $(seq 100); do $BIAS status >$OUT/status 2>&1 && break; sleep 0.1; done
kill -TERM $bias; wait $bias; echo $? >$OUT/code
