//! What the scenarios share: the programs under test, and a guest that runs a script and leaves JSON behind.
#![allow(dead_code, missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use bias_vm::guest::quote;
use bias_vm::prepare::{self, Wish};
use bias_vm::runner::{Outcome, Vm};
use bias_vm::{Machine, Verdict, build};
use serde_json::Value;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

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
/// Runs that are void because the host was too slow are repeated, and said so; so many runs in all. If all are void
/// nothing is judged: a busy host, or one whose own host takes its time away, must not fail a test, nor pass one in silence.
const ATTEMPTS: usize = 2;
/// Speeds of a repeated run, in thousandths of those that the host could not keep up with. All CPUs get slower alike, so that ratios stay.
const SLOWER_PERMILLE: u32 = 750;
/// Figures are for the machine that a scenario names. Ticks, switches and the agent take the more of a machine the slower it is; so one that was
/// slowed down to less than this share, in thousandths, shows its figures without being judged by them.
const JUDGED_FROM_PERMILLE: u64 = 750;
/// Until when runs are repeated, in seconds since 1970; always, if it is not set. `cargo xtask test` sets it, so that a slow host
/// does not take for ever.
const REPEAT_UNTIL: &str = "BIAS_VM_REPEAT_UNTIL";
/// Seconds for each minute that a scenario takes at most where the host is as fast as usual. Some are half as fast, and the
/// end of time is for hangs, not for them.
const SECONDS_A_MINUTE: u64 = 150;
/// Exit code of bias-bench when it gave a measurement up because the host was too slow again and again.
const VOID: i32 = 5;

/// Shell definitions that every script begins with: $BENCH, $BIAS (the programs), $SCHED (a scheduler command), $SPEED_PERMILLE (how fast
/// the machine is, in thousandths of what the scenario names), and `keep NAME COMMAND...`, which leaves COMMAND's JSON in $OUT/NAME.json and ends the script if it fails.
fn prelude(scheduler_options: &str, slice_us: Option<u32>, speed_permille: u64) -> String {
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
        // A repeated run shares the folder; solo rates of the void one belong to another boot.
        "rm -f \"$OUT\"/*.json\nSPEED_PERMILLE={speed_permille}\nBENCH={}\nBIAS={}\nSCHED=\"$BIAS {slice} {scheduler_options}\"\n\
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
    /// The machine that was asked for.
    wanted: Machine,
    scheduler_options: &'static str,
    /// Slice of the scheduler; its own default if None.
    slice_us: Option<u32>,
}

impl Scenario {
    /// A guest with the emulation of unequal cores: what is measured in it counts only if the host kept up.
    pub fn emulated(kernel: &str, machine: &str, minutes: u64) -> Self {
        Self::new(kernel, machine, minutes, true)
    }

    /// For scripts that measure with something else than bias-bench: an overrun anywhere voids the run.
    pub fn strict(mut self) -> Self {
        self.vm.tolerate_overrun = false;
        self
    }

    /// A guest whose CPUs run as fast as the host lets them: for behaviour, not for figures. `options` are the scheduler's.
    pub fn plain(kernel: &str, machine: &str, minutes: u64, options: &'static str) -> Self {
        Scenario { scheduler_options: options, ..Self::new(kernel, machine, minutes, false) }
    }

    fn new(kernel: &str, machine: &str, minutes: u64, emulation: bool) -> Self {
        programs();
        let mut wish = Wish::new(kernel, Machine::parse(machine).unwrap());
        wish.emulation = emulation;
        let wanted = wish.machine.clone();
        wish.timeout = Duration::from_secs(SECONDS_A_MINUTE * minutes);
        let mut vm = prepare::vm(&wish).unwrap();
        vm.keep_output = true;
        // bias-bench checks each measurement for itself, and repeats it.
        vm.tolerate_overrun = true;
        Scenario {
            vm,
            name: format!("{machine} on {kernel}"),
            wanted,
            scheduler_options: "",
            slice_us: emulation.then_some(SLICE_US),
        }
    }

