// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The micro-benchmark of [Werling18]: threads that alternate between sections of code.
//!
//! Each thread executes one kind of work after the other, with a mark at the start of each section
//! (`libbias_mark`). The environment selects the effect of the marks. The report shows where each
//! kind ran: the first kind belongs on the fast CPUs, the others on the other CPUs.
//!
//! # Limits
//! A thread reads its CPU number after the mark and after each step. A migration within a step
//! shows at the step's end.

use std::ffi::CString;
use std::fmt::Write as _;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use bias_mark::Section;
use clap::Args;
use serde::Serialize;

use bias_bench::cpus;
use bias_bench::options::{Printable, seconds};
use bias_bench::spec::{CpuList, WorkKind};
use bias_bench::{Error, Result, metrics, work};

/// Threads, their sections, and the CPUs.
#[derive(Debug, Clone, Args)]
pub struct SectionsOptions {
    /// Kinds of work, one section each
    #[arg(long, value_delimiter = ',', default_value = "swpcpu,swpmem")]
    pub kinds: Vec<WorkKind>,
    /// Threads. Every other one begins with the second kind
    #[arg(long, default_value = "4", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub threads: u8,
    /// Steps of a section: about 0.3 ms each in the asymmetric VM
    #[arg(long, default_value = "100", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub steps: u32,
    /// Seconds measured
    #[arg(long = "seconds", value_name = "SECONDS", value_parser = seconds, default_value = "5")]
    pub window: Duration,
    /// Seconds before the measurement
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "1")]
    pub warmup: Duration,
    /// CPUs that suit the first kind
    #[arg(long, value_name = "CPUS")]
    pub fast_cpus: CpuList,
}

/// Figures of the sections of one kind, over all threads.
#[derive(Debug, Clone, Serialize)]
pub struct KindOfSection {
    /// The kind of work.
    pub kind: String,
    /// Sections that ended.
    pub sections: usize,
    /// Mean time of a section [us].
    pub time_us: f64,
    /// Share of the time on CPUs that suit the kind [permille].
    pub right_permille: f64,
    /// Share of the sections that were on such a CPU when the mark returned [permille].
    pub at_mark_permille: f64,
    /// Median time from the mark until the thread is seen on such a CPU [us]. A section without one
    /// counts with its whole time.
    pub delay_us: f64,
    /// Cost of a mark, median [ns].
    pub mark_ns: f64,
    /// Longest mark [us]. A mark lasts until the thread runs again.
    pub mark_max_us: f64,
}

/// The report.
#[derive(Debug, Clone, Serialize)]
pub struct SectionsReport {
    /// Format of this report.
    pub schema: &'static str,
    /// Number of threads.
    pub threads: u8,
    /// Steps of a section.
    pub steps: u32,
    /// Steps of all threads per second.
    pub steps_per_second: f64,
    /// Each kind.
    pub kinds: Vec<KindOfSection>,
}

/// One section that ran.
struct Ran {
    kind: usize,
    time: Duration,
    right: Duration,
    at_mark: bool,
    delay: Duration,
    mark: Duration,
}

/// Run the threads.
///
/// # Errors
/// There are fewer than two kinds, or a thread cannot run.
pub fn run(options: &SectionsOptions) -> Result<SectionsReport> {
    if options.kinds.len() < 2 {
        return Err(Error::Usage("sections need two kinds at least, such as swpcpu,swpmem".into()));
    }
    let places = options.kinds.iter().map(|kind| place(&kind.to_string())).collect::<Result<Vec<_>>>()?;
    let barrier = Barrier::new(options.threads.into());
    let ran: Vec<Ran> = std::thread::scope(|scope| {
        let (places, barrier) = (&places, &barrier);
        let thread = |index| scope.spawn(move || alternate(options, places, index, barrier));
        let threads: Vec<_> = (0..usize::from(options.threads)).map(thread).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    });
    Ok(report(options, &ran))
}

/// Make a section that lives until the process ends.
fn place(name: &str) -> Result<&'static Section> {
    let name = CString::new(name).map_err(|e| Error::failed("naming a section", e))?;
    Ok(Box::leak(Box::new(Section::new(Box::leak(name.into_boxed_c_str())))))
}

