//! Preparation: from a kernel and a machine to a VM that is ready to run.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ampvm_abi::Machine;
use anyhow::{Context as _, Result};

use crate::kernels::{self, FileSharing, Kernel};
use crate::packages::{self, Consent};
use crate::runner::{Emulation, Vm};
use crate::{build, qemu, tools};

/// Default size of the guest's memory in MiB.
pub const MEMORY_MIB: u32 = 2048;
/// Number of earlier runs whose directories are kept.
const RUNS_KEPT: usize = 20;

/// A request for a VM.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Name or path of the kernel.
    pub kernel: String,
    /// The machine.
    pub machine: Machine,
    /// True if the cores are emulated with their unequal speeds.
    pub emulation: bool,
    /// Whether the installation of packages needs the user's consent.
    pub consent: Consent,
    /// The output directory, or `None` for a new one.
    pub out: Option<PathBuf>,
    /// Maximum wall time of the command.
    pub timeout: Duration,
}

impl Wish {
    /// Return a request with the defaults: emulation, a limit of five minutes, installation of
    /// packages without a question.
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

/// Prepare the host and all parts of the VM.
///
/// # Errors
/// A part is missing and cannot be installed, built or fetched.
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
    // Programs in the guest use it to suspend the emulation or to read its counters.
    vm.env.push(("AMPCTL".into(), built.ampctl.to_string_lossy().into_owned()));
    vm.emulation =
        Some(Emulation { plugin: built.plugin, module: kernel.module.clone(), starter: Some(built.ampctl) });
    Ok(())
}

/// Create a directory for a run, and remove the oldest ones beyond the limit.
fn new_run_folder() -> Result<PathBuf> {
    let runs = build::target_folder().join("vm");
    fs::create_dir_all(&runs).with_context(|| format!("cannot create {}", runs.display()))?;
    prune(&runs);
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let folder = runs.join(format!("run-{}-{}", time.as_millis(), std::process::id()));
    fs::create_dir(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
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
