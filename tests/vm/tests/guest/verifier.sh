#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# Load once, unpaced, because the script measures no time.
. "${0%/*}/common.sh"

"$AMPCTL" stop
pretend
$BIAS --capacity-file /run/capacity.json -v >$OUT/bias.log 2>&1 &
bias=$!
wait_state enabled
cat /sys/kernel/sched_ext/state >$OUT/state
kill -INT $bias; wait $bias

# Kernels with CONFIG_BPF_JIT_ALWAYS_ON refuse this.
if echo 0 2>/dev/null >/proc/sys/net/core/bpf_jit_enable; then
	$BIAS check >$OUT/no_jit.check
	echo $? >$OUT/no_jit.codes
	# Another network namespace hides the setting, so the start fails only when it loads.
	for inside in "" "unshare --net"; do
		$inside $BIAS --capacity-file /run/capacity.json >/dev/null 2>>$OUT/no_jit.err
		echo $? >>$OUT/no_jit.codes
	done
	echo 1 >/proc/sys/net/core/bpf_jit_enable
fi
