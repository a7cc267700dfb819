// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A team beside noise, with and without a housekeeping CPU: the experiment of \[Grant06].
//!
//! # Problem
//! A parallel program on all CPUs waits for each thread that a daemon delays. \[Grant06] keeps all
//! other work on one CPU, slows that CPU down, and runs the program with one thread less. What does
//! this cost in time, and what does it save in energy?
//!
//! # Approach
//! The same benchmarks of an OpenMP runtime run beside the same noise on n CPUs:
//!
//! | setting | scheduler | threads | housekeeping CPU |
//! |---|---|---|---|
//! | SMP-n | default | n | none |
//! | SMP-(n-1) | default | n - 1 | none |
//! | AMP-(n-1) | scx_bias with `--cgroup` and `--housekeeping` | n - 1 | at each duty cycle |
//!
//! In the AMP settings this program is in the cgroup, and with it the team. The noise
//! ([`Background`]), the scheduler and the rest of the system are outside. Energy is that of the
//! model in [`bias_bench::ab::energy`], where siblings share the power of their core.
//!
//! # Invariants
//! A benchmark does the same work in all settings, whatever the number of threads.
//!
//! # Limits
//! Only the asymmetric VM can change the speed of a CPU. The settings of one scheduler run before
//! those of the other, so the machine must not drift.

mod amp_case;
mod amp_site;

use amp_case::{AmpCase, AmpReport};
use amp_site::{AmpCgroup, AmpCore, Background, DUTY_PARTS};
use bias_bench::ab::energy::EnergyMeter;
use bias_bench::ab::workload::openmp::{
    Benchmark, Family, ITERATION_ROUNDS, TeamRun, missing_runtime, run_team,
};
use bias_bench::options::{SchedulerOptions, seconds};
use bias_bench::progress::Progress;
use bias_bench::sched::{self, SchedExt};
use bias_bench::spec::DEFAULT_CHASE_BYTES;
use bias_bench::{Error, Result, cpus};
use clap::Args;
use std::time::Duration;

/// Time of repetitions that do not count.
const WARMUP: Duration = Duration::from_millis(300);
/// Minimum number of measured repetitions.
const MIN_REPETITIONS: usize = 3;

/// Benchmarks, noise and speeds.
#[derive(Debug, Clone, Args)]
pub struct AmpOptions {
    /// Scheduler of the AMP settings, with options that suit the machine. This command adds
    /// --cgroup and --housekeeping
    #[command(flatten)]
    scheduler: SchedulerOptions,
    /// In the asymmetric VM, suspend the emulation while the scheduler loads and unloads, which
    /// saves a minute of guest time. Not for a scheduler that measures the CPUs while it starts
    #[arg(long)]
    unpaced_load: bool,
    /// Loops and array kernels, as for omp. Chunks of loops are allowed
    #[arg(long, value_delimiter = ',', default_value = "static,dynamic,guided,copy,mul,add,triad,dot")]
    benchmarks: Vec<Benchmark>,
    /// Duty cycles of the housekeeping CPU, in eighths of its speed. Its siblings get the same
    #[arg(long, value_delimiter = ',', default_value = "8,7,6,5,4,3,2", value_parser = clap::value_parser!(u32).range(1..=8))]
    duties: Vec<u32>,
    /// The housekeeping CPU [default: the last one]
    #[arg(long)]
    housekeeping: Option<usize>,
    /// Part of a CPU of full speed that the noise needs, in thousandths. More delays the team of
    /// SMP more often; 1000 keeps a CPU busy
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(0..=1000))]
    noise_permille: u32,
    /// Runs of each benchmark in each setting, each a new process
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Minimum seconds of a run
    #[arg(long, value_parser = seconds, default_value = "1", value_name = "SECONDS")]
    seconds: Duration,
    /// Iterations of a loop, of all threads together
    #[arg(long, default_value_t = 192, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    iterations: u32,
}

