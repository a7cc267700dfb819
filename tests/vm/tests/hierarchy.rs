//! Weights of nested cgroups: shares of CPU time within one boot, in virtual time.
#![allow(missing_docs)]

mod common;

use common::{Expectations, Results, Scenario};

fn share(results: &Results, name: &str, of: u32, and: u32) -> f64 {
    let us = |at: u32| results.number(name, &format!("/us/{at}"));
    us(of) / (us(of) + us(and))
}

#[test]
fn groups_keep_their_weight_at_any_depth_and_time() {
    let results = Scenario::emulated("6.12", "60x2", 4).loads("", ". \"${0%/*}/hierarchy.sh\"");
    let mut expect = Expectations::default();
    for nr in [2, 4] {
        let deep = share(&results, &format!("deep{nr}"), 0, 1);
        expect.within(&format!("{nr} tasks 14 levels down: share"), deep, 0.5, 0.04);
    }
    for name in ["equal", "changed"] {
        let parent = share(&results, name, 2, 3);
        expect.within(&format!("{name}: share of the parent beside another group"), parent, 0.5, 0.06);
    }
    let a_to_b = |name: &str| results.number(name, "/us/0") / results.number(name, "/us/1");
    expect.within("equal: a to b", a_to_b("equal"), 1.0, 0.1);
    expect.within("changed: a to b", a_to_b("changed"), 10.0, 0.1);
    expect.holds("the kernel does not deny cpu.weight", !results.text("complaints").contains("cpu.weight"));
    expect.lasts(&results);
    expect.judge();
}

#[test]
fn groups_keep_their_weight_in_cpusets_of_unequal_load() {
    let results = Scenario::emulated("6.12", "60x4", 4).loads("", ". \"${0%/*}/cpusets.sh\"");
    let mut expect = Expectations::default();
    for (at, cpuset) in ["few", "many"].into_iter().enumerate() {
        let us = |name: &str, group: usize| results.number(name, &format!("/us/{}", at * 2 + group));
        for (name, due) in [("weighted", 3.0), ("equal", 1.0)] {
            expect.within(&format!("{cpuset}, {name}: heavy to light"), us(name, 0) / us(name, 1), due, 0.1);
        }
        let cpus = (us("weighted", 0) + us("weighted", 1)) / 4e6;
        expect.at_least(&format!("{cpuset}: busy CPUs"), cpus, 1.95);
    }
    expect.lasts(&results);
    expect.judge();
}
