//! The README commands: demo, test, vm.

mod args;
mod vm;

use std::process::exit;

use clap::Parser as _;

fn main() {
    let args = args::Args::parse();
    // Without a handler the commands still work, they only end less tidily.
    let _ = ctrlc::set_handler(bias_vm::interrupt::request);
    let code = match args.command {
        args::Command::Vm(args) => vm::run(&args),
    };
    exit(code.unwrap_or_else(|error| {
        eprintln!("xtask: {error:#}");
        bias_vm::exit::code_of(&error)
    }));
}
