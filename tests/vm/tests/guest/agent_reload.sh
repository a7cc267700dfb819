#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# Reload valid and broken configurations, ask as another user, and record the capabilities.
. "${0%/*}/common.sh"

pretend
config=/run/scx_bias.toml
slice() { $BIAS status --json | sed -n 's/.*"slice_us": \([0-9]*\).*/\1/p'; }
printf 'slice_us = 20000\nlog_level = "info"\n' >$config
setsid $BIAS --config $config --capacity-file /run/capacity.json --slice-min-us 2000 >$OUT/log 2>&1 </dev/null & bias=$!
wait_state enabled
wait_answer
slice >$OUT/first
printf 'slice_us = 5000\nno_bias = true\n' >$config
$BIAS reload --json >$OUT/reload.json; echo $? >$OUT/reload.code
slice >$OUT/second
# Each would be refused at a start, too; the last contradicts the command line.
for text in 'slice_us = "5ms"' 'slice_ms = 5' 'slice_us = 1000' 'slice_us = '; do
	echo "$text" >$config
	$BIAS reload 2>&1 >/dev/null | sed 's/^/err /' >>$OUT/broken
	$BIAS reload >/dev/null 2>&1; echo "code $? $(slice)" >>$OUT/broken
done
chmod o+w $config; echo 'slice_us = 6000' >$config
$BIAS reload >/dev/null 2>>$OUT/open; echo $? >>$OUT/open; chmod o-w $config
echo 'slice_us = 7000' >$config; kill -HUP $bias
for _ in $(seq 100); do [ "$(slice)" = 7000 ] && break; sleep 0.1; done
slice >$OUT/third
stat -c '%a' /run/scx/root /run/scx/root/stats >$OUT/modes
setpriv --reuid 65534 --clear-groups $BIAS status >$OUT/other.out 2>$OUT/other.err; echo $? >$OUT/other.code
setpriv --reuid 65534 --clear-groups $BIAS reload >>$OUT/other.out 2>>$OUT/other.err; echo $? >>$OUT/other.code
grep -h -E '^(CapEff|CapPrm|CapBnd|CapInh|NoNewPrivs)' /proc/$bias/task/*/status | sort -u >$OUT/rights
ls /proc/$bias/task | wc -l >$OUT/threads
kill -TERM $bias; wait $bias; echo $? >$OUT/end.code
cat /sys/kernel/sched_ext/state >$OUT/state
