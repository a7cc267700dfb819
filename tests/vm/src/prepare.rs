// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Preparation: from a kernel and a machine to a VM that is ready to run.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ampvm_abi::{Machine, SpeedChange};
use anyhow::{Context as _, Result};

use crate::build::{self, Emulator};
use crate::exit::{USAGE, coded};
use crate::inputs;
use crate::kernels::{self, Kernel};
use crate::packages::{self, Consent, Purpose};
use crate::qemu::{self, Qemu};
use crate::root::Root;
use crate::steps;
use crate::tools;

/// Default size of the guest's memory in MiB.
pub const MEMORY_MIB: u32 = 2048;
/// Number of earlier runs whose directories are kept.
const RUNS_KEPT: usize = 20;

/// A VM that can run commands.
#[derive(Clone, Debug)]
pub struct Vm {
    /// Path of the Python interpreter that runs virtme-run.
    pub python: PathBuf,
    /// The QEMU program.
    pub qemu: Qemu,
    /// The kernel.
    pub kernel: Kernel,
    /// The machine.
    pub machine: Machine,
    /// The emulation of unequal cores. Without it all vCPUs run as fast as the host allows.
    pub emulator: Option<Emulator>,
    /// Guest memory in MiB.
    pub memory_mib: u32,
    /// Maximum wall time of the command.
    pub timeout: Duration,
    /// Directory shared with the guest, writable on both sides; `OUT` in the guest.
    pub out: PathBuf,
    /// Parameters of the guest's module, without blanks.
    pub module_params: Vec<String>,
    /// Changes of speed while the command runs. The plugin makes them, by its own clock. The model
    /// starts just before the command.
    pub speed_changes: Vec<SpeedChange>,
    /// The root that is unpacked into the guest's memory, if any.
    pub root: Option<Root>,
    /// Size of the block device in the guest's memory in MiB; 0 for none.
    pub disk_mib: u32,
    /// Additional words on the kernel's command line.
    pub kernel_args: Vec<String>,
    /// True if the command's output is kept instead of passed on.
    pub keep_output: bool,
    /// True if the command may run in a guest that ran others ([`crate::pool`]).
    pub shares_guest: bool,
}

/// Memory that a guest needs besides its disk [MiB].
const OWN_MIB: u32 = 512;
/// Option of kernels that have the disk.
const DISK_OPTION: &str = "CONFIG_BLK_DEV_NULL_BLK=y";

impl Vm {
    /// Add a block device of `mib` MiB in the guest's memory; none for 0.
    ///
    /// # Errors
    /// Code 2 if the kernel has no such device, or if the memory is too small for it.
    pub fn disk(&mut self, mib: u32) -> Result<()> {
        let config = self.kernel.config.as_ref().and_then(|path| fs::read_to_string(path).ok());
        let has_disk = config.is_some_and(|config| config.lines().any(|line| line == DISK_OPTION));
        if mib > 0 && !has_disk {
            return Err(coded(USAGE, "this kernel has no disk in memory (null_blk); --kernel 6.12 has one"));
        }
        if mib > 0 && mib.saturating_add(OWN_MIB) > self.memory_mib {
            let (memory, needed) = (self.memory_mib, u64::from(mib) + u64::from(OWN_MIB));
            return Err(coded(
                USAGE,
                format!("a disk of {mib} MiB needs more memory than {memory} MiB; give --memory {needed}"),
            ));
        }
        self.disk_mib = mib;
        Ok(())
    }
}

/// Prepare the host and all parts of a VM. `emulation` is true if the cores are emulated with their
/// unequal speeds. `out` is the output directory, or `None` for a new one. The command may take
/// five minutes.
///
/// # Errors
/// A part is missing and cannot be installed, built or fetched.
pub fn vm(
    kernel: &str,
    machine: Machine,
    emulation: bool,
    consent: Consent,
    out: Option<PathBuf>,
) -> Result<Vm> {
    kernels::check(kernel)?;
    packages::ensure(Purpose::All, consent)?;
    let kernel = kernels::ensure(kernel)?;
    let qemu = qemu::find()?;
    let emulator = emulation.then(build::emulator).transpose()?;
    inputs::record_runner()?;
    inputs::record([&kernel.image, &qemu.path])?;
    inputs::record(&kernel.config)?;
    inputs::record([build::ampvm_directory().join("kernel/kernels.toml")])?;
    if let Some(emulator) = &emulator {
        inputs::record([&emulator.plugin, &emulator.ampctl])?;
        inputs::record(kernel.module.iter())?;
    }
    Ok(Vm {
        python: tools::virtme_python()?,
        qemu,
        kernel,
        machine,
        emulator,
        memory_mib: MEMORY_MIB,
        timeout: Duration::from_secs(300),
        out: out.map_or_else(new_run_directory, Ok)?,
        module_params: Vec::new(),
        speed_changes: Vec::new(),
        root: None,
        disk_mib: 0,
        kernel_args: Vec::new(),
        keep_output: false,
        shares_guest: false,
    })
}

/// Return the directory that holds those of all runs.
pub(crate) fn runs() -> PathBuf {
    build::target_directory().join("vm")
}

/// Provide the fetched parts of a VM, beside builds that use the terminal. [`vm`] finds them
/// afterwards.
///
/// # Errors
/// A part is missing and cannot be fetched or built.
pub fn fetch(kernel: &str) -> Result<()> {
    steps::leave_terminal();
    kernels::ensure(kernel)?;
    tools::virtme_python().map(|_| ())
}

/// Create a directory for a run, and remove the oldest ones beyond the limit.
fn new_run_directory() -> Result<PathBuf> {
    let runs = runs();
    fs::create_dir_all(&runs).with_context(|| format!("cannot create {}", runs.display()))?;
    prune(&runs);
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let directory = runs.join(format!("run-{}-{}", time.as_millis(), std::process::id()));
    fs::create_dir(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
    Ok(directory)
}

/// Remove all but the newest runs. The limit is large enough that a run in progress is among those
/// kept.
fn prune(runs: &Path) {
    let Ok(entries) = fs::read_dir(runs) else { return };
    let mut names: Vec<_> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("run-")))
        .collect();
    names.sort();
    for old in names.iter().rev().skip(RUNS_KEPT) {
        // A directory that remains only costs space.
        let _ = fs::remove_dir_all(old);
    }
}
