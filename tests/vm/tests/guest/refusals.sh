#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# Refused inputs. Each case has a name, the expected exit code, and the command. Standard error goes
# to $OUT/NAME.err.
. "${0%/*}/common.sh"

try() {
	name=$1; want=$2; shift 2
	timeout 60 "$@" >$OUT/$name.out 2>$OUT/$name.err </dev/null
	echo "$name $want $?" >>$OUT/codes
}
dir=/run/refusals; mkdir -p $dir; cd $dir || exit
mkfifo fifo; mkdir directory; truncate -s 1G large; printf '{' >malformed; printf '{"version": 9, "cpus": []}' >future
printf '{"version": 1, "cpus": [{"cpu": 99, "cost_permille": [1000, 1000, 1000]}]}' >elsewhere
printf 'no-such-key = 1\n' >config
try unknown_flag 2 $BIAS --no-such-flag
for file in fifo directory large malformed future elsewhere absent; do
	try capacity_$file 2 $BIAS --capacity-file $file
done
for file in fifo directory large malformed config absent; do
	try config_$file 2 $BIAS --config $file
done
try slice 2 $BIAS --slice-us 1
try rights 3 setpriv --reuid 65534 --clear-groups $BIAS
try check_rights 3 setpriv --reuid 65534 --clear-groups $BIAS check
$BIAS >$OUT/first.out 2>$OUT/first.err &
first=$!
wait_state enabled
cat /sys/kernel/sched_ext/state >$OUT/while
try second 4 $BIAS
cat /sys/kernel/sched_ext/state >$OUT/still
kill -INT $first; wait $first; echo "first 0 $?" >>$OUT/codes
cat /sys/kernel/sched_ext/state >$OUT/state
