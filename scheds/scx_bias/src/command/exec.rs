// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `scx_bias exec`: runs a program on chosen CPUs, with or without scx_bias running: `golden-run`
//! of \[Reif20\], section 4.1.
//!
//! This process sets its affinity to CPUs chosen by the table, and the program replaces it. The
//! only cost is the start of this process: from then on no code of this project runs.
//!
//! # Limits
//! Nothing is reserved: other tasks may use these CPUs as well. The program may widen its affinity
//! again. When one of its CPUs goes offline, the program gets no other one instead.

use crate::cli::one_of;
use crate::output::{complain, print};
use anyhow::Result;
use bias_agent::affinity;
use bias_agent::capacity;
use bias_agent::cpulist;
use bias_agent::failure::{Exit, Failure};
use bias_agent::figures::{self, ratio};
use bias_agent::store::CapacityFile;
use bias_agent::topology::{MachineIdentity, Topology};
use bias_policy::pick::{Order, RankBy, Rule, TooFew, pick};
use bias_policy::sharing::Sharing;
use bias_policy::table::{CapacityTable, Class, Component, CpuCapacity};
use clap::Args;
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::{Error, ErrorKind};
use std::num::NonZeroUsize;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const USAGE: &str = "scx_bias exec [OPTIONS] <-n N|--class CLASS> [--] CMD [ARGS]...";

const HELP: &str = "\
Which CPUs:
  Among the CPUs that are online and that this process may use (affinity,
  cpuset), the N with the least cost in the stored table: see scx_bias
  calibrate and table. Costs within 1 % are ties. Among ties a CPU of a core
  not in use goes before an SMT sibling, then one that shares the last-level
  cache with those already chosen, then the one with the lower mean cost.
  --class slow reverses the order: the slowest first, siblings first.
  --class slow -n 1 is the CPU that others miss least, for backups, indexing,
  logging.

Trade-offs:
  exec costs one start of scx_bias, because CMD replaces its process. CMD and
  its children stay on these CPUs even where others are idle, so give it as
  many as it has busy threads.
  Nothing is reserved: tasks that already run there stay, unless the kernel
  migrates them.
  A program that is no faster on a fast CPU takes it from one that would be.
  Compare its time with --class slow -n 1; scx_bias top shows it as GAIN 1.00x.
  While scx_bias schedules, it picks the best CPU for each task itself, and
  exec can only narrow its choice.

Examples:
  scx_bias exec -n 1 -- gzip -9 dump.sql
  scx_bias exec -n 4 --whole-cores -- make -j4
  scx_bias exec --class slow -- backup.sh
  taskset -pc $(scx_bias exec -n 2 --dry-run --json | jq -r .list) PID";

const CLASSES: [(&str, &str, Class); 2] = [
    ("fast", "The faster CPUs, the fastest first", Class::Fast),
    ("slow", "The slower CPUs, the slowest first: for work that should not slow other programs", Class::Slow),
];

const RANKS: [(&str, &str, RankBy); 4] = [
    (
        "execute",
        "Integer work in registers: for programs that compute",
        RankBy::Component(Component::Execute),
    ),
    (
        "internal",
        "Stalls inside the core: for programs with many branches and pages",
        RankBy::Component(Component::Internal),
    ),
    (
        "external",
        "Stalls outside the core: for programs that wait for memory",
        RankBy::Component(Component::External),
    ),
    ("mean", "The mean of the three: for unknown programs", RankBy::Mean),
];

/// Run a program on the fastest CPUs, or on CPUs that other programs miss least. Works with and
/// without a running scheduler, and needs no privilege
#[derive(Debug, Args)]
#[command(override_usage = USAGE, after_help = exit_codes(), after_long_help = format!("{HELP}\n\n{}", exit_codes()))]
pub struct ExecArgs {
    /// Number of CPUs. A larger number lets more threads run in parallel; a smaller one uses only
    /// the best CPUs [default with --class: all of the class]
    #[arg(short = 'n', long, value_name = "N", required_unless_present = "class")]
    cpus: Option<NonZeroUsize>,

