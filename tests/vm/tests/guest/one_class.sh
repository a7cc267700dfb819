#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# one_class.sh RUNS: calibrate several times. Different work before each calibration leaves other
# pages free and other lines in the caches.
. "${0%/*}/common.sh"

for run in $(seq "$1"); do
	for cpu in 0 2; do "$BENCH" work stream --seconds 0.2 --cpu $cpu --json >/dev/null & done
	"$BENCH" work chase --seconds "0.$run" --cpu 1 --json >/dev/null || exit
	wait
	keep "table$run" "$BIAS" calibrate --force
done
