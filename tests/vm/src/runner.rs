//! Runs one command in the VM.
//!
//! # Problem
//! Success of a command must mean that it ran to its end. QEMU alone does not show this: a guest
//! that panics or hangs resembles one that works.
//!
//! # Approach
//! virtme-run (of virtme-ng) boots the kernel on the host's own files, read-only, under TCG. The
//! plugin needs TCG, so KVM is never used. A script in the run's directory ([`crate::guest`])
//! starts the emulation and the command, and leaves marks. The watch in this file polls the marks,
//! the clock and Ctrl-C, and [`crate::verdict`] judges.
//!
//! VMs with emulation may run at the same time. Each has its own virtual time, so none distorts the
//! measurements of another.
//!
//! # Invariants
//! - QEMU never outlives this process, even if the process is killed: each process of the chain has
//!   a parent-death signal.
//! - The runner writes only to the output directory and to a temporary directory.
//!
//! # Limits
//! The guest sees the host's `/` read-only. `/tmp`, `/run` and other directories of state are empty
//! in the guest.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ampvm_abi::Machine;
use anyhow::{Context as _, Result};

use crate::guest::{self, Script};
use crate::interrupt;
use crate::ports::{Port, Sink};
use crate::process::Guest;
use crate::progress::StatusLine;
use crate::qemu::Qemu;
use crate::run_folder::{RunFolder, Watched};
use crate::shared::Shared;
use crate::verdict::{Late, Verdict};

/// Maximum number of boots per run. Only a failure of QEMU itself or of the boot causes another
/// one.
const BOOT_ATTEMPTS: usize = 3;
/// Wall time limit from power-on to the start of the command. It is generous, because a boot takes
/// several times as long on a busy host.
const BOOT_LIMIT: Duration = Duration::from_secs(90);
/// Additional wall time per vCPU, because the host executes all of them.
const BOOT_LIMIT_PER_VCPU: Duration = Duration::from_secs(5);
/// Time between two polls of a running guest.
const WATCH_PERIOD: Duration = Duration::from_millis(25);
/// Time between two updates of the line that shows virtual time.
const STATUS_PERIOD: Duration = Duration::from_secs(1);
/// Time limit for the end of QEMU after the end of the command.
const POWER_OFF_LIMIT: Duration = Duration::from_secs(10);

/// The emulation of unequal cores.
#[derive(Clone, Debug)]
pub struct Emulation {
    /// Path of the QEMU plugin.
    pub plugin: PathBuf,
    /// The guest's PMU module for this kernel, if it has one. The module starts the model when it
    /// is loaded.
    pub module: Option<PathBuf>,
    /// Program that starts the model if there is no module.
    pub starter: Option<PathBuf>,
}

/// A change of one vCPU's speed while the command runs. The plugin makes it, by its own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpeedChange {
    /// Virtual time since the start of the model, which is just before the start of the command.
    pub after: Duration,
    /// The vCPU.
    pub vcpu: usize,
    /// Its new speed in MIPS/1000.
    pub mips_milli: u32,
}

/// A VM that can run commands.
#[derive(Clone, Debug)]
pub struct Vm {
    /// Path of the `virtme-run` program.
    pub virtme_run: PathBuf,
    /// The QEMU program.
    pub qemu: Qemu,
    /// Path of the kernel image.
    pub kernel: PathBuf,
    /// The kernel's configuration, for programs in the guest that read it.
    pub config: Option<PathBuf>,
    /// Directory of the virtiofsd program, for kernels that access the host's files through it;
    /// `None` for 9p.
    pub virtiofsd: Option<PathBuf>,
    /// The machine.
    pub machine: Machine,
    /// The emulation. Without it all vCPUs run as fast as the host allows.
    pub emulation: Option<Emulation>,
    /// Guest memory in MiB.
    pub memory_mib: u32,
    /// Maximum wall time of the command.
    pub timeout: Duration,
    /// Directory shared with the guest, writable on both sides; `OUT` in the guest.
    pub out: PathBuf,
    /// Additional environment variables of the command.
    pub env: Vec<(String, String)>,
    /// Parameters of the guest's module.
    pub module_params: Vec<String>,
    /// Changes of speed while the command runs.
    pub speed_changes: Vec<SpeedChange>,
    /// Additional words on the kernel's command line.
    pub kernel_args: Vec<String>,
    /// True if the command's output is kept instead of passed on.
    pub keep_output: bool,
}

