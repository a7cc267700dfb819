# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# shellcheck shell=sh
# Sourced by loads.sh: weights of nested cgroups.

. "${0%/*}/groups.sh"

# Cgroup `deep` has its tasks 14 levels down. Its sixth level has weight 10000, which must not
# affect the levels above.
group beside; group deep; path=deep
for level in 2 3 4 5 6 7 8 9 10 11 12 13 14; do
	echo +cpu >$path/cgroup.subtree_control
	path=$path/$level
	if [ $level = 6 ]; then group $path 10000; else group $path; fi
done
for nr in 2 4; do
	spin beside $nr; spin $path $nr
	sleep "$(span 2)"; usage deep$nr 4 deep beside; calm
done

# The weight of a cgroup changes while all are busy. In 4 s the lighter cgroup is entitled to 18
# slices. The bound admits one slice more or less, but not a tenth of a second at the old weights.
group parent; group other; echo +cpu >parent/cgroup.subtree_control; group parent/a; group parent/b
spin parent/a 1; spin parent/b 1; spin other 1
sleep "$(span 2)"
usage equal 2 parent/a parent/b parent other
echo 1000 >parent/a/cpu.weight
usage changed 4 parent/a parent/b parent other
calm