    /// Use CPUs of this class only
    #[arg(long, value_parser = one_of(&CLASSES))]
    class: Option<Class>,

    /// Rank CPUs by this cost: that of the program's most frequent work
    #[arg(long, default_value = "execute", value_parser = one_of(&RANKS))]
    component: RankBy,

    /// Use at most one CPU of each core. This suits one busy thread per CPU, because SMT siblings
    /// share a core. Without it, faster siblings go before slower cores
    #[arg(long)]
    whole_cores: bool,

    /// Use the table in this file instead of the stored one
    #[arg(long, value_name = "FILE")]
    capacity_file: Option<PathBuf>,

    /// Print the CPUs and their costs, and run no program
    #[arg(long)]
    dry_run: bool,

    /// Print them as JSON for machines
    #[arg(long, requires = "dry_run")]
    json: bool,

    /// Print the chosen CPUs on standard error before the program runs
    #[arg(short, long)]
    verbose: bool,

    /// Program, found through PATH, and its arguments
    #[arg(value_name = "CMD", trailing_var_arg = true, required_unless_present = "dry_run")]
    command: Vec<OsString>,
}

impl ExecArgs {
    pub fn run(self) -> Result<Exit> {
        let choice = choose(&self)?;
        for warning in &choice.warnings {
            complain(warning);
        }
        if self.dry_run {
            return print(&if self.json { choice.json()? } else { choice.text() });
        }
        if self.verbose {
            complain(&choice.summary());
        }
        Err(choice.run(&self.command).into())
    }

    fn rule(&self) -> Rule {
        let order = if self.class == Some(Class::Slow) { Order::LeastUseful } else { Order::Fastest };
        Rule { by: self.component, order, class: self.class, whole_cores: self.whole_cores }
    }
}

/// Return the exit codes. Those above 125 are the same as for env(1) and nice(1).
fn exit_codes() -> String {
    let codes = [Exit::Runtime, Exit::Usage, Exit::Kernel, Exit::NotExecutable, Exit::NotFound];
    format!("Exit codes: that of CMD once it runs; before, {}.", Exit::list(&codes))
}

/// The CPUs that the program will run on, with the reasons. There is at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Choice {
    rule: Rule,
    /// CPUs that this process may use, in ascending order.
    allowed: Vec<u32>,
    /// Chosen CPUs, best first.
    cpus: Vec<CpuCapacity>,
    /// The CPU that a larger count would have added.
    next: Option<CpuCapacity>,
    /// Warnings for a program that can run nevertheless, one line each.
    warnings: Vec<String>,
}

/// Choose among the CPUs that are online and in this process's affinity and cpuset.
///
/// # Errors
/// Usage failure when there is no table, it is invalid, or fewer CPUs fit than requested. Kernel
/// failure when the machine cannot be read.
fn choose(args: &ExecArgs) -> Result<Choice, Failure> {
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
        "the capacity table was measured on another machine ({difference}); run `scx_bias calibrate`"
    ))
}

