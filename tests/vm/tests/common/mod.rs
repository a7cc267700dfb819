//! Common parts of the scenarios: the programs under test, and a guest that runs a script and
//! leaves JSON documents in a directory.
#![allow(dead_code, missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod loads;

use bias_vm::guest::quote;
use bias_vm::prepare::{self, Vm, Wish};
use bias_vm::runner::Outcome;
use bias_vm::{Machine, Verdict, build};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Table of two fast and two slow CPUs, for the plain VM, whose CPUs are in fact all alike.
pub const PRETEND: &str = r#"
cat >/run/capacity.json <<END
{"version": 1, "cpus": [
 {"cpu": 0, "cost_permille": [1000, 1000, 1000]}, {"cpu": 1, "cost_permille": [1000, 1000, 1000]},
 {"cpu": 2, "cost_permille": [2500, 1580, 1000]}, {"cpu": 3, "cost_permille": [2500, 1580, 1000]}]}
END
"#;

/// Slice of scx_bias in the emulating VM, which stretches time about fifty-fold. Context switches
/// at the default slice would use up most of the time.
pub const SLICE_US: u32 = 50_000;
/// Wall-clock seconds of the timeout per minute that a scenario takes on a host of usual speed.
/// Some hosts are half as fast, and the timeout must end hangs only.
const SECONDS_A_MINUTE: u64 = 150;

/// Return the shell definitions that every script begins with: $BENCH, $BIAS (the programs), $SCHED
/// (a scheduler command) and `keep NAME COMMAND...`. The latter leaves COMMAND's JSON in
/// $OUT/NAME.json, and ends the script if COMMAND fails.
fn prelude(scheduler_options: &str, slice_us: Option<u32>) -> String {
    // Loading takes ten seconds in the emulation that are not measured, so it runs unpaced. The
    // scheduler cannot calibrate then, and gets the table of a calibration at the pace of the
    // machine.
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

/// Build the programs under test, optimised. This is quick if they are current.
fn programs() {
    let status = build::cargo().args(["build", "--quiet", "--locked", "--release"]).status().unwrap();
    assert!(status.success(), "the programs do not build");
}

/// A guest to run one script in.
pub struct Scenario {
    vm: Vm,
    /// Machine and kernel, for messages.
    name: String,
    scheduler_options: &'static str,
    /// Slice of the scheduler. None means its own default.
    slice_us: Option<u32>,
}

impl Scenario {
    /// Make a guest with emulated unequal cores. Its clocks are those of the model, so a busy host
    /// does not show in them.
    pub fn emulated(kernel: &str, machine: &str, minutes: u64) -> Self {
        programs();
        Self::new(kernel, machine, minutes, true)
    }

    /// Make an emulated guest for [`Scenario::figures`], without the programs under test.
    pub fn model(machine: &str) -> Self {
        Self::new("6.12", machine, 2, true)
    }

    /// Make a guest whose CPUs run as fast as the host lets them. It serves to check behaviour, not
    /// figures. `options` are the scheduler's.
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

    /// Measure these figures of `tests/ampvm/guest/figures.c`. Each leaves a document of its name.
    pub fn figures(&self, names: &[&str]) -> Results {
        compile_figures(&self.vm.out);
        let list = names.join(" ");
        self.run(&format!("for name in {list}; do $OUT/figures $name >$OUT/$name.json || exit; done"))
    }

    /// Run the script. Fail the test unless the script ends with 0.
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

/// Build the program that measures the machine in the guest.
fn compile_figures(folder: &Path) {
    let guest = build::workspace().join("tests/ampvm/guest");
    let mut cc = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    cc.args(["-O2", "-static", "-I"]).arg(&guest).arg(guest.join("figures.c"));
    assert!(cc.arg("-o").arg(folder.join("figures")).status().unwrap().success(), "figures.c does not build");
}

/// Output of a script.
pub struct Results {
    out: PathBuf,
    pub outcome: Outcome,
}

impl Results {
    /// Return a document that `keep` or `under` wrote.
    pub fn json(&self, name: &str) -> Value {
        let path = self.out.join(format!("{name}.json"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// Return a number in such a document, by JSON pointer.
    pub fn number(&self, name: &str, pointer: &str) -> f64 {
        let document = self.json(name);
        let value = document.pointer(pointer).and_then(Value::as_f64);
        value.unwrap_or_else(|| panic!("{name}.json has no number at {pointer}:\n{document:#}"))
    }

    /// Return the numbers in the arrays `field` of all elements of the array at a pointer. Elements
    /// without that field are skipped.
    pub fn numbers(&self, name: &str, pointer: &str, field: &str) -> Vec<f64> {
        let document = self.json(name);
        let elements = document.pointer(pointer).and_then(Value::as_array);
        let elements =
            elements.unwrap_or_else(|| panic!("{name}.json has no array at {pointer}:\n{document:#}"));
        elements.iter().filter_map(|one| one[field].as_array()).flatten().filter_map(Value::as_f64).collect()
    }

    /// Return a text file that the script wrote to $OUT.
    pub fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.out.join(name)).unwrap()
    }
}

/// All expectations of a scenario, reported together. A boot costs too much to stop at the first
/// missed one.
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

    /// Print everything. Fail the test if any expectation was missed.
    pub fn judge(self) {
        let text = self.lines.join("\n");
        eprintln!("{text}");
        assert!(self.failed == 0, "{} expectation(s) missed:\n{text}", self.failed);
    }
}
