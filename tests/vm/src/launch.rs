// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The command line of virtme-run and QEMU for a VM.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ampvm_abi::PAGE_BYTES;
use anyhow::{Context as _, Result};
use caps::{CapSet, Capability};

use crate::guest;
use crate::prepare::Vm;
use crate::programs::write_script;
use crate::tsc;

/// The log of the guest's console, in the run's directory like the files that [`guest`] names.
pub(crate) const CONSOLE: &str = "console.log";
/// The log of virtme-run and QEMU.
pub(crate) const LAUNCHER_LOG: &str = "launcher.log";
/// The page that plugin, guest and host share.
pub(crate) const SHARED: &str = "shared";
/// Distance between two nodes in the guest's SLIT. A node's distance to itself is 10.
const NUMA_DISTANCE: u32 = 20;
/// The CPU model that virtme-run requests from QEMU without KVM.
const CPU_MODEL: &str = "max";
/// The program virtme-run, for Python.
const VIRTME_RUN: &str = "import sys; from virtme.commands.run import main; sys.exit(main())";
/// Ports of a virtio-serial device. The first one is reserved for a console.
const MAX_PORTS: u32 = 3;

/// Words on the guest kernel's command line.
const KERNEL_ARGS: &[&str] = &[
    // While the kernel sizes PCI BARs, QEMU 10 sends accesses of other CPUs to wrong devices. A
    // lost write to the APIC stops a CPU's timer, and an assertion stops QEMU. The guest's script
    // starts the other CPUs after the boot. Kernels such as 7.3 thus have deadline servers on CPU 0
    // only.
    "maxcpus=1",
    "mitigations=off",    // they cost emulated instructions
    "tsc=reliable",       // it is the host's or derived from virtual time, and needs no watchdog
    "no_timer_check",     // the timer check takes seconds
    "psmouse.proto=exps", // the PS/2 probe takes seconds
    "watchdog_thresh=30", // the watchdogs must tolerate a slow host
    "rcupdate.rcu_cpu_stall_timeout=100",
    "random.trust_cpu=on",   // the kernel need not collect entropy at boot
    "loglevel=5",            // warnings reach the console
    "null_blk.nr_devices=0", // the guest's script makes the disk, if there is one
    // Debian's kernels would start with schedutil, the kernel that is built here with performance.
    // Comparisons need the same governor.
    "cpufreq.default_governor=performance",
];

impl Vm {
    /// Fill the run's private directory with the scripts that guest and host run. Return its path.
    pub(crate) fn prepare(&self, command: &[String]) -> Result<PathBuf> {
        self.prepare_guest(command, false)
    }

    /// The same for a guest that gets its commands later, if `serves`.
    pub(crate) fn prepare_guest(&self, command: &[String], serves: bool) -> Result<PathBuf> {
        fs::create_dir_all(&self.out).with_context(|| format!("cannot create {}", self.out.display()))?;
        let out = self.out.canonicalize().with_context(|| format!("cannot open {}", self.out.display()))?;
        let run = out.join(".vm");
        if run.exists() {
            fs::remove_dir_all(&run).with_context(|| format!("cannot empty {}", run.display()))?;
        }
        fs::create_dir(&run).with_context(|| format!("cannot create {}", run.display()))?;
        let cwd = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        let path =
            |path: Option<&Path>| path.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
        let emulator = self.emulator.as_ref();
        let variables = [
            ("VM_RUN", path(Some(&run))),
            ("OUT", path(Some(&out))),
            ("VM_SERVE", if serves { "yes".to_string() } else { String::new() }),
            ("VM_CWD", path(Some(&cwd))),
            ("VM_CONFIG", path(self.kernel.config.as_deref())),
            ("VM_PARAMS", self.module_params.join(" ")),
            ("VM_ROOT", path(self.root.as_ref().map(|root| root.archive.as_path()))),
            ("VM_DISK_MIB", self.disk_mib.to_string()),
            ("AMP_PMU", path(emulator.and(self.kernel.module.as_deref().ok()))),
            ("AMPCTL", path(emulator.map(|emulator| emulator.ampctl.as_path()))),
        ];
        let script = guest::script(&variables, command);
        write_script(&run.join("guest.sh"), &script)?;
        // virtme-run forks QEMU. With this script QEMU dies with virtme-run, which dies with this
        // process. The script also preloads the plugin, because QEMU takes its clocks from it.
        let preload = emulator.map_or(String::new(), |emulator| {
            let plugin = guest::quote(&emulator.plugin.to_string_lossy());
            format!("env AMPVM_PLUGIN_API={} LD_PRELOAD={plugin} ", self.qemu.plugin_api)
        });
        let qemu = guest::quote(&self.qemu.path.to_string_lossy());
        let text = format!("#!/bin/sh\nexec setpriv --pdeathsig KILL {preload}{qemu} \"$@\"\n");
        write_script(&run.join("qemu"), &text)?;
        if let Some(virtiofsd) = &self.kernel.virtiofsd {
            // virtme-run takes the first virtiofsd in the search path.
            let options = virtiofsd_options(may)?;
            write_script(&run.join("virtiofsd"), &format!("#!/bin/sh\nexec {virtiofsd} {options} \"$@\"\n"))?;
        }
        Ok(run)
    }

