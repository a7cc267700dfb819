// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `cargo xtask package`: a .deb and an .rpm with the files of `meson install`.
//!
//! # Approach
//!
//! The packagers' build installs to a directory below cargo's, and the tools of the distribution
//! package it. `scheds/packaging/` has the control files. The packages depend on the libraries of
//! the system that builds them.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use bias_vm::build::workspace;
use bias_vm::exit::{KERNEL_OR_PERMISSION, coded};
use bias_vm::programs::find_program;
use bias_vm::steps::Step;

use crate::args::PackageKind;
use crate::package_parts::{VERSION, must, output, packages};
use crate::packagers_build::PackagersBuild;
use crate::static_program;

/// Prefix of the packages.
const PREFIX: &str = "usr";
/// Programs below the prefix, which are stripped and searched for libraries.
const PROGRAMS: [&str; 3] = ["bin/scx_bias", "bin/bias-bench", "bin/bias-bench-sim"];

/// Build the packages, by default those of distributions, and print their paths.
pub fn run(kinds: &[PackageKind]) -> Result<i32> {
    let kinds = if kinds.is_empty() { &[PackageKind::Deb, PackageKind::Rpm][..] } else { kinds };
    for kind in kinds {
        let tools: &[&str] = match kind {
            PackageKind::Deb => &["meson", "strip", "dpkg-deb", "dpkg-shlibdeps", "gzip"],
            PackageKind::Rpm => &["meson", "strip", "rpmbuild", "gzip"],
            PackageKind::Static => &["strip", "readelf", "tar"],
        };
        if let Some(tool) = tools.iter().find(|tool| find_program(tool).is_none()) {
            return Err(coded(
                KERNEL_OR_PERMISSION,
                format!(
                    "there is no {tool}; install meson, binutils, and dpkg-dev for a .deb or rpm-build (Debian: rpm) for an .rpm"
                ),
            ));
        }
        let package = match kind {
            PackageKind::Deb => deb()?,
            PackageKind::Rpm => rpm()?,
            PackageKind::Static => static_program::archive()?,
        };
        println!("{}", package.display());
    }
    Ok(0)
}

/// Install the stripped programs and compressed man pages to `name` below the packages' directory.
fn stage(step: &mut Step, name: &str, options: &[&str]) -> Result<PathBuf> {
    let root = packages().join(name);
    let options = [&["--prefix=/usr", "--buildtype=plain"], options].concat();
    let build = PackagersBuild::configure(step, &format!("meson-{name}"), &options)?;
    build.install(step, &root, PREFIX)?;
    let usr = root.join(PREFIX);
    let mut strip = Command::new("strip");
    strip.arg("--strip-unneeded").args(PROGRAMS.map(|program| usr.join(program))).args(libraries(&usr)?);
    must(&mut strip)?;
    for section in ["man1", "man5"] {
        must(Command::new("gzip").args(["-9", "-n", "-r"]).arg(usr.join("share/man").join(section)))?;
    }
    Ok(root)
}

/// Set the mode of the shared libraries below `usr`. Distributions differ in it.
fn set_mode(usr: &Path, mode: u32) -> Result<()> {
    libraries(usr)?.iter().try_for_each(|it| Ok(fs::set_permissions(it, fs::Permissions::from_mode(mode))?))
}

/// Return the shared libraries below `usr`.
fn libraries(usr: &Path) -> Result<Vec<PathBuf>> {
    let files = files(usr)?.into_iter().map(|file| usr.join(file));
    Ok(files.filter(|file| is_library(file)).collect())
}

fn deb() -> Result<PathBuf> {
    let mut step = Step::new("building the .deb");
    let architecture = output(Command::new("dpkg").arg("--print-architecture"))?;
    // Debian's packages install libraries to a directory that dpkg names.
    let triplet = output(Command::new("dpkg-architecture").arg("-qDEB_HOST_MULTIARCH"))?;
    let root = stage(&mut step, "deb", &[&format!("--libdir=lib/{triplet}")])?;
    let (usr, templates) = (root.join(PREFIX), workspace().join("scheds/packaging/debian"));
    set_mode(&usr, 0o644)?;
    // On Debian, the package names the directory of its documents, and the system has the licence.
    fs::remove_dir_all(usr.join("share/licenses"))?;
    let doc = usr.join("share/doc/scx-bias");
    fs::rename(usr.join("share/doc/scx_bias"), &doc).context("cannot move the documents")?;
    fs::rename(doc.join("CHANGELOG.md"), doc.join("changelog"))?;
    fs::write(doc.join("changelog.Debian"), debian_changelog()?)?;
    for name in ["changelog", "changelog.Debian"] {
        must(Command::new("gzip").args(["-9", "-n"]).arg(doc.join(name)))?;
    }
    fs::copy(templates.join("copyright"), doc.join("copyright"))?;
    let control = root.join("DEBIAN");
    fs::create_dir(&control)?;
    for script in ["postinst", "prerm", "postrm"] {
        fs::copy(templates.join(script), control.join(script))?;
        fs::set_permissions(control.join(script), fs::Permissions::from_mode(0o755))?;
    }
    fs::write(control.join("triggers"), "activate-noawait ldconfig\n")?;
    fs::write(control.join("shlibs"), format!("libbias_mark 0 scx-bias (>= {VERSION})\n"))?;
    let text = fs::read_to_string(templates.join("control"))?
        .replace("@VERSION@", VERSION)
        .replace("@ARCHITECTURE@", &architecture)
        .replace("@MAINTAINER@", &maintainer()?)
        .replace("@KIB@", &(size(&usr)? / 1024).to_string())
        .replace("@DEPENDS@", &shared_libraries(&usr)?);
    fs::write(control.join("control"), text)?;
    let package = packages().join(format!("scx-bias_{VERSION}-1_{architecture}.deb"));
    must(Command::new("dpkg-deb").args(["--root-owner-group", "--build"]).arg(&root).arg(&package))?;
    step.done("");
    Ok(package)
}

