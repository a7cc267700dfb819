//! Scheduling of the whole system, with a bias for the tasks of some cgroups only, through all
//! changes of these cgroups.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{Expectations, PRETEND, Results, Scenario};

/// The script measures no time, so it runs unpaced. The counters still count. `look NAME` records
/// the known figures of every task.
const STEPS: &str = r#"
"$AMPCTL" stop
cg=/sys/fs/cgroup
[ -e $cg/cgroup.controllers ] || mount -t cgroup2 none $cg
mkdir $cg/in $cg/in/below $cg/out
look() { $BIAS top --json --count 1 --interval 1 >$OUT/$1.json; }
at() { name=$1; cgroup=$2; shift 2; (echo 0 >$cg/$cgroup/cgroup.procs; exec "$@") >/dev/null 2>&1 & echo $! >$OUT/$name.pid; }
policies() { for name in inside below outside; do awk '{print $41}' /proc/$(cat $OUT/$name.pid)/stat; done >$OUT/$1.policies; }
work="$BENCH work --seconds 300"
at inside in $work compute
at below in/below $work chase
at outside out $work compute
$BIAS --capacity-file /run/capacity.json --whole-system --cgroup $cg/in >$OUT/bias.log 2>&1 & bias=$!
for i in $(seq 600); do $BIAS status >/dev/null 2>&1 && break; sleep 0.1; done
sleep 3; look begun; policies begun
$BIAS status --json >$OUT/status.json
# The fourth CPU is free, so none of these ever stops by itself.
cat $OUT/outside.pid >$cg/in/below/cgroup.procs
cat $OUT/below.pid >$cg/out/cgroup.procs
sleep 3; look moved
$BIAS cgroup remove $cg/in >$OUT/removed; sleep 3; look removed
$BIAS cgroup add $cg/out >$OUT/added; sleep 3; look added
$BIAS cgroup remove $cg/in >/dev/null 2>$OUT/refused; echo $? >$OUT/refused.code
cat $OUT/below.pid >$cg/cgroup.procs; rmdir $cg/out; sleep 2.5
$BIAS cgroup list >$OUT/gone
mkdir $cg/out; cat $OUT/below.pid >$cg/out/cgroup.procs; sleep 3
$BIAS cgroup list >$OUT/back; look back
kill -INT $bias; wait $bias; echo $? >$OUT/code
policies end
kill $(cat $OUT/inside.pid $OUT/below.pid $OUT/outside.pid)
dmesg | grep -E 'BUG|Oops|WARNING|runnable task stall|sched_ext:.*error' >$OUT/complaints || true
"#;

/// Return true if the speedup of this task is known.
fn is_known(results: &Results, look: &str, task: &str) -> Option<bool> {
    let pid: u64 = results.text(&format!("{task}.pid")).trim().parse().ok()?;
    let top = results.json(look);
    let rows = top["tasks"].as_array()?;
    let row = rows.iter().find(|row| row["tgid"] == pid)?;
    Some(!row["speedup_permille"].is_null())
}

fn limits_bias(kernel: &str) {
    let steps = PRETEND.to_owned() + STEPS;
    let results = Scenario::emulated(kernel, "2F2S", 6).run(&steps);
    let mut expect = Expectations::default();
    for (look, known) in [
        ("begun", [true, true, false]),
        ("moved", [true, false, true]),
        ("removed", [false, false, false]),
        ("added", [false, true, false]),
        ("back", [false, true, false]),
    ] {
        for (task, known) in ["inside", "below", "outside"].into_iter().zip(known) {
            let seen = is_known(&results, look, task);
            expect
                .holds(&format!("{look}: {task} is known: {seen:?}, expected {known}"), seen == Some(known));
        }
    }
    let status = results.json("status");
    let mode = &status["scope"]["mode"];
    expect.holds(&format!("the mode is {mode}"), mode == "bias-in-cgroups");
    expect.holds("two threads have a bias", status["scope"]["cgroups"][0]["threads"] == 2);
    for policies in ["begun", "end"] {
        let text = results.text(&format!("{policies}.policies"));
        expect.holds(&format!("{policies}: nobody's policy is changed: {text:?}"), text == "0\n0\n0\n");
    }
    let refused = (results.text("refused"), results.text("refused.code"));
    expect.holds(
        &format!("what is not there cannot be removed: {refused:?}"),
        refused.0.contains("is not opted in") && refused.1.trim() == "2",
    );
    let gone = results.text("gone");
    expect.holds(
        &format!("a cgroup that is gone is told: {gone:?}"),
        gone.contains("/out: not there; it is opted in when it appears"),
    );
    let back = results.text("back");
    expect.holds(&format!("made anew it is opted in again: {back:?}"), back.contains("/out: 1 thread"));
    let code = results.text("code");
    expect.holds(&format!("it ends with {code:?}"), code.trim() == "0");
    let complaints = results.text("complaints");
    expect.holds(&format!("the kernel does not complain: {complaints:?}"), complaints.is_empty());
    expect.judge();
}

#[test]
#[ignore = "minutes more: cargo xtask test --full"]
fn only_chosen_cgroups_have_a_bias_on_6_12() {
    limits_bias("6.12");
}

#[test]
#[ignore = "minutes more: cargo xtask test --full"]
fn only_chosen_cgroups_have_a_bias_on_7_3() {
    limits_bias("7.3");
}
