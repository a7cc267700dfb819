# SPDX-License-Identifier: GPL-2.0-only
# SPDX-FileCopyrightText: 2026 The scx_bias authors
# shellcheck shell=sh
# Sourced by loads.sh: leave the CPU time in 3 s of a task and of two busy kernel threads, all bound
# to CPU 1 [ns].

/run/loads spin 1 100 1 >/dev/null & user=$!
echo 1:2 >/sys/module/amp_pmu/parameters/kthreads
sleep 1
busy=$(grep -l '^amp_busy/1$' /proc/[0-9]*/comm | sed 's|/comm||')
task=$(grep -L "^$user " /proc/$user/task/*/stat | sed 's|/stat||')
ran() { for directory in $task $busy; do read -r ns rest <"$directory/schedstat"; printf '%s ' "$ns"; done; }
before=$(ran); sleep 3; after=$(ran)
echo "$before $after" | awk '{printf "{\"ran_ns\": [%.0f, %.0f, %.0f]}\n", $4 - $1, $5 - $2, $6 - $3}' >"$OUT/thirds.json"
echo 0 >/sys/module/amp_pmu/parameters/kthreads
kill $user
