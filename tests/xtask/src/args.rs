// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The command line of `cargo xtask`: commands, options and their help texts.

use std::path::PathBuf;

use ampvm_abi::SpeedChange;
use bias_vm::Machine;
use clap::{Args as ClapArgs, Parser, Subcommand};

/// Build, test and try scx_bias in a virtual machine with unequal cores.
///
/// Rust and a C compiler are required. On Debian 12, 13 and unstable the command installs all other
/// packages, after a question. On other distributions it lists them. Kernels and tools are kept in
/// $XDG_CACHE_HOME/scx_bias (~/.cache/scx_bias). Removing that directory is always safe.
///
/// Exit codes: 0 success, 1 runtime error, 2 wrong command line, 3 the machine lacks a package, a
/// capability or a feature.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
pub struct Args {
    /// Install missing packages without a question. Implied by CI=true, and if standard input is
    /// not a terminal.
    #[arg(long, global = true)]
    pub yes: bool,
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands of `cargo xtask`.
#[derive(Subcommand)]
pub enum Command {
    /// Show what scx_bias does: compare it with the default scheduler in the VM.
    Demo(DemoArgs),
    /// Run the tests: unit tests on the host, scenarios in the VM.
    Test(TestArgs),
    /// Run a command in the VM as root, with the host's files visible read-only.
    ///
    /// The exit code is that of the command. 120: the VM could not be set up. 121: the guest
    /// panicked. 122: the guest hung, or the command exceeded its time limit.
    Vm(VmArgs),
    /// Install the missing packages and fetch the tools, without running anything.
    Setup,
    /// Build or fetch kernels of the table, by default all.
    Kernel(KernelArgs),
    /// List the presets of `--machine` and the options of a machine.
    Machines,
    /// Check formats, lints, prose and licences.
    Lint,
    /// Measure claims of the documents again, and write the documents.
    ///
    /// Without names, this measures the claims that are stale, void or not measured, in the order
    /// of docs/claims.toml. Commit all changes first: a record names the commit that was measured.
    Remeasure(RemeasureArgs),
    /// Build packages of this tree, and print their paths.
    ///
    /// The packages have all files of `meson install`, and depend on the libraries of this system.
    /// DEBFULLNAME and DEBEMAIL name the maintainer.
    Package(PackageArgs),
}

/// Options of `cargo xtask remeasure`.
#[derive(ClapArgs)]
pub struct RemeasureArgs {
    /// Claims of docs/claims.toml.
    pub claims: Vec<String>,
    /// Time in minutes after which no further claim is begun.
    #[arg(long, value_name = "MINUTES")]
    pub budget: Option<u64>,
}

/// Options of `cargo xtask package`.
#[derive(ClapArgs)]
pub struct PackageArgs {
    /// Kinds of package, by default deb and rpm.
    pub kinds: Vec<PackageKind>,
}

/// Kinds of package.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum PackageKind {
    /// For Debian and its descendants; needs dpkg-dev.
    Deb,
    /// For Fedora, openSUSE and others; needs rpmbuild.
    Rpm,
    /// An archive of a statically linked program and its services.
    Static,
}

