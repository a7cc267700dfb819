# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# shellcheck shell=sh
# Sourced by clean_root.sh and arm64.sh: a new root of a Debian suite that has the tree of HEAD in
# /src, the caller's Rust, and the caller's settings of the network: resolver, certificates,
# proxies, those of apt and cargo. Needs root, mmdebstrap, the network, and a Rust that rustup
# installed: the README leaves its installation to rustup. The scripts' first argument is SUITE;
# MIRROR in the environment replaces mmdebstrap's own. Time is counted from here. The end of the
# script removes the root.
set -eu

# Mounts end with the script.
[ "${ROOT_IS_PRIVATE:-}" ] || ROOT_IS_PRIVATE=1 exec unshare --mount --propagation private "$0" "$@"

suite=$1
mirror=${MIRROR:-}
begin=$(date +%s)
tree=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
root=$(mktemp -d)
# --one-file-system spares the file systems that are still mounted there.
trap 'umount "$root/proc" "$root/sys" "$root/dev/pts" "$root/opt/rust" 2>/dev/null || true; rm -rf --one-file-system "$root" "$root.apt"' EXIT

said() { printf '%5d s  %s\n' $(($(date +%s) - begin)) "$1"; }
fail() {
	echo "${0##*/}: $suite: $*" >&2
	exit 1
}
make_root() {
	{
		echo 'APT::Get::Assume-Yes "true";'
		apt-config dump | grep -E '^Acquire::(https?::(Proxy|CAInfo|Verify)|Retries|Check-Valid-Until)'
	} >"$root.apt" || true
	mmdebstrap --quiet --variant=minbase --mode=root --include=sudo,ca-certificates --aptopt="$root.apt" \
		"$suite" "$root" ${mirror:+"$mirror"}
	mkdir -p "$root/src" "$root/root/.cargo"
	cp -L /etc/resolv.conf "$root/etc/resolv.conf"
	cp -L "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" "$root/opt/certificates"
	settings=${CARGO_HOME:-$HOME/.cargo}/config.toml
	[ ! -e "$settings" ] || cp -L "$settings" "$root/root/.cargo/config.toml"
	env | grep -iE '^(https?_proxy|no_proxy|CARGO_(HTTP|NET|REGISTRY|REGISTRIES|SOURCE)_[A-Z0-9_]*)=' >"$root/opt/environment" || true
	mkdir "$root/opt/rust"
	mount --bind -o ro "$(rustc --print sysroot)" "$root/opt/rust"
	mount -t proc proc "$root/proc"
	mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
	mount --bind -o ro /sys "$root/sys"
	git -C "$tree" archive HEAD | tar -x -C "$root/src"
	said "a new root of $suite"
}
# inside COMMAND: run a shell's command in the tree of the root. It is the root of a mount
# namespace, because virtiofsd looks for the mount that it exports, which chroot would hide.
# The words are for the inner shells.
# shellcheck disable=SC2016
inside() {
	unshare --mount --propagation private sh -ec 'mount --rbind "$0" "$0" && cd "$0" && pivot_root . mnt && umount -l mnt && exec "$@"' \
		"$root" env -i HOME=/root PATH=/opt/rust/bin:/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive \
		SSL_CERT_FILE=/opt/certificates CURL_CA_BUNDLE=/opt/certificates PIP_CERT=/opt/certificates \
		sh -c 'while read -r line; do export "$line"; done </opt/environment; cd /src && eval "$1"' sh "$1"
}
# logged COMMAND: the same, with its output shown only if it fails.
logged() {
	inside "$1" >"$root/log" 2>&1 || {
		tail -n 30 "$root/log" >&2
		fail "this fails: $1"
	}
	said "$1"
}
