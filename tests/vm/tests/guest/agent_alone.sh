#!/bin/sh
# The reader of standard output closes it after a line, and two cgroups have a limit.
. "${0%/*}/common.sh"

pretend
cg=/sys/fs/cgroup
mount_cgroups
echo +cpu >$cg/cgroup.subtree_control; mkdir $cg/web $cg/db $cg/free
echo '50000 100000' >$cg/web/cpu.max; echo '10000 100000' >$cg/db/cpu.max
mkfifo /run/out
$BIAS --capacity-file /run/capacity.json --stats 0.2 >/run/out 2>$OUT/log & bias=$!
head -1 /run/out >$OUT/line
for _ in $(seq 300); do $BIAS status >$OUT/status 2>/dev/null && break; sleep 0.1; done
sleep 3
cat /sys/kernel/sched_ext/state >$OUT/state
$BIAS check >$OUT/check
kill -TERM $bias; wait $bias; echo $? >$OUT/code
exit 0