/// Result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// How it ended.
    pub verdict: Verdict,
    /// Wall time from power-on to the start of the command, emulation included.
    pub boot: Duration,
    /// Wall time from start to end of the command.
    pub command: Duration,
    /// The same by the guest's clocks; zero without the emulation.
    pub virtual_time: Duration,
    /// The command's standard output, if kept.
    pub stdout: String,
    /// The command's standard error, if kept.
    pub stderr: String,
    /// Path of the log of the guest's console.
    pub console: PathBuf,
    /// The output directory.
    pub out: PathBuf,
    /// How QEMU itself or the boot failed before the command started, if so.
    pub early_failure: Option<String>,
}

impl Vm {
    /// Run `command` until it or the guest ends. If QEMU fails before the command starts, boot
    /// again: the command has had no effect yet, and QEMU fails occasionally during a boot. See
    /// [`RunFolder::early_failure`].
    ///
    /// # Errors
    /// The run is impossible or interrupted: the output directory is not writable, virtme-run does
    /// not start, or the user pressed Ctrl-C.
    pub fn run(&self, command: &[String]) -> Result<Outcome> {
        for _ in 1..BOOT_ATTEMPTS {
            let outcome = self.run_once(command)?;
            let Some(failure) = &outcome.early_failure else { return Ok(outcome) };
            eprintln!("xtask: the machine did not come up ({failure}); trying again");
        }
        self.run_once(command)
    }

    fn run_once(&self, command: &[String]) -> Result<Outcome> {
        let run = self.prepare(command)?;
        let shared = self.emulation.is_some().then(|| Shared::create(&run.shared())).transpose()?;
        let (out_sink, err_sink) =
            if self.keep_output { (Sink::Keep, Sink::Keep) } else { (Sink::Stdout, Sink::Stderr) };
        let line = Arc::new(StatusLine::default());
        let (stdout, stderr) = (Port::open(out_sink, line.clone())?, Port::open(err_sink, line.clone())?);
        // The path is short, because it contains virtiofsd's socket, and a socket's path has at
        // most 107 bytes.
        let scratch = tempfile::Builder::new()
            .prefix("scx-bias-")
            .tempdir()
            .context("cannot make a temporary directory")?;
        let launcher = self.launcher(&run, scratch.path(), &stdout.socket, &stderr.socket)?;
        let mut guest = Guest::start(launcher, &run.console())?;
        let watched = self.watch(&mut guest, &run, shared.as_ref(), &line);
        line.wipe();
        guest.kill();
        let (stdout, stderr) = (stdout.finish(), stderr.finish());
        let watched = watched?;
        Ok(Outcome {
            verdict: run.judge(&watched),
            boot: watched.boot,
            command: watched.command,
            virtual_time: watched.virtual_time,
            stdout: String::from_utf8_lossy(&stdout).into_owned(),
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
            console: run.console(),
            out: self.out.clone(),
            early_failure: run.early_failure().or_else(|| {
                matches!(watched.late, Some(Late::Boot(_))).then(|| "it hung while booting".to_string())
            }),
        })
    }

    fn prepare(&self, command: &[String]) -> Result<RunFolder> {
        fs::create_dir_all(&self.out).with_context(|| format!("cannot create {}", self.out.display()))?;
        let out = self.out.canonicalize().with_context(|| format!("cannot open {}", self.out.display()))?;
        let run = RunFolder { path: out.join(".vm") };
        if run.path.exists() {
            fs::remove_dir_all(&run.path).with_context(|| format!("cannot empty {}", run.path.display()))?;
        }
        fs::create_dir(&run.path).with_context(|| format!("cannot create {}", run.path.display()))?;
        let cwd = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        let script = guest::script(&Script {
            run: &run.path,
            out: &out,
            cwd: &cwd,
            env: &self.env,
            config: self.config.as_deref(),
            module: self.emulation.as_ref().and_then(|emulation| emulation.module.as_deref()),
            module_params: &self.module_params,
            starter: self.emulation.as_ref().and_then(|emulation| emulation.starter.as_deref()),
            command,
        });
        write(&run.path.join("guest.sh"), &script)?;
        // virtme-run forks QEMU. With this script QEMU dies with virtme-run, which dies with this
        // process. The script also preloads the plugin, because QEMU takes its clocks from it.
        let qemu = run.path.join("qemu");
        let preload = self.emulation.as_ref().map_or(String::new(), |emulation| {
            let plugin = guest::quote(&emulation.plugin.to_string_lossy());
            format!("env AMPVM_PLUGIN_API={} LD_PRELOAD={plugin} ", self.qemu.plugin_api)
        });
        write(
            &qemu,
            &format!(
                "#!/bin/sh\nexec setpriv --pdeathsig KILL {preload}{} \"$@\"\n",
                guest::quote(&self.qemu.path.to_string_lossy())
            ),
        )?;
        fs::set_permissions(&qemu, fs::Permissions::from_mode(0o755))
            .context("cannot make a script executable")?;
        Ok(run)
    }

