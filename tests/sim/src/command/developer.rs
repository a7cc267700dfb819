// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Commands for work on the scheduler: long campaigns, repeated cases, and figures.
//!
//! `bias-bench-sim survey|repeat|figures` run them. The help of `bias-bench sim` leaves them out.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Parser;

use super::failure::{Failure, Result};
use super::figures;
use crate::campaign;
use crate::case::{Case, TaskSpec};
use crate::compile::{self, Source, Variant};
use crate::deletion;
use crate::findings;
use crate::kernel::Kernel;
use crate::load::{Program, stacks};
use crate::random;
use crate::shrink::shrink;
use crate::unit::Image;

/// Commands for work on the scheduler.
#[derive(Debug, Parser)]
#[command(name = "bias-bench-sim", max_term_width = 100)]
enum Developer {
    /// Run many random cases and list the rules that they break
    Survey {
        /// Seed of the first case
        #[arg(long, default_value = "0")]
        from: u64,
        /// Number of cases
        #[arg(long, default_value = "500")]
        cases: u64,
        /// Run this copy of bpf/ instead of the compiled one
        #[arg(long, value_name = "DIRECTORY")]
        bpf: Option<PathBuf>,
    },
    /// Run one case and print the case, its trace and the broken rule
    Repeat {
        /// File of the case, as a failed test names it; without it, --seed
        #[arg(required_unless_present = "seed")]
        case: Option<PathBuf>,
        /// Seed of a random case
        #[arg(long, conflicts_with = "case")]
        seed: Option<u64>,
        /// Shrink a case that breaks a rule first
        #[arg(long)]
        shrink: bool,
        /// Run this copy of bpf/ instead of the compiled one
        #[arg(long, value_name = "DIRECTORY")]
        bpf: Option<PathBuf>,
    },
    /// Leave out each statement of bpf/ in turn, and list those that no case misses; takes hours
    Delete {
        /// Only of these files
        files: Vec<String>,
        /// Random cases, after scenarios and families
        #[arg(long, default_value = "300")]
        cases: u64,
    },
    /// Measure the simulator's speed and the scheduler's work per switch on 8 to 1024 CPUs
    Figures,
    /// Try the NTH change of a file; fail if a case finds it
    #[command(hide = true)]
    Change {
        file: String,
        nth: usize,
        #[arg(long, default_value = "300")]
        cases: u64,
    },
    /// Run cases with a shared object, which may end the process
    #[command(hide = true)]
    Drive {
        /// The object
        object: PathBuf,
    },
}

/// Time after which a change counts as a hang.
const CHANGE_LIMIT: Duration = Duration::from_secs(240);
/// Cases after which faults are printed.
const PART: u64 = 1000;

/// Names of the commands.
const NAMES: [&str; 6] = ["survey", "repeat", "delete", "change", "figures", "drive"];

/// Return true if these words, after the program's name, are a command of this module.
#[must_use]
pub fn is_meant(words: &[OsString]) -> bool {
    words.get(1).is_some_and(|word| NAMES.iter().any(|name| word.as_os_str() == *name))
}

/// Run the command with these words.
///
/// # Errors
/// Usage failure that names the mistake, or the failure of the run.
pub fn run(words: &[OsString]) -> Result<()> {
    let command = match Developer::try_parse_from(words) {
        Ok(command) => command,
        Err(error) if !error.use_stderr() => {
            // A closed pipe is not an error.
            let _ = error.print();
            return Ok(());
        }
        Err(error) => return Err(Failure::usage(error.to_string())),
    };
    let failed = |error: anyhow::Error| Failure::runtime(format!("{error:#}"));
    match command {
        Developer::Survey { from, cases, bpf } => {
            with_image(bpf.as_deref(), |image| survey(from, cases, image)).map_err(failed)
        }
        Developer::Repeat { case, seed, shrink, bpf } => {
            let case = read(case.as_deref(), seed.unwrap_or(0)).map_err(failed)?;
            let memory = case.interleave.is_some_and(|interleave| interleave.memory);
            with_image(bpf.as_deref(), |image| {
                let image = if memory && image == Image::Plain { Image::Traced } else { image };
                repeat(case, shrink, image)
            })
            .map_err(failed)
        }
        Developer::Delete { files, cases } => delete(&files, cases).map_err(failed),
        Developer::Change { file, nth, cases } => change(&file, nth, cases).map_err(failed),
        Developer::Figures => figures::print().map_err(failed),
        Developer::Drive { object } => drive(&object).map_err(failed),
    }
}

