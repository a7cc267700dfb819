//! Scenarios of the guest program `tests/vm/loads`: first under the default scheduler, then under
//! scx_bias in the same boot.

use super::{Expectations, Results, Scenario, compile};
use bias_vm::build;

impl Scenario {
    /// Run `before` under the default scheduler, then `under` under scx_bias. Both have the usual
    /// definitions and `loads NAME ARGS...`, which leaves the document of that load in NAME.json.
    pub fn loads(&self, before: &str, under: &str) -> Results {
        let sources = build::workspace().join("tests/vm/loads");
        compile(&sources, &["loads.c", "samples.c", "timed.c"], &self.vm.out.join("loads"));
        self.run("loads", &[before, under])
    }

    /// Run the same commands under both schedulers. `measure` gets "default" and "bias", for the
    /// names of the documents.
    pub fn compared(&self, measure: impl Fn(&str) -> String) -> Results {
        self.loads(&measure("default"), &measure("bias"))
    }
}

/// Runs of a load whose figures vary.
pub const RUNS: [u32; 3] = [1, 2, 3];

impl Results {
    /// Return the numbers at `pointer` in the documents LOAD1 to LOAD3, sorted.
    pub fn of_runs(&self, load: &str, pointer: &str) -> [f64; 3] {
        let mut values = RUNS.map(|run| self.number(&format!("{load}{run}"), pointer));
        values.sort_by(f64::total_cmp);
        values
    }
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
