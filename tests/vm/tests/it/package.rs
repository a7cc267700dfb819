// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The .deb under the systemd of Debian 13: installed, run in scx_loader's sandbox, enabled, booted
//! again, upgraded, purged.
//!
//! # Limits
//! systemd is the init of a container in the guest, because the guest's own files are the host's.
//! A reboot ends and starts that container; the kernel keeps running.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Expectations, Scenario};
use bias_vm::{build, cache};

/// Version of the second package.
const NEWER: &str = "999.0-1";
/// Packages of the root beyond the minimum: the init, and libraries of the package.
const INCLUDED: &str = "systemd,systemd-sysv,dbus,libelf1t64,zlib1g,libgcc-s1";

/// Run a command, and return what it prints.
#[track_caller]
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Return a root of Debian 13, which the cache keeps.
fn debian() -> PathBuf {
    cache::entry("roots", &format!("trixie-{}", cache::key(&[INCLUDED])), |directory| {
        let mut make = Command::new("mmdebstrap");
        make.args(["--quiet", "--mode=root", "--variant=minbase"]).arg(format!("--include={INCLUDED}"));
        output(make.arg("trixie").arg(directory.join("root")));
        Ok(())
    })
    .unwrap()
    .join("root")
}

/// Build the package of this tree.
fn package() -> PathBuf {
    let mut xtask = build::cargo();
    xtask.args(["run", "--quiet", "--locked", "-p", "xtask", "--", "package", "deb"]);
    xtask.envs([("DEBFULLNAME", "Test"), ("DEBEMAIL", "test@localhost")]);
    output(&mut xtask).trim_end().into()
}

/// Make a newer version of a package, with the same files.
fn newer(package: &Path) -> PathBuf {
    let (tree, newer) = (package.with_extension("tree"), package.with_extension("newer.deb"));
    let _ = std::fs::remove_dir_all(&tree);
    output(Command::new("dpkg-deb").arg("--raw-extract").arg(package).arg(&tree));
    let control = tree.join("DEBIAN/control");
    let text = std::fs::read_to_string(&control).unwrap();
    let with = |line: &str| match line.strip_prefix("Version: ") {
        Some(_) => format!("Version: {NEWER}\n"),
        None => format!("{line}\n"),
    };
    std::fs::write(&control, text.lines().map(with).collect::<String>()).unwrap();
    output(Command::new("dpkg-deb").args(["--root-owner-group", "-Znone", "--build"]).arg(&tree).arg(&newer));
    std::fs::remove_dir_all(&tree).unwrap();
    newer
}

/// Scenarios of `cargo xtask test --full`.
mod full {
    use super::*;

    #[test]
    fn debian_13_boots_with_the_package_upgrades_and_purges_it() {
        let (root, package) = (debian(), package());
        let paths = [root, package.clone(), newer(&package)].map(|path| path.to_string_lossy().into_owned());
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let results = Scenario::plain("6.12", "2F2S", 9, "").alone().run("package", &paths);
        let mut expect = Expectations::default();
        let mut is = |file: &str, wanted: &str| {
            let got = results.text(file);
            expect.holds(&format!("{file}: {:?}, {wanted:?} is right", got.trim()), got.trim() == wanted);
        };
        is("install", "code 0");
        is("installed", "disabled inactive disabled");
        is("boxed", "active enabled table kept");
        is("enable", "code 0");
        is("enabled", "enabled active enabled");
        is("rebooted", "enabled active enabled");
        is("status.code", "code 0");
        is("upgrade", "code 0");
        is("upgraded", "enabled active enabled");
        is("restarted", "restarted");
        is("version", NEWER);
        is("purge", "code 0");
        is("purged", "not-found inactive disabled");
        is("remains", "/etc/scx_bias.toml");
        eprintln!("{}\n{}", results.text("dpkg.log") + &results.text("boxed.log"), results.text("log"));
        expect.judge();
    }
}
