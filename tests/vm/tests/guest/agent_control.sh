#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# agent_control.sh STOP_S: stop the agent, flood it, and kill it.
. "${0%/*}/common.sh"

pretend
# Beside busy tasks a load may take more than a minute at this pace.
keep control "$TORTURE" control --scheduler-cmd "nice -n -20 $SCHED" --load-timeout 300 --stop "$1" --clients 1000 --flood 8
cat /sys/kernel/sched_ext/state >$OUT/state
