//! Swaps that the agent plans: they mend the worst placement, they are judged, and tasks that are gone before their turn disturb nothing.
//!
//! The CPUs' own moves are off (`--no-pull`) where it is to be seen what swaps do alone. Times are reported; what is asserted holds on a
//! busy host, too, and not without swaps.
#![allow(missing_docs)]

mod common;

use common::{Expectations, Results, Scenario};
use serde_json::Value;

/// `load OPTIONS...`: the scheduler, loaded unpaced. `worst NAME SECONDS`: two that compute, confined to slow CPUs, and two that chase, confined to
/// fast ones, are all let go at once; leaves when that was. `unload NAME` leaves what came of it.
const TOOLS: &str = r#"
calibrate
load() {
  "$AMPCTL" stop
  $SCHED "$@" >>$OUT/sched.log 2>&1 &
  scheduler=$!
  for i in $(seq 600); do [ "$(cat /sys/kernel/sched_ext/state)" = enabled ] && break; sleep 0.1; done
  "$AMPCTL" start
}
unload() {
  $BIAS swaps --json >$OUT/$1.swaps.json; $BIAS swaps >$OUT/$1.swaps.txt
  $BIAS status --json >$OUT/$1.status.json
  cat /sys/kernel/sched_ext/state >$OUT/$1.state
  "$AMPCTL" stop
  kill -INT $scheduler; wait $scheduler; echo $? >$OUT/$1.code
}
# Without a process, which would disturb what is measured.
uptime() { read -r now rest </proc/uptime; }
CGROUPS=/sys/fs/cgroup
into() { sh -c 'echo 0 >/sys/fs/cgroup/$1/cgroup.procs; shift; exec "$@"' sh "$@" >/dev/null & tasks="$tasks $!"; }
worst() {
  tasks=
  echo +cpuset >$CGROUPS/cgroup.subtree_control; mkdir -p $CGROUPS/slow $CGROUPS/fast
  echo 2-3 >$CGROUPS/slow/cpuset.cpus; echo 0-1 >$CGROUPS/fast/cpuset.cpus
  for i in 1 2; do into slow $BENCH work compute --seconds $2; into fast $BENCH work chase --seconds $2; done
  sleep 3
  uptime; begun=$now
  echo 0-3 >$CGROUPS/slow/cpuset.cpus; echo 0-3 >$CGROUPS/fast/cpuset.cpus
  uptime
  echo "{\"begun_s\": $begun, \"free_s\": $now}" >$OUT/$1.json
}
"#;

const WORST: &str = r#"
load --no-pull
worst alone 8
sleep 3
$BIAS top --json -n 1 -i 0.5 >$OUT/alone.top.json
wait $tasks
sleep 1
unload alone
load --no-pull --no-swap
worst none 6
wait $tasks
unload none
dmesg | grep -E 'BUG|Oops|WARNING|runnable task stall|sched_ext:.*error' >$OUT/complaints || true
"#;

/// Swaps of a log, in the order in which they were asked for: when [ms], and the verdict.
fn swaps(results: &Results, name: &str) -> Vec<(f64, String)> {
    let report = results.json(&format!("{name}.swaps"));
    let swaps = report["swaps"].as_array().cloned().unwrap_or_default();
    let verdict = |swap: &Value| {
        let judged = swap["ending"]["judged"]["verdict"].as_str();
        judged.or(swap["ending"]["unjudged"].as_str()).unwrap_or("?").to_owned()
    };
    let asked_ms = |swap: &Value| swap["asked_ns"].as_f64().unwrap_or(0.0) / 1e6;
    let mut swaps: Vec<_> = swaps.iter().map(|swap| (asked_ms(swap), verdict(swap))).collect();
    swaps.sort_by(|a, b| a.0.total_cmp(&b.0));
    swaps
}

/// The four tasks 3 s after they were let go: number, predicted speedup, share of their time on fast CPUs [permille].
fn places(results: &Results) -> Vec<(u64, f64, f64)> {
    let top = results.json("alone.top");
    let rows = top["tasks"].as_array().cloned().unwrap_or_default();
    let of_bench = rows.iter().filter(|row| row["name"] == "bias-bench");
    let number = |row: &Value, name: &str| row[name].as_f64().unwrap_or(0.0);
    let places: Vec<_> = of_bench
        .map(|row| {
            (
                row["pid"].as_u64().unwrap_or(0),
                number(row, "speedup_permille"),
                number(row, "on_fast_permille"),
            )
        })
        .collect();
    assert_eq!(places.len(), 4, "{top:#}");
    places
}

fn clean(results: &Results, expect: &mut Expectations, name: &str) {
    let text = |file: &str| results.text(&format!("{name}.{file}")).trim().to_owned();
    expect.holds(&format!("{name}: enabled to the end"), text("state") == "enabled");
    expect.holds(&format!("{name}: exit code {}", text("code")), text("code") == "0");
}

