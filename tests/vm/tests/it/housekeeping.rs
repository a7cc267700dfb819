// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A housekeeping CPU: the affinity of every thread of the guest, inside and outside of the cgroup,
//! at each step of a run.

use std::collections::BTreeMap;

use crate::common::{Expectations, Results, Scenario};

/// The kernel lets no thread change its affinity.
const NO_SETAFFINITY: u64 = 0x0400_0000;

/// A thread as recorded by `look`.
#[derive(Debug, Clone)]
struct Thread {
    name: String,
    start: u64,
    inside: bool,
    pinned: bool,
    cpus: String,
}

/// Return the last part of each line of a record, by tid.
fn by_tid(results: &Results, file: &str, separator: &str) -> BTreeMap<u32, String> {
    let line = |line: &str| {
        let (path, rest) = line.split_once(separator)?;
        Some((path.split('/').nth(4)?.parse().ok()?, rest.trim().to_owned()))
    };
    results.text(file).lines().filter_map(line).collect()
}

/// Return the living threads of a record, without checks of the agent.
fn look(results: &Results, name: &str) -> BTreeMap<u32, Thread> {
    let cgroups = by_tid(results, &format!("{name}.cgroup"), ":0::");
    let cpus = by_tid(results, &format!("{name}.cpus"), ":Cpus_allowed_list:");
    let thread = |line: &str| {
        let (tid, rest) = line.split_once(" (")?;
        let (name, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        let number = |at: usize| fields[at].parse::<u64>().ok();
        let tid: u32 = tid.parse().ok()?;
        // It limits itself to the CPU that it checks.
        let is_check = name == "scx_bias-spot";
        let thread = Thread {
            name: name.to_owned(),
            start: number(19)?,
            inside: cgroups.get(&tid)?.starts_with("/in"),
            pinned: number(6)? & NO_SETAFFINITY != 0,
            cpus: cpus.get(&tid)?.clone(),
        };
        (fields[0] != "Z" && fields[0] != "X" && !is_check).then_some((tid, thread))
    };
    results.text(&format!("{name}.stat")).lines().filter_map(thread).collect()
}

/// Expect that threads inside exclude CPU 3, and that those outside have only CPU 3, or exclude it.
fn expect_confined(results: &Results, expect: &mut Expectations, name: &str) {
    let threads = look(results, name);
    let wrong: Vec<_> = threads
        .iter()
        .filter(|(_, thread)| !thread.pinned)
        .filter(|(_, thread)| match thread.inside {
            true => thread.cpus.contains('3'),
            false => thread.cpus != "3" && (thread.cpus.contains('3') || thread.cpus == "0-2"),
        })
        .collect();
    expect.holds(&format!("{name}: affinities of all threads: {wrong:#?}"), wrong.is_empty());
    let confined = |inside: bool| threads.values().filter(|thread| thread.inside == inside).count();
    expect.at_least(&format!("{name}: threads inside"), confined(true) as f64, 3.0);
    expect.at_least(&format!("{name}: threads outside"), confined(false) as f64, 20.0);
    let kernel = threads.values().any(|thread| thread.name == "kthreadd" && thread.cpus == "3");
    expect.holds(&format!("{name}: kernel threads are confined"), kernel);
    let workqueues = results.text(&format!("{name}.workqueues"));
    expect.holds(&format!("{name}: mask of workqueues {workqueues:?}"), workqueues.trim() == "8");
}

/// Expect each thread's affinity from before, and all CPUs for new threads.
fn expect_free(results: &Results, expect: &mut Expectations, name: &str) {
    let before = look(results, "before");
    let wrong: Vec<_> = look(results, name)
        .into_iter()
        .filter(|(_, thread)| !thread.pinned)
        .filter(|(tid, thread)| {
            let old = before.get(tid).filter(|old| old.start == thread.start);
            // The script moves this one to CPU 0.
            let home = match old.map(|old| old.cpus.as_str()) {
                Some("1") => "0",
                Some(cpus) => cpus,
                None => "0-3",
            };
            thread.cpus != home
        })
        .collect();
    expect.holds(&format!("{name}: affinities from before: {wrong:#?}"), wrong.is_empty());
    let workqueues = |name: &str| results.text(&format!("{name}.workqueues"));
    expect.holds(&format!("{name}: mask of workqueues"), workqueues(name) == workqueues("before"));
}

fn housekeeping(kernel: &str) {
    let results =
        Scenario::plain(kernel, "SYM", 8, "--capacity-file /run/capacity.json").run("housekeeping", &[]);
    let mut expect = Expectations::default();
    for name in ["started", "moved", "online", "whole"] {
        expect_confined(&results, &mut expect, name);
    }
    for name in ["offline", "restored", "ended"] {
        expect_free(&results, &mut expect, name);
    }
    let text = |name: &str| results.text(name);
    expect.holds(
        &format!("status names the CPU: {:?}", text("status")),
        text("status").contains("CPU 3 does the housekeeping"),
    );
    expect.holds(
        &format!("status names the missing CPU: {:?}", text("offline.status")),
        text("offline.status").contains("the housekeeping CPU 3 is offline"),
    );
    let log = text("bias.log");
    let lines = log.lines().filter(|line| line.contains("is offline: all threads may")).count();
    expect.holds(&format!("{lines} lines about the CPU that went offline, of {log:?}"), lines == 1);
    let killed = look(&results, "killed").values().any(|thread| !thread.inside && thread.cpus == "3");
    expect.holds("a killed scx_bias leaves affinities behind", killed);
    expect.holds(&format!("restore: {:?}", text("restore")), text("restore").ends_with("0\n"));
    expect.holds(&format!("it ends with {:?}", text("code")), text("code").trim() == "0");
    let refused = text("refused");
    expect.holds(
        &format!("a CPU that does not exist: {refused:?}"),
        refused.contains("choose one of 0-3") && refused.ends_with("2\n"),
    );
    let leftover = text("leftover");
    expect.holds(
        &format!("no record is left: {leftover:?}"),
        !leftover.lines().any(|file| file == "housekeeping"),
    );
    let complaints = text("complaints");
    expect.holds(&format!("the kernel does not complain: {complaints:?}"), complaints.is_empty());
    expect.judge();
}

#[test]
fn threads_outside_have_one_cpu_and_those_inside_the_others_on_6_12() {
    housekeeping("6.12");
}

/// Scenarios of `cargo xtask test --full`.
mod full {
    use super::*;

    #[test]
    fn threads_outside_have_one_cpu_and_those_inside_the_others_on_7_3() {
        housekeeping("7.3");
    }
}
