//! Opted-in cgroups: the policy of every thread of the guest, at each step of its life, inside and
//! outside.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{Expectations, Results, Scenario};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Threads moved at once.
const CROWD: usize = 1000;

/// `look NAME` records the stat and the cgroup of every thread. `at CGROUP COMMAND...` runs COMMAND
/// there. `load OPTIONS...` loads the scheduler.
const STEPS: &str = r#"
set +e
cat >/run/capacity.json <<END
{"version": 1, "cpus": [
 {"cpu": 0, "cost_permille": [1000, 1000, 1000]}, {"cpu": 1, "cost_permille": [1000, 1000, 1000]},
 {"cpu": 2, "cost_permille": [2500, 1580, 1000]}, {"cpu": 3, "cost_permille": [2500, 1580, 1000]}]}
END
cg=/sys/fs/cgroup
[ -e $cg/cgroup.controllers ] || mount -t cgroup2 none $cg
mkdir $cg/in $cg/in/below $cg/out $cg/late
look() {
  cat /proc/[0-9]*/task/*/stat >$OUT/$1.stat 2>/dev/null
  grep -H ^0: /proc/[0-9]*/task/*/cgroup >$OUT/$1.cgroup 2>/dev/null
}
at() { cgroup=$1; shift; (echo 0 >$cg/$cgroup/cgroup.procs; exec "$@") >/dev/null 2>&1 & pid=$!; }
load() {
  $SCHED -v "$@" >>$OUT/load.log 2>&1 & bias=$!
  for i in $(seq 600); do [ "$(cat /sys/kernel/sched_ext/state)" = enabled ] && break; sleep 0.1; done
  # Loaded is not yet switched: the instance answers when it is.
  for i in $(seq 300); do $BIAS cgroup list >/dev/null 2>&1 && break; sleep 0.1; done
}
# Twice the longest time between two looks of the agent.
settle() { sleep 2; }

at in nice -n 5 sleep 5001
at in/below chrt -b 0 sleep 5002; batch=$pid
at in chrt -i 0 sleep 5003; idle=$pid
at in chrt -f 10 sleep 5004
at out sleep 5006; newcomer=$pid
at out chrt -b 0 sleep 5007
at late nice -n 7 sleep 5008
at in sh -c 'until [ -e /run/go ]; do sleep 0.1; done; sleep 5009 & (echo 0 >/sys/fs/cgroup/out/cgroup.procs; sleep 5010 & exec sleep 5011) & wait'
at in sh -c 'while :; do :; done'
sleep 1
look before
load --cgroup $cg/in
look started
$BIAS status >$OUT/status
touch /run/go; settle; look forked
echo $newcomer >$cg/in/below/cgroup.procs; settle; look moved_in
echo $batch >$cg/out/cgroup.procs; echo $idle >$cg/cgroup.procs; settle; look moved_out
$BIAS cgroup add $cg/late >$OUT/added.list; look added
$BIAS cgroup remove $cg/late >$OUT/removed.list; look removed
for bad in $cg /tmp $cg/none; do $BIAS cgroup add $bad >/dev/null 2>>$OUT/refused; echo $? >>$OUT/refused.codes; done

# A service that starts anew has another cgroup of the same path; one of the configuration need not exist yet.
printf 'capacity_file = "/run/capacity.json"\ncgroups = ["/sys/fs/cgroup/in", "/sys/fs/cgroup/unborn"]\n' >/run/conf.toml
kill -INT $bias; wait $bias
bias_once=$SCHED; SCHED="$BIAS --config /run/conf.toml"; load; SCHED=$bias_once
$BIAS cgroup list >$OUT/unborn.list
mkdir $cg/unborn; at unborn sleep 5012; first=$pid; settle; look born
kill $first; wait $first 2>/dev/null; rmdir $cg/unborn; mkdir $cg/unborn; at unborn sleep 5013; second=$pid; settle; look reborn
kill $second; wait $second 2>/dev/null; rmdir $cg/unborn; settle
$BIAS reload >$OUT/unborn.reload 2>&1; echo $? >>$OUT/unborn.reload

# A thousand at once.
crowd=""
for i in $(seq CROWD); do at out sleep 6000; crowd="$crowd $pid"; done
sleep 1
for one in $crowd; do echo $one; done >/run/crowd
while read -r one; do echo $one >$cg/in/cgroup.procs; done </run/crowd
begin=$(date +%s%N)
for i in $(seq 100); do
  switched=$(for one in $crowd; do echo /proc/$one/stat; done | xargs cat | sed 's/.*) //' | awk '$39 == 7' | wc -l)
  [ $switched -ge CROWD ] && break
  sleep 0.2
done
echo $((($(date +%s%N) - begin) / 1000000)) >$OUT/crowd_ms
look crowded
kill -9 $crowd; settle

kill -9 $bias; wait $bias 2>/dev/null
for i in $(seq 100); do [ "$(cat /sys/kernel/sched_ext/state)" = disabled ] && break; sleep 0.1; done
look killed
load --cgroup $cg/late
look restarted
kill -INT $bias; wait $bias; echo $? >$OUT/code
look ended

# Killed, and not started again.
load --cgroup $cg/in
look again
kill -9 $bias; wait $bias 2>/dev/null
for i in $(seq 100); do [ "$(cat /sys/kernel/sched_ext/state)" = disabled ] && break; sleep 0.1; done
$BIAS cgroup restore >$OUT/restore; echo $? >>$OUT/restore
look restored
$BIAS cgroup restore >$OUT/nothing; echo $? >>$OUT/nothing
cat /sys/kernel/sched_ext/state >$OUT/state
ls -A /run/scx_bias >$OUT/leftover
dmesg | grep -E 'BUG|WARNING|Oops|blocked for more than|soft lockup|runnable task stall' >$OUT/complaints
exit 0
"#;

const EXT: i64 = 7;

/// A thread as recorded by `look`.
#[derive(Debug, Clone)]
struct Thread {
    name: String,
    policy: i64,
    nice: i64,
    cgroup: String,
}

/// Return the living threads of a record, by tid. Threads that ended during the recording are left
/// out.
fn look(results: &Results, name: &str) -> BTreeMap<u32, Thread> {
    let cgroups = results.text(&format!("{name}.cgroup"));
    let cgroup = |line: &str| {
        let (path, cgroup) = line.split_once(":0::")?;
        let tid: u32 = path.split('/').nth(4)?.parse().ok()?;
        Some((tid, cgroup.to_owned()))
    };
    let cgroups: BTreeMap<u32, String> = cgroups.lines().filter_map(cgroup).collect();
    let thread = |line: &str| {
        let (tid, rest) = line.split_once(" (")?;
        let (name, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        let number = |at: usize| fields[at].parse::<i64>().ok();
        let tid: u32 = tid.parse().ok()?;
        let thread = Thread {
            name: name.to_owned(),
            nice: number(16)?,
            policy: number(38)?,
            cgroup: cgroups.get(&tid)?.clone(),
        };
        (fields[0] != "Z" && fields[0] != "X").then_some((tid, thread))
    };
    results.text(&format!("{name}.stat")).lines().filter_map(thread).collect()
}

/// Expect SCHED_EXT for every thread in `inside` and below, except real-time threads. Every other
/// thread must have its policy and nice value from before. A new one must not have SCHED_EXT.
fn expect_policies(results: &Results, expect: &mut Expectations, name: &str, inside: &[&str], least: usize) {
    let before = look(results, "before");
    let mut ours = 0;
    let mut wrong = Vec::new();
    for (tid, thread) in look(results, name) {
        let is_inside = inside.iter().any(|path| {
            thread.cgroup.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        let old = before.get(&tid).filter(|old| old.name == thread.name);
        let real_time = |policy| matches!(policy, 1 | 2 | 6);
        let right = match old {
            _ if is_inside => thread.policy == EXT || real_time(thread.policy),
            Some(old) => (thread.policy, thread.nice) == (old.policy, old.nice),
            None => thread.policy != EXT,
        };
        ours += usize::from(thread.policy == EXT);
        if !right {
            wrong.push(format!("{tid} {thread:?}, before {old:?}"));
        }
    }
    expect.holds(&format!("{name}: policies of all threads: {wrong:#?}"), wrong.is_empty());
    expect.at_least(&format!("{name}: threads under scx_bias"), ours as f64, least as f64);
    expect.holds(
        &format!("{name}: {ours} are under scx_bias, none if none should"),
        !inside.is_empty() || ours == 0,
    );
}

#[derive(Deserialize)]
struct Budget {
    opted_in: BTreeMap<String, u32>,
}

/// Check the budget of the programs that only this mode loads.
fn expect_budget(results: &Results, expect: &mut Expectations) {
    let text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/verifier_budget.toml")).unwrap();
    let budget: Budget = toml::from_str(&text).unwrap();
    let log = results.text("load.log");
    for (program, allowed) in budget.opted_in {
        let line = log.lines().find_map(|line| line.split_once(&format!("program {program}: ")));
        let cost = line.and_then(|(_, rest)| rest.split(' ').next()?.parse::<u32>().ok());
        expect.holds(&format!("{program} was loaded"), cost.is_some());
        expect.at_most(
            &format!("{program}: instructions verified"),
            f64::from(cost.unwrap_or(0)),
            f64::from(allowed),
        );
    }
}

fn opted_in(kernel: &str) {
    let script = STEPS.replace("CROWD", &CROWD.to_string());
    let results = Scenario::plain(kernel, "SYM", 15, "--capacity-file /run/capacity.json").run(&script);
    let mut expect = Expectations::default();
    for (name, inside, least) in [
        ("before", &[][..], 0),
        ("started", &["/in"], 5),
        ("forked", &["/in"], 6),
        ("moved_in", &["/in"], 7),
        ("moved_out", &["/in"], 5),
        ("added", &["/in", "/late"], 6),
        ("removed", &["/in"], 5),
        ("born", &["/in", "/unborn"], 6),
        ("reborn", &["/in", "/unborn"], 6),
        ("crowded", &["/in"], CROWD),
        ("restarted", &["/late"], 1),
        ("ended", &[], 0),
        ("again", &["/in"], 5),
        ("restored", &[], 0),
    ] {
        expect_policies(&results, &mut expect, name, inside, least);
    }
    expect.holds(
        "killed: its threads have SCHED_EXT still",
        look(&results, "killed").values().any(|t| t.policy == EXT),
    );
    let crowd_ms: f64 = results.text("crowd_ms").trim().parse().unwrap();
    // The promise is 2 s, on real hardware. Here the machine is emulated on a busy host, and the
    // check alone takes seconds.
    expect.at_most(&format!("{CROWD} threads were switched [ms]"), crowd_ms, 15_000.0);
    let status = results.text("status");
    expect.holds(&format!("status names the mode: {status}"), status.contains("for opted-in cgroups"));
    expect.holds("status says who keeps its policy", status.contains("1 real-time thread keeps its policy"));
    // The deadline server exists from 7.2 on.
    expect.holds("starving is warned of where it can happen", status.contains("starve") == (kernel < "7.2"));
    expect.holds(
        "two are listed, then one",
        results.text("added.list").contains("/late") && !results.text("removed.list").contains("/late"),
    );
    let unborn = results.text("unborn.list");
    expect.holds(
        &format!("one is waited for: {unborn:?}"),
        unborn.contains("/unborn: not there; it is opted in"),
    );
    let reload = results.text("unborn.reload");
    expect.holds(&format!("a missing one keeps no reload: {reload:?}"), reload == "nothing has changed\n0\n");
    expect.holds("what is no cgroup is refused", results.text("refused.codes") == "2\n2\n2\n");
    expect.holds("in a line each", results.text("refused").lines().count() == 3);
    expect.holds("it ends with 0", results.text("code").trim() == "0");
    expect.holds("sched_ext is disabled afterwards", results.text("state").trim() == "disabled");
    let restore = results.text("restore");
    expect.holds(
        &format!("a crash is made good without a start: {restore:?}"),
        restore.contains("the policies from before are restored\n0"),
    );
    expect.holds("once", results.text("nothing") == "0\n");
    let leftover = results.text("leftover");
    expect.holds(&format!("nothing is left to be restored: {leftover:?}"), !leftover.contains("opted-in"));
    let complaints = results.text("complaints");
    expect.holds(&format!("the kernel does not complain: {complaints:?}"), complaints.is_empty());
    expect_budget(&results, &mut expect);
    expect.judge();
}

#[test]
fn only_opted_in_cgroups_are_scheduled_on_6_12() {
    opted_in("6.12");
}

#[test]
#[ignore = "minutes more: cargo xtask test --full"]
fn only_opted_in_cgroups_are_scheduled_on_6_18() {
    opted_in("6.18");
}

#[test]
#[ignore = "minutes more: cargo xtask test --full"]
fn only_opted_in_cgroups_are_scheduled_on_7_3() {
    opted_in("7.3");
}