/// Call `act` with the present code, or with a copy of `bpf/` compiled.
fn with_image(bpf: Option<&Path>, act: impl FnOnce(Image<'_>) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let Some(bpf) = bpf else { return act(Image::Plain) };
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let include = here.join("../../lib/include");
    let source = Source { bpf, include: &include, unit: &here.join("c") };
    let scratch = std::env::temp_dir().join(format!("bias_sim-{}", std::process::id()));
    std::fs::create_dir_all(&scratch)?;
    let object = scratch.join("unit.so");
    let compiled = compile::compile(compile::CLANG, source, Variant::Plain, &scratch, &object);
    let result = compiled.and_then(|()| act(Image::File(&object)));
    std::fs::remove_dir_all(&scratch)?;
    result
}

fn read(path: Option<&Path>, seed: u64) -> anyhow::Result<Case> {
    path.map_or_else(|| Ok(random::case(seed)), |path| Case::parse(&std::fs::read_to_string(path)?))
}

/// Run cases part by part, and print each fault that is not a known finding.
fn survey(from: u64, cases: u64, image: Image<'_>) -> anyhow::Result<()> {
    let mut rules = std::collections::BTreeMap::<String, Vec<u64>>::new();
    let start = Instant::now();
    for part in (from..from + cases).step_by(PART as usize) {
        let seeds = part..(part + PART).min(from + cases);
        for (rule, faults) in campaign::survey(seeds, image)? {
            for (seed, fault) in &faults {
                if !findings::is_known(fault) {
                    let case = random::case(*seed);
                    println!("seed {seed} {} {:?}: {fault}", case.machine, case.release);
                }
            }
            rules.entry(rule).or_default().extend(faults.iter().map(|(seed, _)| *seed));
        }
    }
    println!("{cases} cases in {:.0} s", start.elapsed().as_secs_f64());
    for (rule, seeds) in rules {
        let known = findings::of(&rule).is_some();
        let (word, first) = (if known { "known" } else { "new" }, &seeds[..seeds.len().min(8)]);
        println!("{word} {rule}: {} cases, {first:?}", seeds.len());
    }
    Ok(())
}

/// Return the text of a file of `bpf/`.
fn text_of(file: &str) -> anyhow::Result<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf").join(file);
    std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// Print each change of `files` of `bpf/`, or of all of them, that no case finds. Each has a
/// process of its own, because it may crash or hang.
fn delete(files: &[String], cases: u64) -> anyhow::Result<()> {
    let bpf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf");
    let all = std::fs::read_dir(bpf)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut all = all.collect::<std::io::Result<Vec<_>>>()?;
    all.retain(|name| files.is_empty() || files.contains(name));
    all.sort_unstable();
    let mut changes = Vec::new();
    for file in all {
        let text = text_of(&file)?;
        changes.extend(deletion::changes(&text).iter().enumerate().map(|(nth, change)| {
            (format!("{file}:{}: {}", change.line, change.describe(&text)), file.clone(), nth)
        }));
    }
    let (next, survived) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || -> anyhow::Result<()> {
        while let Some((what, file, nth)) = changes.get(next.fetch_add(1, Relaxed)) {
            let mut one = std::process::Command::new(std::env::current_exe()?);
            one.args(["change", file, &nth.to_string(), "--cases", &cases.to_string()]);
            if one.output()?.status.success() {
                survived.fetch_add(1, Relaxed);
                println!("{what}");
            }
        }
        Ok(())
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        started
            .into_iter()
            .try_for_each(|one| one.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a thread panicked"))))
    })?;
    println!("no case finds {} of {} changes", survived.into_inner(), changes.len());
    Ok(())
}

/// Try one change. Fail with the rule or scenario that finds it.
fn change(file: &str, nth: usize, cases: u64) -> anyhow::Result<()> {
    let changes = deletion::changes(&text_of(file)?);
    let change = changes.get(nth).context("there is no such change")?;
    let scratch = tempfile::tempdir()?;
    std::thread::spawn(|| {
        std::thread::sleep(CHANGE_LIMIT);
        std::process::exit(1);
    });
    match deletion::find(file, change, cases, scratch.path())? {
        Some(found) => anyhow::bail!("{found}"),
        None => Ok(()),
    }
}

fn repeat(mut case: Case, shrinks: bool, image: Image<'_>) -> anyhow::Result<()> {
    if shrinks && let Some(fault) = campaign::run(&case, image)? {
        case = shrink(&case, &fault.rule, image);
    }
    case.trace = true;
    let kernel = Kernel::new(case.clone(), image)?;
    let result = kernel.run();
    println!("{}\n{}\n{result:?}", case.text(), kernel.trace_text());
    Ok(())
}

/// Run a case in which CPUs tick, and random ones. Skip interleaved cases: they leave stacks that
/// are never unwound, which checks of addresses report.
fn drive(object: &Path) -> anyhow::Result<()> {
    let mut ticking = Case::new("2P", 1);
    ticking.tasks = vec![TaskSpec::new(Program::busy(stacks::COMPUTE))];
    campaign::run(&ticking, Image::File(object))?;
    for seed in 0..200 {
        campaign::run(&Case { interleave: None, ..random::short(seed) }, Image::File(object))?;
    }
    Ok(())
}