/// Options of `cargo xtask vm`.
#[derive(ClapArgs)]
pub struct VmArgs {
    /// Kernel to boot: a name of `cargo xtask kernel list`, or the path of an image. 6.12 boots
    /// fastest and has the amp performance events.
    #[arg(long, default_value = "6.12")]
    pub kernel: String,
    /// Speeds of the CPUs in MIPS (60:60:24:24) or a preset, then optional ,key=value. The guest's
    /// clocks follow the model: with more MIPS the host takes longer for a second of the guest. A
    /// speed of 60 MIPS stretches time about fifty-fold, 3000:3000:1200:1200 does not stretch it.
    /// Below about 20 MIPS the guest's own timer tick affects results. `cargo xtask machines` lists
    /// presets and keys.
    #[arg(long, value_name = "SPEC", default_value = "2F2S")]
    pub machine: Machine,
    /// Maximum wall time of the command in seconds, independent of the time in the guest. A higher
    /// limit only delays the report of a hang.
    #[arg(long, value_name = "S", default_value_t = 300)]
    pub timeout: u64,
    /// Directory that is shared with the guest, writable on both sides; `$OUT` in the guest.
    /// Default: a new one below target/vm.
    #[arg(long, value_name = "DIRECTORY")]
    pub out: Option<PathBuf>,
    /// Guest memory in MiB. The host needs as much in addition; the guest needs about 300 for
    /// itself.
    #[arg(long, value_name = "MIB", default_value_t = bias_vm::prepare::MEMORY_MIB)]
    pub memory: u32,
    /// Debian packages, separated by commas, to unpack with their dependencies into the guest's
    /// memory. $ROOT names the directory; run programs with `chroot $ROOT PROGRAM`. They never wait
    /// for a file of the host.
    #[arg(long, value_name = "PACKAGES", value_delimiter = ',')]
    pub root: Vec<String>,
    /// Make a block device of this size in MiB in the guest's memory. It answers within 80 us of
    /// the guest's time, and is mounted as ext4; $DISK names the directory.
    #[arg(long, value_name = "MIB", default_value_t = 0)]
    pub disk: u32,
    /// Change a CPU's speed while the command runs, as CPU:MIPS@SECONDS (repeatable), to emulate
    /// thermal throttling. SECONDS is the guest's time since the start of the model, which is just
    /// before the start of the command.
    #[arg(long, value_name = "CPU:MIPS@S", conflicts_with = "no_emulation")]
    pub throttle: Vec<SpeedChange>,
    /// Add a word to the guest kernel's command line (repeatable).
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    pub append: Vec<String>,
    /// Describe the unequal cores to the guest kernel as real hybrids do: clock ranges (cpufreq,
    /// governors performance and schedutil), core priorities (ITMT) and CPU capacities. Without
    /// this option the kernel treats all cores alike.
    #[arg(long, conflicts_with = "no_emulation")]
    pub default_hybrid: bool,
    /// Run without the emulation: all CPUs run as fast as the host allows, without stalls and amp
    /// events. The guest boots faster.
    #[arg(long)]
    pub no_emulation: bool,
    /// The command and its arguments, after `--`.
    #[arg(required = true, last = true, value_name = "CMD")]
    pub command: Vec<String>,
}

/// Options of `cargo xtask kernel`.
#[derive(ClapArgs)]
pub struct KernelArgs {
    /// Names of kernels in the table, or `list` to show it.
    pub names: Vec<String>,
}

/// Options of `cargo xtask demo`.
#[derive(ClapArgs)]
pub struct DemoArgs {
    /// The machine; see `cargo xtask vm --help`.
    #[arg(long, value_name = "SPEC", default_value = "2F2S")]
    pub machine: Machine,
    /// The kernel; see `cargo xtask vm --help`. 7.3 comes from Debian's archive. `cargo xtask test`
    /// needs 6.12, which must first be built, in about six minutes on two cores.
    #[arg(long, default_value = "7.3")]
    pub kernel: String,
    /// Additional arguments of `bias-bench demo`, after `--`.
    #[arg(last = true, value_name = "ARGS")]
    pub bench: Vec<String>,
}

/// Options of `cargo xtask test`.
#[derive(ClapArgs)]
pub struct TestArgs {
    /// Run only the tests that need no VM, in about a minute.
    #[arg(long)]
    pub no_vm: bool,
    /// Run every scenario on every kernel, which takes an hour more. By default, the scenarios that
    /// guard a promise run on 6.12, and the newest kernel verifies the programs.
    #[arg(long, conflicts_with = "no_vm")]
    pub full: bool,
    /// Run every scenario of the selection, including those that passed with the same programs,
    /// kernels and texts. Implied by --full and by additional arguments.
    #[arg(long, conflicts_with = "no_vm")]
    pub fresh: bool,
    /// Additional arguments of `cargo nextest run`, after `--`: for example a filter `-E
    /// 'test(demo)'`.
    #[arg(last = true, value_name = "ARGS")]
    pub nextest: Vec<String>,
}