impl Choice {
    /// Choose among `allowed`.
    fn of(table: &CapacityTable, allowed: Vec<u32>, args: &ExecArgs) -> Result<Self, Failure> {
        let rule = args.rule();
        let mut warnings = Vec::new();
        if table.nr_classes() == 1 {
            let one = "all CPUs of this machine are of one class, because no difference is both large enough and significant";
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
    fn list(&self) -> String {
        cpulist::format(&ascending(self.cpus.iter()))
    }

    /// Describe the choice and its reason in one line.
    fn summary(&self) -> String {
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
    fn text(&self) -> String {
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

    /// Return the choice as JSON. The list is for taskset(1), the CPUs are best first.
    fn json(&self) -> Result<String, Failure> {
        let document = json!({
            "version": 1,
            "list": self.list(),
            "by": self.rule.by.name(),
            "class": self.rule.class,
            "allowed": self.allowed,
            "cpus": self.cpus,
            "next": self.next,
        });
        figures::json(&document, "exec")
    }

    /// Replace this process by a program, followed by its arguments, on the chosen CPUs.
    ///
    /// Return only if that fails. It is a usage failure without a program, and a kernel failure
    /// when the kernel refuses the CPUs. Otherwise it has the exit codes of env(1) and nice(1).
    fn run(&self, command: &[OsString]) -> Failure {
        let Some((program, arguments)) = command.split_first() else {
            return Failure::usage("no program is given; name one after the options");
        };
        if let Err(error) = affinity::restrict(&ascending(self.cpus.iter())) {
            return Failure::kernel(format!(
                "cannot restrict the affinity to CPU {} ({error}); if they went offline or left the cpuset, try again",
                self.list()
            ));
        }
        // As in env(1): PATH is searched, and SIGPIPE has the disposition that most programs
        // expect.
        let error = Command::new(program).args(arguments).exec();
        cannot_run(program, &error)
    }
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
        let message = format!("cannot execute {name} ({error}); check its type and permissions");
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
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use bias_agent::topology::Cpu;

    /// Four cores of two CPUs, two cores per cache. The second two cores are slow.
    fn capacity() -> (CapacityFile, Topology) {
        let cpus = (0..8).map(|cpu| Cpu { cpu, core: cpu / 2 * 2, llc: cpu / 4 * 4, node: 0 }).collect();
        let topology = Topology { cpus, possible: (0..8).collect(), llc_bytes: 0 };
        let cpu = |cpu: u32| {
            let costs =
                if cpu < 4 { [1000 + cpu / 2 * 50, 1000, 1000] } else { [2500, 1500, 1000 + cpu * 20] };
            let class = if cpu < 4 { "fast" } else { "slow" };
            json!({"cpu": cpu, "cost_permille": costs, "class": class})
        };
        let document = json!({"version": 1, "cpus": (0..8).map(cpu).collect::<Vec<_>>()});
        (serde_json::from_value(document).unwrap(), topology)
    }

    fn table() -> CapacityTable {
        let (file, topology) = capacity();
        file.table(&topology).unwrap()
    }

    fn args(count: usize, class: Option<Class>) -> ExecArgs {
        ExecArgs {
            cpus: NonZeroUsize::new(count),
            class,
            component: RankBy::Component(Component::Execute),
            whole_cores: false,
            capacity_file: None,
            dry_run: false,
            json: false,
            verbose: false,
            command: Vec::new(),
        }
    }

    fn chosen(allowed: &[u32], args: &ExecArgs) -> String {
        Choice::of(&table(), allowed.to_vec(), args).unwrap().list()
    }

    fn refusal(allowed: &[u32], args: &ExecArgs) -> String {
        let failure = Choice::of(&table(), allowed.to_vec(), args).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        failure.message
    }

    const ALL: [u32; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

    #[test]
    fn fast_cpus_come_from_the_top_and_slow_ones_from_the_bottom() {
        assert_eq!(chosen(&ALL, &args(2, None)), "0,2");
        // A further thread of a core adds a quarter of it, less than a core that is 2.5 times
        // slower.
        assert_eq!(chosen(&ALL, &args(4, None)), "0,2,4,6");
        assert_eq!(chosen(&ALL, &args(6, None)), "0-4,6");
        assert_eq!(chosen(&ALL, &ExecArgs { whole_cores: true, ..args(2, None) }), "0,2");
        assert_eq!(chosen(&[1, 3, 5], &args(2, None)), "1,3");
        assert_eq!(chosen(&ALL, &args(0, Some(Class::Fast))), "0-3");
        assert_eq!(chosen(&ALL, &args(0, Some(Class::Slow))), "4-7");
        // Among equal CPUs, the one that is worse in the other components.
        assert_eq!(chosen(&ALL, &args(1, Some(Class::Slow))), "7");
        assert_eq!(chosen(&ALL, &ExecArgs { component: RankBy::Mean, ..args(2, Some(Class::Slow)) }), "6-7");
    }

    #[test]
    fn too_few_cpus_are_counted_with_ways_to_get_more() {
        assert!(refusal(&ALL, &args(9, None)).contains("there are 8 among"));
        let text = refusal(&[0, 1, 4], &args(3, Some(Class::Fast)));
        assert!(text.contains("there are 2 of class fast among") && text.contains("(0-1,4)"), "{text}");
        let text = refusal(&ALL, &ExecArgs { whole_cores: true, ..args(5, None) });
        assert!(text.contains("there are 4, one a core") && text.contains("--whole-cores"), "{text}");
        let text = refusal(&[0, 2], &args(0, Some(Class::Slow)));
        assert!(text.contains("may use CPU 0,2 only") && text.contains("slow ones are 4-7"), "{text}");
    }

    #[test]
    fn a_machine_of_one_class_has_no_slow_cpus() {
        let mut alike = table();
        for entry in &mut alike.cpus {
            entry.class = Class::Fast;
        }
        let of = |table: &CapacityTable, class| Choice::of(table, ALL.to_vec(), &args(1, class));
        assert!(of(&alike, Some(Class::Slow)).unwrap_err().message.contains("one class"));
        assert!(of(&alike, Some(Class::Fast)).unwrap().warnings[0].contains("one class"));
        assert!(of(&alike, None).unwrap().warnings.is_empty());
        assert!(of(&table(), Some(Class::Fast)).unwrap().warnings.is_empty());
    }

    #[test]
    fn the_choice_is_explained() {
        let choice = Choice::of(&table(), ALL.to_vec(), &args(3, None)).unwrap();
        let summary = choice.summary();
        assert_eq!(
            summary,
            "CPU 0,2,4: the fastest 3 of the CPUs in 0-7 by execute (1.00 to 2.50); next is CPU 6 (2.50)"
        );
        let both = Choice::of(&table(), vec![0, 1], &args(1, None)).unwrap().summary();
        assert!(both.ends_with("by execute (1.00); next is CPU 1 (1.60)"), "{both}");
        assert!(
            choice.text().starts_with(&summary) && choice.text().contains("\n    2   fast     1.05"),
            "{}",
            choice.text()
        );
        let all = Choice::of(&table(), ALL.to_vec(), &args(0, Some(Class::Slow))).unwrap().summary();
        assert_eq!(all, "CPU 4-7: the slowest 4 of the slow CPUs in 0-7 by execute (4.00); none is left");
        let value: serde_json::Value = serde_json::from_str(&choice.json().unwrap()).unwrap();
        assert_eq!(
            (&value["list"], &value["by"], &value["next"]["cpu"]),
            (&"0,2,4".into(), &"execute".into(), &6.into())
        );
        assert_eq!(value["cpus"][0]["cost_permille"], json!([1000, 1000, 1000]));
    }

    #[test]
    fn a_table_of_other_cpus_is_reported() {
        let (mut file, topology) = capacity();
        assert_eq!(foreign(&file, &topology), None);
        let identity =
            |topology: &Topology| MachineIdentity { kernel: "older".to_owned(), ..topology.identity() };
        file.identity = Some(identity(&topology));
        assert_eq!(foreign(&file, &topology), None);
        let fewer = Topology { cpus: topology.cpus[..6].to_vec(), ..topology.clone() };
        assert_eq!(foreign(&file, &fewer), None);
        file.identity = Some(identity(&fewer));
        assert!(foreign(&file, &topology).unwrap().contains("topology changed"));
        file.identity = Some(MachineIdentity { cpu_models: vec!["other".to_owned()], ..identity(&topology) });
        assert!(foreign(&file, &topology).unwrap().contains("CPU model"));
    }

    #[test]
    fn failures_to_run_have_the_exit_codes_of_env() {
        let failure = |program: &str, kind: ErrorKind| cannot_run(OsStr::new(program), &Error::from(kind));
        let missing = failure("no-such-program", ErrorKind::NotFound);
        assert_eq!(missing.exit as u8, 127);
        assert!(missing.message.contains("in PATH"));
        assert!(failure("/no/such/program", ErrorKind::NotFound).message.contains("check the path"));
        assert!(failure("/proc/self/status", ErrorKind::NotFound).message.contains("interpreter"));
        assert_eq!(failure("/etc", ErrorKind::PermissionDenied).exit as u8, 126);
    }
}
