// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The packagers' build: `meson.build` configures, compiles and installs.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use bias_vm::build::{TEST_ENVIRONMENT, TEST_PROFILE, TEST_SELECTION, target_directory, workspace};
use bias_vm::steps::{Step, run_logged};

/// Files that it installs below its prefix.
pub const INSTALLED: [&str; 20] = [
    "bin/scx_bias",
    "bin/bias-bench",
    "bin/bias-bench-sim",
    "include/bias_mark.h",
    "lib/systemd/system/scx_bias.service",
    "lib/systemd/system/scx_bias-metrics.service",
    "share/man/man1/scx_bias.1",
    "share/man/man1/scx_bias-check.1",
    "share/man/man1/bias-bench.1",
    "share/man/man1/bias-bench-ab.1",
    "share/man/man1/bias-bench-sim.1",
    "share/man/man5/scx_bias.toml.5",
    "share/bash-completion/completions/scx_bias.bash",
    "share/bash-completion/completions/bias-bench.bash",
    "share/zsh/site-functions/_scx_bias",
    "share/fish/vendor_completions.d/scx_bias.fish",
    "share/doc/scx_bias/scx_bias.toml",
    "share/doc/scx_bias/CHANGELOG.md",
    "share/doc/scx_bias/guides/configuration.md",
    "share/licenses/scx_bias/LICENSE",
];

/// A configured build directory.
pub struct PackagersBuild {
    directory: PathBuf,
    log: PathBuf,
    /// Environment of the compilation.
    environment: Vec<(&'static str, String)>,
}

impl PackagersBuild {
    /// Configure the build in the directory `name` below cargo's, with these options of meson.
    ///
    /// # Errors
    /// meson fails, or defines no test.
    pub fn configure(step: &mut Step, name: &str, options: &[&str]) -> Result<Self> {
        let build = Self {
            directory: target_directory().join(name),
            log: target_directory().join(format!("{name}.log")),
            environment: Vec::new(),
        };
        let setup = |wipe: &[&str]| {
            let mut setup = build.meson(&["setup"]);
            setup.args(wipe).args(options).arg(&build.directory).current_dir(workspace());
            setup
        };
        // The first run has no directory to wipe.
        run_logged(step, &mut setup(&["--wipe"]), &build.log)
            .or_else(|_| run_logged(step, &mut setup(&[]), &build.log))
            .context("meson.build does not configure")?;
        let tests = build.meson(&["introspect", "--tests"]).arg(&build.directory).output();
        let tests: Vec<serde_json::Value> =
            serde_json::from_slice(&tests.context("cannot run meson")?.stdout)
                .context("meson's list of tests is not JSON")?;
        if tests.is_empty() {
            bail!("meson.build defines no test");
        }
        Ok(build)
    }

    /// Use the programs that a test run has built.
    pub fn test_run(mut self) -> Self {
        self.environment.extend([
            (TEST_ENVIRONMENT.0, TEST_ENVIRONMENT.1.to_string()),
            ("SCX_BIAS_PROFILE", TEST_PROFILE.to_string()),
            ("SCX_BIAS_SELECTION", TEST_SELECTION.join(" ")),
        ]);
        self
    }

    /// Compile, and install to a new directory `root`.
    ///
    /// # Errors
    /// meson fails, or does not install a file of [`INSTALLED`] below `prefix`.
    pub fn install(&self, step: &mut Step, root: &Path, prefix: &str) -> Result<()> {
        let mut compile = self.meson(&["compile", "-C"]);
        compile.arg(&self.directory).env("CARGO_TARGET_DIR", target_directory());
        compile.envs(self.environment.iter().map(|(name, value)| (name, value)));
        run_logged(step, &mut compile, &self.log).context("meson.build does not compile")?;
        if root.exists() {
            std::fs::remove_dir_all(root).with_context(|| format!("cannot remove {}", root.display()))?;
        }
        let mut into = self.meson(&["install", "--no-rebuild", "--destdir"]);
        into.arg(root).arg("-C").arg(&self.directory);
        run_logged(step, &mut into, &self.log).context("meson.build does not install")?;
        let missing = INSTALLED.iter().find(|file| !root.join(prefix).join(file).is_file());
        if let Some(file) = missing {
            bail!("`meson install` does not install {file}");
        }
        Ok(())
    }

    fn meson(&self, args: &[&str]) -> Command {
        let mut meson = Command::new("meson");
        meson.args(args);
        meson
    }
}
