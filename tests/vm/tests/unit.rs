//! The service's unit under systemd itself: started, reconfigured, hung, killed, refused, stopped,
//! and ended by the kernel.
#![allow(missing_docs)]

mod common;

use common::{Expectations, PRETEND, Results, Scenario};

const SYSTEMD: &str = "/lib/systemd/systemd";

/// Definitions for a systemd that is the init of a container in the guest. It starts none of the
/// services that the host has installed. The container has directories of its own, because the
/// guest's are the host's, read-only. `props NAME` records systemd's view of the unit.
const SERVICE: &str = r#"
set +e
unit=/run/systemd/system; conf=/etc/scx_bias.toml
mkdir -p $unit/scx_bias.service.d /run/bin /run/etc.up /run/etc.work
cp $BIAS /run/bin/
sed 's|@bindir@|/run/bin|' $UNIT >$unit/scx_bias.service
printf '[Unit]\nDefaultDependencies=no\n' >$unit/scx_bias.service.d/test.conf
printf '[Unit]\nDescription=nothing\nDefaultDependencies=no\n' >$unit/nothing.target
mount -t overlay overlay -o lowerdir=/etc,upperdir=/run/etc.up,workdir=/run/etc.work /etc
cp /run/capacity.json /etc/
configure() { printf 'capacity_file = "/etc/capacity.json"\n%s\n' "$1" >$conf; }
configure
unshare --fork --pid --mount --mount-proc env -i container=lxc PATH=$PATH sh -c '
  mount --make-rshared /; mount -t tmpfs none /tmp; mount -t tmpfs none /var/tmp; mount -t tmpfs none /var/lib
  exec /lib/systemd/systemd --system --unit=nothing.target --log-target=kmsg --show-status=no' >$OUT/systemd.log 2>&1 &
inside() { nsenter -t $(pgrep -x systemd | head -1) -p -m "$@"; }
props() { inside systemctl show -p ActiveState,Result,NRestarts scx_bias | sort | tr '\n' ' ' >$OUT/$1; cat /sys/kernel/sched_ext/state >>$OUT/$1; }
state() { for i in $(seq 900); do [ "$(cat /sys/kernel/sched_ext/state)" = $1 ] && break; sleep 0.1; done; }
active() { for i in $(seq 900); do inside systemctl is-active -q scx_bias && break; sleep 0.1; done; }
slice() { inside /run/bin/scx_bias status --json | sed -n 's/.*"slice_us": \([0-9]*\).*/\1/p'; }
for i in $(seq 600); do inside systemctl is-active -q nothing.target 2>/dev/null && break; sleep 0.1; done
"#;

const LIFE: &str = r#"
inside systemctl start scx_bias; echo "code $?" >$OUT/start; props started
configure 'slice_us = 7000'; inside systemctl reload scx_bias; echo "code $? $(slice)" >$OUT/reload
configure 'slice_us = "x"'; inside systemctl reload scx_bias 2>/dev/null; echo "code $? $(slice)" >$OUT/broken; props still
configure
kill -STOP $(pgrep -x scx_bias); state disabled; state enabled; active; props watched
kill -KILL $(pgrep -x scx_bias); state disabled; state enabled; active; props killed
inside systemctl stop scx_bias; props stopped
configure 'slice_us = "x"'; inside systemctl start scx_bias 2>/dev/null; echo "code $?" >$OUT/refused; sleep 5; props refused.state
dmesg | grep 'systemd.*scx_bias' >$OUT/log
"#;

/// A real-time task that never sleeps keeps CPU 1 from a task that is pinned there. After 30 s the
/// kernel ends the scheduler.
const STALLS: &str = r#"
echo -1 >/proc/sys/kernel/sched_rt_runtime_us
taskset -c 1 chrt -f 50 sh -c 'while :; do :; done' & hog=$!
taskset -c 1 sh -c 'while :; do :; done' & starved=$!
inside systemctl start scx_bias
for i in $(seq 1500); do inside systemctl is-failed -q scx_bias && break; sleep 0.2; done
sleep 5
inside systemctl show -p ActiveState,ExecMainStatus scx_bias | sort | tr '\n' ' ' >$OUT/end; cat /sys/kernel/sched_ext/state >>$OUT/end
inside systemctl show -p StatusText scx_bias >$OUT/text
inside cat /run/scx_bias/ejections | wc -l >$OUT/ejections
inside /run/bin/scx_bias check >$OUT/check
inside /run/bin/scx_bias status 2>$OUT/status; echo $? >$OUT/status.code
kill -9 $hog $starved
echo 950000 >/proc/sys/kernel/sched_rt_runtime_us
dmesg | grep 'systemd.*scx_bias' >$OUT/log
exit 0
"#;

fn service(minutes: u64, steps: &str) -> Results {
    assert!(std::path::Path::new(SYSTEMD).exists(), "{SYSTEMD} is not there: install the package systemd");
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scheds/scx_bias/scx_bias.service.in");
    let script = format!("{PRETEND}\nUNIT='{unit}'\n{SERVICE}\n{steps}");
    Scenario::plain("6.12", "2F2S", minutes, "").run(&script)
}

#[test]
#[ignore = "a minute more, and it needs systemd: cargo xtask test --full"]
fn systemd_starts_watches_and_stops_it() {
    let results = service(5, LIFE);
    let mut expect = Expectations::default();
    let mut is = |what: &str, file: &str, wanted: &str| {
        let got = results.text(file);
        expect.holds(&format!("{what}: {:?}, {wanted:?} is right", got.trim()), got.trim() == wanted);
    };
    let active = |restarts: u32| format!("ActiveState=active NRestarts={restarts} Result=success enabled");
    is("start", "start", "code 0");
    is("then", "started", &active(0));
    is("reload", "reload", "code 0 7000");
    is("reload of a broken configuration", "broken", "code 1 7000");
    is("then", "still", &active(0));
    is("hung for longer than the watchdog waits", "watched", &active(1));
    is("killed", "killed", &active(2));
    is("stopped", "stopped", "ActiveState=inactive NRestarts=0 Result=success disabled");
    is("start with a broken configuration", "refused", "code 1");
    is("is not tried again", "refused.state", "ActiveState=failed NRestarts=0 Result=exit-code disabled");
    eprintln!("{}", results.text("log"));
    expect.judge();
}

#[test]
#[ignore = "minutes more, and it needs systemd: cargo xtask test --full"]
fn a_scheduler_that_the_kernel_ends_again_and_again_stays_down() {
    let results = service(9, STALLS);
    let mut expect = Expectations::default();
    let mut says = |file: &str, wanted: &str| {
        let got = results.text(file);
        expect.holds(&format!("{file}: {:?} has {wanted:?}", got.trim()), got.contains(wanted));
    };
    says("end", "ActiveState=failed ExecMainStatus=5 disabled");
    says("text", "StatusText=ended by the kernel: ");
    // The first start and three restarts.
    says("ejections", "4");
    says("check", "limited  ejections  the kernel has ended scx_bias; last ");
    says("status", "scx_bias is not running; start it with `sudo scx_bias`; the kernel ended it ");
    says("status.code", "3");
    eprintln!("{}", results.text("log"));
    expect.judge();
}
