#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# test.sh PACKAGE [SUITE [MIRROR]]: install, upgrade, remove and purge a .deb or an .rpm in a clean
# root of Debian, by default of trixie. Needs root, mmdebstrap and, for an .rpm, rpm. In Debian, an
# .rpm shows its files and scripts, not its dependencies. Prints "passed" if all is right.
set -eu

package=$(realpath "$1")
suite=${2:-trixie}
mirror=${3:-}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

fail() { echo "test.sh: $*" >&2; exit 1; }
inside() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive chroot "$root/d" "$@"; }
outside() { rpm --root "$root/d" --dbpath /var/lib/rpm --nodeps "$@"; }
files() { (cd "$root/d" && find . -xdev \( -path ./proc -o -path ./var/cache -o -path ./var/lib/apt -o -path ./var/lib/dpkg -o -path ./var/lib/rpm -o -path ./var/log -o -path ./etc/ld.so.cache -o -path ./tmp \) -prune -o -print) | sort; }

# list prints the package's files. remains is what a purge leaves.
remains='etc/scx_bias.toml|etc/systemd/system/multi-user.target.wants'
case $package in
*.deb)
	list() { dpkg-deb -c "$package"; }
	install() { inside dpkg -i /tmp/package.deb >/dev/null; }
	upgrade() { install; }
	remove() { inside dpkg -r scx-bias >/dev/null; }
	purge() { inside dpkg -P scx-bias >/dev/null; }
	documents='share/doc/scx-bias/copyright lib/x86_64-linux-gnu/libbias_mark.so.0'
	;;
*.rpm)
	list() { rpm -qlp "$package"; }
	install() { outside -i "$package"; }
	upgrade() { outside -U --force "$package"; }
	remove() { outside -e scx-bias; }
	# rpm has no purge, and disables services only where systemd runs.
	purge() { :; }
	remains="$remains.*|var/lib/scx_bias.*|run/scx.*"
	documents=share/licenses/scx_bias/LICENSE
	;;
*) fail "$package is neither a .deb nor an .rpm" ;;
esac

# shellcheck disable=SC2086
mmdebstrap --quiet --variant=minbase --mode=root --include=init-system-helpers,libelf1,zlib1g,libgcc-s1 "$suite" "$root/d" $mirror >/dev/null
# Directories that other packages have on distributions with rpm.
mkdir -p "$root/d/usr/share/licenses" "$root/d/usr/share/fish/vendor_completions.d" "$root/d/usr/share/zsh/site-functions"
files >"$root/before"
list >"$root/list"
cp "$package" "$root/d/tmp/package.deb"

install || fail "it does not install"
inside scx_bias --version | grep -q '^scx_bias ' || fail "the program does not run"
inside scx_bias config --no-config >/dev/null || fail "it prints no configuration"
code=0
inside scx_bias status >/dev/null 2>&1 || code=$?
[ "$code" = 3 ] || fail "status without an instance ends with $code"
for file in lib/systemd/system/scx_bias.service lib/systemd/system/scx_bias-metrics.service \
	share/man/man1/scx_bias.1.gz share/man/man1/scx_bias-top.1.gz share/man/man5/scx_bias.toml.5.gz \
	share/bash-completion/completions/scx_bias.bash $documents; do
	# Minimal roots may leave out documents.
	case $file in share/man/* | share/doc/*) grep -q "/usr/$file\$" "$root/list" ;; *) [ -e "$root/d/usr/$file" ] ;; esac ||
		fail "/usr/$file is missing"
done
[ ! -e "$root/d/etc/systemd/system/multi-user.target.wants/scx_bias.service" ] || fail "the service was enabled"

# Files that an administrator and the program create.
mkdir -p "$root/d/etc/systemd/system/multi-user.target.wants" "$root/d/var/lib/scx_bias" \
	"$root/d/run/scx_bias" "$root/d/run/scx_bias-marks" "$root/d/run/scx/root"
ln -s /usr/lib/systemd/system/scx_bias.service "$root/d/etc/systemd/system/multi-user.target.wants/"
echo 'slice_us = 5000' >"$root/d/etc/scx_bias.toml"
echo '{}' >"$root/d/var/lib/scx_bias/capacity.json"

upgrade || fail "it does not upgrade"
inside scx_bias --version | grep -q '^scx_bias ' || fail "the program does not run after an upgrade"
[ -L "$root/d/etc/systemd/system/multi-user.target.wants/scx_bias.service" ] || fail "an upgrade disabled the service"
remove || fail "it is not removed"
[ -e "$root/d/var/lib/scx_bias/capacity.json" ] || fail "a removal took the table"
purge || fail "it is not purged"

files >"$root/after"
wrong=$(diff "$root/before" "$root/after" | grep '^[<>]' | grep -vE "^> ./($remains)\$" || true)
[ -z "$wrong" ] || fail "it leaves or takes: $wrong"
echo "passed on $suite"
