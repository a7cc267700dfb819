// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The commands of the README and of developers: demo, test, vm, lint, package.

mod args;
mod built;
mod demo_vm;
mod lint;
mod outcome;
mod package;
mod package_parts;
mod packagers_build;
mod passed;
mod prose;
mod remeasure;
mod static_program;
mod summary;
mod test;
mod vm;

use std::process::exit;

use anyhow::Result;
use bias_vm::kernels::{self, Headers, Origin, Table};
use bias_vm::packages::{self, Consent, Purpose};
use bias_vm::tools;
use clap::Parser as _;

fn main() {
    let args = args::Args::try_parse().unwrap_or_else(|error| refuse(&error));
    bias_vm::interrupt::catch();
    let consent = Consent::from_flag(args.yes);
    let code = match &args.command {
        args::Command::Demo(args) => demo_vm::run(args, consent),
        args::Command::Test(args) => test::run(args, consent),
        args::Command::Vm(args) => vm::run(args, consent),
        args::Command::Setup => set_up(consent),
        args::Command::Kernel(args) => kernel(&args.names, consent),
        args::Command::Machines => machines(),
        args::Command::Lint => lint::run(),
        args::Command::Remeasure(args) => remeasure::run(args, consent),
        args::Command::Package(args) => package::run(&args.kinds),
    };
    exit(code.unwrap_or_else(|error| {
        // Ctrl-C also ends the programs of a step, so the step reports their failure.
        if bias_vm::interrupt::requested() {
            eprintln!("xtask: interrupted");
            return bias_vm::exit::INTERRUPTED;
        }
        let full = if bias_vm::exit::is_disk_full(&error) { "; free some space on that disk" } else { "" };
        eprintln!("xtask: {error:#}{full}");
        bias_vm::exit::code_of(&error)
    }));
}

/// Print help unchanged, and a wrong command line as one line. End the program.
fn refuse(error: &clap::Error) -> ! {
    if !error.use_stderr() {
        error.exit();
    }
    let text = error.to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default().trim_start_matches("error: ").to_string();
    // clap names a missing argument on the next line.
    let more = if first.ends_with(':') { lines.next().unwrap_or_default() } else { "" };
    eprintln!("xtask: {}; see cargo xtask help", format!("{first} {more}").trim_end());
    exit(bias_vm::exit::USAGE)
}

fn set_up(consent: Consent) -> Result<i32> {
    packages::ensure(Purpose::All, consent)?;
    bias_vm::qemu::find()?;
    tools::virtme_python()?;
    tools::nextest()?;
    eprintln!("xtask: this machine has what the project needs");
    Ok(0)
}

fn machines() -> Result<i32> {
    for (name, text, why) in ampvm_abi::PRESETS {
        println!("{name:<8} {why}\n         {text}");
    }
    println!("\n{}", ampvm_abi::SPEC_HELP);
    Ok(0)
}

fn kernel(names: &[String], consent: Consent) -> Result<i32> {
    let table = Table::load()?;
    if names.first().is_some_and(|name| name == "list") {
        for entry in &table.kernels {
            print!("{:<9} {}", entry.name, entry.why);
            match &entry.origin {
                Origin::Debian { module: Headers::Missing(why), .. } => println!("; no amp events: {why}"),
                _ => println!(),
            }
        }
        return Ok(0);
    }
    names.iter().try_for_each(|name| kernels::check(name))?;
    packages::ensure(Purpose::All, consent)?;
    let all: Vec<_> = table.kernels.iter().map(|entry| entry.name.clone()).collect();
    for name in if names.is_empty() { &all } else { names } {
        let kernel = kernels::ensure(name)?;
        println!("{name} {}", kernel.image.display());
        match &kernel.module {
            Ok(module) => println!("{name} {}", module.display()),
            Err(why) => println!("{name} no module: {why}"),
        }
    }
    Ok(0)
}