/// Alternate between the kinds until the window has passed. Return the sections that began in it.
fn alternate(
    options: &SectionsOptions,
    places: &[&'static Section],
    index: usize,
    barrier: &Barrier,
) -> Vec<Ran> {
    let mut works: Vec<_> = options.kinds.iter().map(work::build).collect();
    let mut ran = Vec::new();
    barrier.wait();
    let begin = Instant::now();
    for kind in (0..works.len()).cycle().skip(index % 2) {
        let start = Instant::now();
        if start - begin >= options.warmup + options.window {
            break;
        }
        bias_mark::mark(places[kind]);
        let marked = Instant::now();
        let suits = || options.fast_cpus.0.contains(&cpus::current()) == (kind == 0);
        let at_mark = suits();
        let mut one = Ran {
            kind,
            time: Duration::ZERO,
            right: Duration::ZERO,
            at_mark,
            delay: Duration::ZERO,
            mark: marked - start,
        };
        let (mut seen, mut last) = (at_mark, marked);
        for _ in 0..options.steps {
            works[kind].step();
            let (now, right) = (Instant::now(), suits());
            if right {
                one.right += now - last;
            }
            if !seen {
                one.delay = now - start;
            }
            seen |= right;
            last = now;
        }
        one.time = last - marked;
        if start - begin >= options.warmup {
            ran.push(one);
        }
    }
    ran
}

fn report(options: &SectionsOptions, ran: &[Ran]) -> SectionsReport {
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    let of = |(at, kind): (usize, &WorkKind)| {
        let ran: Vec<&Ran> = ran.iter().filter(|one| one.kind == at).collect();
        let time: Duration = ran.iter().map(|one| one.time).sum();
        let right: Duration = ran.iter().map(|one| one.right).sum();
        let median = |of: &dyn Fn(&Ran) -> f64| {
            metrics::median(&ran.iter().map(|one| of(one)).collect::<Vec<_>>()).unwrap_or(0.0)
        };
        let at_mark = ran.iter().filter(|one| one.at_mark).count();
        KindOfSection {
            kind: kind.to_string(),
            sections: ran.len(),
            time_us: us(time) / ran.len().max(1) as f64,
            right_permille: 1000.0 * metrics::share(right.as_secs_f64(), time.as_secs_f64()),
            at_mark_permille: 1000.0 * metrics::share(at_mark as f64, ran.len() as f64),
            delay_us: median(&|one| us(one.delay)),
            mark_ns: median(&|one| one.mark.as_secs_f64() * 1e9),
            mark_max_us: ran.iter().map(|one| us(one.mark)).fold(0.0, f64::max),
        }
    };
    let steps = ran.len() as f64 * f64::from(options.steps);
    SectionsReport {
        schema: "bias-bench.sections/1",
        threads: options.threads,
        steps: options.steps,
        steps_per_second: steps / options.window.as_secs_f64(),
        kinds: options.kinds.iter().enumerate().map(of).collect(),
    }
}

impl Printable for SectionsReport {
    fn text(&self) -> String {
        let mut out = format!(
            "{} threads, sections of {} steps: {:.0} steps/s\n",
            self.threads, self.steps, self.steps_per_second
        );
        for kind in &self.kinds {
            let _ = writeln!(
                out,
                "  {:10} {:6} sections of {:9.1} us, on the right CPUs {:4.0} permille of the time, {:4.0} \
                 of the marks; delay {:.1} us, mark {:.0} ns",
                kind.kind,
                kind.sections,
                kind.time_us,
                kind.right_permille,
                kind.at_mark_permille,
                kind.delay_us,
                kind.mark_ns
            );
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(kinds: &[&str], fast_cpus: &str) -> SectionsOptions {
        SectionsOptions {
            kinds: kinds.iter().map(|kind| kind.parse().unwrap()).collect(),
            threads: 2,
            steps: 3,
            window: Duration::from_millis(50),
            warmup: Duration::from_millis(1),
            fast_cpus: fast_cpus.parse().unwrap(),
        }
    }

    #[test]
    fn every_kind_runs_and_its_cpus_are_reported() {
        // No section of the second kind is right where all CPUs are fast.
        let report = run(&options(&["compute", "branchy"], "0-1023")).unwrap();
        assert!(report.kinds.iter().all(|kind| kind.sections > 0 && kind.time_us > 0.0), "{report:?}");
        assert_eq!((report.kinds[0].right_permille, report.kinds[1].right_permille), (1000.0, 0.0));
        assert_eq!((report.kinds[0].delay_us, report.kinds[1].at_mark_permille), (0.0, 0.0));
        assert!(report.text().contains("branchy"));
    }

    #[test]
    fn one_kind_is_refused() {
        assert_eq!(run(&options(&["compute"], "0")).unwrap_err().exit_code(), 2);
    }
}
