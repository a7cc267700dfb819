#!/bin/sh
# loads.sh BEFORE UNDER: evaluate BEFORE under the default scheduler, then UNDER under scx_bias, and
# record whether it is still loaded. The guest ends with it loaded.
. "${0%/*}/common.sh"

cp "$OUT/loads" /run/loads

# loads NAME ARGS...: leave its document in $OUT/NAME.json.
loads() {
	name=$1
	shift
	/run/loads "$@" >"$OUT/$name.json" || {
		echo "FAILED: $name" >&2
		exit 1
	}
}

eval "$1"

# Load scx_bias at the host's pace, because nothing of that is measured. It answers when its start,
# which would take a virtual second, is over.
calibrate
"$AMPCTL" stop
"$BIAS" --capacity-file /run/capacity.json >"$OUT/bias.log" 2>&1 &
bias=$!
for _ in $(seq 600); do
	[ "$(cat /sys/kernel/sched_ext/state)" = enabled ] && break
	kill -0 $bias || {
		cat "$OUT/bias.log" >&2
		exit 1
	}
	sleep 0.1
done
wait_answer
"$AMPCTL" start
sleep 1

eval "$2"

cat /sys/kernel/sched_ext/state >"$OUT/lasted"
complaints 'sched_ext|BUG|WARNING|Oops'