    /// Return the command that runs the VM. `scratch` is for temporary files, `stdout` and `stderr`
    /// are the sockets of [`crate::ports`].
    pub(crate) fn launcher(&self, run: &Path, scratch: &Path, stdout: &str, stderr: &str) -> Result<Command> {
        let out = run.parent().unwrap_or(Path::new("/"));
        let script = run.join("guest.sh");
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(&self.python).args(["-c", VIRTME_RUN]);
        command.arg("--kimg").arg(&self.kernel.image);
        command.args(["--mods", "auto", "--disable-kvm", "--user", "root"]);
        match &self.kernel.virtiofsd {
            Some(_) => command.env("PATH", prefixed_path(run)),
            None => command.arg("--force-9p"),
        };
        command.env("TMPDIR", scratch);
        // The guest's console goes to standard error, which this process reads to detect panics.
        command.arg("--show-boot-console");
        command.arg("--qemu-bin").arg(run.join("qemu"));
        // Commands of a guest that runs several have directories beside each other.
        command.arg("--rwdir").arg(if self.shares_guest { out.parent().unwrap_or(out) } else { out });
        command.arg("--cpus").arg(self.machine.smp_args());
        command.arg("--memory").arg(format!("{}M", self.memory_mib));
        if self.machine.nodes > 1 {
            command.args(self.numa_args());
        }
        command.arg("--script-sh").arg(format!("sh {}", guest::quote(&script.to_string_lossy())));
        let clock = tsc::kernel_args(self.kernel.config.as_deref());
        let fixed = KERNEL_ARGS.iter().copied().chain(clock.iter().map(String::as_str));
        for word in fixed.chain(self.kernel_args.iter().map(String::as_str)) {
            command.arg("-a").arg(word);
        }
        command.arg("--qemu-opts").args(self.qemu_args(run, stdout, stderr));
        let log = fs::File::create(run.join(LAUNCHER_LOG)).context("cannot write in the output directory")?;
        command.stdin(Stdio::null()).stdout(log).stderr(Stdio::piped()).process_group(0);
        Ok(command)
    }

    /// Return the memory of each node in MiB.
    fn node_mib(&self) -> u32 {
        self.memory_mib / self.machine.nodes as u32
    }

    /// Return virtme-run's options for the nodes. The nodes have equal parts of the memory and of
    /// the CPUs, in order, and the same distance from each other.
    fn numa_args(&self) -> Vec<String> {
        let (nodes, cpus) = (self.machine.nodes, self.machine.cpus() / self.machine.nodes);
        let node = |k: usize| format!("{}M,cpus={}-{}", self.node_mib(), k * cpus, (k + 1) * cpus - 1);
        let pairs = (0..nodes)
            .flat_map(|a| (a + 1..nodes).map(move |b| format!("src={a},dst={b},val={NUMA_DISTANCE}")));
        let distances = pairs.flat_map(|pair| ["--numa-distance".to_string(), pair]);
        (0..nodes).flat_map(|k| ["--numa".to_string(), node(k)]).chain(distances).collect()
    }

