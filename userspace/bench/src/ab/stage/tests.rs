// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
use super::super::runner::{self, BootProgress, INTERRUPTED, Job, Outcome, Sink};
use super::super::sample::Sample;
use super::*;
use std::collections::BTreeMap;

/// A directory with the files of sched_ext, for fake schedulers.
struct Kernel(tempfile::TempDir);

/// A well-behaved scheduler.
const GOOD: &str = "trap 'echo disabled >state; exit 0' INT; read n <enable_seq; echo $((n + 1)) >enable_seq; \
                    echo enabled >state; while :; do sleep 0.02; done";

impl Kernel {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("state"), "disabled\n").unwrap();
        std::fs::write(dir.path().join("enable_seq"), "3\n").unwrap();
        Kernel(dir)
    }

    /// Return an arm whose scheduler is this script.
    fn arm(&self, name: &str, body: &str) -> String {
        let path = self.0.path().join(format!("{name}.sh"));
        std::fs::write(&path, format!("cd {}\n{body}", self.0.path().display())).unwrap();
        format!("{name}=sh {}", path.display())
    }
}

/// A sink that keeps nothing.
struct Nowhere;

impl Sink for Nowhere {
    fn sample(&mut self, _: &Sample) -> Result<()> {
        Ok(())
    }
    fn progress(&mut self, _: &BootProgress) {}
    fn block_end(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Run a block of the default against one arm of a fake kernel.
fn block(kernel: &Kernel, arm: String, interrupted: bool) -> Outcome {
    let plan = Plan {
        arms: vec!["default".into(), arm],
        cells: vec![super::super::plan::Cell::of("compute")],
        warmup_s: 0.0,
        window_s: 0.2,
        ..Plan::default()
    };
    let interrupted = AtomicBool::new(interrupted);
    let mut machine = Machine::open_with(&plan, None, SchedExt::at(kernel.0.path()), &interrupted).unwrap();
    machine.load_timeout = Duration::from_secs(2);
    let job = Job {
        seed: 1,
        boot: 0,
        blocks: vec![0],
        tried: BTreeMap::new(),
        arms: plan.arms().unwrap(),
        cells: vec!["compute".into()],
        budget: None,
        wall_per_guest: None,
    };
    let outcome = runner::run(&job, &mut machine, &mut Nowhere).unwrap();
    assert!(!machine.kernel.state().unwrap().contains("enabled") || !outcome.failed_arms.is_empty());
    outcome
}

/// Return the message about an arm that failed, which must be one line.
fn failure(kernel: &Kernel, arm: String) -> String {
    let outcome = block(kernel, arm, false);
    assert_eq!((outcome.blocks_done, outcome.failed_arms.len()), (0, 1), "{outcome:?}");
    let why = outcome.failed_arms["x"].clone();
    assert!(!why.contains('\n') && outcome.incomplete.unwrap().contains("arm 'x' failed"), "{why}");
    why
}

#[test]
fn an_arm_that_stays_enabled_counts() {
    let kernel = Kernel::new();
    let outcome = block(&kernel, kernel.arm("x", GOOD), false);
    assert_eq!((outcome.blocks_done, outcome.failed_arms.len()), (1, 0), "{outcome:?}");
}

#[test]
fn an_arm_that_is_not_a_scheduler_fails_with_a_remedy() {
    let kernel = Kernel::new();
    let why = failure(&kernel, "x=sleep 1000".into());
    assert!(
        why.contains("'sleep 1000' was not enabled within 2 s") && why.contains("must load a sched_ext"),
        "{why}"
    );
    let why = failure(&kernel, "x=true".into());
    assert!(why.contains("'true' ended before it was enabled (exit status: 0)"), "{why}");
    let why = failure(&kernel, "x=no_such_program".into());
    assert!(why.contains("not found") && why.contains("run it by hand"), "{why}");
}

#[test]
fn an_arm_that_dies_or_is_replaced_midway_fails_with_a_remedy() {
    let dying = GOOD.replace("while :; do sleep 0.02; done", "sleep 0.15; echo disabled >state; kill -9 $$");
    let kernel = Kernel::new();
    let why = failure(&kernel, kernel.arm("x", &dying));
    assert!(why.contains("ended during the measurement (signal: 9") && why.contains("dmesg"), "{why}");
    let replaced = GOOD.replace("while :", "sleep 0.15; echo 9 >enable_seq; while :");
    let kernel = Kernel::new();
    let why = failure(&kernel, kernel.arm("x", &replaced));
    assert!(why.contains("was replaced or reloaded") && why.contains("stop other programs"), "{why}");
}

#[test]
fn the_hybrid_arm_fails_without_the_module_amp_pmu() {
    if std::path::Path::new("/sys/module/amp_pmu").exists() {
        return;
    }
    let kernel = Kernel::new();
    let outcome = block(&kernel, "default-hybrid".into(), false);
    let why = &outcome.failed_arms["default-hybrid"];
    assert!(why.contains("amp_pmu") && !why.contains('\n'), "{why}");
}

#[test]
fn an_interrupt_while_an_arm_loads_is_not_its_failure() {
    let kernel = Kernel::new();
    let outcome = block(&kernel, "x=sleep 1000".into(), true);
    assert_eq!((outcome.incomplete.as_deref(), outcome.failed_arms.len()), (Some(INTERRUPTED), 0));
}

#[test]
fn only_the_program_scx_bias_gets_a_table_not_its_directory_name() {
    for (command, ours) in [
        ("scx_bias --slice-us 5", true),
        ("'/some where/scx_bias' --slice-us 5", true),
        ("/home/x/scx_bias/peers/scx_flash -s 1", false),
        ("'/home/x/scx_bias/scx_flash' -s scx_bias", false),
        ("sh -c scx_bias", false),
    ] {
        assert_eq!(super::runs_scx_bias(command), ours, "{command}");
    }
}
