// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The demonstration: the same mixes under the default scheduler and under another one.
//!
//! It is a demonstration, not a judgement: one boot, few rounds, no intervals. Losses are shown
//! like gains. Solo rates are measured once and used for both sides. Each figure is written to the
//! output file as soon as it is known, so an interrupted run keeps its figures.

use crate::mix::{self, MixReport, RoundOptions};
use crate::options::{Printable, SchedulerOptions};
use crate::progress::Progress;
use crate::sched::{self, SchedExt};
use crate::solo::Solo;
use crate::spec::{CpuList, Mix, WorkKind};
use crate::{Error, Result};
use clap::Args;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Scheduler, mixes and times of a demonstration.
#[derive(Debug, Clone, Args)]
pub struct DemoOptions {
    /// The scheduler to compare with the default.
    #[command(flatten)]
    pub scheduler: SchedulerOptions,
    /// The mixes, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "1compute,2compute,4compute,4compute+4chase")]
    pub mixes: Vec<Mix>,
    /// Times and repetitions.
    #[command(flatten)]
    pub rounds: RoundOptions,
    /// File for the JSON report; demo.json in the directory $OUT if that is set, else none
    #[arg(long)]
    pub out: Option<PathBuf>,
}

/// Both sides of every mix.
#[derive(Debug, Clone, Serialize)]
pub struct DemoReport {
    /// Format of this report.
    pub schema: &'static str,
    /// True once everything was measured.
    pub complete: bool,
    /// The command that loaded the other scheduler.
    pub command: String,
    /// The kernel's name for that scheduler; None until it was loaded.
    pub scheduler: Option<String>,
    /// True inside the asymmetric VM, which stretches time.
    pub emulated: bool,
    /// Solo rates that all progress refers to.
    pub solo: Solo,
    /// Each mix under the default scheduler.
    pub default: Vec<MixReport>,
    /// Each mix under the other scheduler.
    pub other: Vec<MixReport>,
}

/// Run both sides.
pub fn run(options: &DemoOptions) -> Result<DemoReport> {
    let kernel = SchedExt::system();
    // Fail before a minute of measurements if there is nothing to compare with.
    if kernel.state()? != "disabled" {
        let name = kernel.active().unwrap_or_else(|| "a sched_ext scheduler".into());
        return Err(Error::OtherScheduler(format!("{name} is already active; stop it first")));
    }
    let mut progress = Progress::new(2 + 2 * options.mixes.len() as u64);
    progress.stage("speed of every CPU, and of each kind of work alone");
    let mut solo = Solo::probe(options.rounds.fast_cpus.as_ref())?;
    let kinds: Vec<WorkKind> = options.mixes.iter().flat_map(Mix::kinds).collect();
    solo.add(&kinds)?;
    let in_out = || std::env::var_os("OUT").map(|directory| PathBuf::from(directory).join("demo.json"));
    let file = options.out.clone().or_else(in_out);
    let mut result = DemoReport {
        schema: "bias-bench.demo/1",
        complete: false,
        command: options.scheduler.scheduler_cmd.clone(),
        scheduler: None,
        emulated: crate::counters::available(),
        solo: solo.clone(),
        default: Vec::new(),
        other: Vec::new(),
    };
    for one in &options.mixes {
        progress.stage(&format!("{one} under the default scheduler"));
        result.default.push(mix::run_with(one, &options.rounds, &solo)?);
        result.save(file.as_deref())?;
    }
    progress.stage(&format!("loading {}", options.scheduler.scheduler_cmd));
    // Loading is not part of the demonstration, and takes a minute at the emulation's pace.
    sched::under(kernel, &options.scheduler, true, |loaded| {
        result.scheduler = Some(loaded.name().to_string());
        for one in &options.mixes {
            progress.stage(&format!("{one} under {}", loaded.name()));
            result.other.push(mix::run_with(one, &options.rounds, &solo)?);
            result.save(file.as_deref())?;
        }
        Ok(())
    })?;
    result.complete = true;
    result.save(file.as_deref())?;
    Ok(result)
}

impl DemoReport {
    fn save(&self, file: Option<&Path>) -> Result<()> {
        let Some(path) = file else { return Ok(()) };
        let text = serde_json::to_string_pretty(self).map_err(|e| Error::failed("writing the report", e))?;
        std::fs::write(path, text + "\n").map_err(|e| Error::failed(path.display(), e))
    }

