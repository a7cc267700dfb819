#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# unit_life.sh UNIT: start, reconfigure, hang, kill, refuse and stop the service.
. "${0%/*}/common.sh"

pretend
. "${0%/*}/unit_service.sh"
inside systemctl start scx_bias; echo "code $?" >$OUT/start; props started
configure 'slice_us = 7000'; inside systemctl reload scx_bias; echo "code $? $(slice)" >$OUT/reload
configure 'slice_us = "x"'; inside systemctl reload scx_bias 2>/dev/null; echo "code $? $(slice)" >$OUT/broken; props still
configure
kill -STOP $(pgrep -x scx_bias); state disabled; state enabled; active; props watched
kill -KILL $(pgrep -x scx_bias); state disabled; state enabled; active; props killed
inside systemctl stop scx_bias; props stopped
configure 'slice_us = "x"'; inside systemctl start scx_bias 2>/dev/null; echo "code $?" >$OUT/refused; sleep 5; props refused.state
dmesg | grep 'systemd.*scx_bias' >$OUT/log
