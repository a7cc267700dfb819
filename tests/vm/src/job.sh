# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# shellcheck shell=sh
# Runs a command "$@" of several in a guest, in directories of state of its own.
mount -t tmpfs run /run && mkdir -p /run/bias/upper /run/bias/work /run/bias/cache /run/bias/state
case $VM_RUN in
/tmp/*) ;;
*) mount -t tmpfs tmp /tmp ;;
esac
mount -t overlay -o lowerdir=/var/lib,upperdir=/run/bias/upper,workdir=/run/bias/work overlay /var/lib 2>/dev/null ||
	mount -t tmpfs state /var/lib
cd "$VM_CWD" 2>/dev/null || cd /
exec "$@"
