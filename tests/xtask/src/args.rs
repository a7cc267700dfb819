//! The command line.

use std::path::PathBuf;

use bias_vm::Machine;
use clap::{Args as ClapArgs, Parser, Subcommand};

/// Build, test and try scx_bias in a virtual machine with unequal cores.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    /// Run a command in the VM as root, with the host's files visible read-only.
    Vm(VmArgs),
}

/// `cargo xtask vm`.
#[derive(ClapArgs)]
pub struct VmArgs {
    /// Kernel to boot: a version of the table (6.12, 6.18, 7.0, 7.3, ...) or the path of an image.
    #[arg(long, default_value = "6.12")]
    pub kernel: String,
    /// Speeds of the CPUs in MIPS, or a preset; `,key=value` adds penalties and topology.
    #[arg(long, value_name = "SPEC", default_value = "2F2S")]
    pub machine: Machine,
    /// Seconds the command may take.
    #[arg(long, value_name = "S", default_value_t = 300)]
    pub timeout: u64,
    /// Folder shared with the guest; `$OUT` there.
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Guest memory in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 2048)]
    pub memory: u32,
    /// Run without the emulation of unequal cores: all CPUs as fast as the host allows.
    #[arg(long)]
    pub no_emulation: bool,
    /// The command and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    pub command: Vec<String>,
}