#[test]
fn swaps_alone_mend_the_worst_placement() {
    let Some(results) = Scenario::emulated("6.12", "2F2S", 5).run(&(TOOLS.to_owned() + WORST)) else {
        return;
    };
    let mut expect = Expectations::default();
    let free_ms = results.number("alone", "/free_s") * 1000.0;
    let begun_ms = results.number("alone", "/begun_s") * 1000.0;
    let swaps = swaps(&results, "alone");
    let after: Vec<_> = swaps.iter().filter(|(at, _)| *at >= begun_ms).collect();
    eprintln!(
        "swaps after the tasks were let go [ms]: {:?}",
        after.iter().map(|(at, _)| at - free_ms).collect::<Vec<_>>()
    );
    eprintln!("{}", results.text("alone.swaps.txt"));
    // A task that another one displaces for a moment may come back on the right CPU by itself, so that one swap may do.
    expect.at_least("swaps that were judged, where two are needed", after.len() as f64, 1.0);
    // 500 ms are to be reached, see docs/results/agent.md; a host that is busy delays everything.
    let first = after.first().map_or(f64::INFINITY, |(at, _)| at - free_ms);
    expect.at_most("the first of them, after so many ms", first, 2000.0);
    let regretted = after.iter().filter(|(_, verdict)| verdict == "regretted").count();
    expect.at_most("of which regretted", regretted as f64, 0.0);
    for (pid, speedup, share) in places(&results) {
        let (what, right) = if speedup > 1800.0 { ("computes", share) } else { ("chases", 1000.0 - share) };
        expect.at_least(
            &format!("task {pid} {what}: permille of its time on the right CPUs, 3 s later"),
            right,
            800.0,
        );
    }
    expect.at_most(
        "moved by anybody else: idle pull",
        results.number("alone.status", "/statistics/pull"),
        0.0,
    );
    expect.at_most("taking turns", results.number("alone.status", "/statistics/rotate"), 0.0);
    expect.at_most("for gain", results.number("alone.status", "/statistics/swap_gain"), 0.0);
    let none = results.number("none.status", "/statistics/moved");
    expect.at_most("with neither, moves", none, 0.0);
    let why = results.text("none.swaps.txt");
    expect.holds(&format!("and why is told: {why:?}"), why.contains("--no-swap"));
    clean(&results, &mut expect, "alone");
    clean(&results, &mut expect, "none");
    let complaints = results.text("complaints");
    expect.holds(&format!("the kernel does not complain: {complaints:?}"), complaints.is_empty());
    expect.judge();
}

/// Tasks of both kinds that live for a fraction of a second, so that plans are made for tasks that end. Nobody measures time, so nothing is paced.
const SHORT: &str = r#"
load --no-pull --swap-interval-ms 20 --window-instructions 10000
"$AMPCTL" stop
for lane in 1 2 3 4; do
  (i=0; while [ $i -lt 25 ]; do $BENCH work compute --seconds 0.3 >/dev/null; $BENCH work chase --seconds 0.3 >/dev/null; i=$((i + 1)); done) &
  lanes="$lanes $!"
done
for lane in $lanes; do wait $lane; done
sleep 4
"$AMPCTL" start
unload short
dmesg | grep -E 'BUG|Oops|WARNING|runnable task stall|sched_ext:.*error' >$OUT/complaints || true
"#;

#[test]
#[ignore = "minutes more: cargo xtask test --full"]
fn tasks_that_end_before_their_turn_disturb_nothing() {
    let Some(results) = Scenario::emulated("6.12", "2F2S", 5).run(&(TOOLS.to_owned() + SHORT)) else {
        return;
    };
    let mut expect = Expectations::default();
    eprintln!("{}", results.text("short.swaps.txt"));
    let count = |pointer: &str| results.number("short.swaps", &format!("/summary{pointer}"));
    let verdicts =
        ["paid", "neutral", "regretted", "unjudged"].map(|name| count(&format!("/verdicts/{name}")));
    let (asked, undone) = (count("/tally/asked"), count("/tally/undone"));
    let ended: f64 = verdicts.iter().sum::<f64>() + undone;
    expect.at_least("swaps asked for or refused", asked + count("/tally/refused"), 1.0);
    expect.holds(
        &format!("{asked} were asked for and {ended} have ended, {verdicts:?}, {undone} undone"),
        asked == ended,
    );
    expect.holds("the agent goes on", results.json("short.swaps")["summary"]["off"].is_null());
    clean(&results, &mut expect, "short");
    let complaints = results.text("complaints");
    expect.holds(&format!("the kernel does not complain: {complaints:?}"), complaints.is_empty());
    expect.judge();
}

const STEADY: &str = r#"
load
$BENCH mix --solo $OUT/solo.json --warmup 1 --tasks 3compute+1chase+2mixed:50 --seconds 20 --json >$OUT/mix.json || exit
unload steady
"#;

#[test]
fn a_steady_mix_is_left_in_peace() {
    let Some(results) = Scenario::emulated("6.12", "2F2S", 5).run(&(TOOLS.to_owned() + STEADY)) else {
        return;
    };
    let mut expect = Expectations::default();
    let asked = results.number("steady.swaps", "/summary/tally/asked");
    expect.at_most("swaps a second", asked / 20.0, 2.0);
    let count = |name: &str| results.number("steady.swaps", &format!("/summary/verdicts/{name}"));
    let bad = count("regretted");
    let judged = count("paid") + count("neutral") + bad;
    expect.at_most("of the judged ones, regretted beyond one in five and one", bad, 1.0 + judged / 5.0);
    clean(&results, &mut expect, "steady");
    expect.judge();
}