    fn table(&self) -> Table {
        let other = self.scheduler.as_deref().unwrap_or(&self.command);
        let mut table = Table::new();
        table.load_preset(comfy_table::presets::NOTHING);
        table.set_style(comfy_table::TableComponent::HeaderLines, '─');
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(80);
        table.set_header(["tasks", "figure", "default", short(other), "change"]);
        for (a, b) in self.default.iter().zip(&self.other) {
            let rows = [
                ("throughput (STP)", a.stp, b.stp, Better::More),
                ("slowest/fastest task", a.unfairness, b.unfairness, Better::Less),
                ("run time on fast CPUs", a.fast_share * 100.0, b.fast_share * 100.0, Better::Neither),
            ];
            for (i, (name, default, other, better)) in rows.into_iter().enumerate() {
                let label = if i == 0 { a.mix.as_str() } else { "" };
                let unit = if better == Better::Neither { "%" } else { "" };
                let cell = |x: f64| format!("{x:.*}{unit}", if unit.is_empty() { 2 } else { 0 });
                table.add_row([label, name, &cell(default), &cell(other), &change(default, other, better)]);
            }
        }
        for column in 2..5 {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }

    fn legend(&self) -> String {
        let fast = CpuList(self.solo.fast_cpus.clone());
        let mut out = format!(
            "Throughput: work done, in units of one task alone on a fast CPU (fast: {fast}).\n\
             Slowest/fastest task: 1 is fair; how unevenly the tasks were slowed down.\n\
             Changes within a few percent are noise: few rounds, one boot, no intervals.\n"
        );
        if self.emulated {
            out += "Emulated time is stretched about 50-fold: a context switch weighs 50 times what it\n\
                    does on hardware. Compare placement here, not latency or overhead.\n";
        }
        out
    }
}

impl Printable for DemoReport {
    /// Return the table, 80 columns wide, with a legend.
    fn text(&self) -> String {
        format!("{}\n{}", self.table(), self.legend())
    }
}

/// Direction of a figure that is an improvement.
#[derive(Clone, Copy, PartialEq)]
enum Better {
    More,
    Less,
    Neither,
}

/// Return the relative change in percent with its verdict. Below 2 % it is "same".
fn change(from: f64, to: f64, better: Better) -> String {
    if better == Better::Neither || !(from.is_finite() && to.is_finite() && from > 0.0) {
        return String::new();
    }
    let percent = (to / from - 1.0) * 100.0;
    let verdict = match better {
        _ if percent.abs() < 2.0 => "same",
        Better::More if percent > 0.0 => "better",
        Better::Less if percent < 0.0 => "better",
        _ => "worse",
    };
    format!("{percent:+.0}% {verdict}")
}

/// Return a name that fits a table column: at most 16 characters, without the version and target
/// that schedulers append.
fn short(name: &str) -> &str {
    let version =
        name.match_indices('_').find(|(i, _)| name[i + 1..].starts_with(|c: char| c.is_ascii_digit()));
    let name = version.map_or(name, |(i, _)| &name[..i]);
    let end = name.char_indices().nth(16).map_or(name.len(), |(i, _)| i);
    &name[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn report(stp: f64, unfairness: f64) -> MixReport {
        MixReport {
            schema: "",
            mix: "4compute+4chase".into(),
            scheduler: String::new(),
            fast_cpus: vec![0, 1],
            solo: solo(),
            rounds: vec![],
            stp,
            antt: 1.0,
            unfairness,
            fast_share: 0.5,
        }
    }

    fn solo() -> Solo {
        Solo {
            schema: String::new(),
            boot_id: String::new(),
            cpu_speed: BTreeMap::new(),
            fast_cpus: vec![0, 1],
            rates: BTreeMap::new(),
        }
    }

    #[test]
    fn gains_and_losses_are_both_named() {
        assert_eq!(change(2.0, 2.5, Better::More), "+25% better");
        assert_eq!(change(2.0, 1.5, Better::More), "-25% worse");
        assert_eq!(change(2.0, 1.0, Better::Less), "-50% better");
        assert_eq!(change(2.0, 3.0, Better::Less), "+50% worse");
        assert_eq!(change(2.0, 2.02, Better::More), "+1% same");
        assert_eq!(change(0.0, 2.0, Better::More), "");
        assert_eq!(change(1.0, f64::INFINITY, Better::Less), "");
    }

    #[test]
    fn names_lose_their_version() {
        assert_eq!(short("bias_0.1.0_x86_64_unknown_linux_gnu"), "bias");
        assert_eq!(short("simple"), "simple");
        assert_eq!(short("a_very_long_name_indeed"), "a_very_long_name");
    }

    #[test]
    fn the_table_fits_80_columns() {
        let comparison = DemoReport {
            schema: "",
            complete: true,
            command: String::new(),
            scheduler: Some("scx_bias_with_a_very_long_name_x86_64".into()),
            emulated: true,
            solo: solo(),
            default: vec![report(2.93, 2.9)],
            other: vec![report(3.4, f64::INFINITY)],
        };
        let text = comparison.text();
        assert!(text.lines().all(|line| line.chars().count() <= 88), "{text}");
        assert!(text.contains("+16% better") && text.contains("inf"), "{text}");
        let table_width = text.lines().take(6).map(|line| line.chars().count()).max();
        assert!(table_width <= Some(80), "{text}");
        eprintln!("{text}");
    }
}
