#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# arm64.sh SUITE: build the programs for arm64 in a new root of SUITE, and run them in an emulated
# user space. Needs what root.sh names, and `rustup target add aarch64-unknown-linux-gnu`.
# shellcheck source-path=SCRIPTDIR source=root.sh
. "$(dirname "$0")/root.sh"

target=aarch64-unknown-linux-gnu
programs=target/$target/debug
make_root
logged "dpkg --add-architecture arm64 && apt-get -q update"
logged "apt-get -q install --no-install-recommends gcc libc6-dev gcc-aarch64-linux-gnu libc6-dev:arm64 \
libelf-dev:arm64 zlib1g-dev:arm64 clang-19 libclang-19-dev libelf-dev zlib1g-dev make pkg-config qemu-user"
{
	echo "CARGO_BUILD_TARGET=$target"
	echo "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc"
	echo "PKG_CONFIG_ALLOW_CROSS=1"
} >>"$root/opt/environment"
logged "cargo build --locked"
for command in "scx_bias --version" "scx_bias config --no-config" "bias-bench list"; do
	logged "qemu-aarch64 $programs/$command"
done
# 3: this is not an arm64 kernel with sched_ext.
code=0
inside "qemu-aarch64 $programs/scx_bias check" || code=$?
case $code in 0 | 3) said "scx_bias check: code $code" ;; *) fail "scx_bias check: code $code" ;; esac
