// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Common parts of the scenarios: the programs under test, and a guest that runs a script and
//! leaves JSON documents in a directory.

pub mod loads;

use bias_vm::packages::Consent;
use bias_vm::prepare::{self, Vm};
use bias_vm::recorded::{Bound, Expected, Record};
use bias_vm::root::Root;
use bias_vm::runner::Outcome;
use bias_vm::{Machine, Verdict, build, inputs, pool};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Slice of scx_bias in the emulating VM, which stretches time about fifty-fold. Context switches
/// at the default slice would use up most of the time.
pub const SLICE_US: u32 = 50_000;
/// Default slice of scx_bias.
const DEFAULT_SLICE_US: u32 = 10_000;
/// Speed of the fastest CPU to which [`SLICE_US`] belongs [MIPS / 1000].
const STRETCHED_MIPS_MILLI: u32 = 60_000;
/// Machine for scripts that start many programs and judge no throughput. Faster CPUs cost the host
/// more for each second in which a task is busy.
pub const FOR_SERVICES: &str = "120:120:48:48";
/// Wall-clock seconds of the timeout per minute that a scenario takes on a host of usual speed.
/// Some hosts are half as fast, and the timeout must end hangs only.
const SECONDS_A_MINUTE: u64 = 150;

/// Return the slice for the time of `machine`: the less that is stretched, the shorter the slice.
fn stretched_slice_us(machine: &Machine) -> u32 {
    let fastest = machine.slots.iter().flatten().map(|cpu| cpu.mips_milli).max().unwrap();
    (SLICE_US / 1000 * STRETCHED_MIPS_MILLI / (fastest / 1000)).clamp(DEFAULT_SLICE_US, SLICE_US)
}

/// Return the share of a span of time in which this machine does as much as CPUs of 60 MIPS, in
/// thousandths. It has a minimum, because programs start in the host's time.
fn pace_permille(machine: &Machine) -> u32 {
    let fastest = machine.slots.iter().flatten().map(|cpu| cpu.mips_milli).max().unwrap();
    (STRETCHED_MIPS_MILLI * 1000 / fastest).clamp(250, 1000)
}

/// A guest to run one script in.
pub struct Scenario {
    vm: Vm,
    /// Machine and kernel, for messages.
    name: String,
    scheduler_options: &'static str,
    /// Slice of the scheduler. None means its own default.
    slice_us: Option<u32>,
    /// True if the guest's script may run the scheduler.
    has_scheduler: bool,
}

impl Scenario {
    /// Make a guest with emulated unequal cores. Its clocks are those of the model, so a busy host
    /// does not show in them.
    pub fn emulated(kernel: &str, machine: &str, minutes: u64) -> Self {
        Self::new(kernel, machine, minutes, true)
    }

    /// Make an emulated guest for [`Scenario::figures`].
    pub fn model(machine: &str) -> Self {
        Self::without_scheduler(machine, 2)
    }

    /// Make an emulated guest for scripts that run no scheduler. Its result depends on no other
    /// program than those that the script names.
    pub fn without_scheduler(machine: &str, minutes: u64) -> Self {
        Scenario { has_scheduler: false, ..Self::new("6.12", machine, minutes, true) }
    }

    /// Make a guest whose CPUs run as fast as the host lets them. `options` are the scheduler's.
    pub fn plain(kernel: &str, machine: &str, minutes: u64, options: &'static str) -> Self {
        Scenario { scheduler_options: options, ..Self::new(kernel, machine, minutes, false) }
    }

    /// Make such a guest without the programs under test.
    pub fn bare(kernel: &str, machine: &str) -> Self {
        Self::new(kernel, machine, 2, false)
    }

    fn new(kernel: &str, machine: &str, minutes: u64, emulation: bool) -> Self {
        let cpus = Machine::parse(machine).unwrap();
        let slice_us = stretched_slice_us(&cpus);
        let mut vm = prepare::vm(kernel, cpus, emulation, Consent::Given, None).unwrap();
        vm.timeout = Duration::from_secs(SECONDS_A_MINUTE * minutes);
        vm.keep_output = true;
        vm.shares_guest = true;
        Scenario {
            vm,
            name: format!("{machine} on {kernel}"),
            scheduler_options: "",
            slice_us: emulation.then_some(slice_us),
            has_scheduler: true,
        }
    }

