// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Execution of a program on chosen CPUs, with or without scx_bias running: `golden-run` of
//! \[Reif20\], section 4.1.
//!
//! The table gives the CPUs. The affinity of this process is set to them, and the program replaces
//! the process. The only cost is the start of this process: from then on no code of this project
//! runs.
//!
//! # Limits
//! Nothing is reserved: other tasks may use these CPUs as well. The program may widen its affinity
//! again. A CPU that goes offline takes its share of the choice with it.

use crate::cli::ExecArgs;
use bias_agent::affinity;
use bias_agent::capacity;
use bias_agent::cpulist;
use bias_agent::failure::{Exit, Failure};
use bias_agent::figures::{self, ratio};
use bias_agent::store::CapacityFile;
use bias_agent::topology::{MachineIdentity, Topology};
use bias_policy::pick::{Order, Rule, TooFew, pick};
use bias_policy::sharing::Sharing;
use bias_policy::table::{CapacityTable, Class, CpuCapacity};
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::{Error, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

fn rule(args: &ExecArgs) -> Rule {
    let class = args.class.map(Class::from);
    let order = if class == Some(Class::Slow) { Order::LeastUseful } else { Order::Fastest };
    Rule { by: args.component.into(), order, class, whole_cores: args.whole_cores }
}

/// The CPUs that the program will run on, with the reasons. There is at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    rule: Rule,
    /// CPUs that this process may use, in ascending order.
    allowed: Vec<u32>,
    /// Chosen CPUs, best first.
    cpus: Vec<CpuCapacity>,
    /// The CPU that a larger count would have added.
    next: Option<CpuCapacity>,
    /// Warnings for a program that can run nevertheless, one line each.
    pub warnings: Vec<String>,
}

/// Choose among the CPUs that are online and in this process's affinity and cpuset.
///
/// # Errors
/// Usage failure when there is no table, it is invalid, or fewer CPUs fit than requested. Kernel
/// failure when the machine cannot be read.
pub fn choose(args: &ExecArgs) -> Result<Choice, Failure> {
    let topology = Topology::read()?;
    let capacity = capacity::stored(&topology, args.capacity_file.as_deref())?;
    let allowed = affinity::allowed().map_err(|error| {
        Failure::kernel(format!(
            "cannot read which CPUs this process may use ({error}); check the sandbox it runs in"
        ))
    })?;
    let mut choice = Choice::of(&capacity.table, allowed, args)?;
    choice.warnings.extend(foreign(&capacity.file, &topology));
    Ok(choice)
}

/// Warn when the table was measured on other CPUs. Another kernel or an offline CPU does not change
/// the speed of the others.
fn foreign(file: &CapacityFile, topology: &Topology) -> Option<String> {
    let (measured, present) = (file.identity.as_ref()?, topology.identity());
    let still_there = |cpu: &&_| present.cpus.contains(cpu);
    let measured = MachineIdentity {
        cpu_models: measured.cpu_models.clone(),
        kernel: present.kernel.clone(),
        cpus: measured.cpus.iter().filter(still_there).cloned().collect(),
    };
    let difference = measured.difference(&present)?;
    Some(format!(
        "the capacity table was measured when this machine was another ({difference}); run `scx_bias calibrate`"
    ))
}

impl Choice {
    /// Choose among `allowed`.
    fn of(table: &CapacityTable, allowed: Vec<u32>, args: &ExecArgs) -> Result<Self, Failure> {
        let rule = rule(args);
        let mut warnings = Vec::new();
        if table.nr_classes() == 1 {
            let one = "all CPUs of this machine are of one class, for no difference is both large enough and significant";
            match rule.class {
                Some(Class::Slow) => {
                    return Err(Failure::usage(format!("--class slow: {one}; leave out --class")));
                }
                Some(Class::Fast) => warnings.push(format!("--class fast leaves nothing out: {one}")),
                None => {}
            }
        }
        let picked =
            pick(table, &allowed, &rule, args.cpus).map_err(|few| too_few(table, &allowed, &rule, few))?;
        let cpus: Vec<CpuCapacity> = picked.into_iter().cloned().collect();
        let all = pick(table, &allowed, &rule, None).unwrap_or_default();
        let next = all.get(cpus.len()).map(|entry| (*entry).clone());
        Ok(Self { rule, allowed, cpus, next, warnings })
    }

    /// Return the chosen CPUs in the kernel's list format, as taskset(1) takes it.
    #[must_use]
    pub fn list(&self) -> String {
        cpulist::format(&ascending(self.cpus.iter()))
    }

