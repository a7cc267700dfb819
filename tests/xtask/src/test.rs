// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `cargo xtask test`: sets up, builds and runs the tests, and ends with nextest's summary.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::time::SystemTime;

use anyhow::{Context as _, Result, bail};
use bias_vm::boots::{self, Boots};
use bias_vm::build::{self, target_directory, workspace};
use bias_vm::kernels::{self, Table};
use bias_vm::packages::{self, Consent, Purpose};
use bias_vm::pool::Pool;
use bias_vm::steps::Step;
use bias_vm::tools;
use bias_vm::{inputs, interrupt};

use crate::args::TestArgs;
use crate::outcome::{Report, TestOutcome};
use crate::packagers_build::PackagersBuild;
use crate::passed::Passed;
use crate::summary;

/// Filter of the tests that boot the VM: the integration tests of `bias_vm`. The configuration of
/// nextest has the same filter.
const VM_TESTS: &str = "package(bias_vm) & kind(test)";
/// nextest's name for their program.
const VM_PROGRAM: &str = "bias_vm::it";
/// The simulator's package. Its tests depend on nothing but its sources, and count as one scenario.
const SIMULATOR: &str = "bias_sim";
/// Its program, which stands for these sources.
const SIMULATOR_PROGRAM: &str = "target/ci/bias-bench-sim";
/// Exit code of nextest if tests ran and at least one failed.
const NEXTEST_FAILED: i32 = 100;

/// Set up, build and test. Return the exit code.
pub fn run(args: &TestArgs, consent: Consent) -> Result<i32> {
    let purpose = match (args.no_vm, args.full) {
        (true, _) => Purpose::Host,
        (false, false) => Purpose::All,
        (false, true) => Purpose::Full,
    };
    packages::ensure(purpose, consent)?;
    let nextest = tools::nextest()?;
    if !args.no_vm {
        prepare_vm(args.full)?;
    }
    let ci = std::env::var_os("CI").is_some();
    eprintln!("xtask: the programs ...");
    let begun = SystemTime::now();
    let prepared = build::everything()?;
    meson(args.full || ci)?;
    if !args.no_vm {
        prepared.rely();
    }
    let since = SystemTime::now();
    let nextest = || {
        let mut command = Command::new(&nextest);
        command.current_dir(workspace()).args(["nextest", "run", "--locked", "--cargo-profile"]);
        command.arg(build::TEST_PROFILE).args(build::TEST_SELECTION).envs([build::TEST_ENVIRONMENT]);
        // Tests that need no VM prepare nothing.
        command.envs((!args.no_vm).then(|| prepared.variable()));
        command
    };
    if !args.no_vm {
        canary(nextest().args(["--run-ignored", "only", "-E", &format!("{VM_TESTS} & test(canary::)")]))?;
        inputs::clear()?;
        boots::reset()?;
    }
    let unchanged = if repeats_all(args) { BTreeMap::new() } else { Passed::of_user()?.unchanged()? };
    let mut command = nextest();
    command.args(selection(args, &unchanged));
    if ci && !args.no_vm {
        command.arg("--no-fail-fast");
    }
    let pool = (!args.no_vm).then(Pool::serve).transpose()?;
    command.envs(pool.as_ref().map(Pool::variable));
    let report = Report::of(if args.full { "full" } else { "default" })?;
    let status = command.args(&args.nextest).status().context("cannot start cargo-nextest")?;
    let unclean = pool.map(Pool::end).unwrap_or_default();
    let outcomes = report.outcomes();
    // An interruption does not invalidate the tests that passed before it.
    if !args.no_vm {
        Passed::of_user()?.keep(&scenarios(&outcomes), begun, since)?;
    }
    interrupt::check()?;
    let boots = if args.no_vm { Boots::default() } else { boots::counted() };
    summary::print(&unchanged, &outcomes, &boots, &unclean);
    Ok(status.code().unwrap_or(1))
}

