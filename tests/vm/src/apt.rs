// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Debian packages through apt, with a private configuration.
//!
//! # Problem
//! The project needs packages from suites that a machine does not list: backports on Debian 12, and
//! trixie's kernels. It must not change the machine's own sources.
//!
//! # Approach
//! `APT_CONFIG` points apt to a private source list below the cache directory. The list is derived
//! from the machine's own sources, with the same mirror and proxy. There are two such lists.
//! Packages are installed from the first one, which is limited to the machine's release. Kernels
//! are downloaded from the second one, which has bookworm and trixie.
//!
//! # Invariants
//! No package is installed from the second list.
//!
//! # Limits
//! Packages are installed on Debian 12 and later on amd64 only. Elsewhere [`release`] returns None,
//! and the caller lists the packages to install. Kernels are downloaded on any Debian.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::cache;
use crate::steps::{Step, run_logged};

/// Age after which the private package lists are fetched again before an installation or a
/// download.
const LISTS_AGE: Duration = Duration::from_secs(24 * 3600);
/// Name of a private source list.
const SOURCES: &str = "sources.list";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The suites that are visible to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suites {
    /// The machine's release, for packages that may be installed.
    Install,
    /// Bookworm, trixie and their backports, for packages that may be downloaded and unpacked, but
    /// never installed.
    Download,
}

impl Suites {
    /// Return the name of the private configuration.
    fn name(self) -> &'static str {
        match self {
            Self::Install => "install",
            Self::Download => "download",
        }
    }

    /// Return the names of the suites on a machine of `release`, whose sources name `own`.
    fn suites(self, release: Option<&str>, own: &[&str]) -> Vec<String> {
        let names = match (self, release) {
            (Self::Download, _) => DOWNLOAD.to_vec(),
            (Self::Install, Some(BOOKWORM)) => DOWNLOAD[..2].to_vec(),
            // Sources may also name other releases, with a low priority that the list lacks.
            (Self::Install, Some("trixie")) => only(own, &["trixie", "stable"]),
            // Testing and unstable have one codename, so only the sources distinguish them.
            (Self::Install, _) => only(own, &["forky", "testing", "sid", "unstable"]),
        };
        names.into_iter().map(String::from).collect()
    }
}

fn only<'a>(own: &[&'a str], names: &[&str]) -> Vec<&'a str> {
    own.iter().copied().filter(|name| names.contains(name)).collect()
}

/// Debian 12, whose packages come from backports, too.
pub const BOOKWORM: &str = "bookworm";
const DOWNLOAD: [&str; 4] = [BOOKWORM, "bookworm-backports", "trixie", "trixie-backports"];
/// Codenames of the releases that packages are installed on. The last is that of unstable.
const SUPPORTED: [&str; 3] = [BOOKWORM, "trixie", "forky"];

/// Return the codename of this machine's release if packages can be installed on it.
#[must_use]
pub fn release() -> Option<&'static str> {
    let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
    cfg!(target_arch = "x86_64").then(|| codename(&text)).flatten()
}

fn codename(os_release: &str) -> Option<&'static str> {
    let name = os_release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="))?;
    let debian = os_release.lines().any(|line| line == "ID=debian");
    SUPPORTED.into_iter().find(|supported| debian && *supported == name)
}

/// A private apt configuration that is ready for use.
pub struct Apt {
    config: PathBuf,
    directory: PathBuf,
    suites: Suites,
}

impl Apt {
    /// Write the configuration. Fetch the package lists if they are missing or old, or if the
    /// sources changed.
    ///
    /// # Errors
    /// The machine's sources name no Debian mirror, or the lists cannot be fetched.
    pub fn open(suites: Suites) -> Result<Self> {
        let directory = cache::root()?.join("apt").join(suites.name());
        let config = configuration(&directory, true)?;
        let sources = source_list(&targets()?, suites, release())?;
        let changed = fs::read_to_string(directory.join(SOURCES)).ok().as_ref() != Some(&sources);
        fs::write(directory.join(SOURCES), sources).context("cannot write the private source list")?;
        let apt = Self { config, directory, suites };
        if changed || apt.lists_are_old() {
            apt.update()?;
        }
        Ok(apt)
    }

    fn stamp(&self) -> PathBuf {
        self.directory.join("updated")
    }

    fn lists_are_old(&self) -> bool {
        let modified = fs::metadata(self.stamp()).and_then(|data| data.modified()).ok();
        modified.and_then(|time| time.elapsed().ok()).is_none_or(|age| age > LISTS_AGE)
    }

    fn update(&self) -> Result<()> {
        fetch_lists(self.suites.name(), &self.config, &self.directory)?;
        fs::write(self.stamp(), "").context("cannot write in the cache directory")
    }

    fn command(&self, program: &str) -> Command {
        with_configuration(program, &self.config)
    }

    /// Return the newest version of a package in these suites, or `None` if there is no such
    /// package.
    ///
    /// # Errors
    /// apt-cache does not run.
    pub fn version(&self, package: &str) -> Result<Option<String>> {
        let output =
            self.command("apt-cache").args(["madison", package]).output().context("cannot run apt-cache")?;
        Ok(first_version(&String::from_utf8_lossy(&output.stdout)))
    }

