//! nice and cpu.weight: shares of overloaded CPUs, within one run and in virtual time.
#![allow(missing_docs)]

mod common;

use common::{Expectations, Scenario};

/// Two cgroups have weights 100 and 300, and as many busy tasks as requested. The script leaves the
/// CPU time of each in 6 s.
const GROUPS: &str = r#"
cat >/run/capacity.json <<END
{"version": 1, "cpus": [
 {"cpu": 0, "cost_permille": [1000, 1000, 1000]}, {"cpu": 1, "cost_permille": [1000, 1000, 1000]},
 {"cpu": 2, "cost_permille": [1000, 1000, 1000]}, {"cpu": 3, "cost_permille": [1000, 1000, 1000]}]}
END
cd /sys/fs/cgroup; echo +cpu >cgroup.subtree_control; mkdir -p light heavy; echo 300 >heavy/cpu.weight
$SCHED >$OUT/sched.log 2>&1 &
scheduler=$!
for i in $(seq 600); do [ "$(cat /sys/kernel/sched_ext/state)" = enabled ] && break; sleep 0.1; done
spin() { sh -c "echo 0 >/sys/fs/cgroup/$1/cgroup.procs; shift 1; exec \"\$@\"" sh "$@" >/dev/null & }
usage() { sed -n 's/^usage_usec //p' /sys/fs/cgroup/$1/cpu.stat; }
# NAME: the groups' CPU time over 6 s, after 2 s in which every task has found its place.
shares() {
  sleep 2; l=$(usage light); h=$(usage heavy); sleep 6
  echo "{\"light\": $(($(usage light) - l)), \"heavy\": $(($(usage heavy) - h))}" >$OUT/$1.json
  wait_all
}
wait_all() { for pid in $(cat light/cgroup.procs heavy/cgroup.procs); do while [ -d /proc/$pid ]; do sleep 0.1; done; done; }
work() { spin "$1" "$BENCH" work compute --seconds 9 $2; }
work light "--cpu 1"; work heavy "--cpu 1"; work heavy "--cpu 1"
shares pinned
for i in 1 2 3 4; do work light; work heavy; done
shares free
# NAME: nice 0 and nice 5 on one CPU.
nices() {
  nice -n 5 "$BENCH" work compute --seconds 8 --cpu 1 --json >$OUT/$1-5.json & five=$!
  "$BENCH" work compute --seconds 8 --cpu 1 --json >$OUT/$1-0.json & zero=$!
  wait $five; wait $zero
}
nices quiet
# Beside a task of next to no weight and one of much, each alone on a CPU, and one of another scheduling class that takes theirs away at times.
taskset -c 2 chrt -i 0 sh -c 'while :; do :; done' & alone=$!
taskset -c 3 nice -n -15 sh -c 'while :; do :; done' & alone="$alone $!"
taskset -c 1 chrt -f 1 sh -c 'while :; do i=0; while [ $i -lt 3000 ]; do i=$((i + 1)); done; sleep 0.1; done' & fifo=$!
nices beside
kill $alone $fifo
kill -INT $scheduler; wait $scheduler
cat /sys/kernel/sched_ext/state >$OUT/state
"#;

fn shares(kernel: &str) {
    let results = Scenario::emulated(kernel, "SYM", 5).run(GROUPS);
    let mut expect = Expectations::default();
    for name in ["pinned", "free"] {
        let ratio = results.number(name, "/heavy") / results.number(name, "/light");
        // Without cgroup weights it would be 2 (pinned) and 1 (free), by the number of tasks.
        expect.within(&format!("{name}: weight 300 against weight 100"), ratio, 3.0, 0.2);
    }
    for name in ["quiet", "beside"] {
        let cpu_ns = |nice: u32| results.number(&format!("{name}-{nice}"), "/cpu_ns");
        expect.within(
            &format!("{name}: nice 0 against nice 5 (1024/335)"),
            cpu_ns(0) / cpu_ns(5),
            1024.0 / 335.0,
            0.2,
        );
    }
    expect.holds("sched_ext is disabled afterwards", results.text("state").trim() == "disabled");
    expect.judge();
}

#[test]
fn weights_are_honoured_on_6_12() {
    shares("6.12");
}

#[test]
#[ignore = "minutes more: cargo xtask test --full"]
fn weights_are_honoured_on_7_3() {
    shares("7.3");
}
