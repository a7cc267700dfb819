// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `cargo xtask test`: sets up, builds and runs the tests, and ends with nextest's summary.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use bias_vm::build::{self, target_directory, workspace};
use bias_vm::interrupt;
use bias_vm::kernels::{self, Table};
use bias_vm::packages::{self, Consent, Purpose};
use bias_vm::steps::Step;
use bias_vm::tools;

use crate::args::TestArgs;
use crate::packagers_build::PackagersBuild;

/// Filter of the tests that boot the VM: the integration tests of `bias_vm`. The configuration of
/// nextest has the same filter.
const VM_TESTS: &str = "package(bias_vm) & kind(test)";
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
        prepare_kernels(args.full)?;
        tools::virtme_python()?;
        tools::virtiofsd()?;
    }
    let ci = std::env::var_os("CI").is_some();
    eprintln!("xtask: the programs ...");
    let prepared = build::everything()?;
    meson(args.full || ci)?;
    let nextest = || {
        let mut command = Command::new(&nextest);
        command.current_dir(workspace()).args(["nextest", "run", "--locked"]);
        // Tests that need no VM prepare nothing.
        command.envs((!args.no_vm).then(|| prepared.variable()));
        command
    };
    if !args.no_vm {
        canary(nextest().args(["-p", "bias_vm", "--run-ignored", "only", "-E", "test(canary::)"]))?;
    }
    let mut command = nextest();
    command.arg("--workspace");
    if args.no_vm {
        command.arg("-E").arg(format!("not ({VM_TESTS})"));
    } else if ci {
        command.arg("--no-fail-fast");
    }
    if args.full {
        command.args(["--profile", "full"]);
    } else if !args.nextest.is_empty() {
        // A selection has all tests of its filter.
        command.arg("--ignore-default-filter");
    }
    let status = command.args(&args.nextest).status().context("cannot start cargo-nextest")?;
    interrupt::check()?;
    Ok(status.code().unwrap_or(1))
}

/// Prepare the oldest and the newest kernel, which every run boots, or with `all` every kernel.
fn prepare_kernels(all: bool) -> Result<()> {
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
        build.install(&mut step, &target_directory().join("meson-root"), "usr/local")?;
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
