#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# Fetch SQLite's source of Debian 12, mark it with marks.patch, and build the load of transactions:
#   build.sh DIRECTORY LIBRARY
# DIRECTORY gets the program `transactions`. LIBRARY is the directory of libbias_mark.so, which
# `cargo build --release -p bias_mark` makes. Needs apt-get, tclsh, make and a C compiler.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
into=$1
library=$(cd "$2" && pwd)
archive=sqlite3_3.40.1.orig.tar.xz
sum=aaa776260ab4dc976db34aa7891819484c8676b5b2783123ebc6301e2ca5d655

mkdir -p "$into/apt/lists/partial" "$into/apt/cache/archives/partial"
cd "$into"
if ! [ -e $archive ]; then
	# A private list, from the machine's own mirror: the machine's sources do not change.
	# apt-get expands these names, not the shell.
	# shellcheck disable=SC2016
	mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' | grep ' bookworm$' | head -n 1)
	echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror main" >apt/sources.list
	cat >apt/apt.conf <<-END
		Dir::Etc::SourceList "$PWD/apt/sources.list";
		Dir::Etc::SourceParts "/dev/null";
		Dir::State::Lists "$PWD/apt/lists";
		Dir::Cache "$PWD/apt/cache";
		APT::Sandbox::User "root";
	END
	export APT_CONFIG="$PWD/apt/apt.conf"
	apt-get -q update
	apt-get -q source --download-only sqlite3
fi
echo "$sum  $archive" | sha256sum --check --quiet
rm -rf source
mkdir source
tar -x --strip-components=1 -C source -f $archive
patch -d source -p 1 <"$here/marks.patch"
(cd source && ./configure --quiet --disable-tcl && make -s sqlite3.c)
# Each connection belongs to one thread. A shared count of memory would be a lock for all threads.
"${CC:-cc}" -O2 -pthread -DSQLITE_THREADSAFE=2 -DSQLITE_DEFAULT_MEMSTATUS=0 -Isource \
	-I"$here/../../../lib/mark/include" "$here/transactions.c" source/sqlite3.c \
	-L"$library" -Wl,-rpath,"$PWD" -lbias_mark -lm -o transactions
ln -sf "$library/libbias_mark.so" libbias_mark.so.0