    /// Runs the script, again and slower if the host was too slow, and fails the test unless it ends with 0. See [`ATTEMPTS`].
    /// None if every run was void, which is told: there is nothing to judge then.
    pub fn run(&self, script: &str) -> Option<Results> {
        let path = self.vm.out.join("scenario.sh");
        let mut vm = self.vm.clone();
        let mut attempt = 1;
        loop {
            let speed_permille = vm.machine.permille_of(&self.wanted);
            let prelude = prelude(self.scheduler_options, self.slice_us, speed_permille);
            std::fs::write(&path, prelude + script).unwrap();
            let full_path = path.canonicalize().unwrap().to_string_lossy().into_owned();
            let outcome = vm.run(&["sh".to_string(), full_path]).unwrap();
            match &outcome.verdict {
                Verdict::Ended(0) => {
                    return Some(Results { out: vm.out, outcome, speed_permille });
                }
                Verdict::Overran(_) | Verdict::Ended(VOID) if attempt == ATTEMPTS || is_late() => {
                    let why = outcome.verdict.explanation().unwrap_or(&outcome.stderr);
                    eprintln!("NOT JUDGED, because every run was void: {}: {why}", self.name);
                    return None;
                }
                Verdict::Overran(_) | Verdict::Ended(VOID) => {
                    let why = outcome.verdict.explanation().unwrap_or(&outcome.stderr);
                    vm.machine = vm.machine.scaled(SLOWER_PERMILLE).unwrap_or(vm.machine);
                    eprintln!("{}: run {attempt} is void: {why}; again as {}", self.name, vm.machine);
                }
                other => panic!(
                    "{}: {other:?}\n-- stdout\n{}\n-- stderr\n{}",
                    self.name, outcome.stdout, outcome.stderr
                ),
            }
            attempt += 1;
        }
    }
}

/// Has the time for repetitions run out?
fn is_late() -> bool {
    let until = std::env::var(REPEAT_UNTIL).ok().and_then(|text| text.parse().ok());
    until.is_some_and(|until| SystemTime::now() > SystemTime::UNIX_EPOCH + Duration::from_secs(until))
}

/// What a script left behind.
pub struct Results {
    out: PathBuf,
    pub outcome: Outcome,
    /// The machine's speeds, in thousandths of those that were asked for.
    speed_permille: u64,
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

    /// The number `field` of all elements of the array at a pointer.
    pub fn numbers_at(&self, name: &str, pointer: &str, field: &str) -> Vec<f64> {
        let document = self.json(name);
        let elements = document.pointer(pointer).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let numbers: Vec<_> = elements.iter().filter_map(|one| one[field].as_f64()).collect();
        assert!(!numbers.is_empty(), "{name}.json has no {field} at {pointer}:\n{document:#}");
        numbers
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
    /// Figures out of bounds.
    missed: usize,
    /// What does not hold.
    broken: usize,
    /// Why figures are not judged, if they are not.
    lenient: Option<String>,
}

impl Expectations {
    /// For figures that were seen to suffer from a slow machine: one slowed down too far is not judged by them; see [`JUDGED_FROM_PERMILLE`].
    pub fn of(results: &Results) -> Self {
        let slow = results.speed_permille < JUDGED_FROM_PERMILLE;
        let why = || format!("the machine was slowed down to {} ‰ for this host", results.speed_permille);
        Self { lenient: slow.then(why), ..Self::default() }
    }

    pub fn at_least(&mut self, what: &str, value: f64, bound: f64) {
        self.figure(value >= bound, &format!("{what}: {value:.3}, at least {bound:.3}"));
    }

    pub fn at_most(&mut self, what: &str, value: f64, bound: f64) {
        self.figure(value <= bound, &format!("{what}: {value:.3}, at most {bound:.3}"));
    }

    pub fn within(&mut self, what: &str, value: f64, expected: f64, share: f64) {
        let met = (value / expected - 1.0).abs() <= share;
        self.figure(met, &format!("{what}: {value:.3}, within {:.0} % of {expected:.3}", share * 100.0));
    }

    pub fn holds(&mut self, what: &str, met: bool) {
        self.broken += usize::from(!met);
        self.note(met, what);
    }

    fn figure(&mut self, met: bool, line: &str) {
        self.missed += usize::from(!met);
        self.note(met, line);
    }

    fn note(&mut self, met: bool, line: &str) {
        self.lines.push(format!("{} {line}", if met { "  ok  " } else { "MISSED" }));
    }

    /// Prints everything, and fails the test if anything was missed in a run that counts.
    pub fn judge(self) {
        let text = self.lines.join("\n");
        eprintln!("{text}");
        let mut failed = self.broken + self.missed;
        if let Some(why) = self.lenient.filter(|_| self.missed > 0) {
            eprintln!("NOT JUDGED, because {why}: {} figure(s) missed", self.missed);
            failed = self.broken;
        }
        assert!(failed == 0, "{failed} expectation(s) missed:\n{text}");
    }
}