    /// Give the scenario a guest of its own, because it leaves changes that no check finds.
    pub fn alone(mut self) -> Self {
        self.vm.shares_guest = false;
        self
    }

    /// Add words to the guest kernel's command line.
    pub fn kernel_args(&mut self, words: &[&str]) {
        self.vm.kernel_args.extend(words.iter().map(ToString::to_string));
    }

    /// Hold these Debian packages in the guest's memory.
    pub fn root(&mut self, packages: &[&str]) {
        let packages: Vec<_> = packages.iter().map(ToString::to_string).collect();
        self.vm.root = Some(Root::ensure(&packages).unwrap());
    }

    /// Measure these figures of `tests/ampvm/figures`. Each leaves a document of its name.
    pub fn figures(&self, names: &[&str]) -> Results {
        let sources = build::ampvm_directory().join("figures");
        compile(&sources, &["figures.c", "measure.c"], &self.vm.out.join("figures"));
        let list = names.join(" ");
        self.shell(&format!("for name in {list}; do $OUT/figures $name >$OUT/$name.json || exit; done"))
    }

    /// Run a short text with the definitions of `guest/common.sh`.
    pub fn shell(&self, text: &str) -> Results {
        self.run("shell", &[text])
    }

    /// Run `guest/SCRIPT.sh` with these arguments. Fail the test unless it ends with 0.
    pub fn run(&self, script: &str, args: &[&str]) -> Results {
        let mut command = vec!["env".to_string()];
        command.extend(self.variables(&guest_text(script, args)));
        command.extend(["sh".to_string(), guest(script).to_string_lossy().into_owned()]);
        command.extend(args.iter().map(ToString::to_string));
        let shared = pool::run(&self.vm, &command).unwrap();
        let outcome = shared.unwrap_or_else(|| self.vm.run(&command).unwrap());
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

    /// Return the assignments of the variables that common.sh describes, and record the programs
    /// that they name. Only programs that `text` uses are named.
    fn variables(&self, text: &str) -> Vec<String> {
        let programs = build::programs().unwrap();
        let program = |name: &str| {
            let path = programs.join(name);
            inputs::record([&path]).unwrap();
            path.to_string_lossy().into_owned()
        };
        let mut all = vec![
            format!("EMULATED={}", if self.vm.emulator.is_some() { "yes" } else { "" }),
            format!("PACE={}", pace_permille(&self.vm.machine)),
        ];
        let named = [("BENCH", "bias-bench"), ("REPLAY", "bias-replay"), ("TORTURE", "bias-torture")];
        for (variable, name) in named {
            if text.contains(variable) {
                all.push(format!("{variable}={}", program(name)));
            }
        }
        if self.has_scheduler {
            let bias = program("scx_bias");
            let slice = self
                .slice_us
                .map_or(String::new(), |us| format!("--slice-us {us} --capacity-file /run/capacity.json"));
            all.push(format!("SCHED={bias} {slice} {}", self.scheduler_options));
            all.push(format!("BIAS={bias}"));
        }
        all
    }
}

/// Return the path of a script of the guest.
fn guest(script: &str) -> PathBuf {
    build::workspace().join(format!("tests/vm/tests/guest/{script}.sh"))
}

/// Return the text of a script with its arguments and with the scripts that they name, and record
/// all of them. The definitions of common.sh are left out.
fn guest_text(script: &str, args: &[&str]) -> String {
    let directory = guest("").parent().unwrap().to_path_buf();
    let mut left: Vec<PathBuf> =
        std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().path()).collect();
    let mut text = format!("{script}.sh {}", args.join(" "));
    loop {
        let is_named = |path: &PathBuf| text.contains(&*path.file_name().unwrap().to_string_lossy());
        let (named, others): (Vec<_>, Vec<_>) = left.into_iter().partition(is_named);
        if named.is_empty() {
            return text;
        }
        inputs::record(&named).unwrap();
        let is_common = |path: &&PathBuf| path.ends_with("common.sh");
        let read = |path: &PathBuf| std::fs::read_to_string(path).unwrap();
        text.extend(named.iter().filter(|path| !is_common(path)).map(read));
        left = others;
    }
}

/// Read a file of the tree, and record it as an input of the scenario.
pub fn tree(path: &str) -> String {
    let path = build::workspace().join(path);
    inputs::record([&path]).unwrap();
    std::fs::read_to_string(path).unwrap()
}

