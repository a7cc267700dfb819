//! What the scenarios share: the programs under test, and a guest that runs a script and leaves JSON behind.
#![allow(dead_code, missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod loads;

use bias_vm::guest::quote;
use bias_vm::prepare::{self, Wish};
use bias_vm::runner::{Outcome, Vm};
use bias_vm::{Machine, Verdict, build};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The capacity file of a machine with two fast and two slow CPUs, which the plain VM only pretends to be.
pub const PRETEND: &str = r#"
cat >/run/capacity.json <<END
{"version": 1, "cpus": [
 {"cpu": 0, "cost_permille": [1000, 1000, 1000]}, {"cpu": 1, "cost_permille": [1000, 1000, 1000]},
 {"cpu": 2, "cost_permille": [2500, 1580, 1000]}, {"cpu": 3, "cost_permille": [2500, 1580, 1000]}]}
END
"#;

/// Slice of scx_bias in the emulating VM, whose time is stretched about fifty-fold: with the default one, switching would eat it.
pub const SLICE_US: u32 = 50_000;
/// Wall-clock seconds for each minute that a scenario takes at most where the host is as fast as
/// usual. Some are half as fast, and the end of time is for hangs, not for them.
const SECONDS_A_MINUTE: u64 = 150;

/// Shell definitions that every script begins with: $BENCH, $BIAS (the programs), $SCHED (a
/// scheduler command), and `keep NAME COMMAND...`, which leaves COMMAND's JSON in $OUT/NAME.json
/// and ends the script if it fails.
fn prelude(scheduler_options: &str, slice_us: Option<u32>) -> String {
    // Where cores are emulated, loading is not (it takes ten seconds that nobody measures), so the scheduler is given the table
    // that it would measure: the same calibration, done before at the pace of the machine.
    let (slice, under, calibrate) = match slice_us {
        Some(us) => (
            format!("--slice-us {us} --capacity-file /run/capacity.json"),
            "under --unpaced-load",
            "calibrate() { [ -e /run/capacity.json ] || \"$BIAS\" calibrate --output /run/capacity.json >/dev/null || exit; }\n",
        ),
        None => (String::new(), "under", "calibrate() { :; }\n"),
    };
    let release = build::target_folder().join("release");
    let program = |name: &str| quote(&release.join(name).to_string_lossy());
    format!(
        "BENCH={}\nBIAS={}\nSCHED=\"$BIAS {slice} {scheduler_options}\"\n\
         keep() {{\n  name=$1; shift\n  \"$@\" --json >\"$OUT/$name.json\" || {{ code=$?; echo \"FAILED: $name ($code)\" >&2; exit $code; }}\n}}\n\
         {calibrate}under() {{ calibrate; name=$1; shift; keep \"$name\" \"$BENCH\" {under} --scheduler-cmd \"$SCHED\" -- \"$@\"; }}\n",
        program("bias-bench"),
        program("scx_bias"),
    )
}

/// Builds the programs under test, optimised; quick if they are current.
fn programs() {
    let status = build::cargo().args(["build", "--quiet", "--locked", "--release"]).status().unwrap();
    assert!(status.success(), "the programs do not build");
}

/// A guest to run one script in.
pub struct Scenario {
    vm: Vm,
    /// What was run, for messages.
    name: String,
    scheduler_options: &'static str,
    /// Slice of the scheduler; its own default if None.
    slice_us: Option<u32>,
}

impl Scenario {
    /// A guest with the emulation of unequal cores, whose clocks are the model's: a busy host does
    /// not show in them.
    pub fn emulated(kernel: &str, machine: &str, minutes: u64) -> Self {
        programs();
        Self::new(kernel, machine, minutes, true)
    }

    /// The same for [`Scenario::figures`], which need none of the programs under test.
    pub fn model(machine: &str) -> Self {
        Self::new("6.12", machine, 2, true)
    }

    /// A guest whose CPUs run as fast as the host lets them: for behaviour, not for figures. `options` are the scheduler's.
    pub fn plain(kernel: &str, machine: &str, minutes: u64, options: &'static str) -> Self {
        programs();
        Scenario { scheduler_options: options, ..Self::new(kernel, machine, minutes, false) }
    }

    fn new(kernel: &str, machine: &str, minutes: u64, emulation: bool) -> Self {
        let mut wish = Wish::new(kernel, Machine::parse(machine).unwrap());
        wish.emulation = emulation;
        wish.timeout = Duration::from_secs(SECONDS_A_MINUTE * minutes);
        let mut vm = prepare::vm(&wish).unwrap();
        vm.keep_output = true;
        Scenario {
            vm,
            name: format!("{machine} on {kernel}"),
            scheduler_options: "",
            slice_us: emulation.then_some(SLICE_US),
        }
    }