/// Return the date of the last commit, so that equal trees make equal packages. `git` and `date`
/// are the formats for these commands.
fn date(git: &str, date: &str) -> Result<String> {
    let mut log = Command::new("git");
    log.args(["log", "-1", "--date=format:%a %b %d %Y", &format!("--format={git}")]);
    // Outside of git, use the present date.
    output(log.current_dir(workspace())).or_else(|_| output(Command::new("date").arg(date)))
}

/// Return the packaging's own changelog.
fn debian_changelog() -> Result<String> {
    let date = date("%aD", "-R")?;
    let by = maintainer()?;
    Ok(format!(
        "scx-bias ({VERSION}-1) unstable; urgency=medium\n\n  * Version {VERSION}.\n\n -- {by}  {date}\n"
    ))
}

/// Return the name and address of the package's maintainer, as Debian's tools find them.
fn maintainer() -> Result<String> {
    let of = |variable: &str, key: &str| match std::env::var(variable) {
        Ok(value) if !value.is_empty() => Ok(value),
        _ => output(Command::new("git").args(["config", key]).current_dir(workspace())),
    };
    let name = of("DEBFULLNAME", "user.name").context("set DEBFULLNAME to the maintainer's name")?;
    let address = of("DEBEMAIL", "user.email").context("set DEBEMAIL to the maintainer's address")?;
    Ok(format!("{name} <{address}>"))
}

/// Return the packages that hold the programs' libraries, as a list of dependencies.
fn shared_libraries(usr: &Path) -> Result<String> {
    // The tool reads the control file of a source package.
    let source = packages().join("shlibdeps");
    fs::create_dir_all(source.join("debian"))?;
    fs::write(source.join("debian/control"), "Source: scx-bias\n\nPackage: scx-bias\nArchitecture: any\n")?;
    let mut tool = Command::new("dpkg-shlibdeps");
    tool.arg("-O").args(PROGRAMS.map(|program| usr.join(program))).args(libraries(usr)?);
    let text = output(tool.current_dir(&source))?;
    let depends = text.lines().find_map(|line| line.strip_prefix("shlibs:Depends="));
    Ok(depends.context("dpkg-shlibdeps names no library")?.to_owned())
}

fn rpm() -> Result<PathBuf> {
    let mut step = Step::new("building the .rpm");
    let root = stage(&mut step, "rpm", &["--libdir=lib64"])?;
    set_mode(&root.join(PREFIX), 0o755)?;
    let parts = [Part::Program, Part::Library, Part::Devel];
    let [program, library, devel] = parts.map(|part| {
        let files = files(&root)?;
        anyhow::Ok(files.into_iter().filter(|file| part_of(file) == part).collect::<Vec<_>>())
    });
    let list = |name: &str, files: &[PathBuf]| {
        let list = packages().join(name);
        fs::write(&list, owned(files)).with_context(|| format!("cannot write {}", list.display()))?;
        anyhow::Ok(list.display().to_string())
    };
    let top = packages().join("rpmbuild");
    let mut build = Command::new("rpmbuild");
    build.arg("-bb").arg("--quiet").arg(workspace().join("scheds/packaging/rpm/scx-bias.spec"));
    for (name, value) in [
        ("_topdir", top.display().to_string()),
        ("version_of_tree", VERSION.to_owned()),
        ("packager_of_tree", maintainer()?),
        ("date_of_tree", date("%ad", "+%a %b %d %Y")?),
        ("staged", root.display().to_string()),
        ("file_list", list("rpm.files", &program?)?),
        ("file_list_library", list("rpm-library.files", &library?)?),
        ("file_list_devel", list("rpm-devel.files", &devel?)?),
    ] {
        build.arg("--define").arg(format!("{name} {value}"));
    }
    must(&mut build)?;
    let mut main = None;
    for built in files(&top.join("RPMS"))? {
        let name = built.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !name.contains(VERSION) {
            continue;
        }
        let package = packages().join(&name);
        fs::copy(top.join("RPMS").join(&built), &package).context("cannot copy the package")?;
        if name.starts_with(&format!("scx-bias-{VERSION}")) {
            main = Some(package);
        }
    }
    step.done("plus packages for programs with marks");
    main.context("rpmbuild has written no package")
}