/// Return a number that the environment may set, for longer runs by hand than a test's.
pub fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// Build a program for the guest.
fn compile(directory: &Path, sources: &[&str], program: &Path) {
    inputs::record([directory, &build::ampvm_directory().join("guest")]).unwrap();
    let mut cc = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    cc.args(["-O2", "-static", "-pthread", "-I"]).arg(build::ampvm_directory().join("guest"));
    cc.args(sources.iter().map(|name| directory.join(name)));
    assert!(cc.arg("-o").arg(program).status().unwrap().success(), "{sources:?} do not build");
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
///
/// The values of figures are compared with those of earlier runs ([`bias_vm::recorded`]). So a
/// figure has one name in all runs. Text that differs between runs follows after ` | `.
#[derive(Default)]
pub struct Expectations {
    lines: Vec<String>,
    failed: usize,
    figures: Vec<Expected>,
}

impl Expectations {
    pub fn at_least(&mut self, what: &str, value: f64, bound: f64) {
        self.figure(what, value, Bound::AtLeast(bound));
    }

    pub fn at_most(&mut self, what: &str, value: f64, bound: f64) {
        self.figure(what, value, Bound::AtMost(bound));
    }

    pub fn within(&mut self, what: &str, value: f64, expected: f64, share: f64) {
        self.figure(what, value, Bound::Within(expected, share));
    }

    fn figure(&mut self, what: &str, value: f64, bound: Bound) {
        self.note(bound.is_met(value), &format!("{what}: {value:.3}, {bound}"));
        let name = what.split(" | ").next().unwrap_or(what).to_owned();
        self.figures.push(Expected { what: name, value, bound });
    }

    pub fn holds(&mut self, what: &str, met: bool) {
        self.note(met, what);
    }

    /// Expect in the records of `look NAME` of common.sh that each busy task ran, and that scx_bias
    /// is still loaded.
    pub fn kept_running(&mut self, results: &Results, name: &str) {
        let times = |file: String| -> Vec<u64> {
            results.text(&file).split_whitespace().map(|time| time.parse().unwrap()).collect()
        };
        let (earlier, later) = (times(format!("{name}.before")), times(format!("{name}.ran")));
        let ran = later.len() == 6 && earlier.iter().zip(&later).all(|(earlier, later)| later > earlier);
        self.holds(&format!("{name}: all tasks ran: {earlier:?} {later:?}"), ran);
        let state = results.text(&format!("{name}.state"));
        self.holds(&format!("{name}: scx_bias is loaded: {state:?}"), state.trim() == "enabled");
    }

    /// Print everything. Fail the test if all expectations are met: they are a target that is known
    /// to be missed, and the test reports when it is reached.
    pub fn judge_missed(self) {
        self.leave();
        let text = self.lines.join("\n");
        eprintln!("missed, as known:\n{text}");
        assert!(self.failed > 0, "the target is met: judge it with the others from now on\n{text}");
    }

    fn note(&mut self, met: bool, line: &str) {
        self.failed += usize::from(!met);
        self.lines.push(format!("{} {line}", if met { "  ok  " } else { "MISSED" }));
    }

    pub fn is_met(&self) -> bool {
        self.failed == 0
    }

    /// Print everything. Fail the test if any expectation was missed, or if a figure is far worse
    /// than the recorded ones.
    pub fn judge(mut self) {
        let scenario = self.leave();
        let recorded = build::workspace().join("tests/vm/recorded.toml");
        for line in Record::read(&recorded).unwrap().worse(&scenario, &self.figures) {
            self.note(false, &line);
        }
        let text = self.lines.join("\n");
        eprintln!("{text}");
        assert!(self.failed == 0, "{} expectation(s) missed:\n{text}", self.failed);
        if std::env::var_os("BIAS_VM_RECORD").is_some() {
            Record::add(&recorded, &scenario, &self.figures).unwrap();
        }
    }

    /// Leave the figures with their bounds in target/expectations, and return the scenario's name.
    fn leave(&self) -> String {
        let thread = std::thread::current();
        let scenario = thread.name().and_then(|name| name.rsplit("::").next()).unwrap().to_owned();
        let directory = build::target_directory().join("expectations");
        std::fs::create_dir_all(&directory).unwrap();
        let figures = serde_json::to_vec_pretty(&self.figures).unwrap();
        std::fs::write(directory.join(format!("{scenario}.json")), figures).unwrap();
        scenario
    }
}