    /// Measures these figures of `tests/ampvm/guest/figures.c`; each leaves a document of its name.
    pub fn figures(&self, names: &[&str]) -> Results {
        compile_figures(&self.vm.out);
        let list = names.join(" ");
        self.run(&format!("for name in {list}; do $OUT/figures $name >$OUT/$name.json || exit; done"))
    }

    /// Runs the script, and fails the test unless it ends with 0.
    pub fn run(&self, script: &str) -> Results {
        let path = self.vm.out.join("scenario.sh");
        std::fs::write(&path, prelude(self.scheduler_options, self.slice_us) + script).unwrap();
        let path = path.canonicalize().unwrap().to_string_lossy().into_owned();
        let outcome = self.vm.run(&["sh".to_string(), path]).unwrap();
        assert_eq!(
            outcome.verdict,
            Verdict::Ended(0),
            "{}\n-- stdout\n{}\n-- stderr\n{}",
            self.name,
            outcome.stdout,
            outcome.stderr
        );
        eprintln!(
            "{}: boot {:.0?}, command {:.0?} ({:.1?} in the guest)",
            self.name, outcome.boot, outcome.command, outcome.virtual_time
        );
        Results { out: self.vm.out.clone(), outcome }
    }
}

/// Builds the program that measures the machine in the guest.
fn compile_figures(folder: &Path) {
    let guest = build::workspace().join("tests/ampvm/guest");
    let mut cc = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    cc.args(["-O2", "-static", "-I"]).arg(&guest).arg(guest.join("figures.c"));
    assert!(cc.arg("-o").arg(folder.join("figures")).status().unwrap().success(), "figures.c does not build");
}

/// What a script left behind.
pub struct Results {
    out: PathBuf,
    pub outcome: Outcome,
}

impl Results {
    /// A document that `keep` or `under` wrote.
    pub fn json(&self, name: &str) -> Value {
        let path = self.out.join(format!("{name}.json"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// A number in such a document, by JSON pointer.
    pub fn number(&self, name: &str, pointer: &str) -> f64 {
        let document = self.json(name);
        let value = document.pointer(pointer).and_then(Value::as_f64);
        value.unwrap_or_else(|| panic!("{name}.json has no number at {pointer}:\n{document:#}"))
    }

    /// The numbers in the arrays `field` of all elements of the array at a pointer; elements without are passed over.
    pub fn numbers(&self, name: &str, pointer: &str, field: &str) -> Vec<f64> {
        let document = self.json(name);
        let elements = document.pointer(pointer).and_then(Value::as_array);
        let elements =
            elements.unwrap_or_else(|| panic!("{name}.json has no array at {pointer}:\n{document:#}"));
        elements.iter().filter_map(|one| one[field].as_array()).flatten().filter_map(Value::as_f64).collect()
    }

    /// A text file the script wrote to $OUT.
    pub fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.out.join(name)).unwrap()
    }
}

/// All expectations of a scenario, told together: a boot is too dear to stop at the first.
#[derive(Default)]
pub struct Expectations {
    lines: Vec<String>,
    failed: usize,
}

impl Expectations {
    pub fn at_least(&mut self, what: &str, value: f64, bound: f64) {
        self.note(value >= bound, &format!("{what}: {value:.3}, at least {bound:.3}"));
    }

    pub fn at_most(&mut self, what: &str, value: f64, bound: f64) {
        self.note(value <= bound, &format!("{what}: {value:.3}, at most {bound:.3}"));
    }

    pub fn within(&mut self, what: &str, value: f64, expected: f64, share: f64) {
        let met = (value / expected - 1.0).abs() <= share;
        self.note(met, &format!("{what}: {value:.3}, within {:.1} % of {expected:.3}", share * 100.0));
    }

    pub fn holds(&mut self, what: &str, met: bool) {
        self.note(met, what);
    }

    fn note(&mut self, met: bool, line: &str) {
        self.failed += usize::from(!met);
        self.lines.push(format!("{} {line}", if met { "  ok  " } else { "MISSED" }));
    }

    pub fn is_met(&self) -> bool {
        self.failed == 0
    }

    /// Prints everything, and fails the test if anything was missed.
    pub fn judge(self) {
        let text = self.lines.join("\n");
        eprintln!("{text}");
        assert!(self.failed == 0, "{} expectation(s) missed:\n{text}", self.failed);
    }
}
