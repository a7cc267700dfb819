#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# simulator.sh MIX...: measure each mix under scx_bias, and predict it from the same table.
. "${0%/*}/common.sh"

# The simulator has scx_bias with its own slice.
calibrate
load "$BIAS" --capacity-file /run/capacity.json
wait_answer
for mix in "$@"; do
	keep "vm.$mix" "$BENCH" mix --solo "$OUT/solo.json" --warmup 1 --seconds 3 --tasks "$mix"
done
unload

# A prediction takes no time that is measured. The guest kernel has 100 ticks a second.
"$AMPCTL" stop
for mix in "$@"; do
	keep "sim.$mix" "$BENCH" sim --this-machine --capacity-file /run/capacity.json --hz 100 --seconds 10 \
		--mix "$mix"
done
