//! `cargo xtask test`: sets up, builds and runs the tests, and ends with nextest's summary.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use bias_vm::build::{self, cargo, target_directory, workspace};
use bias_vm::interrupt;
use bias_vm::kernels::{self, Table};
use bias_vm::packages::{self, Consent};
use bias_vm::steps::{Step, run_logged};
use bias_vm::tools;

use crate::args::TestArgs;

/// Filter of the tests that boot the VM: the integration tests of `bias_vm`. The configuration of
/// nextest has the same filter.
const VM_TESTS: &str = "package(bias_vm) & kind(test)";
/// Filter of `--full`, which includes ignored tests: all tests except the one that must fail.
const FULL: &str = "not (package(bias_vm) & binary(canary))";
/// Exit code of nextest if tests ran and at least one failed.
const NEXTEST_FAILED: i32 = 100;

/// Set up, build and test. Return the exit code.
pub fn run(args: &TestArgs, consent: Consent) -> Result<i32> {
    packages::ensure(consent)?;
    let nextest = tools::nextest()?;
    let nextest = || {
        let mut command = cargo_subcommand(&nextest);
        command.args(["nextest", "run", "--locked"]);
        command
    };
    if !args.no_vm {
        prepare_kernels(args.full)?;
    }
    programs()?;
    meson(args.full)?;
    must(
        "the examples in the documentation",
        cargo().args(["test", "--quiet", "--doc", "--locked", "--workspace"]),
    )?;
    if !args.no_vm {
        canary(nextest().args(["-p", "bias_vm", "--test", "canary", "--run-ignored", "only"]))?;
    }
    let mut command = nextest();
    command.arg("--workspace");
    if args.no_vm {
        command.arg("-E").arg(format!("not ({VM_TESTS})"));
    } else if std::env::var_os("CI").is_some() {
        command.arg("--no-fail-fast");
    }
    if args.full {
        command.args(["--run-ignored", "all", "-E", FULL]);
    }
    let status = command.args(&args.nextest).status().context("cannot start cargo-nextest")?;
    interrupt::check()?;
    Ok(status.code().unwrap_or(1))
}

/// Return a command that runs nextest directly, in the workspace's root.
fn cargo_subcommand(program: &std::path::Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(workspace());
    command
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

/// Build the programs that the scenarios run, with optimisation.
pub fn programs() -> Result<()> {
    must("the programs", cargo().args(["build", "--locked", "--release"]).args(build::PROGRAMS))?;
    build::emulator().map(|_| ())
}

fn must(what: &str, command: &mut Command) -> Result<()> {
    eprintln!("xtask: {what} ...");
    let status =
        command.stdin(Stdio::null()).status().with_context(|| format!("cannot start cargo for {what}"))?;
    interrupt::check()?;
    if !status.success() {
        bail!("{what}: cargo failed; its messages are above");
    }
    Ok(())
}

/// Files that the packagers' build installs below its prefix.
const INSTALLED: [&str; 10] = [
    "bin/scx_bias",
    "bin/bias-bench",
    "bin/bias-bench-sim",
    "lib/systemd/system/scx_bias.service",
    "share/man/man1/scx_bias.1",
    "share/bash-completion/completions/scx_bias.bash",
    "share/zsh/site-functions/_scx_bias",
    "share/fish/vendor_completions.d/scx_bias.fish",
    "share/doc/scx_bias/scx_bias.toml",
    "share/licenses/scx_bias/LICENSE",
];

/// Check that the packagers' build configures and defines tests and, with `install`, that it
/// compiles and installs its files.
fn meson(install: bool) -> Result<()> {
    let mut step = Step::new("checking meson.build");
    let directory = target_directory().join("meson");
    let log = target_directory().join("meson.log");
    let mut setup = Command::new("meson");
    run_logged(&mut step, setup.args(["setup", "--wipe"]).arg(&directory).current_dir(workspace()), &log)
        .or_else(|_| {
            // The first run has no directory to wipe.
            let mut setup = Command::new("meson");
            run_logged(&mut step, setup.arg("setup").arg(&directory).current_dir(workspace()), &log)
        })
        .context("meson.build does not configure")?;
    let mut introspect = Command::new("meson");
    let tests =
        introspect.args(["introspect", "--tests"]).arg(&directory).output().context("cannot run meson")?;
    let tests: Vec<serde_json::Value> =
        serde_json::from_slice(&tests.stdout).context("meson's list of tests is not JSON")?;
    if tests.is_empty() {
        bail!("meson.build defines no test");
    }
    if install {
        let root = target_directory().join("meson-root");
        let mut compile = Command::new("meson");
        compile.args(["compile", "-C"]).arg(&directory).env("CARGO_TARGET_DIR", target_directory());
        run_logged(&mut step, &mut compile, &log).context("meson.build does not compile")?;
        let mut into = Command::new("meson");
        into.args(["install", "--no-rebuild", "--destdir"]).arg(&root).arg("-C").arg(&directory);
        run_logged(&mut step, &mut into, &log).context("meson.build does not install")?;
        let missing = INSTALLED.iter().find(|file| !root.join("usr/local").join(file).is_file());
        if let Some(file) = missing {
            bail!("`meson install` does not install {file}");
        }
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