    /// Download packages of `suite` and everything that they depend on into `directory`, as for a
    /// machine without any package.
    ///
    /// # Errors
    /// The packages cannot be installed together, or the download fails.
    pub fn download_all(
        &self,
        step: &mut Step,
        suite: &str,
        packages: &[String],
        directory: &Path,
    ) -> Result<()> {
        let status = directory.join("status");
        fs::create_dir_all(directory.join("partial"))
            .and_then(|()| fs::write(&status, ""))
            .with_context(|| format!("cannot write in {}", directory.display()))?;
        let mut command = self.command("apt-get");
        for (option, value) in [("Dir::State::status", status.as_path()), ("Dir::Cache::archives", directory)]
        {
            command.arg("-o").arg(format!("{option}={}", value.display()));
        }
        command.args([
            "-o",
            "Debug::NoLocking=1",
            "-o",
            &format!("APT::Default-Release={suite}"),
            "-q",
            "-y",
        ]);
        command.args(["--no-install-recommends", "--download-only", "install"]).args(packages);
        run_logged(step, &mut command, &directory.join("log"))
    }

    /// Install packages, through sudo if needed. `name/suite` selects a suite.
    ///
    /// # Errors
    /// apt-get fails, or the user may not install packages.
    pub fn install(&self, packages: &[String]) -> Result<()> {
        if self.suites != Suites::Install {
            bail!("packages are installed from the machine's own release only");
        }
        let mut step = Step::new(format!("installing {} packages", packages.len()));
        let mut command = if nix::unistd::geteuid().is_root() {
            self.command("apt-get")
        } else {
            // sudo drops the environment, so the command contains the configuration.
            let mut command = Command::new("sudo");
            command.arg("env").arg(format!("APT_CONFIG={}", self.config.display()));
            command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get"]);
            command
        };
        command.args(["-q", "-y", "--no-install-recommends", "install"]).args(packages);
        run_logged(&mut step, &mut command, &self.directory.join("log"))?;
        step.done("");
        Ok(())
    }

    /// Download packages into `directory` and unpack them into `root`.
    ///
    /// # Errors
    /// A package is not in the archive, or the download or the unpacking fails.
    pub fn download(
        &self,
        step: &mut Step,
        packages: &[String],
        directory: &Path,
        root: &Path,
    ) -> Result<()> {
        fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
        let log = directory.join("log");
        run_logged(
            step,
            self.command("apt-get").args(["-q", "download"]).args(packages).current_dir(directory),
            &log,
        )
        .with_context(|| format!("cannot download {}", packages.join(" ")))?;
        for file in fs::read_dir(directory).context("cannot read a download directory")? {
            let path = file.context("cannot read a download directory")?.path();
            if path.extension().is_some_and(|extension| extension == "deb") {
                unpack(step, &path, root, &log)?;
            }
        }
        Ok(())
    }
}

/// Unpack a package into `root`, and remove it.
///
/// # Errors
/// The package is damaged, or the disk is full.
pub fn unpack(step: &mut Step, package: &Path, root: &Path, log: &Path) -> Result<()> {
    run_logged(step, Command::new("dpkg-deb").arg("-x").arg(package).arg(root), log)?;
    fs::remove_file(package).with_context(|| format!("cannot remove {}", package.display()))
}

/// Write a configuration with package lists and a cache in `directory`, and return its path. Its
/// sources are those in [`SOURCES`] there, or else the machine's.
fn configuration(directory: &Path, has_sources: bool) -> Result<PathBuf> {
    for part in ["lists/partial", "cache/archives/partial"] {
        let part = directory.join(part);
        fs::create_dir_all(&part).with_context(|| format!("cannot create {}", part.display()))?;
    }
    let path = directory.join("apt.conf");
    let directory = directory.display();
    let mut text = format!(
        "Dir::State::Lists \"{directory}/lists\";\nDir::Cache \"{directory}/cache\";\nAPT::Sandbox::User \"root\";\n"
    );
    if has_sources {
        text += &format!(
            "Dir::Etc::SourceList \"{directory}/{SOURCES}\";\nDir::Etc::SourceParts \"/dev/null\";\n"
        );
    }
    fs::write(&path, text).context("cannot write the private apt configuration")?;
    Ok(path)
}

fn with_configuration(program: &str, config: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("APT_CONFIG", config).env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C");
    command
}

fn fetch_lists(name: &str, config: &Path, directory: &Path) -> Result<()> {
    let mut step = Step::new(format!("fetching Debian's package lists ({name})"));
    let mut update = with_configuration("apt-get", config);
    run_logged(&mut step, update.args(["-q", "update"]), &directory.join("log"))
        .context("cannot fetch Debian's package lists; is the network up?")?;
    step.done("");
    Ok(())
}

