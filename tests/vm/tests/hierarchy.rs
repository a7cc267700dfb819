//! Weights of nested cgroups: shares of CPU time within one boot, in virtual time.
#![allow(missing_docs)]

mod common;

use common::{Expectations, Results, Scenario};

/// `spin GROUP NR` starts busy tasks in a cgroup, and `calm` ends all. `usage NAME SECONDS
/// GROUPS...` leaves the CPU time that each used.
const GROUPS: &str = r#"
cd /sys/fs/cgroup; echo +cpu >cgroup.subtree_control
group() { mkdir -p "$1"; echo "${2:-100}" >"$1/cpu.weight"; }
spin() {
  sh -c 'echo 0 >"$1/cgroup.procs"; exec /run/loads spin "$2" 1000' sh "$1" "$2" >/dev/null & spinning="$spinning $!"
}
calm() { kill $spinning; wait $spinning; spinning=; }
used() { for group in "$@"; do while read -r key us; do [ $key = usage_usec ] && printf '%s ' "$us"; done <"$group/cpu.stat"; done; }
# usage NAME SECONDS GROUPS...
usage() {
  name=$1 seconds=$2; shift 2
  before=$(used "$@"); sleep "$seconds"; after=$(used "$@")
  echo "$before $after" | awk '{printf "{\"us\": ["; for (i = 1; i <= NF / 2; i++) printf "%s%d", (i > 1 ? ", " : ""), $(NF / 2 + i) - $i; print "]}"}' >"$OUT/$name.json"
}
"#;

/// Cgroup `deep` has its tasks 14 levels down. Its sixth level has weight 10000, which must not
/// affect the levels above.
const DEEP: &str = r#"
group beside; group deep; path=deep
for level in 2 3 4 5 6 7 8 9 10 11 12 13 14; do
  echo +cpu >$path/cgroup.subtree_control
  path=$path/$level
  if [ $level = 6 ]; then group $path 10000; else group $path; fi
done
for nr in 2 4; do
  spin beside $nr; spin $path $nr
  sleep 2; usage deep$nr 4 deep beside; calm
done
"#;

/// The weight of a cgroup changes while all are busy. In 4 s the lighter cgroup is entitled to 18
/// slices. The bound admits one slice more or less, but not a tenth of a second at the old weights.
const CHANGED: &str = r#"
group parent; group other; echo +cpu >parent/cgroup.subtree_control; group parent/a; group parent/b
spin parent/a 1; spin parent/b 1; spin other 1
sleep 2
usage equal 2 parent/a parent/b parent other
echo 1000 >parent/a/cpu.weight
usage changed 4 parent/a parent/b parent other
calm
"#;

fn share(results: &Results, name: &str, of: u32, and: u32) -> f64 {
    let us = |at: u32| results.number(name, &format!("/us/{at}"));
    us(of) / (us(of) + us(and))
}

#[test]
fn groups_keep_their_weight_at_any_depth_and_time() {
    let results = Scenario::emulated("6.12", "60x2", 4).loads("", &format!("{GROUPS}{DEEP}{CHANGED}"));
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
    expect.lasts(&results);
    expect.judge();
}
