//! Scenarios of the guest program `tests/vm/loads`: first under the default scheduler, then under
//! scx_bias in the same boot.

use super::{Expectations, Results, Scenario};
use bias_vm::build;
use std::path::Path;
use std::process::Command;

const SHELL: &str = r#"
cp "$OUT/loads" /run/loads
# loads NAME ARGS...: leaves its document in $OUT/NAME.json.
loads() { name=$1; shift; /run/loads "$@" >"$OUT/$name.json" || { echo "FAILED: $name" >&2; exit 1; }; }
# attach [OPTIONS...]: loads scx_bias at the host's pace, because nothing of that is measured.
attach() {
  calibrate
  "$AMPCTL" stop
  "$BIAS" --capacity-file /run/capacity.json "$@" >"$OUT/bias.log" 2>&1 & bias=$!
  for i in $(seq 600); do
    [ "$(cat /sys/kernel/sched_ext/state)" = enabled ] && break
    kill -0 $bias || { cat "$OUT/bias.log" >&2; exit 1; }
    sleep 0.1
  done
  "$AMPCTL" start
  sleep 1
}
"#;

/// Commands that record whether the scheduler is still loaded. The guest ends with it loaded.
const END: &str = r#"
cat /sys/kernel/sched_ext/state >"$OUT/lasted"
dmesg | grep -E 'sched_ext|BUG|WARNING|Oops' >"$OUT/complaints" || true
"#;

impl Scenario {
    /// Run `before` under the default scheduler, then `under` under scx_bias. Both have the usual
    /// definitions and `loads NAME ARGS...`, which leaves the document of that load in NAME.json.
    pub fn loads(&self, before: &str, under: &str) -> Results {
        compile(&self.vm.out);
        self.run(&format!("{SHELL}\n{before}\nattach\n{under}\n{END}"))
    }

    /// Run the same commands under both schedulers. `measure` gets "default" and "bias", for the
    /// names of the documents.
    pub fn compared(&self, measure: impl Fn(&str) -> String) -> Results {
        self.loads(&measure("default"), &measure("bias"))
    }
}

fn compile(folder: &Path) {
    let sources = build::workspace().join("tests/vm/loads");
    let mut cc = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    cc.args(["-O2", "-static", "-pthread", "-o"]).arg(folder.join("loads"));
    cc.args(["loads.c", "samples.c", "timed.c"].map(|name| sources.join(name)));
    assert!(cc.status().unwrap().success(), "tests/vm/loads does not build");
}

impl Expectations {
    /// Expect that the kernel has not ended the scheduler.
    pub fn lasts(&mut self, results: &Results) {
        let state = results.text("lasted");
        self.holds(
            &format!("scheduler still loaded: {:?} {:?}", state.trim(), results.text("complaints")),
            state.trim() == "enabled",
        );
    }

    /// Expect that the number at `pointer` in bias-NAME is at least `share` of that in
    /// default-NAME.
    pub fn at_least_default(&mut self, results: &Results, name: &str, pointer: &str, share: f64) {
        let number = |under: &str| results.number(&format!("{under}-{name}"), pointer);
        self.at_least(&format!("{name}{pointer} against default"), number("bias") / number("default"), share);
    }
}