/// Return the machine's sources, in lines `URI RELEASE COMPONENT`.
///
/// apt derives them from its package lists. Container images lack these, so this function fetches
/// them.
fn targets() -> Result<String> {
    let tell = |mut apt: Command| -> Result<String> {
        let format = "$(REPO_URI) $(RELEASE) $(COMPONENT)";
        let output = apt.args(["indextargets", "--format", format]).output().context("cannot run apt-get")?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let known = tell(Command::new("apt-get"))?;
    if !known.is_empty() {
        return Ok(known);
    }
    let directory = cache::root()?.join("apt/machine");
    let config = configuration(&directory, false)?;
    let fetched = tell(with_configuration("apt-get", &config))?;
    if !fetched.is_empty() {
        return Ok(fetched);
    }
    fetch_lists("the machine's sources", &config, &directory)?;
    tell(with_configuration("apt-get", &config))
}

/// Return the mirror of Debian that the machine's sources name.
#[must_use]
pub fn mirror() -> Option<String> {
    let targets = targets().ok()?;
    RELEASES.iter().find_map(|release| find(&targets, release))
}

/// Return the archive of `release` in lines of [`targets`].
fn find(targets: &str, release: &str) -> Option<String> {
    targets.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let (uri, name, component) = (words.next()?, words.next()?, words.next()?);
        (name == release && component == "main").then(|| uri.to_string())
    })
}

/// Names of releases by which a machine's sources may find the mirror. Each mirror has all of them.
const RELEASES: [&str; 8] =
    [BOOKWORM, "trixie", "forky", "sid", "unstable", "testing", "stable", "oldstable"];

/// Return the private source list of a machine of `release` with these [`targets`].
fn source_list(targets: &str, suites: Suites, release: Option<&str>) -> Result<String> {
    let find = |wanted: &str| find(targets, wanted);
    let own: Vec<&str> = RELEASES.into_iter().filter(|release| find(release).is_some()).collect();
    let Some(mirror) = own.first().and_then(|release| find(release)) else {
        bail!("apt's sources name no mirror of Debian (main); add one to /etc/apt/sources.list");
    };
    let mut list = String::new();
    for suite in suites.suites(release, &own) {
        list += &format!("deb [signed-by={KEYRING}] {mirror} {suite} main\n");
        for extra in ["updates", "security"].map(|kind| format!("{suite}-{kind}")) {
            if let Some(uri) = find(&extra) {
                list += &format!("deb [signed-by={KEYRING}] {uri} {extra} main\n");
            }
        }
    }
    Ok(list)
}

/// Return the first version in output of `apt-cache madison`: ` package | version | source`.
fn first_version(madison: &str) -> Option<String> {
    let version = madison.lines().next()?.split('|').nth(1)?.trim();
    (!version.is_empty()).then(|| version.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const TARGETS: &str = "http://mirror.example/debian/ bookworm contrib\nhttp://mirror.example/debian/ bookworm main\n\
                           http://sec.example/ bookworm-security main\nhttp://other.example/ nodistro main\n";

    #[test]
    fn the_list_uses_the_machines_mirror_and_only_the_named_suites() {
        let list = source_list(TARGETS, Suites::Install, Some(BOOKWORM)).unwrap();
        assert!(list.contains("http://mirror.example/debian/ bookworm-backports main"));
        assert!(list.contains("http://sec.example/ bookworm-security main"));
        assert!(!list.contains("trixie") && !list.contains("other.example"));
        assert!(source_list(TARGETS, Suites::Download, None).unwrap().contains("trixie-backports"));
        assert!(source_list("", Suites::Install, Some(BOOKWORM)).is_err());
    }

    #[test]
    fn newer_releases_install_from_themselves_only() {
        let newer = "http://mirror.example/debian sid main\nhttp://other.example/ nodistro main\n";
        let list = source_list(newer, Suites::Download, Some("forky")).unwrap();
        assert!(list.contains("http://mirror.example/debian bookworm-backports main"));
        let list = source_list(newer, Suites::Install, Some("forky")).unwrap();
        assert_eq!(list, format!("deb [signed-by={KEYRING}] http://mirror.example/debian sid main\n"));
        let mixed = format!("http://mirror.example/debian trixie main\n{newer}");
        let list = source_list(&mixed, Suites::Install, Some("trixie")).unwrap();
        assert_eq!(list, format!("deb [signed-by={KEYRING}] http://mirror.example/debian trixie main\n"));
    }

    #[test]
    fn versions_and_distributions_are_recognised() {
        let madison =
            " linux-source-6.12 | 6.12.95-1~bpo12+1 | http://mirror.example bookworm-backports/main\n";
        assert_eq!(first_version(madison).as_deref(), Some("6.12.95-1~bpo12+1"));
        assert_eq!(first_version(""), None);
        for name in SUPPORTED {
            assert_eq!(codename(&format!("VERSION_CODENAME={name}\nID=debian\n")), Some(name));
            assert_eq!(codename(&format!("VERSION_CODENAME={name}\nID=other\n")), None);
        }
        assert_eq!(codename("ID=debian\nVERSION_CODENAME=bullseye\n"), None);
        assert_eq!(codename("ID=fedora\n"), None);
    }
}