/// Measure all settings.
///
/// # Errors
/// Usage error for options that do not fit the machine, measurement error if a run or the scheduler
/// fails.
pub fn run(options: &AmpOptions) -> Result<AmpReport> {
    if let Some(missing) = missing_runtime() {
        return Err(Error::Usage(missing));
    }
    let core = AmpCore::of(&cpus::allowed()?, options.housekeeping)?;
    core.check(&options.duties)?;
    if let Some(bad) = options.benchmarks.iter().find(|benchmark| benchmark.family == Family::Sync) {
        return Err(Error::Usage(format!(
            "{bad} depends on the number of threads; give loops or array kernels"
        )));
    }
    let all = core.threads();
    let settings = 2 + options.duties.len();
    let runs = options.runs as usize * options.benchmarks.len();
    let mut bench =
        Bench { options, core: &core, progress: Progress::new((settings * runs) as u64), cases: Vec::new() };
    let work = Background::work(options.noise_permille)?;
    let noise = Background::start(work)?;
    bench.measure("SMP", all, DUTY_PARTS)?;
    bench.measure("SMP", all - 1, DUTY_PARTS)?;
    // The scheduler may calibrate when it starts, which needs a quiet machine.
    drop(noise);
    let cgroup = AmpCgroup::create()?;
    let command = &options.scheduler.scheduler_cmd;
    let scheduler = SchedulerOptions {
        scheduler_cmd: format!("{command} --cgroup {} --housekeeping {}", cgroup.path(), core.housekeeping),
        ..options.scheduler.clone()
    };
    sched::under(SchedExt::system(), &scheduler, options.unpaced_load, |_| {
        let _noise = Background::start(work)?;
        let _inside = cgroup.enter(core.housekeeping)?;
        for &duty in &options.duties {
            let _speed = core.slow_down(duty)?;
            bench.measure("AMP", all - 1, duty)?;
        }
        Ok(())
    })?;
    Ok(AmpReport::new(core.housekeeping, options.noise_permille, bench.cases))
}

/// A measurement in progress.
struct Bench<'a> {
    options: &'a AmpOptions,
    core: &'a AmpCore,
    progress: Progress,
    cases: Vec<AmpCase>,
}

impl Bench<'_> {
    /// Measure all benchmarks in one setting.
    fn measure(&mut self, kind: &str, threads: usize, duty: u32) -> Result<()> {
        let meter = EnergyMeter::modelled(self.core.powers(duty));
        for benchmark in &self.options.benchmarks {
            let mut case = AmpCase::new(format!("{kind}-{threads}"), duty, benchmark);
            for run in 1..=self.options.runs {
                let setting = &case.setting;
                self.progress.stage(&format!("{setting} at {duty}/{DUTY_PARTS}: {benchmark}, run {run}"));
                let before = meter.read()?;
                let times = self.times(benchmark, threads)?;
                let watts = meter.watts(&before, &meter.read()?);
                let none = || Error::failed("/proc/stat", "no CPU time was counted");
                case.add(times, watts.ok_or_else(none)?);
            }
            self.cases.push(case);
        }
        Ok(())
    }

    /// Run a benchmark once.
    fn times(&self, benchmark: &Benchmark, threads: usize) -> Result<Vec<u64>> {
        let loops = benchmark.family == Family::Sched;
        run_team(&TeamRun {
            benchmark: benchmark.name,
            chunk: benchmark.chunk,
            size: match loops {
                true => (self.options.iterations as usize / threads).max(1),
                false => DEFAULT_CHASE_BYTES / 3 / size_of::<f64>(),
            },
            work: if loops { ITERATION_ROUNDS } else { 0 },
            threads,
            variables: &[],
            repetitions: MIN_REPETITIONS,
            warmup: WARMUP,
            window: self.options.seconds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bias_bench::options::Printable;

    fn case(setting: &str, duty: u32, benchmark: &str, ms: u64, watts: f64) -> AmpCase {
        let mut case = AmpCase::new(setting.into(), duty, &benchmark.parse().unwrap());
        case.add(vec![ms * 1_000_000; 3], watts);
        case
    }

    #[test]
    fn settings_are_compared_with_all_threads_by_benchmark_and_family() {
        let cases = vec![
            case("SMP-4", 8, "static", 30, 100.0),
            case("SMP-4", 8, "triad", 10, 100.0),
            case("AMP-3", 6, "static", 40, 75.0),
            case("AMP-3", 6, "triad", 10, 80.0),
        ];
        let report = AmpReport::new(3, 100, cases);
        let over = report.cases[2].over_smp.unwrap();
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(
            close(over.time, 4.0 / 3.0) && close(over.energy, 1.0) && close(over.energy_delay, 4.0 / 3.0)
        );
        let all = report.means.iter().find(|mean| mean.duty == 6 && mean.family == "all").unwrap();
        assert!(close(all.over_smp.time, 7.0 / 6.0) && close(all.over_smp.energy, 0.9), "{all:?}");
        assert_eq!(report.means.len(), 6);
        let text = report.text();
        assert!(text.contains("+33.3 %") && text.contains("-20.0 %") && text.contains("75.0 %"), "{text}");
    }

    #[test]
    fn settings_that_do_not_fit_the_machine_are_refused() {
        let core = AmpCore::of(&cpus::allowed().unwrap(), None).unwrap();
        assert!(core.check(&[8]).is_ok());
        if bias_bench::emulation::Emulation::find().is_none() {
            assert!(core.check(&[8, 6]).unwrap_err().to_string().contains("--duties 8"));
        }
        assert_eq!(AmpCore::of(&[0], None).err().unwrap().exit_code(), 2);
        assert_eq!(AmpCore::of(&[0, 1], Some(2)).err().unwrap().exit_code(), 2);
    }
}
