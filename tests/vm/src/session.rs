// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A guest that runs several commands, one after the other.
//!
//! # Problem
//! A boot takes as long as a short scenario, and many scenarios need the same kernel and machine.
//!
//! # Approach
//! The guest's script waits for commands instead of running one (`session.sh`). Each command has
//! directories of state of its own. Afterwards the script ends the processes that the command left,
//! removes its cgroups, and reports remains: a scheduler, a process, a cgroup, an offline CPU, a
//! taint, a complaint of the kernel.
//!
//! # Invariants
//! - A guest in which something remains, or a command failed, gets no further command.
//! - An emulated guest that waits for a command is stopped, and takes no time of the host. Its
//!   clocks are those of the emulation, so it does not notice.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use ampvm_abi::Page;
use anyhow::{Context as _, Result};
use nix::sys::signal::Signal;

use crate::guest;
use crate::interrupt;
use crate::launch::{CONSOLE, SHARED};
use crate::ports::{Port, Sink};
use crate::prepare::Vm;
use crate::runner::{BOOT_LIMIT, BOOT_LIMIT_PER_VCPU, Guest, Outcome, WATCH_PERIOD, evidence};
use crate::steps::StatusLine;
use crate::verdict::{Evidence, Late, judge};

/// Wall time limit for the guest to remove what a command left behind.
const SETTLE_LIMIT: Duration = Duration::from_secs(120);

/// A guest that waits for a command.
pub struct Session {
    vm: Vm,
    run: PathBuf,
    guest: Guest,
    page: Option<Page>,
    /// QEMU connects to them; the commands' output goes to files.
    _ports: [Port; 2],
    _scratch: tempfile::TempDir,
    jobs: usize,
    /// Time of the boot, for the first command.
    boot: Duration,
}

impl Session {
    /// Boot a guest for commands with the kernel and the machine of `vm`. Return the reason if it
    /// does not come up.
    ///
    /// # Errors
    /// The boot is impossible or interrupted.
    pub fn boot(vm: &Vm) -> Result<Result<Self, String>> {
        let run = vm.prepare_guest(&[], true)?;
        let page = vm.emulator.is_some().then(|| Page::create(&run.join(SHARED))).transpose()?;
        let line = Arc::new(StatusLine::default());
        let ports = [Port::open(Sink::Keep, line.clone())?, Port::open(Sink::Keep, line)?];
        let scratch = tempfile::Builder::new()
            .prefix("scx-bias-")
            .tempdir()
            .context("cannot make a temporary directory")?;
        let launcher = vm.launcher(&run, scratch.path(), &ports[0].socket, &ports[1].socket)?;
        let guest = Guest::start(launcher, &run.join(CONSOLE))?;
        let power_on = Instant::now();
        let mut session = Self {
            vm: vm.clone(),
            run,
            guest,
            page,
            _ports: ports,
            _scratch: scratch,
            jobs: 0,
            boot: Duration::ZERO,
        };
        let limit = BOOT_LIMIT + BOOT_LIMIT_PER_VCPU * vm.machine.cpus() as u32;
        let late = session.wait(&session.run.join(guest::STARTED), limit, |at| Late::Boot(at.as_secs()))?;
        session.boot = power_on.elapsed();
        if session.run.join(guest::STARTED).exists() {
            return Ok(Ok(session));
        }
        let evidence = evidence(&session.run, late);
        let why = evidence.early_failure();
        Ok(Err(why.or_else(|| judge(&evidence).explanation().map(String::from)).unwrap_or_default()))
    }

    /// Run a command with this directory for its output. Return its outcome, and its remains in the
    /// guest: an empty text if the guest can run another command.
    ///
    /// # Errors
    /// The directory is not writable, or the user pressed Ctrl-C.
    pub fn run(&mut self, command: &[String], out: &Path, timeout: Duration) -> Result<(Outcome, String)> {
        self.jobs += 1;
        let job = self.run.join(format!("job-{}", self.jobs));
        fs::create_dir(&job).with_context(|| format!("cannot create {}", job.display()))?;
        let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        let variables = [("OUT", out), ("VM_RUN", job.as_path()), ("VM_CWD", here.as_path())]
            .map(|(name, path)| (name, path.to_string_lossy().into_owned()));
        fs::write(job.join("job"), guest::job(&variables, command)).context("cannot write a command")?;
        self.resume(true);
        let virtual_ns = |page: &Page| page.header.virtual_ns.load(Relaxed);
        let begin = (Instant::now(), self.page.as_ref().map_or(0, virtual_ns));
        fs::write(job.join("go"), "").context("cannot start a command")?;
        let late = self.wait(&job.join("code"), timeout, |at| Late::Command(at.as_secs()))?;
        let took = (begin.0.elapsed(), self.page.as_ref().map_or(0, virtual_ns).saturating_sub(begin.1));
        let mut left = String::from("the command did not end");
        if late.is_none() && job.join("code").exists() {
            let unsettled = self.wait(&job.join("left"), SETTLE_LIMIT, |at| Late::Command(at.as_secs()))?;
            let report = fs::read_to_string(job.join("left")).ok().filter(|_| unsettled.is_none());
            left = report.unwrap_or_else(|| "the guest does not settle".to_string());
        }
        self.resume(false);
        let text =
            |name: &str| String::from_utf8_lossy(&fs::read(job.join(name)).unwrap_or_default()).into_owned();
        let evidence = Evidence { exit_code: text("code").trim().parse().ok(), ..evidence(&self.run, late) };
        let outcome = Outcome {
            verdict: judge(&evidence),
            boot: std::mem::take(&mut self.boot),
            command: took.0,
            virtual_time: Duration::from_nanos(took.1),
            stdout: text("stdout"),
            stderr: text("stderr"),
            console: self.run.join(CONSOLE),
            out: out.to_path_buf(),
            early_failure: None,
            loads: 0,
        };
        Ok((outcome, left.trim().to_string()))
    }

    /// Return the number of schedulers that the guest has loaded.
    #[must_use]
    pub fn loads(&self) -> u64 {
        fs::read_to_string(self.run.join(guest::LOADS)).map_or(0, |n| n.trim().parse().unwrap_or(0))
    }

    /// Let an emulated guest run, or stop it.
    fn resume(&self, runs: bool) {
        if self.vm.emulator.is_some() {
            self.guest.signal(if runs { Signal::SIGCONT } else { Signal::SIGSTOP });
        }
    }

    /// Wait for a file, or until the guest ends. Return the limit if it is exceeded first.
    fn wait(
        &mut self,
        file: &Path,
        limit: Duration,
        late: impl Fn(Duration) -> Late,
    ) -> Result<Option<Late>> {
        let begin = Instant::now();
        loop {
            interrupt::check()?;
            let gone = self.guest.is_gone()?;
            if gone || file.exists() {
                return Ok(None);
            }
            if begin.elapsed() > limit {
                return Ok(Some(late(limit)));
            }
            std::thread::sleep(WATCH_PERIOD);
        }
    }
}
