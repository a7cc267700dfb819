#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# clean_root.sh SUITE [check | demo | test]...: run the README's commands for Debian in a new root
# of SUITE, from nothing to `scx_bias check` (the default), to the end of `cargo xtask demo`, or to
# that of `cargo xtask test`. Print how long each took. Needs what root.sh names.
# shellcheck source-path=SCRIPTDIR source=root.sh
. "$(dirname "$0")/root.sh"

# readme PATTERN: print the first group of the README's line of that form.
readme() {
	sed -n "s/^$1\$/\1/p" "$tree/README.md" | grep . || fail "the README has no line of the form $1"
}
# shellcheck disable=SC2016
packages=$(readme '| Debian, Ubuntu | `\(.*\)` |')
build=$(readme '    \(cargo build .*\)')
check=$(readme '    \(target\/release\/scx_bias check\) .*')

make_root
shift
[ $# -gt 0 ] || set -- check
for part in "$@"; do
	logged "apt-get -q update"
	case $part in
	demo | test)
		# The README asks for Rust and a C compiler.
		logged "apt-get -q install gcc libc6-dev"
		# Images of containers have no package lists.
		rm -rf "$root"/var/lib/apt/lists/*
		logged "CI=true cargo xtask $part"
		tail -n 20 "$root/log"
		;;
	check)
		logged "$packages"
		logged "$build"
		# 3: the kernel or its settings lack something, which `check` names.
		code=0
		inside "$check" || code=$?
		case $code in 0 | 3) said "$check: code $code" ;; *) fail "$check: code $code" ;; esac
		;;
	*) fail "only check, demo and test are known" ;;
	esac
done
