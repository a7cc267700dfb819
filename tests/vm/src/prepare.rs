//! From "this kernel, this machine" to a VM that is ready to run.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ampvm_abi::Machine;
use anyhow::{Context as _, Result};

use crate::kernels::{self, FileSharing, Kernel};
use crate::packages::{self, Consent};
use crate::runner::{Emulation, Vm};
use crate::{build, qemu, tools};

/// Guest memory unless asked otherwise, in MiB.
pub const MEMORY_MIB: u32 = 2048;
/// Runs whose folders are kept.
const RUNS_KEPT: usize = 20;

/// What is wanted.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Name or path of the kernel.
    pub kernel: String,
    /// The machine.
    pub machine: Machine,
    /// Whether cores are to be unequal at all.
    pub emulation: bool,
    /// Whether to ask before installing packages.
    pub consent: Consent,
    /// The output folder; `None` for a new one.
    pub out: Option<PathBuf>,
    /// Wall time the command may take.
    pub timeout: Duration,
}

impl Wish {
    /// A wish for the usual: emulation, five minutes, packages installed without asking.
    #[must_use]
    pub fn new(kernel: &str, machine: Machine) -> Self {
        Self {
            kernel: kernel.to_string(),
            machine,
            emulation: true,
            consent: Consent::Given,
            out: None,
            timeout: Duration::from_secs(300),
        }
    }
}

/// Prepares the host and everything the VM needs.
///
/// # Errors
/// Something is missing and cannot be installed, built or fetched.
pub fn vm(wish: &Wish) -> Result<Vm> {
    kernels::check(&wish.kernel)?;
    packages::ensure(wish.consent)?;
    let virtme_run = tools::virtme_run()?;
    let kernel = kernels::ensure(&wish.kernel)?;
    let mut vm = Vm {
        virtme_run,
        qemu: qemu::find()?,
        virtiofsd: sharing_folder(&kernel)?,
        kernel: kernel.image.clone(),
        config: kernel.config.clone(),
        machine: wish.machine.clone(),
        emulation: None,
        memory_mib: MEMORY_MIB,
        timeout: wish.timeout,
        out: match &wish.out {
            Some(folder) => folder.clone(),
            None => new_run_folder()?,
        },
        env: Vec::new(),
        module_params: Vec::new(),
        speed_changes: Vec::new(),
        kernel_args: Vec::new(),
        keep_output: false,
    };
    if wish.emulation {
        emulate(&mut vm, &kernel)?;
    }
    Ok(vm)
}

fn sharing_folder(kernel: &Kernel) -> Result<Option<PathBuf>> {
    match kernel.sharing {
        FileSharing::NineP => Ok(None),
        FileSharing::Virtiofs => tools::virtiofsd_folder().map(Some),
    }
}

fn emulate(vm: &mut Vm, kernel: &Kernel) -> Result<()> {
    let built = build::emulator()?;
    // For programs in the guest that suspend the emulation or read its counters.
    vm.env.push(("AMPCTL".into(), built.ampctl.to_string_lossy().into_owned()));
    vm.emulation =
        Some(Emulation { plugin: built.plugin, module: kernel.module.clone(), starter: Some(built.ampctl) });
    Ok(())
}

/// A new folder for a run; the oldest of many are removed.
fn new_run_folder() -> Result<PathBuf> {
    let runs = build::target_folder().join("vm");
    fs::create_dir_all(&runs).with_context(|| format!("cannot create {}", runs.display()))?;
    prune(&runs);
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let folder = runs.join(format!("run-{}-{}", time.as_millis(), std::process::id()));
    fs::create_dir(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}

/// Keeps the newest runs. A run that another process is at is among them.
fn prune(runs: &Path) {
    let Ok(entries) = fs::read_dir(runs) else { return };
    let mut names: Vec<_> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("run-")))
        .collect();
    names.sort();
    for old in names.iter().rev().skip(RUNS_KEPT) {
        // Left over folders cost space, nothing else.
        let _ = fs::remove_dir_all(old);
    }
}
