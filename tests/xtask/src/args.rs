//! The command line.

use std::path::PathBuf;

use bias_vm::Machine;
use clap::{Args as ClapArgs, Parser, Subcommand};

/// Build, test and try scx_bias in a virtual machine with unequal cores.
///
/// Needs Rust and a C compiler; everything else is installed on Debian 12 (after asking) or named elsewhere.
/// Kernels and tools are kept in $XDG_CACHE_HOME/scx_bias (~/.cache/scx_bias); removing that directory is always safe.
///
/// Exit codes: 0 all well, 1 something failed, 2 wrong command line, 3 the machine lacks something.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
pub struct Args {
    /// Install missing packages without asking. Also implied by CI=true and where there is no terminal.
    #[arg(long, global = true)]
    pub yes: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    /// Show what scx_bias does: the default scheduler against it, in the VM.
    Demo(DemoArgs),
    /// Run every test: units on the host, scenarios in the VM.
    Test(TestArgs),
    /// Run a command in the VM as root, with the host's files visible read-only.
    ///
    /// The command's exit code is returned. 120: the VM could not be set up. 121: the guest
    /// panicked. 122: it hung or the time was up.
    Vm(VmArgs),
    /// Install what is missing and fetch the tools, without running anything.
    Setup,
    /// Build or fetch kernels of the table; all of them if none is named.
    Kernel(KernelArgs),
    /// List the machines of `--machine` and their options.
    Machines,
    /// Check formats, lints and licences.
    Lint,
}

/// `cargo xtask vm`.
#[derive(ClapArgs)]
pub struct VmArgs {
    /// Kernel to boot: a name that `cargo xtask kernel list` shows, or an image's path. 6.12 boots
    /// fastest and has the amp performance events.
    #[arg(long, default_value = "6.12")]
    pub kernel: String,
    /// Speeds of the CPUs in MIPS (60:60:24:24) or a preset, then optional ,key=value. The guest's
    /// clocks follow the model: the more MIPS, the longer the host takes for a second of them.
    /// 60 MIPS stretches time about fifty-fold; 3000:3000:1200:1200 does not stretch it. Below about
    /// 20 MIPS the guest's own timer tick shows. `cargo xtask machines` lists presets and keys.
    #[arg(long, value_name = "SPEC", default_value = "2F2S")]
    pub machine: Machine,
    /// Wall-clock seconds the command may take, however little time passes in the guest. Raising it
    /// only delays the news of a hang.
    #[arg(long, value_name = "S", default_value_t = 300)]
    pub timeout: u64,
    /// Directory shared with the guest, writable on both sides; `$OUT` there. Default: a new one below target/vm.
    #[arg(long, value_name = "DIRECTORY")]
    pub out: Option<PathBuf>,
    /// Guest memory in MiB. More costs the host that much; the guest needs about 300 for itself.
    #[arg(long, value_name = "MIB", default_value_t = bias_vm::prepare::MEMORY_MIB)]
    pub memory: u32,
    /// Change a CPU's speed while the command runs, as CPU:MIPS@SECONDS (repeatable): thermal
    /// throttling. SECONDS are the guest's, since the model started, which is just before the
    /// command does.
    #[arg(long, value_name = "CPU:MIPS@S", conflicts_with = "no_emulation")]
    pub throttle: Vec<String>,
    /// More words for the guest kernel's command line (repeatable).
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    pub append: Vec<String>,
    /// Describe the unequal cores to the guest kernel as real hybrids do: clock ranges (cpufreq, governors
    /// performance and schedutil), core priorities (ITMT) and CPU capacities. Without it the kernel takes
    /// all cores for alike.
    #[arg(long, conflicts_with = "no_emulation")]
    pub default_hybrid: bool,
    /// Run without the emulation: all CPUs as fast as the host allows, no stalls, no amp events. Boots faster.
    #[arg(long)]
    pub no_emulation: bool,
    /// The command and its arguments, after `--`.
    #[arg(required = true, last = true, value_name = "CMD")]
    pub command: Vec<String>,
}

/// `cargo xtask kernel`.
#[derive(ClapArgs)]
pub struct KernelArgs {
    /// Versions of the table, or `list` to see it.
    pub names: Vec<String>,
}

/// `cargo xtask demo`.
#[derive(ClapArgs)]
pub struct DemoArgs {
    /// The machine; see `cargo xtask vm --help`.
    #[arg(long, value_name = "SPEC", default_value = "2F2S")]
    pub machine: Machine,
    /// The kernel; see `cargo xtask vm --help`. 7.3 comes from Debian's archive; 6.12, which `cargo xtask test`
    /// needs, has to be built first: some six minutes on two cores.
    #[arg(long, default_value = "7.3")]
    pub kernel: String,
    /// More for `bias-bench demo`, after `--`.
    #[arg(last = true, value_name = "ARGS")]
    pub bench: Vec<String>,
}

/// `cargo xtask test`.
#[derive(ClapArgs)]
pub struct TestArgs {
    /// Only the tests that need no VM: a minute instead of many.
    #[arg(long)]
    pub no_vm: bool,
    /// Every scenario, on every kernel: an hour more. Without it those run that guard a promise, on 6.12, and the newest kernel verifies the
    /// programs.
    #[arg(long, conflicts_with = "no_vm")]
    pub full: bool,
    /// More for `cargo nextest run`, after `--`: a filter such as `-E 'test(demo)'`.
    #[arg(last = true, value_name = "ARGS")]
    pub nextest: Vec<String>,
}
