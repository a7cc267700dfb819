//! Cost of the agent in instructions, on eight CPUs with 200 tasks. In one part all but three tasks
//! sleep, so that idle CPUs are checked. In the other, all are busy.
#![allow(missing_docs)]

mod common;

use common::{Expectations, Scenario};

/// Limit of `docs/evaluation.md` [instructions per second]: 0.2 % of a real core.
const MOST_PER_S: f64 = 5e6;

/// The tasks start and the scheduler loads unpaced, because 200 starts at this pace would take
/// minutes.
const SCRIPT: &str = r#"
calibrate
"$AMPCTL" stop
$SCHED >>$OUT/sched.log 2>&1 &
scheduler=$!
for i in $(seq 600); do [ "$(cat /sys/kernel/sched_ext/state)" = enabled ] && break; sleep 0.1; done
cost() {
  "$AMPCTL" start
  sleep 5
  keep $1 $BENCH cost --pid $scheduler --seconds 10
  $BIAS status --json >$OUT/$1.status.json
  "$AMPCTL" stop
}
for i in $(seq 197); do sleep 1000 & tasks="$tasks $!"; done
for i in 1 2 3; do $BENCH work compute --seconds 1000 >/dev/null & tasks="$tasks $!"; done
sleep 3
cost asleep
kill $tasks; tasks=
for i in $(seq 200); do $BENCH work compute --seconds 1000 >/dev/null & tasks="$tasks $!"; done
sleep 3
cost busy
kill $tasks
kill -INT $scheduler; wait $scheduler; echo $? >$OUT/code
"#;

#[test]
#[ignore = "minutes more: cargo xtask test --full"]
fn the_agent_costs_next_to_nothing() {
    let results = Scenario::emulated("6.12", "30:30:30:30:12:12:12:12", 9).run(SCRIPT);
    let mut expect = Expectations::default();
    for name in ["asleep", "busy"] {
        let threads = results.number(name, "/threads");
        let what = format!("200 tasks, {name}: instructions a second of the agent's {threads} threads");
        expect.at_most(&what, results.number(name, "/instructions_per_s"), MOST_PER_S);
        // An agent that counts nothing is cheap, too.
        expect.at_least("of which there are some", results.number(name, "/instructions"), 1.0);
    }
    let checks = results.number("asleep.status", "/recalibration/spot_checks");
    expect.at_least("idle CPUs were checked meanwhile", checks, 1.0);
    expect.holds("the scheduler ends as it should", results.text("code").trim() == "0");
    expect.judge();
}