    /// Describe the choice and its reason in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let end = match self.rule.order {
            Order::Fastest => "fastest",
            Order::LeastUseful => "slowest",
        };
        let class = self.rule.class.map_or_else(String::new, |class| format!("{} ", class.name()));
        let cores = if self.rule.whole_cores { ", one a core" } else { "" };
        let cost =
            |entry: &CpuCapacity, busy: &Sharing| self.rule.by.cost_permille(busy.cost_permille(entry));
        let busy = sharing(&self.cpus);
        let costs = self.cpus.iter().map(|entry| cost(entry, &busy));
        let (low, high) = (costs.clone().min().unwrap_or(0), costs.max().unwrap_or(0));
        let range = if low == high { ratio(low) } else { format!("{} to {}", ratio(low), ratio(high)) };
        let next = self.next.as_ref().map_or("none is left".to_owned(), |next| {
            let with_next = [&self.cpus[..], std::slice::from_ref(next)].concat();
            format!("next is CPU {} ({})", next.cpu, ratio(cost(next, &sharing(&with_next))))
        });
        format!(
            "CPU {}: the {end} {} of the {class}CPUs in {}{cores} by {} ({range}); {next}",
            self.list(),
            self.cpus.len(),
            cpulist::format(&self.allowed),
            self.rule.by.name(),
        )
    }

    /// Return the choice as text: the summary and a line per CPU, best first.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out =
            format!("{}\n\n  CPU  class  execute  internal  external  core   LLC  node\n", self.summary());
        let busy = sharing(&self.cpus);
        for entry in &self.cpus {
            let class = entry.class.name();
            let [execute, internal, external] = busy.cost_permille(entry).map(ratio);
            let CpuCapacity { cpu, core, llc, node, .. } = entry;
            // Writing to a String cannot fail.
            let _ = writeln!(
                out,
                "{cpu:>5}  {class:>5}  {execute:>7}  {internal:>8}  {external:>8}  {core:>4}  {llc:>4}  {node:>4}"
            );
        }
        out.push_str(
            "\nTime per unit of work while all of them are busy, relative to the best CPU of the machine (1.00).\n",
        );
        out
    }

    /// Return the choice as JSON.
    ///
    /// # Errors
    /// Runtime failure when it cannot be written as JSON.
    pub fn json(&self) -> Result<String, Failure> {
        let document = ChoiceDocument {
            version: 1,
            list: self.list(),
            by: self.rule.by.name(),
            class: self.rule.class,
            allowed: &self.allowed,
            cpus: &self.cpus,
            next: self.next.as_ref(),
        };
        figures::json(&document, "exec")
    }

    /// Replace this process by a program, followed by its arguments, on the chosen CPUs.
    ///
    /// Return only if that fails. It is a usage failure without a program, and a kernel failure
    /// when the kernel refuses the CPUs. Otherwise it has the exit codes of env(1) and nice(1).
    #[must_use]
    pub fn run(&self, command: &[OsString]) -> Failure {
        let Some((program, arguments)) = command.split_first() else {
            return Failure::usage("no program is given; name one behind the options");
        };
        if let Err(error) = affinity::restrict(&ascending(self.cpus.iter())) {
            return Failure::kernel(format!(
                "cannot be restricted to CPU {} ({error}); if they went offline or left the cpuset, try again",
                self.list()
            ));
        }
        // As in env(1): PATH is searched, and SIGPIPE has the disposition that most programs
        // expect.
        let error = Command::new(program).args(arguments).exec();
        cannot_run(program, &error)
    }
}

/// The choice as JSON.
#[derive(Serialize)]
struct ChoiceDocument<'a> {
    version: u32,
    /// For taskset(1).
    list: String,
    by: &'static str,
    class: Option<Class>,
    allowed: &'a [u32],
    /// Chosen CPUs, best first.
    cpus: &'a [CpuCapacity],
    next: Option<&'a CpuCapacity>,
}

/// Return which cores are shared while all of `cpus` are busy.
fn sharing(cpus: &[CpuCapacity]) -> Sharing {
    Sharing::new(cpus, &cpus.iter().map(|entry| entry.cpu).collect())
}

fn ascending<'a>(cpus: impl Iterator<Item = &'a CpuCapacity>) -> Vec<u32> {
    let mut numbers: Vec<u32> = cpus.map(|entry| entry.cpu).collect();
    numbers.sort_unstable();
    numbers
}

/// Return a failure with the available number of CPUs and the ways to get more.
fn too_few(table: &CapacityTable, allowed: &[u32], rule: &Rule, few: TooFew) -> Failure {
    let mine = cpulist::format(allowed);
    let TooFew { wanted, available } = few;
    if let (0, Some(class)) = (available, rule.class) {
        let of_class = cpulist::format(&ascending(table.cpus.iter().filter(|entry| entry.class == class)));
        let class = class.name();
        return Failure::usage(format!(
            "--class {class}: this process may use CPU {mine} only, and the {class} ones are {of_class}; widen its affinity or cpuset"
        ));
    }
    let class = rule.class.map_or(String::new(), |class| format!(" of class {}", class.name()));
    let (cores, or) =
        if rule.whole_cores { (", one a core", ", leave out --whole-cores,") } else { ("", "") };
    Failure::usage(format!(
        "-n {wanted}: there are {available}{class}{cores} among the CPUs that this process may use ({mine}); give at most -n {available}{or} \
         or widen its affinity or cpuset"
    ))
}

fn cannot_run(program: &OsStr, error: &Error) -> Failure {
    let name = program.display();
    let path = Path::new(program);
    let named_by_path = path.components().count() > 1;
    if error.kind() != ErrorKind::NotFound {
        let message = format!("cannot execute {name} ({error}); check what it is and its permissions");
        return Failure::new(Exit::NotExecutable, message);
    }
    let why = if named_by_path && path.exists() {
        "the interpreter that it needs does not exist; check its first line"
    } else if named_by_path {
        "there is no such file; check the path"
    } else {
        "there is no such program in PATH; check the name, or give its path"
    };
    Failure::new(Exit::NotFound, format!("cannot execute {name}: {why}"))
}

#[cfg(test)]
#[path = "choice_tests.rs"]
mod tests;