    fn launcher(&self, run: &RunFolder, scratch: &Path, stdout: &str, stderr: &str) -> Result<Command> {
        let out = run.path.parent().unwrap_or(Path::new("/"));
        let script = run.path.join("guest.sh");
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(&self.virtme_run);
        command.arg("--kimg").arg(&self.kernel);
        command.args(["--mods", "auto", "--disable-kvm", "--user", "root"]);
        match &self.virtiofsd {
            // virtme-run takes the first virtiofsd in the search path.
            Some(folder) => command.env("PATH", prefixed_path(folder)),
            None => command.arg("--force-9p"),
        };
        command.env("TMPDIR", scratch);
        // The guest's console goes to standard error, which this process reads to detect panics.
        command.arg("--show-boot-console");
        command.arg("--qemu-bin").arg(run.path.join("qemu"));
        command.arg("--rwdir").arg(out);
        command.arg("--cpus").arg(self.machine.smp_args());
        command.arg("--memory").arg(format!("{}M", self.memory_mib));
        if self.machine.nodes > 1 {
            command.args(self.numa_args());
        }
        command.arg("--script-sh").arg(format!("sh {}", guest::quote(&script.to_string_lossy())));
        for word in KERNEL_ARGS.iter().copied().chain(self.kernel_args.iter().map(String::as_str)) {
            command.arg("-a").arg(word);
        }
        command.arg("--qemu-opts").args(self.qemu_args(run, stdout, stderr));
        let log = fs::File::create(run.launcher_log()).context("cannot write in the output directory")?;
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

    fn qemu_args(&self, run: &RunFolder, stdout: &str, stderr: &str) -> Vec<String> {
        let mut args: Vec<String> = Vec::new();
        let mut add = |option: &str, value: String| args.extend([option.to_string(), value]);
        add("-device", "virtio-serial-pci,id=biasser".into());
        for (id, socket, port) in [("biasout", stdout, guest::PORT_OUT), ("biaserr", stderr, guest::PORT_ERR)]
        {
            add("-chardev", format!("socket,id={id},path={socket},abstract=on,server=off"));
            add("-device", format!("virtserialport,bus=biasser.0,chardev={id},name={port}"));
        }
        for device in self.machine.cpu_devices(CPU_MODEL) {
            add("-device", device);
        }
        if let Some(emulation) = &self.emulation {
            // The guest's date must not depend on the host either.
            add("-rtc", "base=utc,clock=vm".into());
            let shared = comma(&run.shared());
            add(
                "-plugin",
                format!(
                    "{},{}{},node_mib={},shm={shared}",
                    comma(&emulation.plugin),
                    self.machine.plugin_args(),
                    throttle_args(&self.speed_changes),
                    self.node_mib()
                ),
            );
            add(
                "-object",
                format!("memory-backend-file,id=biasshm,size={},mem-path={shared},share=on", Shared::SIZE),
            );
            add("-device", "ivshmem-plain,memdev=biasshm".into());
        }
        args
    }

    /// Wait until the command ends, a limit is exceeded, the guest ends, or the user presses
    /// Ctrl-C.
    fn watch(
        &self,
        guest: &mut Guest,
        run: &RunFolder,
        shared: Option<&Shared>,
        line: &StatusLine,
    ) -> Result<Watched> {
        let virtual_time = || shared.map(Shared::virtual_time).unwrap_or_default();
        let boot_limit = BOOT_LIMIT + BOOT_LIMIT_PER_VCPU * self.machine.cpus() as u32;
        let mut watched = Watched::default();
        let power_on = Instant::now();
        let mut started: Option<Instant> = None;
        let mut started_virtual = Duration::ZERO;
        let mut ended: Option<Instant> = None;
        let mut shown = power_on;
        loop {
            interrupt::check()?;
            // Read this before the marks, because a guest that has ended leaves no further mark.
            let gone = guest.is_gone()?;
            if started.is_none() && run.has(guest::STARTED) {
                started = Some(Instant::now());
                started_virtual = virtual_time();
                watched.boot = power_on.elapsed();
            }
            if ended.is_none() && run.has(guest::EXIT_CODE) {
                ended = Some(Instant::now());
                watched.command = started.map(|start| start.elapsed()).unwrap_or_default();
                watched.virtual_time = virtual_time().saturating_sub(started_virtual);
            }
            if gone || ended.is_some_and(|end| end.elapsed() > POWER_OFF_LIMIT) {
                return Ok(watched);
            }
            watched.late = match started {
                None if power_on.elapsed() > boot_limit => Some(Late::Boot(boot_limit.as_secs())),
                Some(start) if ended.is_none() && start.elapsed() > self.timeout => {
                    Some(Late::Command(self.timeout.as_secs()))
                }
                _ => None,
            };
            if watched.late.is_some() {
                return Ok(watched);
            }
            if let (Some(start), Some(_), None) = (started, shared, ended)
                && !self.keep_output
                && shown.elapsed() >= STATUS_PERIOD
            {
                shown = Instant::now();
                line.show(&pace(virtual_time().saturating_sub(started_virtual), start.elapsed()));
            }
            std::thread::sleep(WATCH_PERIOD);
        }
    }
}

/// Return the time that passed in the guest, and its rate per wall second, as text.
fn pace(virtual_time: Duration, wall: Duration) -> String {
    let (virtual_s, wall_s) = (virtual_time.as_secs_f64(), wall.as_secs_f64());
    format!("{virtual_s:.1} s in the guest, {:.2} s of it a second", virtual_s / wall_s.max(0.001))
}

/// Return changes of speed as an argument of the QEMU plugin with a leading comma, or an empty text
/// if there are none.
fn throttle_args(changes: &[SpeedChange]) -> String {
    let one = |change: &SpeedChange| {
        format!("{}:{}@{}", change.vcpu, f64::from(change.mips_milli) / 1000.0, change.after.as_secs_f64())
    };
    let list: Vec<_> = changes.iter().map(one).collect();
    if list.is_empty() { String::new() } else { format!(",throttle={}", list.join("+")) }
}

/// Distance between two nodes in the guest's SLIT. A node's distance to itself is 10.
const NUMA_DISTANCE: u32 = 20;
/// The CPU model that virtme-run requests from QEMU without KVM.
const CPU_MODEL: &str = "max";

/// Words on the guest kernel's command line.
///
/// | word | reason |
/// |---|---|
/// | `mitigations` | mitigations cost emulated instructions |
/// | `tsc` | the TSC is the host's or derived from virtual time, and needs no watchdog |
/// | `no_timer_check`, `psmouse.proto` | the timer check and the PS/2 probe take seconds |
/// | `watchdog_thresh`, `rcu_cpu_stall_timeout` | the watchdogs must tolerate a slow host |
/// | `random.trust_cpu` | the kernel need not collect entropy at boot |
/// | `loglevel` | warnings reach the console |
const KERNEL_ARGS: &[&str] = &[
    // While the kernel sizes PCI BARs, QEMU 10 sends accesses of other CPUs to wrong devices. A
    // lost write to the APIC stops a CPU's timer, and an assertion stops QEMU. The guest's script
    // starts the other CPUs after the boot.
    "maxcpus=1",
    "mitigations=off",
    "tsc=reliable",
    "no_timer_check",
    "psmouse.proto=exps",
    "watchdog_thresh=30",
    "rcupdate.rcu_cpu_stall_timeout=100",
    "random.trust_cpu=on",
    "loglevel=5",
    // Debian's kernels would start with schedutil, the kernel that is built here with performance.
    // Comparisons need the same governor.
    "cpufreq.default_governor=performance",
];

/// Return the search path with `folder` as its first element.
fn prefixed_path(folder: &Path) -> std::ffi::OsString {
    let mut path = folder.as_os_str().to_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    path
}

/// Return a path with its commas doubled, as in values of QEMU's options.
fn comma(path: &Path) -> String {
    path.to_string_lossy().replace(',', ",,")
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_speed_reach_the_plugin() {
        let change = |vcpu, mips_milli, after_ms| SpeedChange {
            after: Duration::from_millis(after_ms),
            vcpu,
            mips_milli,
        };
        assert_eq!(throttle_args(&[]), "");
        let changes = [change(0, 20_000, 3000), change(11, 12_500, 4250)];
        assert_eq!(throttle_args(&changes), ",throttle=0:20@3+11:12.5@4.25");
    }

    #[test]
    fn the_pace_is_guest_time_by_wall_time() {
        let pace = pace(Duration::from_secs(3), Duration::from_secs(12));
        assert_eq!(pace, "3.0 s in the guest, 0.25 s of it a second");
    }
}