/// The packages into which .rpm distributions split one tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Program,
    /// Library of programs with marks.
    Library,
    /// Header, link and metadata to build such programs.
    Devel,
}

fn part_of(file: &Path) -> Part {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("so" | "h" | "pc") => Part::Devel,
        _ if is_library(file) => Part::Library,
        _ => Part::Program,
    }
}

/// Return true if `file` is a shared library, not the link with which programs are built.
fn is_library(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name.to_string_lossy().contains(".so."))
}

/// Return the list of what the .rpm owns: the files, and directories that no other package has.
fn owned(files: &[PathBuf]) -> String {
    let mut lines = BTreeSet::new();
    for file in files {
        lines.insert(format!("/{}\n", file.display()));
        let own = |directory: &&Path| directory.iter().any(|part| part == "scx_bias");
        let directories = file.ancestors().skip(1).take_while(own);
        lines.extend(directories.map(|directory| format!("%dir /{}\n", directory.display())));
    }
    lines.into_iter().collect()
}

/// Return the files below `root`, relative to it, in order.
fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut directories = vec![PathBuf::new()];
    while let Some(directory) = directories.pop() {
        let path = root.join(&directory);
        let entries = fs::read_dir(&path).with_context(|| format!("cannot read {}", path.display()))?;
        for entry in entries {
            let entry = entry?;
            let name = directory.join(entry.file_name());
            if entry.file_type()?.is_dir() { directories.push(name) } else { found.push(name) }
        }
    }
    found.sort();
    Ok(found)
}

/// Return the size of all files below `root` [bytes].
fn size(root: &Path) -> Result<u64> {
    files(root)?.iter().map(|file| Ok(root.join(file).symlink_metadata()?.len())).sum()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_names_agree_in_all_packages() {
        let text = |path: &str| fs::read_to_string(workspace().join(path)).unwrap();
        assert!(text("scheds/packaging/arch/PKGBUILD").contains(&format!("\npkgver={VERSION}\n")));
        assert!(text("meson.build").contains(&format!("version: '{VERSION}'")));
        assert!(text("CHANGELOG.md").contains(&format!("\n## {VERSION} - ")));
        for path in [
            "scheds/packaging/arch/PKGBUILD",
            "scheds/packaging/debian/control",
            "scheds/packaging/rpm/scx-bias.spec",
        ] {
            let summary = "CPU scheduler for machines with cores of unequal speed";
            assert!(text(path).contains("scx-bias") && text(path).contains(summary), "{path}");
        }
    }

    #[test]
    fn every_package_handles_the_installed_services() {
        let units = crate::packagers_build::INSTALLED.iter().filter_map(|file| {
            let (_, unit) = file.split_once("systemd/system/")?;
            Some(unit)
        });
        for unit in units {
            for path in ["debian/postinst", "debian/prerm", "rpm/scx-bias.spec"] {
                let text = fs::read_to_string(workspace().join("scheds/packaging").join(path)).unwrap();
                assert!(text.contains(unit), "{path} does not know {unit}");
            }
        }
    }

    #[test]
    fn the_rpm_owns_its_directories_and_no_others() {
        let files = ["usr/bin/scx_bias", "usr/share/doc/scx_bias/guides/a.md"].map(PathBuf::from);
        let own = "%dir /usr/share/doc/scx_bias\n%dir /usr/share/doc/scx_bias/guides\n";
        assert_eq!(owned(&files), format!("{own}/usr/bin/scx_bias\n/usr/share/doc/scx_bias/guides/a.md\n"));
    }

    #[test]
    fn programs_with_marks_and_their_build_have_packages() {
        for (file, part) in [
            ("usr/lib64/libbias_mark.so", Part::Devel),
            ("usr/lib64/libbias_mark.so.0", Part::Library),
            ("usr/include/bias_mark.h", Part::Devel),
            ("usr/lib64/pkgconfig/bias_mark.pc", Part::Devel),
            ("usr/bin/scx_bias", Part::Program),
        ] {
            assert_eq!(part_of(Path::new(file)), part, "{file}");
        }
    }

    #[test]
    fn files_are_found_in_all_directories() {
        let directory = std::env::temp_dir().join(format!("xtask-files-{}", std::process::id()));
        fs::create_dir_all(directory.join("a/b")).unwrap();
        fs::write(directory.join("a/b/c"), "12").unwrap();
        fs::write(directory.join("d"), "345").unwrap();
        assert_eq!(files(&directory).unwrap(), [PathBuf::from("a/b/c"), PathBuf::from("d")]);
        assert_eq!(size(&directory).unwrap(), 5);
        fs::remove_dir_all(directory).unwrap();
    }
}