    fn qemu_args(&self, run: &Path, stdout: &str, stderr: &str) -> Vec<String> {
        let mut args: Vec<String> = Vec::new();
        let mut add = |option: &str, value: String| args.extend([option.to_string(), value]);
        // virtme-run adds six such devices. By default each has 64 event files, and QEMU's main
        // loop polls all of them.
        add("-global", format!("virtio-serial-pci.max_ports={MAX_PORTS}"));
        add("-device", "virtio-serial-pci,id=biasser".into());
        for (id, socket, port) in [("biasout", stdout, guest::PORT_OUT), ("biaserr", stderr, guest::PORT_ERR)]
        {
            add("-chardev", format!("socket,id={id},path={socket},abstract=on,server=off"));
            add("-device", format!("virtserialport,bus=biasser.0,chardev={id},name={port}"));
        }
        for device in self.machine.cpu_devices(CPU_MODEL) {
            add("-device", device);
        }
        if let Some(emulator) = &self.emulator {
            // The guest's date must not depend on the host either.
            add("-rtc", "base=utc,clock=vm".into());
            let shared = comma(&run.join(SHARED));
            let changes: Vec<_> = self.speed_changes.iter().map(ToString::to_string).collect();
            let throttles = match changes.join("+") {
                none if none.is_empty() => none,
                some => format!(",throttle={some}"),
            };
            add(
                "-plugin",
                format!(
                    "{},mips={}{throttles},node_mib={},shm={shared}",
                    comma(&emulator.plugin),
                    self.machine,
                    self.node_mib()
                ),
            );
            add(
                "-object",
                format!("memory-backend-file,id=biasshm,size={},mem-path={shared},share=on", PAGE_BYTES),
            );
            add("-device", "ivshmem-plain,memdev=biasshm".into());
        }
        args
    }
}

/// Return the search path with `directory` as its first element.
fn prefixed_path(directory: &Path) -> std::ffi::OsString {
    let mut path = directory.as_os_str().to_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    path
}

/// Return true if this process has `capability`, or if it is not root's.
fn may(capability: Capability) -> Result<bool> {
    let has = caps::has_cap(None, CapSet::Effective, capability);
    Ok(has.context("cannot read this process's capabilities")? || !nix::unistd::geteuid().is_root())
}

/// Return options of virtiofsd for a process with the capabilities that it `has`. As root,
/// virtiofsd requires all that it may use, but a container's root lacks some by default.
fn virtiofsd_options(has: impl Fn(Capability) -> Result<bool>) -> Result<String> {
    let mut options = Vec::new();
    if !has(Capability::CAP_DAC_READ_SEARCH)? {
        // File handles need it.
        options.push("--inode-file-handles=never");
    }
    if !has(Capability::CAP_MKNOD)? {
        options.push("--modcaps=-mknod");
    }
    Ok(options.join(" "))
}

/// Return a path with its commas doubled, as in values of QEMU's options.
fn comma(path: &Path) -> String {
    path.to_string_lossy().replace(',', ",,")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{Capability, virtiofsd_options};

    #[test]
    fn virtiofsd_wants_no_capability_that_its_process_lacks() {
        assert_eq!(virtiofsd_options(|_| Ok(true)).unwrap(), "");
        let options = virtiofsd_options(|one| Ok(one != Capability::CAP_MKNOD)).unwrap();
        assert_eq!(options, "--modcaps=-mknod");
        let options = virtiofsd_options(|_| Ok(false)).unwrap();
        assert_eq!(options, "--inode-file-handles=never --modcaps=-mknod");
    }
}