/// Return true if the run must repeat scenarios that passed with the same inputs: if the user asks
/// for it, selects tests, or sets a variable that changes a test.
fn repeats_all(args: &TestArgs) -> bool {
    let is_set = |(name, _): (OsString, _)| name.to_string_lossy().starts_with("BIAS_VM_");
    let selected = !args.nextest.is_empty();
    args.no_vm || args.full || args.fresh || selected || std::env::vars_os().any(is_set)
}

/// Return nextest's options that select the tests.
fn selection(args: &TestArgs, unchanged: &BTreeMap<String, String>) -> Vec<String> {
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect();
    if args.no_vm {
        return words(&["-E", &format!("not ({VM_TESTS})")]);
    }
    if args.full {
        return words(&["--profile", "full"]);
    }
    if !args.nextest.is_empty() {
        return words(&["--ignore-default-filter"]);
    }
    if unchanged.is_empty() {
        return Vec::new();
    }
    let left_out = unchanged.keys().map(|name| match name.as_str() {
        SIMULATOR => format!("package({SIMULATOR})"),
        name => format!("({VM_TESTS} & test(={name}))"),
    });
    words(&["-E", &format!("not ({})", left_out.collect::<Vec<_>>().join(" | "))])
}

/// Return the scenarios that passed, each with its inputs.
fn scenarios(outcomes: &[TestOutcome]) -> Vec<(String, BTreeSet<String>)> {
    let has_passed = |test: &&TestOutcome| test.passed && test.skipped.is_none();
    let of_vm = outcomes.iter().filter(has_passed).filter(|test| test.program == VM_PROGRAM);
    let mut passed: Vec<_> = of_vm.map(|test| (test.name.clone(), inputs::of(&test.name))).collect();
    let is_simulated = |test: &&TestOutcome| test.program.split("::").next() == Some(SIMULATOR);
    let mut simulated = outcomes.iter().filter(is_simulated).peekable();
    if simulated.peek().is_some() && simulated.all(|test| has_passed(&test)) {
        let of_all = [SIMULATOR_PROGRAM, inputs::INSTALLED].map(String::from);
        passed.push((SIMULATOR.to_string(), of_all.into()));
    }
    passed
}

/// Prepare the VM's tools, and the oldest and the newest kernel, or every kernel if `all`.
fn prepare_vm(all: bool) -> Result<()> {
    tools::virtme_python()?;
    let kernels = Table::load()?.kernels;
    let last = kernels.len().saturating_sub(1);
    for (at, entry) in kernels.iter().enumerate() {
        if !all && at != 0 && at != last {
            continue;
        }
        kernels::ensure(&entry.name)?;
        interrupt::check()?;
    }
    Ok(())
}

/// Check that the packagers' build configures and defines tests and, with `install`, that it
/// compiles and installs its files.
fn meson(install: bool) -> Result<()> {
    let mut step = Step::new("checking meson.build");
    let build = PackagersBuild::configure(&mut step, "meson", &[])?;
    if install {
        build.test_run().install(&mut step, &target_directory().join("meson-root"), "usr/local")?;
    }
    step.done("");
    Ok(())
}

/// Run the test that must fail. If its failure is not detected, success of the other tests means
/// nothing.
fn canary(command: &mut Command) -> Result<()> {
    let mut step = Step::new("canary: a test that must fail");
    step.note("boots a VM whose command fails");
    let output = command.stdin(Stdio::null()).output().context("cannot start cargo-nextest")?;
    interrupt::check()?;
    let text = String::from_utf8_lossy(&output.stderr);
    if output.status.code() != Some(NEXTEST_FAILED) || !text.contains("this failure is intended") {
        bail!(
            "the canary did not fail as it must ({}): failures are not seen, so no test can be trusted\n{text}",
            output.status
        );
    }
    step.done("failed, as it must");
    Ok(())
}
